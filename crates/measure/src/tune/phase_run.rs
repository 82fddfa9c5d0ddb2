//! One run of a phase: a switch in virtual time, between the hosts of a traffic pattern.

use std::net::Ipv4Addr;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::ids::{PgId, QueueId};
use xoff_dataplane::mmu::BufferRefusal;
use xoff_dataplane::{ForwardingResult, Picos, PortId};
use xoff_wire::{Ecn, MacControl, VlanTag};

use super::traffic_pattern::{TrafficParameters, TrafficPattern};
use super::tuning_target::{BufferCandidate, TuningTarget};
use xoff_fabric::{Fabric, FabricPlan, FrameView, LinkEnd, LinkPlan, Observer};
use xoff_host::{FlowConfig, FlowOperation, FlowRate, HostConfig};
use xoff_telemetry::failure::{Exit, Failure};

/// Index of the receiving host.
const RECEIVER: usize = 0;
/// Index of the first sender. Its first XOFF is recorded.
const FIRST_SENDER: usize = 1;
/// The own frame starts this much before XOFF is due.
const OWN_FRAME_LEAD: Picos = Picos(1_000);
/// Time until all hosts have announced their addresses.
const SETTLE_TIME: Picos = Picos::from_micros(50);
/// Longest time until the buffer must be full.
const FILL_TIMEOUT: Picos = Picos::from_millis(2_000);
/// Model time between two checks of a run.
const STEP: Picos = Picos::from_micros(10);
/// Largest number of events of a run.
const EVENTS_MAX: u64 = 200_000_000;

/// The conditions of one run. If two runs have the same buffer sizes, they differ in these conditions and in
/// nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficPhase {
    /// Index of the phase in the list that [`build_phases`](super::build_phases) returns.
    pub number: usize,
    /// Traffic pattern of the run.
    pub pattern: TrafficPattern,
    /// Start time of each sender, relative to the start of the run.
    pub begins: Vec<Picos>,
    /// Number of cells of the shared pool that are already occupied by ports outside the test. This number
    /// determines how much of the frame that causes XOFF is stored in headroom.
    pub others_cells: u32,
    /// Progress of the own frame, a frame from the receiver to a sender. XOFF must wait while the switch
    /// transmits this frame. The value is the time for which the switch has already transmitted it when XOFF
    /// is due. `None` means that there is no own frame.
    pub own_frame_elapsed: Option<Picos>,
    /// Time at which the receiver sends the own frame, relative to the start of the senders. `None` before
    /// [`set_xoff_delaying_frame_time`] sets this time, and if there is no own frame.
    pub own_frame_at: Option<Picos>,
}

/// The result of one run of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseResult {
    /// Number of dropped frames of the lossless class.
    pub dropped: u64,
    /// The first drop, or `None` if no frame was dropped.
    pub first_drop: Option<PhaseDrop>,
    /// Largest headroom that a priority group used, in cells.
    pub headroom_cells: u32,
    /// Largest number of cells that a priority group used in the shared pool.
    pub shared_cells: u32,
    /// Time of the first XOFF to the first sender, relative to the start of the senders.
    pub first_xoff: Picos,
    /// Share of the time after the first XOFF for which frames and their gaps occupy the receiver's link,
    /// 0 to 1.
    pub utilisation: f64,
    /// Number of PFC frames that the switch sent per millisecond after the first XOFF.
    pub pauses_per_ms: f64,
    /// 99.9th percentile of the latency from a sender to the receiver, in nanoseconds. With several senders,
    /// this is the largest of their percentiles.
    pub latency_p999_ns: u64,
}

/// The drop of a frame of the lossless class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseDrop {
    /// Time of the drop, from the start of the senders.
    pub at: Picos,
    /// Ingress port of the dropped frame.
    pub port: PortId,
    /// The buffer limit that caused the drop. `None` if the drop had another cause.
    pub refusal: Option<BufferRefusal>,
}

/// Sets the time at which the receiver sends the own frame. This frame delays XOFF, because the switch must
/// transmit it first. The time is chosen so that the switch is transmitting the own frame when XOFF is due.
/// The time does not depend on the headroom, because a priority group starts to use headroom after XOFF is
/// due. A phase without an own frame is not changed.
///
/// # Errors
/// Fails with [`Exit::Inconclusive`] if the first sender receives no XOFF within 2 s of model time, or if the
/// run takes 200 million events. Also fails if `candidate` gives an invalid configuration.
pub fn set_xoff_delaying_frame_time(
    subject: &TuningTarget,
    traffic: &TrafficParameters,
    candidate: &BufferCandidate,
    phase: &mut TrafficPhase,
) -> Result<(), Failure> {
    let Some(gone) = phase.own_frame_elapsed else {
        return Ok(());
    };
    let mut bare = PhaseRun::new(subject, traffic, candidate, phase)?;
    let due = bare.run_to_first_xoff(None)?;
    let link = subject.link_timing();
    let wire = link.duration(link.wire_len(traffic.own_frame_bytes));
    // The frame has arrived with its last bit, and it leaves the switch after the pipeline latency.
    let under_way = [
        wire,
        traffic.delay,
        subject.config.pipeline_latency,
        OWN_FRAME_LEAD,
        gone,
    ];
    let under_way: u64 = under_way.iter().map(|span| span.0).sum();
    let sent = (due.0 + link.gap_duration().0).checked_sub(under_way);
    phase.own_frame_at = sent.map(Picos);
    Ok(())
}

/// Runs a phase with the buffer sizes of `candidate`, from the start of the senders to the end of the
/// phase. A standstill ends when all frames in flight have arrived. An incast ends after several cycles of
/// XOFF and XON.
///
/// # Errors
/// Fails with [`Exit::Inconclusive`] in three cases:
///
/// - a sender receives no XOFF within 2 s of model time,
/// - the own frame cannot be sent because its link is down,
/// - the run takes 200 million events.
///
/// Also fails if `candidate` gives an invalid configuration.
pub fn run_phase(
    subject: &TuningTarget,
    traffic: &TrafficParameters,
    candidate: &BufferCandidate,
    phase: &TrafficPhase,
) -> Result<PhaseResult, Failure> {
    let mut run = PhaseRun::new(subject, traffic, candidate, phase)?;
    run.run_to_first_xoff(phase.own_frame_at)?;
    run.run_to_end()?;
    Ok(run.result())
}

struct PhaseRun<'a> {
    subject: &'a TuningTarget,
    traffic: &'a TrafficParameters,
    phase: &'a TrafficPhase,
    fabric: Fabric,
    watch: RunObserver,
    began: Picos,
    xon_offset_bytes: u64,
    /// Start of the measured time, after the first XOFF frame, and the time for which the receiver's link
    /// was in use before.
    measured_from: (Picos, Picos),
}

impl<'a> PhaseRun<'a> {
    fn new(
        subject: &'a TuningTarget,
        traffic: &'a TrafficParameters,
        candidate: &BufferCandidate,
        phase: &'a TrafficPhase,
    ) -> Result<PhaseRun<'a>, Failure> {
        let config = subject.config_with(candidate, phase.others_cells);
        let mut fabric = Fabric::new(fabric_plan(subject, traffic, phase, config), 0)
            .map_err(|error| Failure::configuration(error.to_string()))?;
        fabric.set_events_max(EVENTS_MAX);
        let mut watch = RunObserver::new(subject);
        fabric.run(SETTLE_TIME.saturating_add(Picos(traffic.delay.0 * 4)), &mut watch);
        if matches!(phase.pattern, TrafficPattern::Standstill(_)) {
            let port = PortId(subject.ports[RECEIVER] as u16);
            let queue = subject.config.ports[subject.ports[RECEIVER]].classify.tc_to_queue
                [usize::from(subject.class)];
            fabric.change_switch(0, &mut watch, |switch, now, store, outputs| {
                switch.set_queue_enabled(now, QueueId::new(port, queue), false, store, outputs);
            });
        }
        fabric.change_switch(0, &mut watch, |switch, _, _, _| switch.clear_watermarks());
        let began = fabric.now();
        watch.began = began;
        for host in FIRST_SENDER..=phase.pattern.senders() {
            fabric.change_host(host, &mut watch, |host, now| host.start(now));
        }
        Ok(PhaseRun {
            subject,
            traffic,
            phase,
            fabric,
            watch,
            began,
            xon_offset_bytes: candidate.xon_offset_bytes,
            measured_from: (began, Picos::ZERO),
        })
    }

    /// Runs until the switch sends the first XOFF to the watched sender. Returns the time of XOFF, relative
    /// to the start of the senders.
    fn run_to_first_xoff(&mut self, own_frame_at: Option<Picos>) -> Result<Picos, Failure> {
        if let Some(at) = own_frame_at {
            self.run_until(self.began.saturating_add(at))?;
            let frame = build_xoff_delaying_frame(self.subject, self.traffic.own_frame_bytes);
            let receiver = LinkEnd::Host(RECEIVER as u32);
            if !self.fabric.inject(receiver, &frame, &mut self.watch) {
                let what = "the receiver's own frame cannot be sent: its link is down";
                return Err(Failure::new(Exit::Inconclusive, what));
            }
        }
        while self.watch.first_xoff.is_none() {
            if self.fabric.now().since(self.began) > FILL_TIMEOUT {
                return Err(Failure::new(Exit::Inconclusive, "the senders never receive XOFF")
                    .at(format!("--pattern {}", self.phase.pattern))
                    .because("their priority groups do not reach the shared limit")
                    .fix("use more senders, or lower dynamic_th"));
            }
            self.run_step()?;
        }
        let now = self.fabric.now();
        self.measured_from = (now, self.watch.receiver_link.busy_before(now));
        Ok(self.watch.first_xoff.unwrap_or_default())
    }

    /// Runs a phase from the first XOFF to its end. A standstill ends when all frames in flight have arrived.
    /// An incast ends after several cycles of XOFF and XON.
    fn run_to_end(&mut self) -> Result<(), Failure> {
        let senders = self.phase.pattern.senders() as u64;
        let traffic = self.traffic;
        let link = self.subject.link_timing();
        let once = Picos(
            4 * traffic.delay.0
                + traffic.response_ns * 1_000
                + 4 * link
                    .duration(link.wire_len(traffic.own_frame_bytes.max(traffic.frame_bytes)))
                    .0,
        );
        let mut until = self.fabric.now().saturating_add(once);
        if let TrafficPattern::Incast(_) = self.phase.pattern {
            // A paused group drains at the speed of the receiver, divided among the senders.
            let offset = self.xon_offset_bytes.min(1 << 20);
            let bytes = offset + 2 * u64::from(traffic.frame_bytes);
            let turn = Picos(link.duration(bytes as u32).0 * senders + 2 * once.0);
            until = until.saturating_add(Picos(8 * turn.0));
            return self.run_until(until);
        }
        while !self.all_senders_in_xoff() {
            if self.fabric.now().since(self.began) > FILL_TIMEOUT {
                return Err(
                    Failure::new(Exit::Inconclusive, "some senders never receive XOFF")
                        .at(format!("--pattern {}", self.phase.pattern)),
                );
            }
            self.run_step()?;
            until = self.fabric.now().saturating_add(once);
        }
        self.run_until(until)
    }

    fn all_senders_in_xoff(&self) -> bool {
        let senders = &self.subject.ports[FIRST_SENDER..=self.phase.pattern.senders()];
        let stopped = |port: &usize| {
            self.fabric.switch(0).xoff_groups(PortId(*port as u16)) & 1 << self.subject.pg != 0
        };
        senders.iter().all(stopped)
    }

    fn run_step(&mut self) -> Result<(), Failure> {
        self.run_until(self.fabric.now().saturating_add(STEP))
    }

    fn run_until(&mut self, until: Picos) -> Result<(), Failure> {
        self.fabric.run(until, &mut self.watch);
        if self.fabric.events() >= EVENTS_MAX {
            return Err(Failure::new(Exit::Inconclusive, "a run takes too many events")
                .at(format!("--pattern {}", self.phase.pattern))
                .fix("use fewer senders or larger frames"));
        }
        self.fabric.advance_idle(until);
        Ok(())
    }

    fn result(&self) -> PhaseResult {
        let (switch, now) = (self.fabric.switch(0), self.fabric.now());
        let senders = &self.subject.ports[FIRST_SENDER..=self.phase.pattern.senders()];
        let groups = senders
            .iter()
            .map(|port| switch.pg_buffers(PgId::new(PortId(*port as u16), self.subject.pg)));
        let (headroom_cells, shared_cells) = groups.fold((0, 0), |(headroom, shared), group| {
            (
                headroom.max(group.headroom.peak_cells),
                shared.max(group.shared.peak_cells),
            )
        });
        let (since, busy_before) = self.measured_from;
        let span = now.since(since).0.max(1) as f64;
        let busy = self.watch.receiver_link.busy_before(now).0 - busy_before.0;
        let latencies = self.fabric.host(RECEIVER).results(now).received;
        PhaseResult {
            dropped: self.watch.dropped,
            first_drop: self.watch.first_drop,
            headroom_cells,
            shared_cells,
            first_xoff: self.watch.first_xoff.unwrap_or_default(),
            utilisation: busy as f64 / span,
            pauses_per_ms: self.watch.pauses as f64 * 1e9 / span,
            latency_p999_ns: latencies
                .iter()
                .map(|flow| flow.latency_ns.p999)
                .max()
                .unwrap_or(0),
        }
    }
}

/// Observes the drops and the XOFF frames of a run.
struct RunObserver {
    class: u8,
    priority: usize,
    port: u16,
    receiver_port: u16,
    receiver_link: LinkUse,
    began: Picos,
    first_xoff: Option<Picos>,
    pauses: u64,
    dropped: u64,
    first_drop: Option<PhaseDrop>,
}

/// The time for which the sender of a link uses the link.
#[derive(Clone, Copy, Debug, Default)]
struct LinkUse {
    /// Sum of the times of all frames so far, each with its gap.
    busy: Picos,
    /// End of the last frame and its gap.
    until: Picos,
}

impl LinkUse {
    /// Adds a frame that occupies the link from `at` until `until`. Frames do not overlap.
    fn add(&mut self, at: Picos, until: Picos) {
        self.busy.0 += until.since(at).0;
        self.until = until;
    }

    /// Returns the time for which the link was in use before `now`. A frame that is still on the link counts
    /// with the part before `now`. `now` must not be before the start of the last frame.
    fn busy_before(&self, now: Picos) -> Picos {
        Picos(self.busy.0 - self.until.0.saturating_sub(now.0))
    }
}

impl RunObserver {
    fn new(subject: &TuningTarget) -> RunObserver {
        RunObserver {
            class: subject.class,
            priority: usize::from(subject.priority),
            port: subject.ports[FIRST_SENDER] as u16,
            receiver_port: subject.ports[RECEIVER] as u16,
            receiver_link: LinkUse::default(),
            began: Picos::ZERO,
            first_xoff: None,
            pauses: 0,
            dropped: 0,
            first_drop: None,
        }
    }
}

impl Observer for RunObserver {
    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        let LinkEnd::Switch { port, .. } = from else {
            return;
        };
        if port == self.receiver_port {
            self.receiver_link.add(at, until);
        }
        let Ok(MacControl::Pfc(pfc)) = MacControl::parse(frame.prefix) else {
            return;
        };
        let stops = pfc.enable & 1 << self.priority != 0 && pfc.quanta[self.priority] > 0;
        self.pauses += u64::from(stops && self.first_xoff.is_some());
        if stops && port == self.port && self.first_xoff.is_none() {
            self.first_xoff = Some(at.since(self.began));
        }
    }

    fn admission_decided(&mut self, at: Picos, _: u32, port: PortId, verdict: &ForwardingResult) {
        let ForwardingResult::Dropped(drop) = verdict else {
            return;
        };
        if drop.tc != self.class {
            return;
        }
        self.dropped += 1;
        self.first_drop.get_or_insert(PhaseDrop {
            at: at.since(self.began),
            port,
            refusal: drop.refusal,
        });
    }
}

/// Builds a plan with one receiver and several senders. Each host is connected to one port of the target.
fn fabric_plan(
    subject: &TuningTarget,
    traffic: &TrafficParameters,
    phase: &TrafficPhase,
    config: SwitchConfig,
) -> FabricPlan {
    let hosts: Vec<HostConfig> = (0..=phase.pattern.senders())
        .map(|index| {
            let mut host = HostConfig::new(format!("h{index}"), host_mac(index), subject.link_timing());
            host.ipv4 = Some(host_ipv4(index));
            host.nic.response_ns = traffic.response_ns;
            host.announce_interval = Picos::ZERO;
            if index >= FIRST_SENDER {
                host.flows.push(sender_flow(
                    subject,
                    traffic,
                    index,
                    phase.begins[index - FIRST_SENDER],
                ));
            }
            host
        })
        .collect();
    let links = (0..hosts.len()).map(|index| LinkPlan {
        name: format!("h{index}"),
        ends: [
            LinkEnd::Host(index as u32),
            LinkEnd::Switch {
                switch: 0,
                port: subject.ports[index] as u16,
            },
        ],
        delay: traffic.delay,
    });
    FabricPlan {
        links: links.collect(),
        switches: vec![config.into()],
        hosts,
    }
}

/// Builds the flow of a sender. The flow consists of SEND messages: only for this operation do all frames of
/// a message have the same length.
fn sender_flow(
    subject: &TuningTarget,
    traffic: &TrafficParameters,
    index: usize,
    start: Picos,
) -> FlowConfig {
    let tag = subject.tagged.then(|| VlanTag::dot1q(subject.code, 0));
    let path_mtu = FlowConfig::path_mtu_for(traffic.frame_bytes - 4, false, subject.tagged);
    let base = FlowConfig::lossless(index as u32, host_ipv4(RECEIVER).into(), Some(host_mac(RECEIVER)));
    let path_mtu = path_mtu.unwrap_or(base.path_mtu);
    FlowConfig {
        class: subject.priority,
        dscp: if subject.tagged { 0 } else { subject.code },
        ecn: Ecn::Ect0,
        vlan: tag,
        operation: FlowOperation::Send,
        path_mtu,
        message_bytes: u32::from(path_mtu) * 64,
        rate: FlowRate::LINK,
        start,
        ..base
    }
}

fn host_mac(host: usize) -> [u8; 6] {
    let [high, low] = (host as u16).to_be_bytes();
    [2, 0x58, 0x4f, 0x46, high, low]
}

fn host_ipv4(host: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0001 + host as u32)
}

/// Builds a frame of another class to the watched sender. `bytes` includes the FCS.
fn build_xoff_delaying_frame(subject: &TuningTarget, bytes: u32) -> Vec<u8> {
    let mut frame = vec![0; bytes as usize - 4];
    frame[..6].copy_from_slice(&host_mac(FIRST_SENDER));
    frame[6..12].copy_from_slice(&host_mac(RECEIVER));
    let mut at = 12;
    if subject.tagged {
        frame[at..at + 2].copy_from_slice(&0x8100_u16.to_be_bytes());
        frame[at + 2..at + 4].copy_from_slice(&(u16::from(subject.other_code) << 13).to_be_bytes());
        at += 4;
    }
    frame[at..at + 2].copy_from_slice(&0x0800_u16.to_be_bytes());
    let ip_len = (frame.len() - at - 2) as u16;
    let header = &mut frame[at + 2..];
    (header[0], header[8], header[9]) = (0x45, 64, 17);
    header[1] = if subject.tagged {
        0
    } else {
        subject.other_code << 2
    };
    header[2..4].copy_from_slice(&ip_len.to_be_bytes());
    header[12..16].copy_from_slice(&host_ipv4(RECEIVER).octets());
    header[16..20].copy_from_slice(&host_ipv4(FIRST_SENDER).octets());
    let sum: u32 = (0..10)
        .map(|n| u32::from(u16::from_be_bytes([header[2 * n], header[2 * n + 1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header[24..26].copy_from_slice(&(ip_len - 20).to_be_bytes());
    frame
}
