//! A check of congestion control before a run.
//!
//! A congestion control reacts to a signal, such as ECN marks or telemetry. The check finds flows that get no
//! signal for their congestion control. The check also finds transport options without effect.

mod paths;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use super::plan::{ActionPlan, LabPlan, TransportPlan};
use paths::{EcnMarkingPorts, FabricTopology, ShortestPaths};
use xoff_fabric::FabricPlan;
use xoff_rdma::congestion::{CongestionFeedback, CongestionSignal};
use xoff_rdma::{HOPS_MAX, Transport};
use xoff_telemetry::count_noun;
use xoff_telemetry::failure::Failure;
use xoff_workload::{Connection, Verb, Workload};

/// The reason for which the congestion control of a flow gets no signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MissingSignal {
    /// The transport is unreliable, so there are no acknowledgements.
    Unreliable,
    /// The flow consists of READ responses, which are not acknowledged.
    ReadResponses,
    /// The receiver reports ECN marks in a form that the congestion control does not support. The text is the
    /// necessary value of `feedback`.
    WrongFeedback(&'static str),
    /// The packets are not ECN-capable.
    NotEcnCapable,
    /// No queue on the shortest paths marks the packets.
    NoMarkOnPath,
    /// No queue of the lab marks the packets.
    NoMarkInLab,
}

/// The flows of one transport with the same problem.
#[derive(Clone, Copy, Debug)]
struct AffectedFlows {
    count: usize,
    /// The first of these flows, as an example for messages.
    first: Connection,
}

/// The congestion control of one transport.
struct TransportControl {
    /// The signals to which the congestion control reacts.
    signals: &'static [CongestionSignal],
    /// The maximum number of hops in the telemetry of a packet.
    hops_max: Option<u8>,
    /// The number of flows that need a signal.
    flows: usize,
    /// Whether the transport has a window in bytes or packets.
    has_window: bool,
}

impl TransportControl {
    fn new(plan: &TransportPlan) -> TransportControl {
        // The parameters of a resolved plan are valid.
        let factory = plan.congestion.factory().ok();
        TransportControl {
            signals: factory.as_ref().map_or(&[], |factory| factory.signals()),
            hops_max: factory
                .and_then(|factory| factory.telemetry_format())
                .map(|format| format.hops_max),
            flows: 0,
            has_window: plan.qp.window_packets.is_some() || plan.qp.window_bytes.is_some(),
        }
    }
}

/// Checks the flows of all jobs. Returns a warning for each setting that has no effect on some flows.
///
/// # Errors
/// Returns an error if no flow of the lab gets a signal for its congestion control.
pub(super) fn check_congestion_signals(
    plan: &LabPlan,
    fabric: &FabricPlan,
    workload: &Workload,
) -> Result<Vec<String>, Failure> {
    let mut check = SignalCheck {
        plan,
        controls: plan.transports.iter().map(TransportControl::new).collect(),
        topology: FabricTopology::new(fabric),
        marking_ports: HashMap::new(),
        paths: HashMap::new(),
        has_configure_step: plan
            .script
            .steps
            .iter()
            .any(|step| matches!(step.action, ActionPlan::Configure { .. })),
        flows_without_signal: BTreeMap::new(),
        ignored_windows: BTreeMap::new(),
        long_paths: BTreeMap::new(),
    };
    for connection in workload.connections() {
        check.add_flow(connection, workload.job_verb(connection.job));
    }
    check.fail_without_signals()?;
    Ok(check.warnings())
}

/// The state of the check.
struct SignalCheck<'a> {
    plan: &'a LabPlan,
    controls: Vec<TransportControl>,
    topology: FabricTopology<'a>,
    /// The marking ports for each DSCP.
    marking_ports: HashMap<u8, EcnMarkingPorts>,
    /// The shortest paths for each access switch of a destination and each DSCP.
    paths: HashMap<(usize, u8), ShortestPaths>,
    /// Whether a script step changes the configuration of a switch, so that switches may mark packets later.
    has_configure_step: bool,
    /// The flows without a signal for each transport and reason.
    flows_without_signal: BTreeMap<(usize, MissingSignal), AffectedFlows>,
    /// The flows that ignore the window of their transport, by transport.
    ignored_windows: BTreeMap<usize, AffectedFlows>,
    /// The longest path of each transport, as a number of switches. Only paths that are too long for the
    /// telemetry of a packet have an entry.
    long_paths: BTreeMap<usize, (u32, Connection)>,
}

impl SignalCheck<'_> {
    fn add_flow(&mut self, connection: &Connection, verb: Verb) {
        let transport = connection.transport;
        let (Some(control), Some(options)) = (
            self.controls.get_mut(transport),
            self.plan.transports.get(transport),
        ) else {
            return;
        };
        let affected = AffectedFlows {
            count: 0,
            first: *connection,
        };
        let unacknowledged = acknowledgement_problem(options, verb);
        if control.has_window && unacknowledged.is_some() {
            self.ignored_windows.entry(transport).or_insert(affected).count += 1;
        }
        if control.signals.is_empty() {
            return;
        }
        control.flows += 1;
        let (signals, hops_max) = (control.signals, control.hops_max);
        if let Some(reason) = self.missing_signal(signals, options, unacknowledged, connection) {
            self.flows_without_signal
                .entry((transport, reason))
                .or_insert(affected)
                .count += 1;
        } else if let Some(hops_max) = hops_max {
            let hops = self.hop_count(connection, options.dscp[0]);
            let longest = self
                .long_paths
                .get(&transport)
                .map_or(u32::from(hops_max), |(hops, _)| *hops);
            if hops > longest {
                self.long_paths.insert(transport, (hops, *connection));
            }
        }
    }

    /// Returns the number of switches on a shortest path of a flow. Returns 0 if no path exists.
    fn hop_count(&mut self, connection: &Connection, dscp: u8) -> u32 {
        let src = connection.src;
        self.with_shortest_paths(connection, dscp, |topology, paths| topology.hop_count(paths, src))
            .unwrap_or_default()
    }

    /// Returns whether a switch on a shortest path of a flow may mark packets of the flow.
    fn may_be_marked(&mut self, connection: &Connection, dscp: u8) -> bool {
        let topology = &self.topology;
        let &Connection { src, dst, .. } = connection;
        let ports = self
            .marking_ports
            .entry(dscp)
            .or_insert_with(|| topology.marking_ports(dscp));
        // All paths have the same last port. Its queues usually mark, and then no search is necessary.
        if topology.may_last_port_mark(dst, ports) {
            return topology.is_connected(src, dst);
        }
        self.with_shortest_paths(connection, dscp, |topology, paths| {
            topology.may_be_marked(paths, src)
        })
        .unwrap_or_default()
    }

    /// Calls `read` with the shortest paths to the switch of the destination of a flow. Returns `None` if the
    /// destination has no link to a switch.
    fn with_shortest_paths<T>(
        &mut self,
        connection: &Connection,
        dscp: u8,
        read: impl FnOnce(&FabricTopology, &ShortestPaths) -> T,
    ) -> Option<T> {
        let topology = &self.topology;
        let last = topology.access_switch(connection.dst)?;
        let ports = self
            .marking_ports
            .entry(dscp)
            .or_insert_with(|| topology.marking_ports(dscp));
        let paths = self
            .paths
            .entry((last, dscp))
            .or_insert_with(|| topology.shortest_paths_to(last, ports));
        Some(read(topology, paths))
    }

    /// Returns the reason for which a flow gets no congestion signal. Returns `None` if the flow can get
    /// a signal.
    fn missing_signal(
        &mut self,
        signals: &[CongestionSignal],
        options: &TransportPlan,
        unacknowledged: Option<MissingSignal>,
        connection: &Connection,
    ) -> Option<MissingSignal> {
        let mut selected: Option<MissingSignal> = None;
        for signal in signals {
            let reason = match signal {
                CongestionSignal::Acknowledgement
                | CongestionSignal::RoundTrip
                | CongestionSignal::Telemetry => unacknowledged,
                CongestionSignal::Cnp if !matches!(options.qp.feedback, CongestionFeedback::Cnp { .. }) => {
                    Some(MissingSignal::WrongFeedback("cnp"))
                }
                CongestionSignal::MarkEcho if options.qp.feedback != CongestionFeedback::AckEcho => {
                    Some(MissingSignal::WrongFeedback("ack-echo"))
                }
                CongestionSignal::MarkEcho if unacknowledged.is_some() => unacknowledged,
                CongestionSignal::Cnp | CongestionSignal::MarkEcho => self.missing_mark(options, connection),
            };
            // The first reason is reported. A wrong feedback is reported only if no other reason exists.
            match (reason, selected) {
                (None, _) => return None,
                (Some(_), None) => selected = reason,
                (Some(new), Some(MissingSignal::WrongFeedback(_)))
                    if !matches!(new, MissingSignal::WrongFeedback(_)) =>
                {
                    selected = reason
                }
                (Some(_), Some(_)) => {}
            }
        }
        selected
    }

    /// Returns the reason for which no switch marks the packets of a flow. Returns `None` if a switch may
    /// mark them.
    fn missing_mark(&mut self, options: &TransportPlan, connection: &Connection) -> Option<MissingSignal> {
        if !options.ecn_capable {
            return Some(MissingSignal::NotEcnCapable);
        }
        let dscp = options.dscp[0];
        if self.has_configure_step {
            return None;
        }
        let is_marked = self.may_be_marked(connection, dscp);
        match self.marking_ports.get(&dscp) {
            _ if is_marked => None,
            Some(ports) if ports.has_any_ecn_marking_port() => Some(MissingSignal::NoMarkOnPath),
            _ => Some(MissingSignal::NoMarkInLab),
        }
    }

    /// Returns an error if flows need a signal and none of them gets a signal.
    fn fail_without_signals(&self) -> Result<(), Failure> {
        let flows: usize = self.controls.iter().map(|control| control.flows).sum();
        let flows_without: usize = self
            .flows_without_signal
            .values()
            .map(|affected| affected.count)
            .sum();
        // With routes from the lab file, a flow can take a longer path.
        let is_certain = self.topology.takes_shortest_paths(self.plan)
            || self
                .flows_without_signal
                .keys()
                .all(|(_, reason)| *reason != MissingSignal::NoMarkOnPath);
        if flows == 0 || flows_without < flows || !is_certain {
            return Ok(());
        }
        let Some((&(transport, reason), affected)) = self.flows_without_signal.iter().next() else {
            return Ok(());
        };
        let options = &self.plan.transports[transport];
        let what = format!(
            "congestion control {} of transport {} gets no signal on any flow, so it would send as `none` does",
            options.congestion.algorithm, options.name
        );
        Err(Failure::configuration(what)
            .at(format!(
                "{}, {}",
                self.plan.name,
                self.describe_flow(&affected.first)
            ))
            .because(self.describe_reason(transport, reason))
            .fix(self.suggest_fix(transport, reason)))
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (&(transport, reason), affected) in &self.flows_without_signal {
            let options = &self.plan.transports[transport];
            warnings.push(format!(
                "congestion control {} of transport {} has no effect on {} of {} ({}), so the flows send as with `none`: {}; {}",
                options.congestion.algorithm,
                options.name,
                affected.count,
                count_noun(self.controls[transport].flows as u64, "flow"),
                self.describe_flow(&affected.first),
                self.describe_reason(transport, reason),
                self.suggest_fix(transport, reason)
            ));
        }
        for (&transport, affected) in &self.ignored_windows {
            warnings.push(format!(
                "the window of transport {} has no effect on {} ({}): UC, UD and READ responses have no \
                 acknowledgements that would open a window; use `transport: rc` and `verb: write` or `send`",
                self.plan.transports[transport].name,
                count_noun(affected.count as u64, "flow"),
                self.describe_flow(&affected.first)
            ));
        }
        for (&transport, (hops, connection)) in &self.long_paths {
            warnings.push(self.long_path_warning(transport, *hops, connection));
        }
        for (transport, control) in self.controls.iter().enumerate() {
            warnings.extend(self.acknowledgement_interval_warning(transport, control));
        }
        warnings
    }

    /// Returns the warning for a path with too many switches for the telemetry of a packet.
    fn long_path_warning(&self, transport: usize, hops: u32, connection: &Connection) -> String {
        let options = &self.plan.transports[transport];
        let hops_max = self.controls[transport].hops_max.unwrap_or_default();
        let fix = match hops as usize {
            0..=HOPS_MAX => format!(
                "write `congestion: {{name: {}, telemetry_hops: {hops}}}`",
                options.congestion.algorithm
            ),
            _ => format!("`telemetry_hops` may be {HOPS_MAX} at most, so use shorter paths"),
        };
        format!(
            "packets of transport {} have room for the telemetry of {}, and {} passes {}: queues behind the \
             first {hops_max} are not controlled; {fix}",
            options.name,
            count_noun(u64::from(hops_max), "hop"),
            self.describe_flow(connection),
            count_noun(u64::from(hops), "switch")
        )
    }

    /// Returns a warning if the congestion control needs an acknowledgement of each packet, but an
    /// acknowledgement covers several packets.
    fn acknowledgement_interval_warning(
        &self,
        transport: usize,
        control: &TransportControl,
    ) -> Option<String> {
        let options = &self.plan.transports[transport];
        let ack_every = options.qp.ack_every;
        let uses_cnps = matches!(options.qp.feedback, CongestionFeedback::Cnp { .. })
            && control.signals.contains(&CongestionSignal::Cnp);
        let needs_each_packet = |signal: &CongestionSignal| {
            !matches!(signal, CongestionSignal::Acknowledgement | CongestionSignal::Cnp)
        };
        if ack_every < 2 || control.flows == 0 || uses_cnps || !control.signals.iter().any(needs_each_packet)
        {
            return None;
        }
        Some(format!(
            "congestion control {} of transport {} needs an acknowledgement of each packet, and `ack_every` is {ack_every}: it \
             reacts later and to fewer samples; write `ack_every: 1`, or expect longer queues",
            options.congestion.algorithm, options.name
        ))
    }

    /// Returns the job and the hosts of a flow for a message.
    fn describe_flow(&self, connection: &Connection) -> String {
        let host = |index: u32| {
            self.plan
                .hosts
                .get(index as usize)
                .map_or("?", |host| host.name.as_str())
        };
        let job = self
            .plan
            .workload
            .jobs
            .jobs
            .get(connection.job)
            .map_or("?", |job| job.name.as_str());
        format!("job {job}, {} to {}", host(connection.src), host(connection.dst))
    }

    /// Describes why the flows of a transport get no signal.
    fn describe_reason(&self, transport: usize, reason: MissingSignal) -> String {
        let options = &self.plan.transports[transport];
        let needs: Vec<&str> = self.controls[transport]
            .signals
            .iter()
            .map(|signal| signal.description())
            .collect();
        let why = match reason {
            MissingSignal::Unreliable => "UC and UD have no acknowledgements".to_owned(),
            MissingSignal::ReadResponses => "READ responses are not acknowledged".to_owned(),
            MissingSignal::WrongFeedback(_) => {
                format!("receivers send {}", describe_feedback(options.qp.feedback))
            }
            MissingSignal::NotEcnCapable => "`ecn: false` keeps switches from marking its packets".to_owned(),
            MissingSignal::NoMarkOnPath => {
                format!("no queue on their shortest paths marks DSCP {}", options.dscp[0])
            }
            MissingSignal::NoMarkInLab => format!("no queue of a switch marks DSCP {}", options.dscp[0]),
        };
        format!("it reacts to {}, and {why}", needs.join(" or "))
    }

    /// Suggests a change that gives the flows of a transport a signal.
    fn suggest_fix(&self, transport: usize, reason: MissingSignal) -> String {
        let acts_on_cnps = self.controls[transport].signals.contains(&CongestionSignal::Cnp);
        match reason {
            MissingSignal::Unreliable | MissingSignal::ReadResponses if acts_on_cnps => "write `feedback: cnp`".to_owned(),
            MissingSignal::Unreliable => "use `transport: rc`, or dcqcn or dcqcn-nic, which act on CNPs".to_owned(),
            MissingSignal::ReadResponses => {
                "use `verb: write` or `send`, or dcqcn or dcqcn-nic, which act on CNPs".to_owned()
            }
            MissingSignal::WrongFeedback(value) => format!("write `feedback: {value}`, or leave `feedback` out"),
            MissingSignal::NotEcnCapable => "leave `ecn` out, or write `congestion: none`".to_owned(),
            MissingSignal::NoMarkOnPath | MissingSignal::NoMarkInLab => {
                "give their queues a WRED_PROFILE with `ecn: ecn_all` and thresholds that the buffer can reach".to_owned()
            }
        }
    }
}

/// Returns the reason for which the sender of a flow gets no acknowledgements. Returns `None` if the sender
/// gets acknowledgements.
fn acknowledgement_problem(options: &TransportPlan, verb: Verb) -> Option<MissingSignal> {
    match (options.qp.transport, verb) {
        (Transport::Uc | Transport::Ud, _) => Some(MissingSignal::Unreliable),
        (Transport::Rc, Verb::Read) => Some(MissingSignal::ReadResponses),
        (Transport::Rc, Verb::Send | Verb::Write) => None,
    }
}

fn describe_feedback(feedback: CongestionFeedback) -> &'static str {
    match feedback {
        CongestionFeedback::None => "none (`feedback: none`)",
        CongestionFeedback::Cnp { .. } => "CNPs instead (`feedback: cnp`)",
        CongestionFeedback::AckEcho => "marks in acknowledgements instead (`feedback: ack-echo`)",
    }
}
