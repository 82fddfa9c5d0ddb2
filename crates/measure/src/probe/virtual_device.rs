//! A data plane of ours as a probe's device: in virtual time, between the ports of a tester.

use std::rc::Rc;

use xoff_dataplane::config::{SwitchConfig, TrustMode};
use xoff_dataplane::{FrameStore, Picos, PortId, ReceivedFrame, Transmit};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::{ParsedHeaders, parse_prefix};
use xoff_wire::{MacControl, Pfc, mac_control};

use super::super::dut::{
    FrameHeader, isolated_switch_config, learning_frame, reachable_classes, station_mac,
};
use super::device::{Device, Hold, Seen};
use crate::replay::{CaptureStore, FrameOrigin};
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
    switch: VirtualSwitch<CaptureStore>,
    ingress: PortId,
    egresses: Vec<Egress>,
    /// When the sending port's link has carried what was sent.
    sent_until: Picos,
    frame_wire: Picos,
    frame_len: u32,
    /// Number of the next frame.
    next: u32,
    seen: Seen,
    /// Departures in progress; empty between calls.
    departures: Vec<Transmit>,
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
        let Some((_, code)) = reachable_classes(port).into_iter().find(|(tc, _)| *tc == class) else {
            return Err(Failure::usage(format!(
                "no frame that comes in on {} has traffic class {class}",
                port.name
            ))
            .because("its DSCP_TO_TC_MAP or DOT1P_TO_TC_MAP leads nowhere to that class")
            .fix("choose another --class"));
        };
        let frame_len = frame_bytes.max(64) - 4;
        let tag = if port.classify.trust == TrustMode::Pcp {
            4
        } else {
            0
        };
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
        let mut alone = isolated_switch_config(config, &ports);
        alone.frames_max = FRAMES_MAX;
        let mut device = VirtualDevice {
            switch: VirtualSwitch::new(&alone, CaptureStore::default()),
            ingress: PortId(ingress as u16),
            egresses: Vec::new(),
            sent_until: Picos::ZERO,
            frame_wire: port
                .link
                .duration(port.link.wire_len(port.link.mac_len(frame_len))),
            frame_len,
            next: 0,
            seen: Seen::default(),
            departures: Vec::new(),
            moved_at: Picos::ZERO,
            quiet: QUIET.saturating_add(config.pipeline_latency),
        };
        for &egress in egresses {
            let headers: Rc<[u8]> = FrameHeader {
                to: station_mac(egress as u16),
                from: TESTER,
                class_code: code,
                is_tagged: tag > 0,
                flow: 0,
                frame_len,
            }
            .to_bytes()
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
            self.switch.set_link(port, true);
            self.drain();
        }
        for port in ports {
            let hello = learning_frame(station_mac(port.0));
            self.receive(port, hello.into(), 60, u64::MAX);
        }
        self.wait()?;
        self.seen = Seen::default();
        Ok(())
    }

    /// A frame arrives now.
    fn receive(&mut self, port: PortId, data: Rc<[u8]>, len: u32, number: u64) {
        let parsed = parse_prefix(&data, len as usize);
        let origin = FrameOrigin {
            number,
            port,
            at: self.switch.now(),
            tc: 0,
            pg: 0,
            ecn: 0,
            data,
            len,
        };
        let frame = self.switch.store_mut().insert(origin);
        self.arrive(port, frame, len, parsed);
    }

    fn arrive(
        &mut self,
        port: PortId,
        frame: xoff_dataplane::FrameHandle,
        frame_len: u32,
        parsed: ParsedHeaders,
    ) {
        let arrival = ReceivedFrame {
            frame,
            frame_len,
            parsed,
            received_at: self.switch.now(),
        };
        self.switch.receive(port, &arrival);
        self.drain();
    }

    fn drain(&mut self) {
        let mut departures = std::mem::take(&mut self.departures);
        self.switch
            .take_departures(|departure, _| departures.push(departure));
        for departure in departures.drain(..) {
            self.hear(&departure);
            self.switch.store_mut().release(departure.frame);
        }
        self.switch.store_mut().reclaim_released();
        self.departures = departures;
    }

    /// A frame comes out of the switch.
    fn hear(&mut self, transmit: &Transmit) {
        match MacControl::parse(self.switch.store().prefix(transmit.frame)) {
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
                    .switch
                    .store()
                    .origin(transmit.frame)
                    .map_or(u64::MAX, |origin| origin.number);
                let whole = self.switch.store().frame_len(transmit.frame) >= self.frame_len;
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
            let refresh = self.egresses.iter().map(|egress| egress.refresh).min();
            let refresh = refresh.unwrap_or(Picos::NEVER);
            // At one time, deadlines of the switch come before a repeated pause.
            if self.switch.step(until.min(refresh)) == Step::Deadline {
                self.drain();
            } else if refresh <= until {
                self.switch.advance_to(refresh);
                let is_due = |egress: &Egress| egress.refresh == refresh;
                if let Some(index) = self.egresses.iter().position(is_due) {
                    self.pause(index, QUANTA);
                }
            } else {
                break;
            }
        }
        self.switch.advance_to(until);
    }

    /// The tester pauses all priorities of a receiving port for so long, or lets them go.
    fn pause(&mut self, egress: usize, quanta: u16) {
        let of = &mut self.egresses[egress];
        of.refresh = match quanta {
            0 => Picos::NEVER,
            _ => self.switch.now().saturating_add(of.half_pause),
        };
        let port = of.port;
        let frame = MacControl::Pfc(Pfc {
            enable: 0xff,
            quanta: [quanta; 8],
        })
        .to_frame(station_mac(port.0));
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
        self.sent_until = self.sent_until.max(self.switch.now());
        for _ in 0..frames {
            self.sent_until = self.sent_until.saturating_add(self.frame_wire);
            self.run_until(self.sent_until);
            let to = &self.egresses[egress];
            let (data, parsed) = (Rc::clone(&to.headers), to.parsed);
            let origin = FrameOrigin {
                number: u64::from(self.next),
                port: self.ingress,
                at: self.switch.now(),
                tc: 0,
                pg: 0,
                ecn: 0,
                data,
                len: self.frame_len,
            };
            self.next += 1;
            let frame = self.switch.store_mut().insert(origin);
            self.arrive(self.ingress, frame, self.frame_len, parsed);
        }
        self.moved_at = self.moved_at.max(self.switch.now());
        Ok(())
    }

    fn hold(&mut self, egress: usize, how: Hold, on: bool) -> Result<(), Failure> {
        match how {
            Hold::Pause => {
                self.egresses[egress].paused = on;
                self.pause(egress, if on { QUANTA } else { 0 });
            }
            Hold::Block => {
                let port = self.egresses[egress].port;
                self.switch.change(|switch, now, store, outputs| {
                    switch.set_tx_enabled(now, port, !on, store, outputs);
                });
                self.drain();
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let begun = self.switch.now();
        self.moved_at = self.moved_at.max(self.switch.now());
        loop {
            let before = self.moved_at;
            self.run_until(before.saturating_add(self.quiet));
            if self.moved_at == before {
                return Ok(());
            }
            if self.switch.now() > begun.saturating_add(PATIENCE) {
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
