//! Runs the flows of a scenario through its fabric.

use xoff_dataplane::{ForwardingResult, Picos, PortId};
use xoff_wire::mac_control::MacControl;

use super::model_congestion::{FlowWindow, Ns3CongestionControl, WindowLimitedControl};
use super::plan::{self, FrameLengths, NodeIndex, OraclePlan};
use xoff_fabric::{Fabric, FrameView, LinkEnd, Observer, RunStopReason};
use xoff_host::QueuePairSetup;
use xoff_lab::ns3::{
    CongestionMode, Flow, HostPairRttAndBdpTable, Ns3ModelParameters, PauseEvent, Scenario, Topology,
};
use xoff_rdma::congestion::{
    CongestionControl, CongestionFeedback, ConstantRate, ConstantRateParameters, ControllerContext, DcqcnNic,
    DcqcnNicParameters,
};
use xoff_rdma::{CompletionKind, Pacing, QpConfig, QpIndex, Verb, WorkRequest};
use xoff_telemetry::failure::Failure;

/// A run ends at the latest after this multiple of the duration of the reference.
const REFERENCE_TIME_FACTOR_MAX: u64 = 10;
/// Model time for which a run continues after its last completion.
const DRAIN_TIME: Picos = Picos::from_millis(1);
/// Bytes that a RoCEv2 data frame adds to its payload in [`FrameLengths::Ethernet`], without the overhead of
/// the link.
const ROCE_HEADER_BYTES: u32 = 62;
/// Smallest queue pair number. Lower numbers are reserved (IBTA section 3.5.3).
const FIRST_QUEUE_PAIR_NUMBER: u32 = 0x10;

/// The results of one run of a scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct OracleRunResult {
    /// For each flow, the time from its start to its last acknowledgement in nanoseconds, or `None` for a
    /// flow that did not end.
    pub(super) completions_ns: Vec<Option<u64>>,
    /// Pauses and resumes in the order in which nodes received them.
    pub(super) pauses: Vec<PauseEvent>,
    /// Number of frames that switches dropped.
    pub(super) dropped_frames: u64,
    /// Number of frame-hops: each frame counts once for each link that it passed.
    pub(super) frame_hops: u64,
}

/// Runs a scenario with the given frame lengths.
///
/// # Errors
/// The scenario does not form a valid fabric.
pub(super) fn run_scenario(
    scenario: &Scenario,
    lengths: FrameLengths,
    seed: u64,
) -> Result<OracleRunResult, Failure> {
    let plan = plan::plan_fabric(scenario, lengths, seed)?;
    let mut fabric = Fabric::new(plan.fabric.clone(), seed).map_err(|error| {
        Failure::configuration("the files do not form a valid fabric")
            .at(scenario.name.clone())
            .because(error)
    })?;
    // The model counts whole nanoseconds, so frames of several hosts can arrive at the same time. The order
    // of the events then decides which host is paused first.
    fabric.order_by_insertion();
    let mut run = ScenarioRun {
        scenario,
        plan: &plan,
        lengths,
        seed,
        fabric,
        observer: PauseObserver::new(&scenario.topology, &plan),
        senders: Vec::new(),
        timings: HostPairRttAndBdpTable::new(&scenario.topology, scenario.parameters.payload_bytes),
        result: OracleRunResult {
            completions_ns: vec![None; scenario.flows.len()],
            ..OracleRunResult::default()
        },
    };
    run.create_queue_pairs();
    run.run_flows()
}

struct ScenarioRun<'a> {
    scenario: &'a Scenario,
    plan: &'a OraclePlan,
    lengths: FrameLengths,
    seed: u64,
    fabric: Fabric,
    observer: PauseObserver,
    /// Host and queue pair that send each flow.
    senders: Vec<(usize, QpIndex)>,
    timings: HostPairRttAndBdpTable<'a>,
    result: OracleRunResult,
}

impl ScenarioRun<'_> {
    fn host_index(&self, node: u32) -> usize {
        match self.plan.node_indices[node as usize] {
            NodeIndex::Host(host) => host as usize,
            NodeIndex::Switch(_) => unreachable!("flows are between hosts: the reader has checked it"),
        }
    }

    /// Creates a queue pair for each flow at both hosts.
    fn create_queue_pairs(&mut self) {
        for (index, flow) in self.scenario.flows.iter().enumerate() {
            let number = FIRST_QUEUE_PAIR_NUMBER + 2 * index as u32;
            let context = self.controller_context(flow, index);
            let sender = self.sender_congestion_control(&context, index);
            let receiver = ConstantRate::new(ConstantRateParameters::default(), &context);
            self.create_queue_pair(index, flow.dst, number + 1, number, Box::new(receiver));
            let created = self.create_queue_pair(index, flow.src, number, number + 1, sender);
            self.senders.push(created);
        }
    }

    fn controller_context(&self, flow: &Flow, flow_index: usize) -> ControllerContext {
        let topology = &self.scenario.topology;
        let paths = &self.plan.paths[flow_index];
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
            FrameLengths::Model => self.scenario.parameters.header_bytes(),
            FrameLengths::Ethernet => ROCE_HEADER_BYTES,
        }
    }

    fn sender_congestion_control(
        &mut self,
        context: &ControllerContext,
        flow_index: usize,
    ) -> Box<dyn CongestionControl> {
        let parameters = &self.scenario.parameters;
        let notification_delay = self.plan.paths[flow_index]
            .acks
            .last()
            .map_or(Picos::ZERO, |step| {
                let link = &self.scenario.topology.links[step.link];
                let transmission = self
                    .lengths
                    .timing(link.speed_mbps)
                    .duration(parameters.ack_bytes());
                Picos::from_nanos(link.delay_ns) + transmission
            });
        let scenario = self.scenario;
        let window = self.flow_window(context, &scenario.flows[flow_index]);
        let control: Box<dyn CongestionControl> = match (parameters.mode, parameters.rate_bound) {
            (CongestionMode::Dcqcn, true) => Box::new(
                DcqcnNic::new(dcqcn_parameters(parameters), context)
                    .with_notification_delay(notification_delay),
            ),
            (CongestionMode::Dcqcn, false) => {
                Box::new(ConstantRate::new(ConstantRateParameters::default(), context))
            }
            _ => {
                return Box::new(Ns3CongestionControl::new(
                    parameters,
                    window,
                    context.seed ^ flow_index as u64,
                ));
            }
        };
        match window.bytes {
            None => control,
            Some(_) => Box::new(WindowLimitedControl { control, window }),
        }
    }

    /// Returns the window and the round-trip time of a flow in the model.
    fn flow_window(&mut self, context: &ControllerContext, flow: &Flow) -> FlowWindow {
        let parameters = &self.scenario.parameters;
        let timing = self
            .timings
            .pair_timing(flow.src, flow.dst, parameters.window.of_largest_pair);
        let bytes = timing.window_bytes;
        FlowWindow {
            bytes: (parameters.window.is_used && bytes > 0).then_some(bytes),
            follows_rate: parameters.window.follows_rate,
            base_rtt_ns: timing.rtt_ns,
            rate_bps_max: context.line_rate_bps,
        }
    }

    fn create_queue_pair(
        &mut self,
        flow_index: usize,
        node: u32,
        number: u32,
        peer: u32,
        congestion: Box<dyn CongestionControl>,
    ) -> (usize, QpIndex) {
        let (flow, paths) = (&self.scenario.flows[flow_index], &self.plan.paths[flow_index]);
        let [data_address, ack_address] = plan::flow_addresses(flow_index);
        let (steps, address) = match node == flow.src {
            true => (&paths.data, data_address),
            false => (&paths.acks, ack_address),
        };
        let config = QpConfig {
            mtu: self.scenario.parameters.payload_bytes,
            data_class: flow.priority,
            // If `acks_pass_pauses` is not set, hosts of the model send no acknowledgements while class 3 is
            // paused. The class of the flow does not matter.
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
            // The model has no retransmission timeout.
            ack_timeout: 0,
            pacing: match self.lengths {
                FrameLengths::Model if self.scenario.parameters.mode.is_hpcc() => Pacing::Ns3Retimed,
                FrameLengths::Model => Pacing::Ns3,
                FrameLengths::Ethernet => Pacing::Exact,
            },
            ..QpConfig::new(number, peer)
        };
        let mut setup = QueuePairSetup::new(config, congestion, address.into());
        let dscp = flow.priority * 8;
        (setup.dscp, setup.ack_dscp) = (dscp, dscp);
        setup.dst_mac = steps.first().map(|step| {
            let next = self.scenario.topology.links[step.link].peer_of(node);
            let interface = self.scenario.topology.interface_number(next, step.link);
            plan::interface_mac(next, interface.unwrap_or(1))
        });
        let host = self.host_index(node);
        let change = |host: &mut xoff_host::Host, _| host.create_queue_pair(setup);
        (host, self.fabric.change_host(host, &mut self.observer, change))
    }

    fn run_flows(mut self) -> Result<OracleRunResult, Failure> {
        let flows = &self.scenario.flows;
        let first = flows.first().map_or(0, |flow| flow.start_ns);
        let end = latest_end(self.scenario, first);
        let has_reference = |flow: &Flow| flow.reference_ns.is_some();
        let awaited = flows.iter().filter(|flow| has_reference(flow)).count();
        // If some flows have a reference, the run waits only for these flows, because the run of the model
        // was shorter.
        let (mut next, mut left) = (0, if awaited > 0 { awaited } else { flows.len() });
        while left > 0 {
            let until = flows
                .get(next)
                .map_or(end, |flow| Picos::from_nanos(flow.start_ns).min(end));
            let stop_reason = self.fabric.run(until, &mut self.observer);
            left -= self.record_completions();
            match stop_reason {
                RunStopReason::Completion => {}
                RunStopReason::TimeReached | RunStopReason::Idle if next < flows.len() && until < end => {
                    self.fabric.advance_idle(until);
                    while flows
                        .get(next)
                        .is_some_and(|flow| Picos::from_nanos(flow.start_ns) <= until)
                    {
                        self.post_flow(next)?;
                        next += 1;
                    }
                }
                RunStopReason::TimeReached
                | RunStopReason::Idle
                | RunStopReason::Stuck
                | RunStopReason::EventLimit
                | RunStopReason::FrameMemoryLimit => break,
            }
        }
        // Frames in flight must still arrive, such as the resumes after the last packets.
        let after = self.fabric.now().saturating_add(DRAIN_TIME);
        self.fabric.run(after, &mut self.observer);
        self.result.pauses = self.observer.pauses;
        self.result.dropped_frames = self.observer.dropped_frames;
        self.result.frame_hops = self.fabric.frame_hops();
        Ok(self.result)
    }

    fn post_flow(&mut self, flow_index: usize) -> Result<(), Failure> {
        let request = WorkRequest {
            id: flow_index as u64,
            verb: Verb::Write,
            bytes: self.scenario.flows[flow_index].bytes,
        };
        let (host, qp) = self.senders[flow_index];
        let posted = self
            .fabric
            .change_host(host, &mut self.observer, |host, now| host.post(now, qp, request));
        posted.map_err(|error| {
            Failure::configuration("a flow cannot be sent")
                .at(format!("{}/flow.txt", self.scenario.name))
                .because(error)
        })
    }

    /// Records new completions and returns the number of awaited flows among them.
    fn record_completions(&mut self) -> usize {
        let (flows, completions) = (&self.scenario.flows, &mut self.result.completions_ns);
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

/// Returns the time at which a run ends even if flows are incomplete. If the scenario contains results of
/// the ns-3 model, this is a multiple of the duration of the model's run. Otherwise, it is the stop time of
/// the model.
fn latest_end(scenario: &Scenario, first_start_ns: u64) -> Picos {
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
        return Picos::from_nanos(stop.max(first_start_ns));
    };
    let span = reference_end
        .saturating_sub(first_start_ns)
        .saturating_mul(REFERENCE_TIME_FACTOR_MAX);
    Picos::from_nanos(first_start_ns.saturating_add(span).max(reference_end))
}

fn dcqcn_parameters(parameters: &Ns3ModelParameters) -> DcqcnNicParameters {
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

/// Records pauses and counts drops.
#[derive(Debug)]
struct PauseObserver {
    /// Node numbers of the switches.
    switches: Vec<u32>,
    /// Node numbers of the hosts.
    hosts: Vec<u32>,
    pauses: Vec<PauseEvent>,
    dropped_frames: u64,
}

impl PauseObserver {
    fn new(topology: &Topology, plan: &OraclePlan) -> PauseObserver {
        debug_assert_eq!(topology.nodes.len(), plan.node_indices.len());
        PauseObserver {
            switches: topology.switches().collect(),
            hosts: topology.hosts().collect(),
            pauses: Vec::new(),
            dropped_frames: 0,
        }
    }
}

impl Observer for PauseObserver {
    #[inline]
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        // Pauses are the only MAC control frames of a run (ethertype 0x8808).
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
                    is_pause: *quanta > 0,
                });
            }
        }
    }

    #[inline]
    fn admission_decided(&mut self, _: Picos, _: u32, _: PortId, result: &ForwardingResult) {
        self.dropped_frames += u64::from(matches!(result, ForwardingResult::Dropped(_)));
    }
}
