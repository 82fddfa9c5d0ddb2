//! A data plane of ours as a probe's device: in virtual time, between the ports of a tester.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use xoff_dataplane::config::{SwitchConfig, Trust};
use xoff_dataplane::{Arrival, Outputs, Picos, PortId, Store, Switch, TimerId, Transmit};
use xoff_wire::parse::{ParsedHeaders, parse_prefix};
use xoff_wire::{MacControl, Pfc, mac_control};

use super::super::dut::{Header, alone, classes, hello, station};
use super::device::{Device, Hold, Seen};
use crate::replay::{CaptureStore, Origin};
use xoff_telemetry::failure::{Exit, Failure};

/// Frames that the switch has room for: a limit of this program that is not to be what is found.
const FRAMES_MAX: usize = 1 << 22;
/// Nothing has moved for so long: the switch is at rest. A model time of no cost.
const QUIET: Picos = Picos::from_millis(1);
/// It must have come to rest after so long.
const PATIENCE: Picos = Picos::from_millis(600_000);
/// The station that sends.
const TESTER: [u8; 6] = [2, 0, 0, 0x71, 0, 0];
/// Longest pause there is.
const QUANTA: u16 = u16::MAX;

/// A switch in virtual time.
///
/// It has the buffers, classes and flow control of its configuration. Its ports form one bridge, whatever the configuration
/// connects them by, its watchdog is off, and early drops and trimming are as configured.
#[derive(Debug)]
pub struct VirtualDevice {
    switch: Switch,
    store: CaptureStore,
    outputs: Outputs,
    now: Picos,
    deadlines: BinaryHeap<Reverse<(Picos, u64, TimerId)>>,
    created: u64,
    ingress: PortId,
    egresses: Vec<Egress>,
    /// When the sending port's link has carried what was sent.
    sent_until: Picos,
    frame_wire: Picos,
    frame_len: u32,
    /// Number of the next frame.
    next: u32,
    seen: Seen,
    moved_at: Picos,
    quiet: Picos,
}

#[derive(Debug)]
struct Egress {
    port: PortId,
    headers: Rc<[u8]>,
    parsed: ParsedHeaders,
    /// The tester repeats its pause at this time.
    refresh: Picos,
    half_pause: Picos,
    paused: bool,
}

impl VirtualDevice {
    /// A switch with this configuration and a tester that sends frames of a class into port `ingress`, to stations behind
    /// `egresses`. `frame_bytes`: length with FCS, at least 64.
    ///
    /// # Errors
    /// No header leads to the class; a frame that the ports' MTU forbids.
    pub fn new(
        config: &SwitchConfig,
        ingress: usize,
        egresses: &[usize],
        class: u8,
        frame_bytes: u32,
    ) -> Result<VirtualDevice, Failure> {
        let port = &config.ports[ingress];
        let Some((_, code)) = classes(port).into_iter().find(|(tc, _)| *tc == class) else {
            return Err(Failure::usage(format!(
                "no frame that comes in on {} has traffic class {class}",
                port.name
            ))
            .because("its DSCP_TO_TC_MAP or DOT1P_TO_TC_MAP leads nowhere to that class")
            .fix("choose another --class"));
        };
        let frame_len = frame_bytes.max(64) - 4;
        let tag = if port.classify.trust == Trust::Pcp { 4 } else { 0 };
        let smallest = egresses
            .iter()
            .chain([&ingress])
            .map(|port| config.ports[*port].mtu)
            .min();
        if smallest.is_some_and(|mtu| frame_len > mtu + 14 + tag) {
            return Err(Failure::usage(format!(
                "frames of {frame_bytes} bytes are longer than the ports' MTU"
            ))
            .fix("choose a smaller --frame-size"));
        }
        let ports: Vec<usize> = egresses.iter().copied().chain([ingress]).collect();
        let mut alone = alone(config, &ports);
        alone.frames_max = FRAMES_MAX;
        let mut device = VirtualDevice {
            switch: Switch::new(&alone),
            store: CaptureStore::default(),
            outputs: Outputs::default(),
            now: Picos::ZERO,
            deadlines: BinaryHeap::new(),
            created: 0,
            ingress: PortId(ingress as u16),
            egresses: Vec::new(),
            sent_until: Picos::ZERO,
            frame_wire: port
                .link
                .duration(port.link.wire_len(port.link.mac_len(frame_len))),
            frame_len,
            next: 0,
            seen: Seen::default(),
            moved_at: Picos::ZERO,
            quiet: QUIET.saturating_add(config.pipeline_latency),
        };
        for &egress in egresses {
            let headers: Rc<[u8]> = Header {
                to: station(egress as u16),
                from: TESTER,
                code,
                is_tagged: tag > 0,
                flow: 0,
                frame_len,
            }
            .octets()
            .into();
            device.egresses.push(Egress {
                port: PortId(egress as u16),
                parsed: parse_prefix(&headers, frame_len as usize),
                headers,
                refresh: Picos::NEVER,
                half_pause: Picos(config.ports[egress].link.pause_duration(QUANTA).0 / 2),
                paused: false,
            });
        }
        device.connect()?;
        Ok(device)
    }

    /// Brings the links up, and lets the switch learn where the receivers are.
    fn connect(&mut self) -> Result<(), Failure> {
        let ports: Vec<PortId> = self.egresses.iter().map(|egress| egress.port).collect();
        let all: Vec<PortId> = ports.iter().copied().chain([self.ingress]).collect();
        for port in all {
            let now = self.now;
            self.switch
                .set_link(now, port, true, &mut self.store, &mut self.outputs);
            self.drain();
        }
        for port in ports {
            let hello = hello(station(port.0));
            self.receive(port, hello.into(), 60, u64::MAX);
        }
        self.wait()?;
        self.seen = Seen::default();
        Ok(())
    }

    /// A frame arrives now.
    fn receive(&mut self, port: PortId, data: Rc<[u8]>, len: u32, number: u64) {
        let parsed = parse_prefix(&data, len as usize);
        let origin = Origin {
            number,
            port,
            at: self.now,
            tc: 0,
            pg: 0,
            ecn: 0,
            data,
            len,
        };
        let frame = self.store.insert(origin);
        self.arrive(port, frame, len, parsed);
    }

    fn arrive(&mut self, port: PortId, frame: xoff_dataplane::Handle, frame_len: u32, parsed: ParsedHeaders) {
        let arrival = Arrival {
            frame,
            frame_len,
            parsed,
            received_at: self.now,
        };
        self.switch
            .receive(self.now, port, &arrival, &mut self.store, &mut self.outputs);
        self.drain();
    }

    fn drain(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
        for deadline in outputs.deadlines.drain(..) {
            self.created += 1;
            self.deadlines
                .push(Reverse((deadline.at, self.created, deadline.timer)));
        }
        for transmit in outputs.transmits.drain(..) {
            self.hear(&transmit);
            self.store.release(transmit.frame);
        }
        for punt in outputs.punts.drain(..) {
            self.store.release(punt.frame);
        }
        outputs.events.clear();
        self.store.reclaim();
        self.outputs = outputs;
    }

    /// A frame comes out of the switch.
    fn hear(&mut self, transmit: &Transmit) {
        match MacControl::parse(self.store.prefix(transmit.frame)) {
            Ok(MacControl::Pfc(pfc)) if transmit.port == self.ingress => {
                for priority in (0..8).filter(|n| pfc.enable & 1 << n != 0) {
                    match pfc.quanta[priority] {
                        0 => self.seen.xon |= 1 << priority,
                        _ => self.seen.xoff |= 1 << priority,
                    }
                }
            }
            Ok(_) => {}
            Err(_) => {
                self.moved_at = transmit.end;
                let number = self
                    .store
                    .origin(transmit.frame)
                    .map_or(u64::MAX, |origin| origin.number);
                let whole = self.store.frame_len(transmit.frame) >= self.frame_len;
                let receiver = self.egresses.iter().any(|egress| egress.port == transmit.port);
                if let (true, true, Ok(number)) = (receiver, whole, u32::try_from(number)) {
                    self.seen.arrived.push(number);
                }
            }
        }
    }

    /// Everything that is due until `until` happens, the tester's repeated pauses too.
    fn run_until(&mut self, until: Picos) {
        loop {
            let deadline = self
                .deadlines
                .peek()
                .map_or(Picos::NEVER, |Reverse((at, ..))| *at);
            let refresh = self.egresses.iter().map(|egress| egress.refresh).min();
            let refresh = refresh.unwrap_or(Picos::NEVER);
            if deadline.min(refresh) > until {
                break;
            }
            self.now = self.now.max(deadline.min(refresh));
            if refresh < deadline {
                let due = |egress: &Egress| egress.refresh == refresh;
                if let Some(index) = self.egresses.iter().position(due) {
                    self.pause(index, QUANTA);
                }
            } else if let Some(Reverse((_, _, timer))) = self.deadlines.pop() {
                self.switch
                    .expire(self.now, timer, &mut self.store, &mut self.outputs);
                self.drain();
            }
        }
        self.now = self.now.max(until);
    }

    /// The tester pauses all priorities of a receiving port for so long, or lets them go.
    fn pause(&mut self, egress: usize, quanta: u16) {
        let of = &mut self.egresses[egress];
        of.refresh = match quanta {
            0 => Picos::NEVER,
            _ => self.now.saturating_add(of.half_pause),
        };
        let port = of.port;
        let frame = MacControl::Pfc(Pfc {
            enable: 0xff,
            quanta: [quanta; 8],
        })
        .to_frame(station(port.0));
        self.receive(
            port,
            frame.to_vec().into(),
            mac_control::FRAME_LEN as u32,
            u64::MAX,
        );
    }
}

impl Device for VirtualDevice {
    fn egresses(&self) -> usize {
        self.egresses.len()
    }

    fn frame_bytes(&self) -> u32 {
        self.frame_len + 4
    }

    fn send(&mut self, egress: usize, frames: u32) -> Result<(), Failure> {
        self.sent_until = self.sent_until.max(self.now);
        for _ in 0..frames {
            self.sent_until = self.sent_until.saturating_add(self.frame_wire);
            self.run_until(self.sent_until);
            let to = &self.egresses[egress];
            let (data, parsed) = (Rc::clone(&to.headers), to.parsed);
            let origin = Origin {
                number: u64::from(self.next),
                port: self.ingress,
                at: self.now,
                tc: 0,
                pg: 0,
                ecn: 0,
                data,
                len: self.frame_len,
            };
            self.next += 1;
            let frame = self.store.insert(origin);
            self.arrive(self.ingress, frame, self.frame_len, parsed);
        }
        self.moved_at = self.moved_at.max(self.now);
        Ok(())
    }

    fn hold(&mut self, egress: usize, how: Hold, on: bool) -> Result<(), Failure> {
        match how {
            Hold::Pause => {
                self.egresses[egress].paused = on;
                self.pause(egress, if on { QUANTA } else { 0 });
            }
            Hold::Block => {
                let (now, port) = (self.now, self.egresses[egress].port);
                self.switch
                    .set_tx_enabled(now, port, !on, &mut self.store, &mut self.outputs);
                self.drain();
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let begun = self.now;
        self.moved_at = self.moved_at.max(self.now);
        loop {
            let before = self.moved_at;
            self.run_until(before.saturating_add(self.quiet));
            if self.moved_at == before {
                return Ok(());
            }
            if self.now > begun.saturating_add(PATIENCE) {
                return Err(
                    Failure::new(Exit::Inconclusive, "the switch does not come to rest")
                        .because("frames still leave after ten minutes of model time")
                        .fix("take the shaper (SCHEDULER pir) off the queue"),
                );
            }
        }
    }

    fn look(&mut self) -> Seen {
        std::mem::take(&mut self.seen)
    }

    fn restart(&mut self) {
        self.next = 0;
    }
}
