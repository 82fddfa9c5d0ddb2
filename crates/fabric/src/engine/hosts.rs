//! What happens at a host: a frame arrives, a time has come, it sends.

use xoff_dataplane::{Handle, Picos, Store};
use xoff_wire::parse::Payload;

use super::{Fabric, HOST, HOST_TIMER, LINK_FREE};
use crate::observer::Observer;
use xoff_host::{Host, Inbound};
use xoff_rdma::Telemetry;

impl Fabric {
    #[inline]
    pub(super) fn arrive_at_host(
        &mut self,
        host: usize,
        frame: Handle,
        observer: &mut impl Observer,
    ) -> bool {
        let frame_len = self.store.frame_len(frame);
        let parsed = self.store.parsed(frame);
        self.moves += u64::from(parsed.payload != Payload::MacControl);
        let inbound = Inbound {
            prefix: self.store.prefix(frame),
            frame_len,
            parsed: &parsed,
            damaged: self.store.is_damaged(frame),
            telemetry: self.store.telemetry(frame),
        };
        self.hosts[host].host.receive_virtual(self.now, &inbound);
        self.store.release(frame);
        if self.awaits_link(host) {
            observer.served(self.now, host as u32, &self.hosts[host].host);
            return self.hosts[host].host.has_completions();
        }
        self.serve_host(host, false, observer)
    }

    /// An event of a host: its own deadline, unless an earlier one has overtaken it.
    pub(super) fn wake_host(&mut self, host: usize, observer: &mut impl Observer) -> bool {
        let node = &mut self.hosts[host];
        if node.armed > self.now {
            return false;
        }
        node.armed = Picos::NEVER;
        // Where insertion orders events, what its timers do has its own turn.
        self.serve_host(host, self.insertions.is_none(), observer)
    }

    /// A timer of a host. If an event of its next departure is due as well, that comes in its own order.
    #[cold]
    pub(super) fn advance_host(&mut self, host: usize, observer: &mut impl Observer) -> bool {
        let node = &mut self.hosts[host];
        if node.timer_armed > self.now {
            return false;
        }
        node.timer_armed = Picos::NEVER;
        node.host.advance(self.now);
        if node.armed > self.now {
            return self.serve_host(host, false, observer);
        }
        self.arm_timer(host);
        self.hosts[host].host.has_completions()
    }

    #[cold]
    fn arm_timer(&mut self, host: usize) {
        let node = &mut self.hosts[host];
        let at = node.host.next_timer().max(self.now);
        if at < node.timer_armed {
            node.timer_armed = at;
            self.push(self.parts.of_host(host), at, HOST | HOST_TIMER | host as u32);
        }
    }

    /// Lets a host send what it may, and sees to it that it is called again when it may send more. `called`: it has asked to be called
    /// now, so there is something that it may send, nearly always.
    pub(super) fn serve_host(&mut self, host: usize, called: bool, observer: &mut impl Observer) -> bool {
        let mut called = called;
        let index = self.hosts[host].wire;
        let up = self.wires.get(index as usize).is_some_and(|wire| wire.up);
        while up && !self.hosts[host].busy {
            if !std::mem::take(&mut called) && !self.may_send(host) {
                break;
            }
            let node = &mut self.hosts[host];
            let headers_only = node.host.writes_headers_only();
            let room = match headers_only {
                true => self.store.room(),
                false => room_for(&node.host, &mut self.buffer),
            };
            let Some(emitted) = node.host.transmit_virtual(self.now, room) else {
                if node.host.next_deadline() > self.now {
                    continue;
                }
                // It has something due that it does not send: it is asked again when anything happens to it.
                break;
            };
            let frame_len = emitted.frame_len as u32;
            let frame = match headers_only {
                true => self.store.insert_written(&emitted),
                false => self.store.insert(&self.buffer[..emitted.stored], frame_len),
            };
            let end = self.now + node.host.occupied(frame_len);
            if let Some(telemetry) = emitted.telemetry {
                self.store.set_telemetry(frame, *telemetry);
            } else if let Some(format) = emitted.collects {
                self.store.set_telemetry(frame, Telemetry::new(format));
            }
            if self.insertions.is_some() {
                self.hosts[host].busy = true;
                self.push(self.parts.of_host(host), end, HOST | LINK_FREE | host as u32);
            }
            self.launch(index, end, frame, observer);
        }
        if up && self.insertions.is_some() {
            self.arm_timer(host);
        }
        observer.served(self.now, host as u32, &self.hosts[host].host);
        self.hosts[host].host.has_completions()
    }

    /// Whether the link of a host is busy until it is called anyway, and no timer is earlier: whatever waits, it can do nothing now.
    #[inline]
    fn awaits_link(&self, host: usize) -> bool {
        let node = &self.hosts[host];
        self.insertions.is_none()
            && node.armed > self.now
            && node.armed <= node.host.next_timer().min(node.host.link_free())
    }

    /// Whether a host may send now, or do anything else; if not, it is called when it may.
    #[inline]
    fn may_send(&mut self, host: usize) -> bool {
        let node = &mut self.hosts[host];
        let at = match self.insertions {
            None => node.host.next_departure().min(node.host.next_timer()),
            Some(_) => node.host.next_departure(),
        };
        if at <= self.now {
            return true;
        }
        if at < node.armed {
            node.armed = at;
            self.push(self.parts.of_host(host), at, HOST | host as u32);
        }
        false
    }
}

/// Room for the longest frame that a host builds.
#[cold]
fn room_for<'a>(host: &Host, buffer: &'a mut Vec<u8>) -> &'a mut [u8] {
    let longest = host.frame_len_max();
    if buffer.len() < longest {
        buffer.resize(longest, 0);
    }
    buffer
}
