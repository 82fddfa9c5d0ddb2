//! Processes the events of hosts: arrivals of frames, timers and departures.

use xoff_dataplane::{FrameHandle, FrameStore, Picos};
use xoff_wire::parse::Payload;

use super::shard::Shard;
use super::{HOST_FLAG, HOST_TIMER_FLAG, LINK_FREE_FLAG};
use crate::observer::{HostEventCounts, Observer};
use xoff_host::{Host, InboundFrame};
use xoff_rdma::Telemetry;

impl Shard {
    #[inline]
    pub(super) fn process_host_arrival(
        &mut self,
        host: usize,
        frame: FrameHandle,
        observer: &mut dyn Observer,
    ) -> bool {
        let frame_len = self.store.frame_len(frame);
        self.counters.delivered_payload_bytes += u64::from(self.store.unstored_bytes(frame));
        let parsed = self.store.parsed(frame);
        self.counters.moves += u64::from(parsed.payload != Payload::MacControl);
        let inbound = InboundFrame {
            prefix: self.store.prefix(frame),
            frame_len,
            parsed: &parsed,
            damaged: self.store.is_damaged(frame),
            telemetry: self.store.telemetry(frame),
        };
        self.hosts[host].host.receive_virtual(self.now, &inbound);
        self.store.release(frame);
        if self.awaits_link(host) {
            self.report_host_counters(host, observer);
            return self.hosts[host].host.has_completions();
        }
        self.serve_host(host, false, observer)
    }

    /// Processes a departure event of a host. Does nothing if the event is outdated. Returns whether the host
    /// has a completion.
    pub(super) fn process_host_departure(&mut self, host: usize, observer: &mut dyn Observer) -> bool {
        let node = &mut self.hosts[host];
        let [first, second] = node.pending_at;
        let was_noted = first == self.now;
        if was_noted {
            node.pending_at = [second, Picos::NEVER];
        }
        if node.armed > self.now {
            if was_noted && node.armed < second {
                self.push_armed_event(host);
            }
            return false;
        }
        node.armed = Picos::NEVER;
        // With ordering by insertion, timers have events of their own.
        self.serve_host(host, self.insertions.is_none(), observer)
    }

    /// Processes a timer event of a host. A departure of the host at the same time has its own event, which
    /// keeps its place in the order. Returns whether the host has a completion.
    #[cold]
    pub(super) fn process_host_timer(&mut self, host: usize, observer: &mut dyn Observer) -> bool {
        let node = &mut self.hosts[host];
        if node.timer_armed > self.now {
            return false;
        }
        node.timer_armed = Picos::NEVER;
        node.host.advance(self.now);
        if node.armed > self.now {
            return self.serve_host(host, false, observer);
        }
        self.schedule_host_timer(host);
        self.hosts[host].host.has_completions()
    }

    #[cold]
    fn schedule_host_timer(&mut self, host: usize) {
        let node = &mut self.hosts[host];
        let at = node.host.next_timer().max(self.now);
        if at < node.timer_armed {
            node.timer_armed = at;
            self.push_host_event(host, at, HOST_TIMER_FLAG);
        }
    }

    /// Calls `change` with a host and the current time, and lets the host send the frames that it may send now. Returns
    /// the result of `change`.
    pub(super) fn change_host<R>(
        &mut self,
        host: usize,
        observer: &mut dyn Observer,
        change: impl FnOnce(&mut Host, Picos) -> R,
    ) -> R {
        let result = change(&mut self.hosts[host].host, self.now);
        let has_completions = self.serve_host(host, false, observer);
        self.record_completing(host, has_completions);
        result
    }

    /// Lets a host send the frames that it may send now, and schedules its next event. `is_scheduled` is true
    /// if the host requested this call. In this case, the host nearly always has a frame to send. Returns
    /// whether the host has a completion.
    pub(super) fn serve_host(
        &mut self,
        host: usize,
        is_scheduled: bool,
        observer: &mut dyn Observer,
    ) -> bool {
        let mut is_scheduled = is_scheduled;
        let index = self.hosts[host].direction;
        let up = self
            .directions
            .get(index as usize)
            .is_some_and(|direction| direction.up);
        while up && !self.hosts[host].busy {
            if !std::mem::take(&mut is_scheduled) && !self.can_send_now(host) {
                break;
            }
            let node = &mut self.hosts[host];
            let headers_only = node.host.writes_headers_only();
            let room = match headers_only {
                true => self.store.header_space(),
                false => transmit_buffer(&node.host, &mut self.buffer),
            };
            let Some(emitted) = node.host.transmit_virtual(self.now, room) else {
                if node.host.next_deadline() > self.now {
                    continue;
                }
                // The host has due work that sends no frame. The next event of the host does this work.
                break;
            };
            let frame_len = emitted.frame_len as u32;
            let frame = match headers_only {
                true => self.store.insert_written(&emitted),
                false => self.store.insert(&self.buffer[..emitted.stored], frame_len),
            };
            let end = self.now + node.host.transmission_time(frame_len);
            if let Some(telemetry) = emitted.telemetry {
                self.store.set_telemetry(frame, *telemetry);
            } else if let Some(format) = emitted.collects {
                self.store.set_telemetry(frame, Telemetry::new(format));
            }
            if self.insertions.is_some() {
                self.hosts[host].busy = true;
                self.push_host_event(host, end, LINK_FREE_FLAG);
            }
            self.start_transmission(index, end, frame, observer);
        }
        if up && self.insertions.is_some() {
            self.schedule_host_timer(host);
        }
        self.report_host_counters(host, observer);
        self.hosts[host].host.has_completions()
    }

    /// Adds an event of a host. `flags` tells the kind of the event.
    #[inline]
    fn push_host_event(&mut self, host: usize, at: Picos, flags: u32) {
        let number = self.hosts[host].number;
        self.push_timer(
            self.partitions.host_partition(host),
            at,
            HOST_FLAG | flags | number,
            HOST_FLAG | flags | host as u32,
        );
    }

    /// Reports the counters of a host to the observer if they have changed.
    #[inline]
    fn report_host_counters(&mut self, host: usize, observer: &mut dyn Observer) {
        if !self.observed.host_counters {
            return;
        }
        let node = &mut self.hosts[host];
        let counts = HostEventCounts::of(&node.host);
        if counts != node.reported_counts {
            node.reported_counts = counts;
            observer.host_counters_changed(self.now, node.number, counts);
        }
    }

    /// Returns whether the link of a host is busy and the next event of the host is already scheduled. This
    /// event is due before the link is free and before a timer expires. Such a host cannot send now and needs
    /// no new event.
    #[inline]
    fn awaits_link(&self, host: usize) -> bool {
        let node = &self.hosts[host];
        self.insertions.is_none()
            && node.armed > self.now
            && node.armed <= node.host.next_timer().min(node.host.link_free())
    }

    /// Returns whether a host may send now or has a due timer. If not, schedules the next event of the host.
    #[inline]
    fn can_send_now(&mut self, host: usize) -> bool {
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
            if self.insertions.is_some() {
                self.push_host_event(host, at, 0);
            } else if at < node.pending_at[0] {
                self.push_armed_event(host);
            }
        }
        false
    }

    /// Adds an event at the time at which the host has something to do. Notes it in
    /// [`HostNode::pending_at`](super::shard::HostNode::pending_at) if it is the only one or far. A near event leaves
    /// soon, so the later ones stay noted.
    #[inline]
    fn push_armed_event(&mut self, host: usize) {
        let node = &mut self.hosts[host];
        let (at, [first, _]) = (node.armed, node.pending_at);
        if first == Picos::NEVER || self.pending.is_far_from(self.now, at) {
            node.pending_at = [at, first];
        }
        self.push_host_event(host, at, 0);
    }
}

/// Returns a buffer that has space for the longest frame of a host.
#[cold]
fn transmit_buffer<'a>(host: &Host, buffer: &'a mut Vec<u8>) -> &'a mut [u8] {
    let longest = host.frame_len_max();
    if buffer.len() < longest {
        buffer.resize(longest, 0);
    }
    buffer
}
