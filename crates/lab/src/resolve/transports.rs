//! Resolves the field `transports` of a lab file. A transport is a named set of options for the queue pairs
//! of jobs.

use serde_saphyr::Spanned;
use xoff_units::Picos;

use super::super::plan::TransportPlan;
use super::super::units;
use super::LabResolver;
use xoff_host::{ENTROPY_VALUES_MAX, Entropy, EntropyPick};
use xoff_lab_file::{OrderedMap, TransportFields};
use xoff_rdma::congestion::{Algorithm, CongestionConfig, CongestionFeedback};
use xoff_rdma::{MTU_MAX, MTU_MIN, ReceiveQueue, Recovery, Transport as Service};
use xoff_workload::MessageSpread;

/// Name of the transport for jobs that select no transport.
pub(super) const DEFAULT_TRANSPORT: &str = "default";
/// Default time for which a receiver waits for a missing packet, if it accepts packets out of order.
const REORDER_TIMEOUT: Picos = Picos::from_micros(100);
/// Default interval between CNPs in nanoseconds, for `feedback: cnp` with a congestion control that has no
/// own default.
///
/// The value is the default of NVIDIA's firmware.
const CNP_INTERVAL_NS: u64 = 4_000;
/// Largest number of queue pairs of a connection.
const QPS_MAX: u16 = 4096;
/// Largest number of receive entries in the receive queue of a queue pair. Common NICs report this
/// value as `max_qp_wr`.
const RECEIVES_MAX: u32 = 32_768;
/// Default number of receive entries that an application posts per second of model time.
const RECEIVE_RATE_DEFAULT: u64 = 1_000;
/// Largest number of receive entries that an application posts per second of model time.
const RECEIVE_RATE_MAX: u64 = 1_000_000_000;
/// Largest window in packets: half of the 24-bit PSN space. In a larger window, a PSN would be ambiguous.
const WINDOW_MAX: u32 = 1 << 23;

impl LabResolver<'_> {
    /// Resolves all transports. If the lab file has no transport `default`, one is added.
    pub(super) fn resolve_transports(
        &mut self,
        transports: &OrderedMap<TransportFields>,
    ) -> Vec<TransportPlan> {
        let mut plans = Vec::with_capacity(transports.0.len() + 1);
        if transports
            .0
            .iter()
            .all(|(name, _)| name.value != DEFAULT_TRANSPORT)
        {
            plans.push(TransportPlan::new(DEFAULT_TRANSPORT));
        }
        for (name, transport) in &transports.0 {
            self.check_name(name, "transport");
            plans.push(self.resolve_transport(name, transport));
        }
        plans
    }

    /// Resolves one transport.
    fn resolve_transport(&mut self, name: &Spanned<String>, options: &TransportFields) -> TransportPlan {
        let mut plan = TransportPlan::new(&name.value);
        plan.congestion = self.resolve_congestion(options);
        self.set_receiver_feedback(options, &mut plan);
        self.set_recovery(options, &mut plan);
        self.set_dscps_and_priorities(options, &mut plan);
        let services = [("rc", Service::Rc), ("uc", Service::Uc), ("ud", Service::Ud)];
        plan.qp.transport = self.parse_choice(options.transport.as_ref(), plan.qp.transport, &services);
        plan.qp.mtu = self.number_in_range(options.mtu.as_ref(), plan.qp.mtu, MTU_MIN..=MTU_MAX, "bytes");
        plan.qp.header_bytes = self.number_in_range(
            options.header_bytes.as_ref(),
            plan.qp.header_bytes,
            0..=65_536,
            "bytes",
        );
        plan.qp.window_packets = options
            .window_packets
            .as_ref()
            .map(|packets| self.number_in_range(Some(packets), 1, 1..=WINDOW_MAX, "packets"));
        plan.qp.window_bytes = options
            .window_bytes
            .as_ref()
            .map(|bytes| self.parse_quantity(Some(bytes), 1, units::parse_bytes, units::BYTES));
        plan.qp.rate_bps_max = options
            .rate
            .as_ref()
            .map(|rate| self.parse_quantity(Some(rate), 1000, units::parse_bit_rate, units::BIT_RATE));
        plan.source_port = options
            .source_port
            .as_ref()
            .map(|port| self.number_in_range(Some(port), 0xc000, 0..=u16::MAX, ""));
        plan.entropy = self.resolve_source_port_entropy(options);
        plan.qps = self.queue_pair_count(options.qps.as_ref(), plan.qps);
        plan.spread = self.resolve_message_spread(options.spread.as_ref(), plan.spread);
        plan
    }

    /// Resolves `entropy` and `entropy_pick`: UDP source ports that change with each packet.
    fn resolve_source_port_entropy(&mut self, options: &TransportFields) -> Option<Entropy> {
        let choices = [
            ("round-robin", EntropyPick::RoundRobin),
            ("random", EntropyPick::Random),
        ];
        let pick = self.parse_choice(options.entropy_pick.as_ref(), EntropyPick::default(), &choices);
        let Some(values) = &options.entropy else {
            if let Some(pick) = &options.entropy_pick {
                let fix = "add `entropy`, the number of source ports, or leave it out";
                self.report_problem(pick.referenced, "`entropy_pick` has no effect here", fix);
            }
            return None;
        };
        Some(Entropy {
            values: self.number_in_range(Some(values), 1, 1..=ENTROPY_VALUES_MAX, "ports"),
            pick,
        })
    }

    /// Returns the number of queue pairs of a connection.
    pub(super) fn queue_pair_count(&mut self, qps: Option<&Spanned<u16>>, default: u16) -> u16 {
        self.number_in_range(qps, default, 1..=QPS_MAX, "queue pairs")
    }

    /// Returns the rule that spreads messages over the queue pairs of a connection.
    pub(super) fn resolve_message_spread(
        &mut self,
        spread: Option<&Spanned<String>>,
        default: MessageSpread,
    ) -> MessageSpread {
        self.parse_choice(
            spread,
            default,
            &[
                ("round-robin", MessageSpread::RoundRobin),
                ("split", MessageSpread::Split),
            ],
        )
    }

    /// Resolves `congestion`: the algorithm and its parameters.
    fn resolve_congestion(&mut self, options: &TransportFields) -> CongestionConfig {
        let Some(congestion) = &options.congestion else {
            return CongestionConfig::default();
        };
        let location = congestion.referenced;
        let Some(name) = &congestion.value.name else {
            self.report_problem(
                location,
                "the congestion control has no `name`",
                "write {name: dcqcn-nic, ...}",
            );
            return CongestionConfig::default();
        };
        let choice = name.parse().map(|algorithm| CongestionConfig {
            algorithm,
            parameters: congestion.value.parameters.clone(),
        });
        // Only `factory` checks the parameters. The factory itself is not needed here.
        match choice.and_then(|choice| choice.factory().map(|_| choice)) {
            Ok(choice) => choice,
            Err(error) => {
                let nearest = xoff_units::nearest_name(name, Algorithm::ALL.map(Algorithm::name));
                let fix = match nearest.filter(|nearest| nearest != name) {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => "docs/congestion-control.md has all parameters".to_owned(),
                };
                self.report_problem(location, error.to_string(), fix);
                CongestionConfig::default()
            }
        }
    }

    /// Sets the feedback of the receiver: CNPs or echoed marks, and the acknowledgement interval.
    fn set_receiver_feedback(&mut self, options: &TransportFields, plan: &mut TransportPlan) {
        let default = plan.congestion.default_feedback();
        let interval = match default {
            CongestionFeedback::Cnp { interval } => interval,
            _ => Picos::from_nanos(CNP_INTERVAL_NS),
        };
        let interval_ns = self.parse_quantity(
            options.cnp_interval.as_ref(),
            interval.as_nanos(),
            units::parse_duration_ns,
            units::DURATION,
        );
        let cnp = CongestionFeedback::Cnp {
            interval: Picos::from_nanos(interval_ns),
        };
        let default = match default {
            CongestionFeedback::Cnp { .. } => cnp,
            other => other,
        };
        let choices = [
            ("none", CongestionFeedback::None),
            ("cnp", cnp),
            ("ack-echo", CongestionFeedback::AckEcho),
        ];
        plan.qp.feedback = self.parse_choice(options.feedback.as_ref(), default, &choices);
        if let (Some(interval), true) = (&options.cnp_interval, plan.qp.feedback != cnp) {
            self.report_problem(
                interval.referenced,
                "`cnp_interval` has no effect here",
                "add `feedback: cnp`",
            );
        }
        plan.qp.ack_every = self.number_in_range(
            options.ack_every.as_ref(),
            plan.qp.ack_every,
            1..=65_536,
            "packets",
        );
        plan.ecn_capable = options.ecn.unwrap_or(plan.ecn_capable);
    }

    /// Sets the options of loss recovery, timeouts and retries.
    fn set_recovery(&mut self, options: &TransportFields, plan: &mut TransportPlan) {
        let choices = [
            ("go-back-n", Recovery::GoBackN),
            ("go-back-zero", Recovery::GoBackZero),
            ("selective-repeat", Recovery::SelectiveRepeat),
        ];
        let qp = &mut plan.qp;
        qp.recovery = self.parse_choice(options.recovery.as_ref(), qp.recovery, &choices);
        qp.out_of_order = match options
            .out_of_order
            .as_ref()
            .map(|text| (text, text.value.as_str()))
        {
            None | Some((_, "false")) => None,
            Some((_, "true")) => Some(REORDER_TIMEOUT),
            Some((text, _)) => {
                let what = "true, false, or how long a packet may be missing, such as 100us";
                Some(Picos::from_nanos(self.parse_quantity(
                    Some(text),
                    1,
                    units::parse_duration_ns,
                    what,
                )))
            }
        };
        qp.reorder_window_packets = self.number_in_range(
            options.reorder_window_packets.as_ref(),
            qp.reorder_window_packets,
            1..=65_536,
            "packets",
        );
        qp.ack_timeout = self.number_in_range(options.timeout.as_ref(), qp.ack_timeout, 0..=31, "");
        qp.retry_cnt = self.number_in_range(options.retry.as_ref(), qp.retry_cnt, 0..=255, "retries");
        qp.rnr_retry = self.number_in_range(options.rnr_retry.as_ref(), qp.rnr_retry, 0..=7, "retries");
        qp.min_rnr_timer = self.number_in_range(options.rnr_timer.as_ref(), qp.min_rnr_timer, 0..=31, "");
        qp.reads_max = self.number_in_range(options.reads.as_ref(), qp.reads_max, 1..=255, "READs");
        qp.receive_queue = self.resolve_receive_queue(options);
    }

    /// Returns the receive queue of a queue pair. The queue has `receives` entries. The application posts
    /// used entries again at `receive_rate`.
    fn resolve_receive_queue(&mut self, options: &TransportFields) -> ReceiveQueue {
        let Some(receives) = &options.receives else {
            if let Some(rate) = &options.receive_rate {
                let fix = "add `receives`, the number of receive entries, or leave it out";
                self.report_problem(rate.referenced, "`receive_rate` has no effect here", fix);
            }
            return ReceiveQueue::Unlimited;
        };
        let depth = self.number_in_range(Some(receives), 1, 1..=RECEIVES_MAX, "entries");
        let per_second = self.number_in_range(
            options.receive_rate.as_ref(),
            RECEIVE_RATE_DEFAULT,
            1..=RECEIVE_RATE_MAX,
            "entries per second",
        );
        ReceiveQueue::Reposted {
            depth,
            interval_ps: 1_000_000_000_000 / per_second,
        }
    }

    /// Sets the DSCPs and priorities of data, acknowledgements and CNPs.
    ///
    /// The default priority is the upper three bits of the DSCP. NICs that trust DSCP use the same default.
    fn set_dscps_and_priorities(&mut self, options: &TransportFields, plan: &mut TransportPlan) {
        let [data, _, cnp] = plan.dscp;
        let dscp = self.number_in_range(options.dscp.as_ref(), data, 0..=63, "");
        let ack_dscp = self.number_in_range(options.ack_dscp.as_ref(), dscp, 0..=63, "");
        let cnp_dscp = self.number_in_range(options.cnp_dscp.as_ref(), cnp, 0..=63, "");
        plan.dscp = [dscp, ack_dscp, cnp_dscp];
        plan.qp.data_class = self.number_in_range(options.class.as_ref(), dscp >> 3, 0..=7, "");
        let ack_class = if options.ack_dscp.is_some() {
            ack_dscp >> 3
        } else {
            plan.qp.data_class
        };
        plan.qp.ack_class = self.number_in_range(options.ack_class.as_ref(), ack_class, 0..=7, "");
        plan.qp.cnp_class = self.number_in_range(options.cnp_class.as_ref(), cnp_dscp >> 3, 0..=7, "");
    }

    /// Converts a field with one of several words to a value. Each entry of `choices` is a word and its
    /// value. Returns `default` if the field is missing. Reports an error if the word is unknown.
    pub(super) fn parse_choice<T: Copy>(
        &mut self,
        field: Option<&Spanned<String>>,
        default: T,
        choices: &[(&str, T)],
    ) -> T {
        let Some(field) = field else { return default };
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == field.value) {
            return *value;
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let fix = match xoff_units::nearest_name(&field.value, words.iter().copied()) {
            Some(word) => format!("did you mean `{word}`? (write {})", words.join(", ")),
            None => format!("write {}", words.join(", ")),
        };
        self.report_problem(
            field.referenced,
            format!("\"{}\" is not allowed here", field.value),
            fix,
        );
        default
    }
}
