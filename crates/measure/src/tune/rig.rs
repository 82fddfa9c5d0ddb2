//! One run: a switch between the hosts of a pattern, in virtual time, in a chosen phase.

use std::net::Ipv4Addr;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::ids::{PgId, QueueId};
use xoff_dataplane::mmu::BufferRefusal;
use xoff_dataplane::{ForwardingResult, Picos, PortId};
use xoff_wire::{Ecn, MacControl, VlanTag};

use super::pattern::{Pattern, Traffic};
use super::subject::{Candidate, Subject};
use xoff_fabric::{Fabric, FabricPlan, FrameView, LinkEnd, LinkPlan, Observer};
use xoff_host::{FlowConfig, FlowOperation, FlowRate, HostConfig};
use xoff_telemetry::failure::{Exit, Failure};

/// Index of the host that receives.
const RECEIVER: usize = 0;
/// Index of the sender that is watched: the first one.
const WATCHED: usize = 1;
/// The frame in the way of XOFF begins to leave so long before XOFF is due.
const JUST_BEFORE: Picos = Picos(1_000);
/// Hosts have said who they are by then.
const SETTLED: Picos = Picos::from_micros(50);
/// A buffer that is not full by then never will be.
const PATIENCE: Picos = Picos::from_millis(2_000);
/// How far a run goes between two looks.
const LOOK: Picos = Picos::from_micros(10);
/// Events that a run may take: a limit of this program.
const EVENTS_MAX: u64 = 200_000_000;

/// What makes a run differ from another one with the same configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its place in the list of phases, from 0.
    pub number: usize,
    /// Who sends.
    pub pattern: Pattern,
    /// When each sender begins.
    pub begins: Vec<Picos>,
    /// Cells of the shared pool that others hold all the time: decides how much of the frame that brings XOFF is headroom.
    pub others_cells: u32,
    /// By how much the frame in the way of XOFF has left when XOFF is due; `None`: there is no such frame.
    pub own_frame_gone: Option<Picos>,
    /// When the receiver sends the frame in the way, from the start of the senders: found by [`prepare`].
    pub own_frame_at: Option<Picos>,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Frames of the class that were dropped.
    pub dropped: u64,
    /// The first of them.
    pub first_drop: Option<Loss>,
    /// Most headroom that one of the groups held, in cells.
    pub headroom_cells: u32,
    /// Most shared cells that one of the groups held.
    pub shared_cells: u32,
    /// When the watched sender was first told to stop, from the start of the senders.
    pub first_xoff: Picos,
    /// Share of the receiver's link that was used from the first XOFF on.
    pub utilisation: f64,
    /// PFC frames that the switch sent per millisecond after the first XOFF.
    pub pauses_per_ms: f64,
    /// Longest time that a frame took from its sender to the receiver, of 999 in 1000, in nanoseconds.
    pub latency_p999_ns: u64,
}

/// A dropped frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When, from the start of the senders.
    pub at: Picos,
    /// The port it came in on.
    pub port: PortId,
    /// The limit that decided, if a buffer's did.
    pub refusal: Option<BufferRefusal>,
}

/// Finds when the frame in the way has to be sent, so that it has just begun to leave when XOFF is due. The headroom decides nothing of
/// that: what a group holds up to XOFF does not hang on what it may hold after.
///
/// # Errors
/// The buffer does not fill.
pub fn prepare(
    subject: &Subject,
    traffic: &Traffic,
    candidate: &Candidate,
    phase: &mut Phase,
) -> Result<(), Failure> {
    let Some(gone) = phase.own_frame_gone else {
        return Ok(());
    };
    let mut bare = Run::new(subject, traffic, candidate, phase)?;
    let due = bare.run_to_first_xoff(None)?;
    let link = subject.link();
    let wire = link.duration(link.wire_len(traffic.own_frame_bytes));
    // It has arrived with its last bit, and leaves the switch after the pipeline.
    let under_way = [
        wire,
        traffic.delay,
        subject.config.pipeline_latency,
        JUST_BEFORE,
        gone,
    ];
    let under_way: u64 = under_way.iter().map(|span| span.0).sum();
    let sent = (due.0 + link.gap_duration().0).checked_sub(under_way);
    phase.own_frame_at = sent.map(Picos);
    Ok(())
}

/// Runs a phase.
///
/// # Errors
/// The buffer does not fill, or the run takes too long.
pub fn run(
    subject: &Subject,
    traffic: &Traffic,
    candidate: &Candidate,
    phase: &Phase,
) -> Result<Seen, Failure> {
    let mut run = Run::new(subject, traffic, candidate, phase)?;
    run.run_to_first_xoff(phase.own_frame_at)?;
    run.run_to_end()?;
    Ok(run.seen())
}

struct Run<'a> {
    subject: &'a Subject,
    traffic: &'a Traffic,
    phase: &'a Phase,
    fabric: Fabric,
    watch: Watch,
    began: Picos,
    xon_offset_bytes: u64,
    /// At the first XOFF: the time, and bytes and packets that the receiver had been sent.
    before: (Picos, u64, u64),
}

impl<'a> Run<'a> {
    fn new(
        subject: &'a Subject,
        traffic: &'a Traffic,
        candidate: &Candidate,
        phase: &'a Phase,
    ) -> Result<Run<'a>, Failure> {
        let config = subject.with(candidate, phase.others_cells);
        let mut fabric = Fabric::new(plan(subject, traffic, phase, config), 0)
            .map_err(|error| Failure::configuration(error.to_string()))?;
        fabric.set_events_max(EVENTS_MAX);
        let mut watch = Watch::new(subject);
        fabric.run(SETTLED.saturating_add(Picos(traffic.delay.0 * 4)), &mut watch);
        if matches!(phase.pattern, Pattern::Standstill(_)) {
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
        for host in WATCHED..=phase.pattern.senders() {
            fabric.change_host(host, &mut watch, |host, now| host.start(now));
        }
        Ok(Run {
            subject,
            traffic,
            phase,
            fabric,
            watch,
            began,
            xon_offset_bytes: candidate.xon_offset_bytes,
            before: (began, 0, 0),
        })
    }

    /// Until the watched sender has been told to stop. When that was.
    fn run_to_first_xoff(&mut self, own_frame_at: Option<Picos>) -> Result<Picos, Failure> {
        if let Some(at) = own_frame_at {
            self.run(self.began.saturating_add(at))?;
            let frame = own_frame(self.subject, self.traffic.own_frame_bytes);
            let receiver = LinkEnd::Host(RECEIVER as u32);
            if !self.fabric.inject(receiver, &frame, &mut self.watch) {
                let what = "the receiver's own frame cannot be sent: its link is down";
                return Err(Failure::new(Exit::Inconclusive, what));
            }
        }
        while self.watch.first_xoff.is_none() {
            if self.fabric.now().since(self.began) > PATIENCE {
                return Err(
                    Failure::new(Exit::Inconclusive, "the senders are never told to stop")
                        .at(format!("--pattern {}", self.phase.pattern))
                        .because("their groups do not reach the limit of shared use")
                        .fix("let more of them send, or lower dynamic_th"),
                );
            }
            self.step()?;
        }
        let port = PortId(self.subject.ports[RECEIVER] as u16);
        let counters = self.fabric.switch(0).port_counters(self.fabric.now(), port);
        self.before = (self.fabric.now(), counters.tx_bytes, counters.tx_packets);
        Ok(self.watch.first_xoff.unwrap_or_default())
    }

    /// A standstill until all that was under way has come; an incast for some turns of pausing and resuming.
    fn run_to_end(&mut self) -> Result<(), Failure> {
        let senders = self.phase.pattern.senders() as u64;
        let traffic = self.traffic;
        let link = self.subject.link();
        let once = Picos(
            4 * traffic.delay.0
                + traffic.response_ns * 1_000
                + 4 * link
                    .duration(link.wire_len(traffic.own_frame_bytes.max(traffic.frame_bytes)))
                    .0,
        );
        let mut until = self.fabric.now().saturating_add(once);
        if let Pattern::Incast(_) = self.phase.pattern {
            // A paused group drains at the receiver's speed, divided among the senders.
            let offset = self.xon_offset_bytes.min(1 << 20);
            let bytes = offset + 2 * u64::from(traffic.frame_bytes);
            let turn = Picos(link.duration(bytes as u32).0 * senders + 2 * once.0);
            until = until.saturating_add(Picos(8 * turn.0));
            return self.run(until);
        }
        while !self.all_stopped() {
            if self.fabric.now().since(self.began) > PATIENCE {
                return Err(
                    Failure::new(Exit::Inconclusive, "some senders are never told to stop")
                        .at(format!("--pattern {}", self.phase.pattern)),
                );
            }
            self.step()?;
            until = self.fabric.now().saturating_add(once);
        }
        self.run(until)
    }

    fn all_stopped(&self) -> bool {
        let senders = &self.subject.ports[WATCHED..=self.phase.pattern.senders()];
        let stopped = |port: &usize| {
            self.fabric.switch(0).xoff_groups(PortId(*port as u16)) & 1 << self.subject.pg != 0
        };
        senders.iter().all(stopped)
    }

    fn step(&mut self) -> Result<(), Failure> {
        self.run(self.fabric.now().saturating_add(LOOK))
    }

    fn run(&mut self, until: Picos) -> Result<(), Failure> {
        self.fabric.run(until, &mut self.watch);
        if self.fabric.events() >= EVENTS_MAX {
            return Err(Failure::new(Exit::Inconclusive, "a run takes too many events")
                .at(format!("--pattern {}", self.phase.pattern))
                .fix("let fewer send, or choose larger frames"));
        }
        self.fabric.advance_idle(until);
        Ok(())
    }

    fn seen(&self) -> Seen {
        let (switch, now) = (self.fabric.switch(0), self.fabric.now());
        let senders = &self.subject.ports[WATCHED..=self.phase.pattern.senders()];
        let groups = senders
            .iter()
            .map(|port| switch.pg_buffers(PgId::new(PortId(*port as u16), self.subject.pg)));
        let (headroom_cells, shared_cells) = groups.fold((0, 0), |(headroom, shared), group| {
            (
                headroom.max(group.headroom.peak_cells),
                shared.max(group.shared.peak_cells),
            )
        });
        let port = self.subject.ports[RECEIVER];
        let counters = switch.port_counters(now, PortId(port as u16));
        let (since, bytes, packets) = self.before;
        let link = self.subject.link();
        let wire =
            counters.tx_bytes - bytes + (counters.tx_packets - packets) * u64::from(link.overhead_bytes);
        let span = now.since(since).0.max(1) as f64;
        let latencies = self.fabric.host(RECEIVER).results(now).received;
        Seen {
            dropped: self.watch.dropped,
            first_drop: self.watch.first_drop,
            headroom_cells,
            shared_cells,
            first_xoff: self.watch.first_xoff.unwrap_or_default(),
            utilisation: wire as f64 * 8e6 / f64::from(link.speed_mbps) / span,
            pauses_per_ms: self.watch.pauses as f64 * 1e9 / span,
            latency_p999_ns: latencies
                .iter()
                .map(|flow| flow.latency_ns.p999)
                .max()
                .unwrap_or(0),
        }
    }
}

/// What is looked for in a run.
struct Watch {
    class: u8,
    priority: usize,
    port: u16,
    began: Picos,
    first_xoff: Option<Picos>,
    pauses: u64,
    dropped: u64,
    first_drop: Option<Loss>,
}

impl Watch {
    fn new(subject: &Subject) -> Watch {
        Watch {
            class: subject.class,
            priority: usize::from(subject.priority),
            port: subject.ports[WATCHED] as u16,
            began: Picos::ZERO,
            first_xoff: None,
            pauses: 0,
            dropped: 0,
            first_drop: None,
        }
    }
}

impl Observer for Watch {
    fn frame_departed(&mut self, at: Picos, _: Picos, from: LinkEnd, frame: FrameView<'_>) {
        let LinkEnd::Switch { port, .. } = from else {
            return;
        };
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
        self.first_drop.get_or_insert(Loss {
            at: at.since(self.began),
            port,
            refusal: drop.refusal,
        });
    }
}

/// The receiver, and the senders in their order, each at a port of the subject.
fn plan(subject: &Subject, traffic: &Traffic, phase: &Phase, config: SwitchConfig) -> FabricPlan {
    let hosts: Vec<HostConfig> = (0..=phase.pattern.senders())
        .map(|index| {
            let mut host = HostConfig::new(format!("h{index}"), mac(index), subject.link());
            host.ipv4 = Some(ip(index));
            host.nic.response_ns = traffic.response_ns;
            host.announce_interval = Picos::ZERO;
            if index >= WATCHED {
                host.flows
                    .push(flow(subject, traffic, index, phase.begins[index - WATCHED]));
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
        switches: vec![config],
        hosts,
    }
}

/// SENDs: all frames of a message are equally long.
fn flow(subject: &Subject, traffic: &Traffic, index: usize, start: Picos) -> FlowConfig {
    let tag = subject.tagged.then(|| VlanTag::dot1q(subject.code, 0));
    let path_mtu = FlowConfig::path_mtu_for(traffic.frame_bytes - 4, false, subject.tagged);
    let base = FlowConfig::lossless(index as u32, ip(RECEIVER).into(), Some(mac(RECEIVER)));
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

fn mac(host: usize) -> [u8; 6] {
    let [high, low] = (host as u16).to_be_bytes();
    [2, 0x58, 0x4f, 0x46, high, low]
}

fn ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0001 + host as u32)
}

/// A frame to the watched sender in another class, as long as the port allows, or `bytes` with FCS.
fn own_frame(subject: &Subject, bytes: u32) -> Vec<u8> {
    let mut frame = vec![0; bytes as usize - 4];
    frame[..6].copy_from_slice(&mac(WATCHED));
    frame[6..12].copy_from_slice(&mac(RECEIVER));
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
    header[12..16].copy_from_slice(&ip(RECEIVER).octets());
    header[16..20].copy_from_slice(&ip(WATCHED).octets());
    let sum: u32 = (0..10)
        .map(|n| u32::from(u16::from_be_bytes([header[2 * n], header[2 * n + 1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header[24..26].copy_from_slice(&(ip_len - 20).to_be_bytes());
    frame
}
