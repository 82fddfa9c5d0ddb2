//! Runs the flows of a scenario over its fabric.

use xoff_dataplane::{ForwardingResult, Picos, PortId};
use xoff_wire::mac_control::MacControl;

use super::control::{ModelControl, Window, Windowed};
use super::plan::{self, Lengths, NodeIndex, Plan};
use xoff_fabric::{Fabric, FrameView, LinkEnd, Observer, RunStopReason};
use xoff_host::QueuePairSetup;
use xoff_lab::ns3::{CongestionMode, Flow, PairTimings, Parameters, PauseEvent, Scenario, Topology};
use xoff_rdma::congestion::{
    CongestionControl, CongestionFeedback, ConstantRate, ConstantRateParameters, ControllerContext, DcqcnNic,
    DcqcnNicParameters,
};
use xoff_rdma::{CompletionKind, Pacing, QpConfig, QpIndex, Verb, WorkRequest};
use xoff_telemetry::failure::Failure;

/// A run ends at the latest when so many times the reference's time has passed.
const TIMES_REFERENCE_MAX: u64 = 10;
/// How long a run goes on behind its last completion.
const AFTERMATH: Picos = Picos::from_millis(1);
/// Bytes of a RoCEv2 data frame beside its payload and what a link adds: the second kind of [`Lengths`].
const ROCE_HEADER_BYTES: u32 = 62;
/// Numbers of queue pairs begin here: lower ones are reserved (IBTA 3.5.3).
const FIRST_QUEUE_PAIR: u32 = 0x10;

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// From each flow's start to its last acknowledgement; `None` for one that did not end.
    pub(super) completions_ns: Vec<Option<u64>>,
    /// Pauses and resumes, as nodes received them.
    pub(super) pauses: Vec<PauseEvent>,
    /// Frames that switches dropped.
    pub(super) dropped_frames: u64,
    /// Frames that passed a link, each counted per link.
    pub(super) frame_hops: u64,
}

/// Runs a scenario.
///
/// # Errors
/// A scenario that makes no fabric.
pub(super) fn run(scenario: &Scenario, lengths: Lengths, seed: u64) -> Result<Outcome, Failure> {
    let plan = plan::plan(scenario, lengths, seed)?;
    let mut fabric = Fabric::new(plan.fabric.clone(), seed).map_err(|error| {
        Failure::configuration("the files make no fabric")
            .at(scenario.name.clone())
            .because(error)
    })?;
    // The model counts whole nanoseconds, so frames of many hosts arrive at once, and who comes first decides who pauses.
    fabric.order_by_insertion();
    let mut run = Run {
        scenario,
        plan: &plan,
        lengths,
        seed,
        fabric,
        watch: Watch::new(&scenario.topology, &plan),
        senders: Vec::new(),
        timings: PairTimings::new(&scenario.topology, scenario.parameters.payload_bytes),
        outcome: Outcome {
            completions_ns: vec![None; scenario.flows.len()],
            ..Outcome::default()
        },
    };
    run.connect();
    run.play()
}

struct Run<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    lengths: Lengths,
    seed: u64,
    fabric: Fabric,
    watch: Watch,
    /// Host and queue pair that each flow is sent by.
    senders: Vec<(usize, QpIndex)>,
    timings: PairTimings<'a>,
    outcome: Outcome,
}

impl Run<'_> {
    fn host(&self, node: u32) -> usize {
        match self.plan.ends[node as usize] {
            NodeIndex::Host(host) => host as usize,
            NodeIndex::Switch(_) => unreachable!("flows are between hosts: the reader has checked it"),
        }
    }

    /// A queue pair for each flow, in both of its hosts.
    fn connect(&mut self) {
        for (index, flow) in self.scenario.flows.iter().enumerate() {
            let number = FIRST_QUEUE_PAIR + 2 * index as u32;
            let context = self.context(flow, index);
            let sender = self.congestion(&context, index);
            let receiver = ConstantRate::new(ConstantRateParameters::default(), &context);
            self.create(index, flow.dst, number + 1, number, Box::new(receiver));
            let created = self.create(index, flow.src, number, number + 1, sender);
            self.senders.push(created);
        }
    }

    fn context(&self, flow: &Flow, index: usize) -> ControllerContext {
        let topology = &self.scenario.topology;
        let paths = &self.plan.paths[index];
        let delay: u64 = [&paths.data, &paths.acks]
            .into_iter()
            .flatten()
            .map(|step| topology.links[step.link].delay_ns)
            .sum();
        let first = paths.data.first().map(|step| &topology.links[step.link]);
        ControllerContext {
            line_rate_bps: first.map_or(1, |link| link.rate_bps()),
            base_rtt: Picos::from_nanos(delay),
            packet_bytes: self.scenario.parameters.payload_bytes + self.header_bytes(),
            seed: self.seed ^ u64::from(flow.src),
        }
    }

    fn header_bytes(&self) -> u32 {
        match self.lengths {
            Lengths::Model => self.scenario.parameters.header_bytes(),
            Lengths::Ethernet => ROCE_HEADER_BYTES,
        }
    }

    fn congestion(&mut self, context: &ControllerContext, flow: usize) -> Box<dyn CongestionControl> {
        let parameters = &self.scenario.parameters;
        let lead = self.plan.paths[flow].acks.last().map_or(Picos::ZERO, |step| {
            let link = &self.scenario.topology.links[step.link];
            let transmission = self
                .lengths
                .timing(link.speed_mbps)
                .duration(parameters.ack_bytes());
            Picos::from_nanos(link.delay_ns) + transmission
        });
        let scenario = self.scenario;
        let window = self.window(context, &scenario.flows[flow]);
        let control: Box<dyn CongestionControl> = match (parameters.mode, parameters.rate_bound) {
            (CongestionMode::Dcqcn, true) => {
                Box::new(DcqcnNic::new(dcqcn(parameters), context).with_notification_delay(lead))
            }
            (CongestionMode::Dcqcn, false) => {
                Box::new(ConstantRate::new(ConstantRateParameters::default(), context))
            }
            _ => return Box::new(ModelControl::new(parameters, window, context.seed ^ flow as u64)),
        };
        match window.bytes {
            None => control,
            Some(_) => Box::new(Windowed { control, window }),
        }
    }

    /// Window and round trip that the model gives the flow.
    fn window(&mut self, context: &ControllerContext, flow: &Flow) -> Window {
        let parameters = &self.scenario.parameters;
        let timing = self
            .timings
            .get(flow.src, flow.dst, parameters.window.of_largest_pair);
        let bytes = timing.window_bytes;
        Window {
            bytes: (parameters.window.used && bytes > 0).then_some(bytes),
            follows_rate: parameters.window.follows_rate,
            base_rtt_ns: timing.rtt_ns,
            rate_bps_max: context.line_rate_bps,
        }
    }

    fn create(
        &mut self,
        index: usize,
        node: u32,
        number: u32,
        peer: u32,
        congestion: Box<dyn CongestionControl>,
    ) -> (usize, QpIndex) {
        let (flow, paths) = (&self.scenario.flows[index], &self.plan.paths[index]);
        let [data_address, ack_address] = plan::flow_addresses(index);
        let (steps, address) = match node == flow.src {
            true => (&paths.data, data_address),
            false => (&paths.acks, ack_address),
        };
        let config = QpConfig {
            mtu: self.scenario.parameters.payload_bytes,
            data_class: flow.priority,
            // The model's hosts hold acknowledgements while class 3 is paused, whatever the class of the flow, or never.
            ack_class: if self.scenario.parameters.acks_pass_pauses {
                0
            } else {
                3
            },
            header_bytes: self.header_bytes(),
            feedback: match self.scenario.parameters.rate_bound {
                true => CongestionFeedback::AckEcho,
                false => CongestionFeedback::None,
            },
            // The model never repeats for want of an answer.
            ack_timeout: 0,
            pacing: match self.lengths {
                Lengths::Model if self.scenario.parameters.mode.is_hpcc() => Pacing::Ns3Retimed,
                Lengths::Model => Pacing::Ns3,
                Lengths::Ethernet => Pacing::Exact,
            },
            ..QpConfig::new(number, peer)
        };
        let mut setup = QueuePairSetup::new(config, congestion, address.into());
        let dscp = flow.priority * 8;
        (setup.dscp, setup.ack_dscp) = (dscp, dscp);
        setup.dst_mac = steps.first().map(|step| {
            let next = self.scenario.topology.links[step.link].peer_of(node);
            let interface = self.scenario.topology.interface(next, step.link);
            plan::mac(next, interface.unwrap_or(1))
        });
        let host = self.host(node);
        let change = |host: &mut xoff_host::Host, _| host.create_queue_pair(setup);
        (host, self.fabric.change_host(host, &mut self.watch, change))
    }

    fn play(mut self) -> Result<Outcome, Failure> {
        let flows = &self.scenario.flows;
        let first = flows.first().map_or(0, |flow| flow.start_ns);
        let end = end_ns(self.scenario, first);
        let has_reference = |flow: &Flow| flow.reference_ns.is_some();
        let awaited = flows.iter().filter(|flow| has_reference(flow)).count();
        // Flows without a reference need not end if others have one: the model's run was shorter.
        let (mut next, mut left) = (0, if awaited > 0 { awaited } else { flows.len() });
        while left > 0 {
            let until = flows
                .get(next)
                .map_or(end, |flow| Picos::from_nanos(flow.start_ns).min(end));
            let halt = self.fabric.run(until, &mut self.watch);
            left -= self.take_completions();
            match halt {
                RunStopReason::Completion => {}
                RunStopReason::TimeReached | RunStopReason::Idle if next < flows.len() && until < end => {
                    self.fabric.advance_idle(until);
                    while flows
                        .get(next)
                        .is_some_and(|flow| Picos::from_nanos(flow.start_ns) <= until)
                    {
                        self.post(next)?;
                        next += 1;
                    }
                }
                RunStopReason::TimeReached
                | RunStopReason::Idle
                | RunStopReason::Stuck
                | RunStopReason::EventLimit => break,
            }
        }
        // What is still under way, such as the resumes that follow the last packets.
        let after = self.fabric.now().saturating_add(AFTERMATH);
        self.fabric.run(after, &mut self.watch);
        self.outcome.pauses = self.watch.pauses;
        self.outcome.dropped_frames = self.watch.dropped_frames;
        self.outcome.frame_hops = self.fabric.frame_hops();
        Ok(self.outcome)
    }

    fn post(&mut self, flow: usize) -> Result<(), Failure> {
        let request = WorkRequest {
            id: flow as u64,
            verb: Verb::Write,
            bytes: self.scenario.flows[flow].bytes,
        };
        let (host, qp) = self.senders[flow];
        let posted = self
            .fabric
            .change_host(host, &mut self.watch, |host, now| host.post(now, qp, request));
        posted.map_err(|error| {
            Failure::configuration("a flow cannot be sent")
                .at(format!("{}/flow.txt", self.scenario.name))
                .because(error)
        })
    }

    /// How many flows have ended since the last call.
    fn take_completions(&mut self) -> usize {
        let (flows, completions) = (&self.scenario.flows, &mut self.outcome.completions_ns);
        let some_have_reference = flows.iter().any(|flow| flow.reference_ns.is_some());
        let mut ended = 0;
        self.fabric.take_completions(|_, completion| {
            if let CompletionKind::Acked { id } = completion.kind {
                let at = completion.at.as_nanos();
                completions[id as usize] = Some(at.saturating_sub(flows[id as usize].start_ns));
                ended += usize::from(!some_have_reference || flows[id as usize].reference_ns.is_some());
            }
        });
        ended
    }
}

/// The latest end of a run: so many times the reference's time, or where the model stops.
fn end_ns(scenario: &Scenario, first: u64) -> Picos {
    let references = scenario
        .flows
        .iter()
        .filter_map(|flow| Some(flow.start_ns + flow.reference_ns?));
    let stop = scenario
        .parameters
        .stop_s
        .map_or(u64::MAX, |stop| (stop * 1e9) as u64)
        .min(u64::MAX / 1_000);
    let Some(reference_end) = references.max() else {
        return Picos::from_nanos(stop.max(first));
    };
    let span = reference_end
        .saturating_sub(first)
        .saturating_mul(TIMES_REFERENCE_MAX);
    Picos::from_nanos(first.saturating_add(span).max(reference_end))
}

fn dcqcn(parameters: &Parameters) -> DcqcnNicParameters {
    let dcqcn = &parameters.dcqcn;
    DcqcnNicParameters {
        alpha_interval_ns: dcqcn.alpha_interval_us * 1_000,
        g: dcqcn.gain,
        initial_alpha: 1.0,
        decrease_interval_ns: dcqcn.decrease_interval_us * 1_000,
        min_decrease_factor: 0.0,
        increase_interval_ns: dcqcn.increase_interval_us * 1_000,
        fast_recovery_times: dcqcn.fast_recovery_times,
        rate_ai_bps: dcqcn.rate_ai_bps,
        rate_hai_bps: dcqcn.rate_hai_bps,
        min_rate_bps: dcqcn.min_rate_bps,
        first_cnp_rate: 1.0,
        clamp_target: dcqcn.clamp_target,
        cut_on_nak: false,
    }
}

/// Hears pauses and drops.
#[derive(Debug)]
struct Watch {
    /// Node of each switch and host.
    switches: Vec<u32>,
    hosts: Vec<u32>,
    pauses: Vec<PauseEvent>,
    dropped_frames: u64,
}

impl Watch {
    fn new(topology: &Topology, plan: &Plan) -> Watch {
        debug_assert_eq!(topology.nodes.len(), plan.ends.len());
        Watch {
            switches: topology.switches().collect(),
            hosts: topology.hosts().collect(),
            pauses: Vec::new(),
            dropped_frames: 0,
        }
    }
}

impl Observer for Watch {
    #[inline]
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        // Pauses are the only MAC control frames here: Ethernet type 0x8808.
        if frame.prefix.get(12..14) != Some(&[0x88, 0x08]) {
            return;
        }
        let Ok(MacControl::Pfc(pfc)) = MacControl::parse(frame.prefix) else {
            return;
        };
        let (node, interface) = match to {
            LinkEnd::Switch { switch, port } => (self.switches[switch as usize], u32::from(port) + 1),
            LinkEnd::Host(host) => (self.hosts[host as usize], 1),
        };
        for (priority, quanta) in pfc.quanta.iter().enumerate() {
            if pfc.enable >> priority & 1 == 1 {
                self.pauses.push(PauseEvent {
                    time_ns: at.as_nanos(),
                    node,
                    interface,
                    pause: *quanta > 0,
                });
            }
        }
    }

    #[inline]
    fn admission_decided(&mut self, _: Picos, _: u32, _: PortId, verdict: &ForwardingResult) {
        self.dropped_frames += u64::from(matches!(verdict, ForwardingResult::Dropped(_)));
    }
}
