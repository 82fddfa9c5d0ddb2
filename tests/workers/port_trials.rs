//! Trials of ports of every kind: floods, link flaps, a device that is created again, and mutated frames. Each
//! trial runs next to a victim flow between two other ports. The tests use short trials, and `cargo bench
//! --bench port_trials` and `--bench frame_fuzz` use long ones.

#![allow(dead_code)] // tests and benches use different items

use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use xoff_ports::net::{LinkChange, Netns, add_veth, delete_link, read_link, set_link};
use xoff_telemetry::SwitchReport;

use crate::far_end::FarEnd;
use crate::frame_fuzz::{self, FrameFuzzer, SourcePolicy, announcement, station, victim_frame, victim_id};
use crate::support::{KernelFeatures, check, check_equal, wait_for};
use crate::switch_process::{SwitchProcess, SwitchResult, port_name};

/// Ports of a switch under flood. Port 0 is flooded, the victim flow leads from port 1 to port 2, ports 0 and 3
/// can form a LAG, and the flood leaves through port 4.
const PORTS: usize = 5;
/// Port through which the flood leaves the switch.
const FLOOD_EGRESS: usize = 4;
/// MTU of the devices of a flood, in bytes.
const FLOOD_MTU: u32 = 9_000;
/// Lengths of the frames of a flood, in bytes.
pub(crate) const FLOOD_LENGTHS: [usize; 6] = [64, 128, 594, 1_514, 4_096, 9_000];
/// Number of flood frames for each frame of the victim flow.
const FLOOD_PER_VICTIM: u64 = 64;
/// MTU of the devices that carry mutated frames. The MTU of the ports is 1500.
const FUZZ_MTU: u32 = 1_600;
/// Longest mutated frame, in bytes.
const FUZZ_LEN_MAX: usize = 1_600;
/// Number of mutated frames for each frame of the victim flow.
const FUZZ_PER_VICTIM: u64 = 4;

/// The kind of a port under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortKind {
    pub(crate) name: &'static str,
    pub(crate) needs: KernelFeatures,
    backend: &'static str,
    is_lag_member: bool,
}

const fn port_kind(name: &'static str, needs: KernelFeatures, backend: &'static str) -> PortKind {
    PortKind {
        name,
        needs,
        backend,
        is_lag_member: false,
    }
}

/// All kinds of ports with a device.
pub(crate) const PORT_KINDS: [PortKind; 5] = [
    port_kind("packet", KernelFeatures::Netns, "packet"),
    PortKind {
        is_lag_member: true,
        ..port_kind("lag", KernelFeatures::Netns, "packet")
    },
    port_kind("tap", KernelFeatures::Tun, "tap"),
    port_kind("xdp", KernelFeatures::Xdp, "xdp"),
    port_kind("pnet", KernelFeatures::Netns, "pnet"),
];

/// A switch and its devices, in a network namespace.
struct PortTrial {
    kind: PortKind,
    mtu: u32,
    switch: SwitchProcess,
    /// Number of the next frame of the victim flow.
    next_victim: u32,
    /// Number of frames of the victim flow that have arrived.
    victims_arrived: u64,
    /// Number of frames of the victim flow that have left at the flooded port.
    victims_moved: u64,
}

/// The end of a trial.
pub(crate) struct TrialResult {
    pub(crate) victims_sent: u64,
    pub(crate) victims_arrived: u64,
    pub(crate) victims_moved: u64,
    /// Longest time from the creation of a device to the first frame over it.
    pub(crate) longest_attachment: Duration,
    /// Number of frames of the flood or of the fuzzer.
    pub(crate) frames: u64,
    /// Number of frames that left the switch and did not fit into the socket of the receiver.
    pub(crate) socket_drops: u64,
    pub(crate) end: SwitchResult,
}

impl TrialResult {
    pub(crate) fn is_clean(&self) -> bool {
        self.end.report["verdict"] == "clean"
    }

    /// Checks the exit code, and that no frame of the victim flow is missing in a clean run.
    pub(crate) fn check(&self) -> Result<Completion, Failed> {
        self.end.check_exit_code()?;
        // Frames that the test itself has lost have left the switch.
        let missing = (self.victims_sent - self.victims_arrived).saturating_sub(self.socket_drops);
        if missing == 0 {
            return Ok(Completion::Completed);
        }
        let taints = &self.end.report["taints"];
        match self.is_clean() {
            true => Err(format!(
                "{missing} of {} frames of the victim flow are lost",
                self.victims_sent
            )
            .into()),
            false => Ok(Completion::ignored_with(format!(
                "the machine lost frames outside the switch: {taints}"
            ))),
        }
    }
}

/// Creates the device of port `n` and opens its far end. xoff creates taps itself.
fn add_device(kind: PortKind, n: usize, mtu: u32) -> Result<FarEnd, Failed> {
    if kind.backend == "tap" {
        return wait_for("the tap exists", || {
            let is_up = read_link(&format!("v{n}")).is_ok_and(|link| link.up);
            Ok(is_up.then_some(()))
        })
        .and_then(|()| FarEnd::open(&Netns::current()?, &format!("v{n}")));
    }
    add_veth(&format!("v{n}"), &format!("h{n}"), None, mtu)?;
    FarEnd::open(&Netns::current()?, &format!("h{n}"))
}

impl PortTrial {
    /// Starts a switch with `ports` ports of this kind.
    fn start(kind: PortKind, config: &Value, ports: usize, mtu: u32) -> Result<PortTrial, Failed> {
        let folder = tempfile::tempdir()?;
        let is_tap = kind.backend == "tap";
        if is_tap {
            // The kernel must not send frames of its own on its end of a tap.
            xoff_ports::net::disable_ipv6("default")?;
        }
        let devices = if is_tap { 0 } else { ports };
        let far_ends = (0..devices)
            .map(|n| add_device(kind, n, mtu))
            .collect::<Result<_, _>>()?;
        let mut switch = SwitchProcess::start_with_backend(
            kind.backend,
            folder,
            far_ends,
            config,
            ports,
            &["--workers", "1"],
        )?;
        if is_tap {
            for n in 0..ports {
                switch.far_ends.push(add_device(kind, n, mtu)?);
            }
        }
        switch.wait_for_counters("all links are up", |switch| {
            switch.ports.iter().all(|port| port.up)
        })?;
        let mut trial = PortTrial {
            kind,
            mtu,
            switch,
            next_victim: 0,
            victims_arrived: 0,
            victims_moved: 0,
        };
        for n in 0..ports {
            trial.switch.far_ends[n].send(&announcement(n as u8))?;
        }
        trial.wait_until_known(ports)?;
        Ok(trial)
    }

    /// Waits until the switch has learnt the stations of the ports.
    fn wait_until_known(&mut self, ports: usize) -> Result<(), Failed> {
        self.switch
            .wait_for_counters("the stations are known", |switch| {
                switch.ports.iter().take(ports).all(|port| port.rx_packets > 0)
            })?;
        Ok(())
    }

    fn send_victim(&mut self) -> Result<(), Failed> {
        self.switch.far_ends[1].send(&victim_frame(self.next_victim))?;
        self.next_victim += 1;
        Ok(())
    }

    /// Reads the sockets of all far ends and counts the frames of the victim flow.
    fn count_victims(&mut self) -> Result<(), Failed> {
        for (n, far_end) in self.switch.far_ends.iter_mut().enumerate() {
            // A socket reports once that its device is gone.
            while let Ok(Some(frame)) = far_end.receive() {
                let is_victim = u64::from(victim_id(&frame).is_some());
                match n {
                    0 => self.victims_moved += is_victim,
                    2 => self.victims_arrived += is_victim,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Sends frames from port `from` until one arrives at port `to`.
    fn probe(&mut self, from: usize, to: usize) -> Result<(), Failed> {
        let mut frame = announcement(from as u8);
        frame[20..26].copy_from_slice(b"PROBE!");
        wait_for(&format!("a frame gets from port {from} to port {to}"), || {
            // A device that has just appeared may refuse the first frames.
            let _ = self.switch.far_ends[from].send(&frame);
            let mut has_arrived = false;
            while let Some(received) = self.switch.far_ends[to].receive()? {
                self.victims_arrived += u64::from(to == 2 && victim_id(&received).is_some());
                has_arrived |= received == frame;
            }
            Ok(has_arrived.then_some(()))
        })
    }

    /// Sends frames of one length at full rate until `is_over` returns true, next to the victim flow. Returns
    /// the number of frames that the device accepted.
    fn flood(&mut self, len: usize, mut is_over: impl FnMut(u64) -> bool) -> Result<u64, Failed> {
        let mut frame = [station(FLOOD_EGRESS as u8), station(0)].concat();
        frame.extend([0x88, 0xb6]);
        frame.resize(len, 0xa5);
        let (mut offered, mut accepted) = (0, 0);
        while !is_over(offered) {
            // A full device refuses frames.
            accepted += u64::from(self.switch.far_ends[0].send(&frame).is_ok());
            offered += 1;
            if offered % FLOOD_PER_VICTIM == 0 {
                self.send_victim()?;
                self.count_victims()?;
            }
        }
        Ok(accepted)
    }

    /// Takes the link of port `n` down and up at its far end.
    fn flap(&mut self, n: usize, waits: bool) -> Result<(), Failed> {
        let device = match self.kind.backend {
            "tap" => format!("v{n}"),
            _ => format!("h{n}"),
        };
        let set_up = |up: bool| {
            let change = LinkChange {
                up: Some(up),
                ..LinkChange::default()
            };
            set_link(&device, &change)
        };
        set_up(false)?;
        // A socket reports once that its device is down.
        let _ = self.switch.far_ends[n].read_socket();
        if waits {
            self.switch
                .wait_for_counters("the port is down", |switch| !switch.ports[n].up)?;
        }
        set_up(true)?;
        Ok(())
    }

    /// Deletes the device of port `n` and creates it again. With `is_down_before`, the port first notices that the
    /// device is down. Returns the time from the creation to the first frame over the device.
    fn recreate(&mut self, n: usize, is_down_before: bool) -> Result<Duration, Failed> {
        let device = format!("v{n}");
        if is_down_before {
            let down = LinkChange {
                up: Some(false),
                ..LinkChange::default()
            };
            set_link(&device, &down)?;
            // The far end of a tap is a socket of the same device, which reports once that the device is down.
            let _ = self.switch.far_ends[n].read_socket();
            self.switch
                .wait_for_counters("the port is down", |switch| !switch.ports[n].up)?;
        }
        delete_link(&device)?;
        let _ = self.switch.far_ends[n].read_socket();
        let created = Instant::now();
        self.switch.far_ends[n] = add_device(self.kind, n, self.mtu)?;
        self.probe(n, FLOOD_EGRESS)?;
        Ok(created.elapsed())
    }

    /// Waits for the last frames of the victim flow, stops the switch and returns the result.
    fn finish(mut self, frames: u64, longest_attachment: Duration) -> Result<TrialResult, Failed> {
        let sent = u64::from(self.next_victim);
        let mut quiet_polls = 0;
        wait_for("the victim flow ends", || {
            let before = (self.victims_arrived, self.victims_moved);
            self.count_victims()?;
            quiet_polls = match before == (self.victims_arrived, self.victims_moved) {
                true => quiet_polls + 1,
                false => 0,
            };
            Ok((self.victims_arrived >= sent || quiet_polls > 500).then_some(()))
        })?;
        let socket_drops = self.switch.far_ends[2].take_socket_drops();
        Ok(TrialResult {
            socket_drops,
            victims_sent: sent,
            victims_arrived: self.victims_arrived,
            victims_moved: self.victims_moved,
            longest_attachment,
            frames,
            end: self.switch.stop(Signal::SIGTERM)?,
        })
    }
}

/// Returns the configuration of a switch under flood.
fn flood_config(kind: PortKind) -> Value {
    let ports = (0..PORTS).map(|n| (port_name(n), json!({"mtu": FLOOD_MTU.to_string()})));
    let mut config = json!({"PORT": ports.collect::<Map<String, Value>>()});
    if kind.is_lag_member {
        config["PORTCHANNEL"] = json!({"PortChannel1": {"admin_status": "up", "static": "true"}});
        config["PORTCHANNEL_MEMBER"] = json!({
            format!("PortChannel1|{}", port_name(0)): {},
            format!("PortChannel1|{}", port_name(3)): {},
        });
    }
    config
}

/// The extent of a trial with floods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloodExtent {
    /// Number of frames of each length, if `time` is `None`.
    pub(crate) frames: u64,
    /// Duration of the flood of each length.
    pub(crate) time: Option<Duration>,
    pub(crate) flaps: usize,
    pub(crate) recreations: usize,
}

/// Floods a port with frames of all lengths, flaps its link and creates its device again.
pub(crate) fn run_floods(kind: PortKind, extent: FloodExtent) -> Result<TrialResult, Failed> {
    Netns::create()?.run(|| {
        let mut trial = PortTrial::start(kind, &flood_config(kind), PORTS, FLOOD_MTU)?;
        let mut frames = 0;
        for len in FLOOD_LENGTHS {
            let start = Instant::now();
            frames += trial.flood(len, |offered| match extent.time {
                Some(time) => start.elapsed() >= time,
                None => offered >= extent.frames,
            })?;
            trial.probe(0, FLOOD_EGRESS)?;
        }
        for n in 0..extent.flaps {
            trial.flap(0, n % 10 == 0)?;
            trial.send_victim()?;
        }
        trial
            .switch
            .wait_for_counters("the port is up", |switch| switch.ports[0].up)?;
        trial.probe(0, FLOOD_EGRESS)?;
        let mut longest = Duration::ZERO;
        for n in 0..extent.recreations {
            longest = longest.max(trial.recreate(0, n % 2 == 1)?);
            trial.send_victim()?;
        }
        trial.finish(frames, longest)
    })?
}

/// Sends mutated frames to port 0 at `rate` frames per second, next to the victim flow.
pub(crate) fn run_fuzz(
    kind: PortKind,
    policy: SourcePolicy,
    frames: u64,
    rate: u64,
    seed: u64,
) -> Result<TrialResult, Failed> {
    /// Number of frames between two waits.
    const BURST: u64 = 16;
    Netns::create()?.run(|| {
        let mut trial = PortTrial::start(kind, &frame_fuzz::switch_config(), 4, FUZZ_MTU)?;
        let mut fuzzer = FrameFuzzer::new(&frame_fuzz::addresses(), policy, FUZZ_LEN_MAX, seed);
        let start = Instant::now();
        let mut accepted = 0;
        for n in 0..frames {
            if n % BURST == 0 {
                trial.count_victims()?;
                let due = start + Duration::from_nanos(n * 1_000_000_000 / rate);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            // The kernel refuses some frames, such as frames with a VLAN tag and without a payload.
            accepted += u64::from(trial.switch.far_ends[0].send(&fuzzer.next_frame()).is_ok());
            if n % FUZZ_PER_VICTIM == 0 {
                trial.send_victim()?;
            }
        }
        trial.finish(accepted, Duration::ZERO)
    })?
}

/// Checks a trial with spoofed source addresses: each loss is explained by a move of an address or by a pause
/// at the port of the fuzzer.
pub(crate) fn check_spoofed(result: &TrialResult) -> Result<Completion, Failed> {
    result.end.check_exit_code()?;
    let switch: SwitchReport = result.end.switch()?;
    let lost = result.victims_sent - result.victims_arrived;
    if lost > 0 && !result.is_clean() {
        let taints = &result.end.report["taints"];
        return Ok(Completion::ignored_with(format!(
            "the machine lost frames: {taints}"
        )));
    }
    let fuzzed = &switch.ports[0];
    // Frames that followed the address of their receiver have left at the port of the fuzzer, or wait or were
    // dropped there.
    let pauses: u64 = fuzzed.pfc_rx.iter().sum::<u64>();
    let drops: u64 = fuzzed.drops.values().sum();
    let queued: u64 = result.victims_sent.saturating_sub(switch.ports[1].rx_packets);
    check(lost == 0 || result.victims_moved > 0, || {
        format!("{lost} frames of the flow are lost without a move of an address")
    })?;
    check(
        lost <= result.victims_moved + drops + queued || pauses > 0,
        || {
            format!(
                "{lost} lost, {} moved, {drops} dropped, {pauses} pauses",
                result.victims_moved
            )
        },
    )?;
    check_equal(switch.ports[2].dropped(), 0, "drops at the port of the receiver")?;
    Ok(Completion::Completed)
}

/// Returns the addresses of the victim flow and of all other stations.
pub(crate) fn stations() -> Vec<[u8; 6]> {
    (1..4).map(station).collect()
}
