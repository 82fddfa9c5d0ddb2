//! A check before a run: flows whose congestion control gets none of the signals that it acts on, and settings of transports
//! that have no effect.

mod paths;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use super::plan::{ActionPlan, LabPlan, TransportPlan};
use paths::{MarkingPorts, PathsTo, Topology};
use xoff_fabric::FabricPlan;
use xoff_rdma::congestion::{CongestionFeedback, CongestionSignal};
use xoff_rdma::{HOPS_MAX, Transport};
use xoff_telemetry::failure::Failure;
use xoff_workload::{Connection, Verb, Workload};

/// Why a flow gets none of the signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    /// An unreliable service has no acknowledgements.
    Unreliable,
    /// READ responses are not acknowledged.
    ReadResponses,
    /// The receiver does not report marks in the form that the control acts on, which is this value of `feedback`.
    CongestionFeedback(&'static str),
    /// Switches may not mark the packets.
    NotEcnCapable,
    /// No queue on the shortest paths marks them.
    NoMarkOnPath,
    /// No queue of the lab marks them.
    NoMarkInLab,
}

/// Flows of one transport with the same gap.
#[derive(Clone, Copy, Debug)]
struct Affected {
    count: usize,
    first: Connection,
}

/// Per transport: what its flows depend on.
struct Control {
    signals: &'static [CongestionSignal],
    hops_max: Option<u8>,
    /// Flows that need a signal.
    flows: usize,
    /// Bytes or packets of a window are configured.
    has_window: bool,
}

impl Control {
    fn new(plan: &TransportPlan) -> Control {
        // Parameters of a checked plan are good.
        let factory = plan.congestion.factory().ok();
        Control {
            signals: factory.as_ref().map_or(&[], |factory| factory.signals()),
            hops_max: factory
                .and_then(|factory| factory.telemetry_format())
                .map(|format| format.hops_max),
            flows: 0,
            has_window: plan.qp.window_packets.is_some() || plan.qp.window_bytes.is_some(),
        }
    }
}

/// Checks the flows of a lab's jobs. One line for each setting that has no effect on some of them.
///
/// # Errors
/// No flow of the lab gets a signal that its congestion control acts on.
pub(super) fn check(
    plan: &LabPlan,
    fabric: &FabricPlan,
    workload: &Workload,
) -> Result<Vec<String>, Failure> {
    let mut check = Check {
        plan,
        controls: plan.transports.iter().map(Control::new).collect(),
        topology: Topology::new(fabric),
        marking_ports: HashMap::new(),
        paths: HashMap::new(),
        configured_later: plan
            .script
            .steps
            .iter()
            .any(|step| matches!(step.action, ActionPlan::Configure { .. })),
        gaps: BTreeMap::new(),
        windows: BTreeMap::new(),
        long_paths: BTreeMap::new(),
    };
    for connection in workload.connections() {
        check.add(connection, workload.job_verb(connection.job));
    }
    check.refusal()?;
    Ok(check.warnings())
}

struct Check<'a> {
    plan: &'a LabPlan,
    controls: Vec<Control>,
    topology: Topology<'a>,
    /// By DSCP.
    marking_ports: HashMap<u8, MarkingPorts>,
    /// By destination and DSCP.
    paths: HashMap<(u32, u8), PathsTo>,
    /// The script gives switches another configuration, so that they may mark later.
    configured_later: bool,
    /// By transport.
    gaps: BTreeMap<(usize, Gap), Affected>,
    /// Flows that ignore the window of their transport.
    windows: BTreeMap<usize, Affected>,
    /// Longest path of each transport whose packets have no room for its telemetry, in switches.
    long_paths: BTreeMap<usize, (u32, Connection)>,
}

impl Check<'_> {
    fn add(&mut self, connection: &Connection, verb: Verb) {
        let transport = connection.transport;
        let (Some(control), Some(options)) = (
            self.controls.get_mut(transport),
            self.plan.transports.get(transport),
        ) else {
            return;
        };
        let affected = Affected {
            count: 0,
            first: *connection,
        };
        let unacknowledged = unacknowledged(options, verb);
        if control.has_window && unacknowledged.is_some() {
            self.windows.entry(transport).or_insert(affected).count += 1;
        }
        if control.signals.is_empty() {
            return;
        }
        control.flows += 1;
        let (signals, hops_max) = (control.signals, control.hops_max);
        if let Some(gap) = self.gap(signals, options, unacknowledged, connection) {
            self.gaps.entry((transport, gap)).or_insert(affected).count += 1;
        } else if let Some(hops_max) = hops_max {
            let (hops, _) = self.path(connection, options.dscp[0]);
            let longest = self
                .long_paths
                .get(&transport)
                .map_or(u32::from(hops_max), |(hops, _)| *hops);
            if hops > longest {
                self.long_paths.insert(transport, (hops, *connection));
            }
        }
    }

    /// Switches that a flow passes on a shortest path, and whether one of them may mark it.
    fn path(&mut self, connection: &Connection, dscp: u8) -> (u32, bool) {
        let topology = &self.topology;
        let ports = self
            .marking_ports
            .entry(dscp)
            .or_insert_with(|| topology.marking_ports(dscp));
        let paths = self
            .paths
            .entry((connection.dst, dscp))
            .or_insert_with(|| topology.paths_to(connection.dst, ports));
        (
            topology.hops(paths, connection.src),
            topology.may_be_marked(paths, connection.src),
        )
    }

    /// Why a flow gets none of these signals; `None`: it may get one.
    fn gap(
        &mut self,
        signals: &[CongestionSignal],
        options: &TransportPlan,
        unacknowledged: Option<Gap>,
        connection: &Connection,
    ) -> Option<Gap> {
        let mut found: Option<Gap> = None;
        for signal in signals {
            let gap = match signal {
                CongestionSignal::Acknowledgement
                | CongestionSignal::RoundTrip
                | CongestionSignal::Telemetry => unacknowledged,
                CongestionSignal::Cnp if !matches!(options.qp.feedback, CongestionFeedback::Cnp { .. }) => {
                    Some(Gap::CongestionFeedback("cnp"))
                }
                CongestionSignal::MarkEcho if options.qp.feedback != CongestionFeedback::AckEcho => {
                    Some(Gap::CongestionFeedback("ack-echo"))
                }
                CongestionSignal::MarkEcho if unacknowledged.is_some() => unacknowledged,
                CongestionSignal::Cnp | CongestionSignal::MarkEcho => self.mark_gap(options, connection),
            };
            // Of several gaps, that of the configured feedback says most, and then the first one.
            match (gap, found) {
                (None, _) => return None,
                (Some(_), None) => found = gap,
                (Some(of), Some(Gap::CongestionFeedback(_))) if !matches!(of, Gap::CongestionFeedback(_)) => {
                    found = gap
                }
                (Some(_), Some(_)) => {}
            }
        }
        found
    }

    fn mark_gap(&mut self, options: &TransportPlan, connection: &Connection) -> Option<Gap> {
        if !options.ecn_capable {
            return Some(Gap::NotEcnCapable);
        }
        let dscp = options.dscp[0];
        if self.configured_later {
            return None;
        }
        let (_, is_marked) = self.path(connection, dscp);
        match self.marking_ports.get(&dscp) {
            _ if is_marked => None,
            Some(ports) if ports.any() => Some(Gap::NoMarkOnPath),
            _ => Some(Gap::NoMarkInLab),
        }
    }

    fn refusal(&self) -> Result<(), Failure> {
        let flows: usize = self.controls.iter().map(|control| control.flows).sum();
        let without: usize = self.gaps.values().map(|affected| affected.count).sum();
        // Where routes are the user's own, a flow may take another path than a shortest one.
        let certain = self.topology.takes_shortest_paths(self.plan)
            || self.gaps.keys().all(|(_, gap)| *gap != Gap::NoMarkOnPath);
        if flows == 0 || without < flows || !certain {
            return Ok(());
        }
        let Some((&(transport, gap), affected)) = self.gaps.iter().next() else {
            return Ok(());
        };
        let options = &self.plan.transports[transport];
        let what = format!(
            "congestion control {} of transport {} gets no signal on any flow, so it would send as `none` does",
            options.congestion.algorithm, options.name
        );
        Err(Failure::configuration(what)
            .at(format!("{}, {}", self.plan.name, self.flow(&affected.first)))
            .because(self.reason(transport, gap))
            .fix(self.fix(transport, gap)))
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (&(transport, gap), affected) in &self.gaps {
            let options = &self.plan.transports[transport];
            warnings.push(format!(
                "congestion control {} of transport {} has no effect on {} of {} flows ({} among them), which send as with `none`: \
                 {}; {}",
                options.congestion.algorithm,
                options.name,
                affected.count,
                self.controls[transport].flows,
                self.flow(&affected.first),
                self.reason(transport, gap),
                self.fix(transport, gap)
            ));
        }
        for (&transport, affected) in &self.windows {
            warnings.push(format!(
                "the window of transport {} has no effect on {} flows ({} among them): UC, UD and READ responses have no \
                 acknowledgements that would open a window; use `transport: rc` and `verb: write` or `send`",
                self.plan.transports[transport].name,
                affected.count,
                self.flow(&affected.first)
            ));
        }
        for (&transport, (hops, connection)) in &self.long_paths {
            warnings.push(self.long_path(transport, *hops, connection));
        }
        for (transport, control) in self.controls.iter().enumerate() {
            warnings.extend(self.rare_acknowledgements(transport, control));
        }
        warnings
    }

    fn long_path(&self, transport: usize, hops: u32, connection: &Connection) -> String {
        let options = &self.plan.transports[transport];
        let room = self.controls[transport].hops_max.unwrap_or_default();
        let fix = match hops as usize {
            0..=HOPS_MAX => format!(
                "write `congestion: {{name: {}, telemetry_hops: {hops}}}`",
                options.congestion.algorithm
            ),
            _ => format!("`telemetry_hops` may be {HOPS_MAX} at most, so use shorter paths"),
        };
        format!(
            "packets of transport {} have room for the telemetry of {room} hops, and {} passes {hops} switches: queues behind the \
             first {room} are not controlled; {fix}",
            options.name,
            self.flow(connection)
        )
    }

    /// A control that acts on acknowledgements, where one stands for several packets.
    fn rare_acknowledgements(&self, transport: usize, control: &Control) -> Option<String> {
        let options = &self.plan.transports[transport];
        let ack_every = options.qp.ack_every;
        let by_cnps = matches!(options.qp.feedback, CongestionFeedback::Cnp { .. })
            && control.signals.contains(&CongestionSignal::Cnp);
        let per_packet = |signal: &CongestionSignal| {
            !matches!(signal, CongestionSignal::Acknowledgement | CongestionSignal::Cnp)
        };
        if ack_every < 2 || control.flows == 0 || by_cnps || !control.signals.iter().any(per_packet) {
            return None;
        }
        Some(format!(
            "congestion control {} of transport {} is made for an acknowledgement of each packet, and `ack_every` is {ack_every}: it \
             acts later and on fewer samples; write `ack_every: 1`, or expect longer queues",
            options.congestion.algorithm, options.name
        ))
    }

    /// A flow in a message.
    fn flow(&self, connection: &Connection) -> String {
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

    fn reason(&self, transport: usize, gap: Gap) -> String {
        let options = &self.plan.transports[transport];
        let needs: Vec<&str> = self.controls[transport]
            .signals
            .iter()
            .map(|signal| signal.description())
            .collect();
        let why = match gap {
            Gap::Unreliable => "UC and UD have no acknowledgements".to_owned(),
            Gap::ReadResponses => "READ responses are not acknowledged".to_owned(),
            Gap::CongestionFeedback(_) => format!("receivers send {}", feedback_name(options.qp.feedback)),
            Gap::NotEcnCapable => "`ecn: false` keeps switches from marking its packets".to_owned(),
            Gap::NoMarkOnPath => format!("no queue on their shortest paths marks DSCP {}", options.dscp[0]),
            Gap::NoMarkInLab => format!("no queue of a switch marks DSCP {}", options.dscp[0]),
        };
        format!("it acts on {}, and {why}", needs.join(" or "))
    }

    fn fix(&self, transport: usize, gap: Gap) -> String {
        let acts_on_cnps = self.controls[transport].signals.contains(&CongestionSignal::Cnp);
        match gap {
            Gap::Unreliable | Gap::ReadResponses if acts_on_cnps => "write `feedback: cnp`".to_owned(),
            Gap::Unreliable => "use `transport: rc`, or dcqcn or dcqcn-nic, which act on CNPs".to_owned(),
            Gap::ReadResponses => {
                "use `verb: write` or `send`, or dcqcn or dcqcn-nic, which act on CNPs".to_owned()
            }
            Gap::CongestionFeedback(value) => format!("write `feedback: {value}`, or leave `feedback` out"),
            Gap::NotEcnCapable => "leave `ecn` out, or write `congestion: none`".to_owned(),
            Gap::NoMarkOnPath | Gap::NoMarkInLab => {
                "give their queues a WRED_PROFILE with `ecn: ecn_all` and thresholds that the buffer can reach".to_owned()
            }
        }
    }
}

/// Why the data of a flow is not acknowledged to its sender, if it is not.
fn unacknowledged(options: &TransportPlan, verb: Verb) -> Option<Gap> {
    match (options.qp.transport, verb) {
        (Transport::Uc | Transport::Ud, _) => Some(Gap::Unreliable),
        (Transport::Rc, Verb::Read) => Some(Gap::ReadResponses),
        (Transport::Rc, Verb::Send | Verb::Write) => None,
    }
}

fn feedback_name(feedback: CongestionFeedback) -> &'static str {
    match feedback {
        CongestionFeedback::None => "none (`feedback: none`)",
        CongestionFeedback::Cnp { .. } => "CNPs instead (`feedback: cnp`)",
        CongestionFeedback::AckEcho => "marks in acknowledgements instead (`feedback: ack-echo`)",
    }
}
