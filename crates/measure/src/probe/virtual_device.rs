//! An xoff switch in virtual time, as the device that a probe measures.

use std::rc::Rc;

use xoff_dataplane::config::{SwitchConfig, TrustMode};
use xoff_dataplane::{FrameStore, Picos, PortId, ReceivedFrame, Transmit};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::{ParsedHeaders, parse_prefix};
use xoff_wire::{MacControl, Pfc, mac_control};

use super::super::dut::{
    FrameHeader, isolated_switch_config, learning_frame, reachable_classes, station_mac,
};
use super::device::{DeviceOutput, EgressHoldMethod, ProbeDevice};
use crate::replay::{CaptureStore, FrameOrigin};
use xoff_telemetry::failure::{Exit, Failure};

/// Number of frames that the switch can store. It is larger than every buffer threshold.
const SWITCH_FRAMES_MAX: usize = 1 << 22;
/// The switch counts as idle after this time without an event.
const IDLE_AFTER: Picos = Picos::from_millis(1);
/// Longest model time until the switch must be idle.
const IDLE_TIMEOUT: Picos = Picos::from_millis(600_000);
/// MAC address of the sending station.
const TESTER_MAC: [u8; 6] = [2, 0, 0, 0x71, 0, 0];
/// Longest pause time, in quanta.
const PAUSE_QUANTA_MAX: u16 = u16::MAX;

/// A switch in virtual time, between the ports of a tester.
///
/// The switch has the buffers, traffic classes and flow control of its configuration. The ports of the tester
/// form one bridge, and the PFC watchdog is off. WRED and trimming work as configured.
#[derive(Debug)]
pub struct VirtualProbeDevice {
    switch: VirtualSwitch<CaptureStore>,
    ingress: PortId,
    egresses: Vec<ProbeEgress>,
    /// Time at which the link of the sending port has carried all sent frames.
    sent_until: Picos,
    frame_link_time: Picos,
    frame_len: u32,
    /// Number of the next frame.
    next: u32,
    seen: DeviceOutput,
    /// Buffer for departing frames. It is empty between calls.
    departures: Vec<Transmit>,
    last_event_at: Picos,
    quiet: Picos,
}

#[derive(Debug)]
struct ProbeEgress {
    port: PortId,
    headers: Rc<[u8]>,
    parsed: ParsedHeaders,
    /// Time at which the tester repeats its pause frame.
    refresh: Picos,
    half_pause: Picos,
    paused: bool,
}

impl VirtualProbeDevice {
    /// Creates a switch with the configuration `config`, and a tester that sends frames of the traffic class
    /// `class` into the port `ingress`. The receiving stations are behind the ports `egresses`. Ports are
    /// indices in [`SwitchConfig::ports`]. `frame_bytes` is the frame length with FCS. Values below 64 count
    /// as 64.
    ///
    /// # Errors
    /// The ingress port maps no DSCP (or PCP) to the class, or the frame exceeds the MTU of a port.
    pub fn new(
        config: &SwitchConfig,
        ingress: usize,
        egresses: &[usize],
        class: u8,
        frame_bytes: u32,
    ) -> Result<VirtualProbeDevice, Failure> {
        let port = &config.ports[ingress];
        let Some((_, code)) = reachable_classes(port).into_iter().find(|(tc, _)| *tc == class) else {
            return Err(Failure::usage(format!(
                "no frame that comes in on {} has traffic class {class}",
                port.name
            ))
            .because("its DSCP_TO_TC_MAP or DOT1P_TO_TC_MAP does not select this class")
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
        alone.frames_max = SWITCH_FRAMES_MAX;
        let mut device = VirtualProbeDevice {
            switch: VirtualSwitch::new(&alone, CaptureStore::default()),
            ingress: PortId(ingress as u16),
            egresses: Vec::new(),
            sent_until: Picos::ZERO,
            frame_link_time: port
                .link
                .duration(port.link.wire_len(port.link.mac_len(frame_len))),
            frame_len,
            next: 0,
            seen: DeviceOutput::default(),
            departures: Vec::new(),
            last_event_at: Picos::ZERO,
            quiet: IDLE_AFTER.saturating_add(config.pipeline_latency),
        };
        for &egress in egresses {
            let headers: Rc<[u8]> = FrameHeader {
                to: station_mac(egress as u16),
                from: TESTER_MAC,
                class_code: code,
                is_tagged: tag > 0,
                flow: 0,
                frame_len,
            }
            .to_bytes()
            .into();
            device.egresses.push(ProbeEgress {
                port: PortId(egress as u16),
                parsed: parse_prefix(&headers, frame_len as usize),
                headers,
                refresh: Picos::NEVER,
                half_pause: Picos(config.ports[egress].link.pause_duration(PAUSE_QUANTA_MAX).0 / 2),
                paused: false,
            });
        }
        device.bring_up_links()?;
        Ok(device)
    }

    /// Brings the links up. Each receiving station then sends a frame, so that the switch learns its address.
    fn bring_up_links(&mut self) -> Result<(), Failure> {
        let ports: Vec<PortId> = self.egresses.iter().map(|egress| egress.port).collect();
        let all: Vec<PortId> = ports.iter().copied().chain([self.ingress]).collect();
        for port in all {
            self.switch.set_link(port, true);
            self.handle_departures();
        }
        for port in ports {
            let hello = learning_frame(station_mac(port.0));
            self.receive_bytes(port, hello.into(), 60, u64::MAX);
        }
        self.wait_until_idle()?;
        self.seen = DeviceOutput::default();
        Ok(())
    }

    /// Makes a frame arrive at a port of the switch now.
    fn receive_bytes(&mut self, port: PortId, data: Rc<[u8]>, len: u32, number: u64) {
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
        self.receive_frame(port, frame, len, parsed);
    }

    fn receive_frame(
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
        self.handle_departures();
    }

    fn handle_departures(&mut self) {
        let mut departures = std::mem::take(&mut self.departures);
        self.switch
            .take_departures(|departure, _| departures.push(departure));
        for departure in departures.drain(..) {
            self.record_departure(&departure);
            self.switch.store_mut().release(departure.frame);
        }
        self.switch.store_mut().reclaim_released();
        self.departures = departures;
    }

    /// Records a frame that leaves the switch.
    fn record_departure(&mut self, transmit: &Transmit) {
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
                self.last_event_at = transmit.end;
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

    /// Runs all events up to `until`, including the repeated pauses of the tester.
    fn run_until(&mut self, until: Picos) {
        loop {
            let refresh = self.egresses.iter().map(|egress| egress.refresh).min();
            let refresh = refresh.unwrap_or(Picos::NEVER);
            // If both have the same time, a deadline of the switch comes before a repeated pause.
            if self.switch.step(until.min(refresh)) == Step::Deadline {
                self.handle_departures();
            } else if refresh <= until {
                self.switch.advance_to(refresh);
                let is_due = |egress: &ProbeEgress| egress.refresh == refresh;
                if let Some(index) = self.egresses.iter().position(is_due) {
                    self.send_pause(index, PAUSE_QUANTA_MAX);
                }
            } else {
                break;
            }
        }
        self.switch.advance_to(until);
    }

    /// Sends a PFC frame for all priorities to the switch, from the station at a receiving port. 0 quanta end
    /// the pause.
    fn send_pause(&mut self, egress: usize, quanta: u16) {
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
        self.receive_bytes(
            port,
            frame.to_vec().into(),
            mac_control::FRAME_LEN as u32,
            u64::MAX,
        );
    }
}

impl ProbeDevice for VirtualProbeDevice {
    fn egress_count(&self) -> usize {
        self.egresses.len()
    }

    fn frame_bytes(&self) -> u32 {
        self.frame_len + 4
    }

    fn send_frames(&mut self, egress: usize, frames: u32) -> Result<(), Failure> {
        self.sent_until = self.sent_until.max(self.switch.now());
        for _ in 0..frames {
            self.sent_until = self.sent_until.saturating_add(self.frame_link_time);
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
            self.receive_frame(self.ingress, frame, self.frame_len, parsed);
        }
        self.last_event_at = self.last_event_at.max(self.switch.now());
        Ok(())
    }

    fn set_hold(&mut self, egress: usize, method: EgressHoldMethod, is_held: bool) -> Result<(), Failure> {
        match method {
            EgressHoldMethod::Pause => {
                self.egresses[egress].paused = is_held;
                self.send_pause(egress, if is_held { PAUSE_QUANTA_MAX } else { 0 });
            }
            EgressHoldMethod::Block => {
                let port = self.egresses[egress].port;
                self.switch.change(|switch, now, store, outputs| {
                    switch.set_tx_enabled(now, port, !is_held, store, outputs);
                });
                self.handle_departures();
            }
        }
        Ok(())
    }

    fn wait_until_idle(&mut self) -> Result<(), Failure> {
        let begun = self.switch.now();
        self.last_event_at = self.last_event_at.max(self.switch.now());
        loop {
            let before = self.last_event_at;
            self.run_until(before.saturating_add(self.quiet));
            if self.last_event_at == before {
                return Ok(());
            }
            if self.switch.now() > begun.saturating_add(IDLE_TIMEOUT) {
                return Err(
                    Failure::new(Exit::Inconclusive, "the switch does not become idle")
                        .because("frames still leave after ten minutes of model time")
                        .fix("remove the shaper (SCHEDULER pir) from the queue"),
                );
            }
        }
    }

    fn take_output(&mut self) -> DeviceOutput {
        std::mem::take(&mut self.seen)
    }

    fn reset_numbering(&mut self) {
        self.next = 0;
    }
}
