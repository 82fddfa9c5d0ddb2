//! `transports`: how connections of jobs are set up.

use serde_saphyr::Spanned;
use xoff_units::Picos;

use super::super::file::{Ordered, Transport};
use super::super::plan::TransportPlan;
use super::super::units;
use super::Resolver;
use xoff_host::{ENTROPY_VALUES_MAX, Entropy, EntropyPick};
use xoff_rdma::congestion::{CongestionConfig, CongestionFeedback};
use xoff_rdma::{MTU_MAX, MTU_MIN, ReceiveQueue, Recovery, Transport as Service};
use xoff_workload::MessageSpread;

/// The options that a job has which names none.
pub(super) const DEFAULT: &str = "default";
/// How long a receiver that takes packets out of order waits for a missing one, unless the file says how long.
const GAP: Picos = Picos::from_micros(100);
/// Distance of CNPs where a file asks for CNPs and the congestion control has no opinion: NVIDIA's firmware's.
const CNP_INTERVAL_NS: u64 = 4_000;
const QPS_MAX: u16 = 4096;
/// Most receive entries of a queue pair, as `max_qp_wr` of common NICs.
const RECEIVES_MAX: u32 = 32_768;
/// Receive entries that an application re-posts in a second of model time, unless the file says otherwise.
const RECEIVE_RATE_DEFAULT: u64 = 1_000;
const RECEIVE_RATE_MAX: u64 = 1_000_000_000;
/// Most packets of a window, beyond which a PSN could mean two.
const WINDOW_MAX: u32 = 1 << 23;

impl Resolver<'_> {
    /// The options by name; those called `default` are there without being written.
    pub(super) fn transports(&mut self, written: &Ordered<Transport>) -> Vec<TransportPlan> {
        let mut plans = Vec::with_capacity(written.0.len() + 1);
        if written.0.iter().all(|(name, _)| name.value != DEFAULT) {
            plans.push(TransportPlan::new(DEFAULT));
        }
        for (name, transport) in &written.0 {
            self.name(name, "transport");
            plans.push(self.transport(name, transport));
        }
        plans
    }

    fn transport(&mut self, name: &Spanned<String>, said: &Transport) -> TransportPlan {
        let mut plan = TransportPlan::new(&name.value);
        plan.congestion = self.congestion(said);
        self.marks(said, &mut plan);
        self.recovery(said, &mut plan);
        self.classes(said, &mut plan);
        let services = [("rc", Service::Rc), ("uc", Service::Uc), ("ud", Service::Ud)];
        plan.qp.transport = self.choice(said.transport.as_ref(), plan.qp.transport, &services);
        plan.qp.mtu = self.number(said.mtu.as_ref(), plan.qp.mtu, MTU_MIN..=MTU_MAX);
        plan.qp.header_bytes = self.number(said.header_bytes.as_ref(), plan.qp.header_bytes, 0..=65_536);
        plan.qp.window_packets = said
            .window_packets
            .as_ref()
            .map(|packets| self.number(Some(packets), 1, 1..=WINDOW_MAX));
        plan.qp.window_bytes = said
            .window_bytes
            .as_ref()
            .map(|bytes| self.quantity(Some(bytes), 1, units::bytes, units::BYTES));
        plan.qp.rate_bps_max = said
            .rate
            .as_ref()
            .map(|rate| self.quantity(Some(rate), 1000, units::bit_rate, units::BIT_RATE));
        plan.source_port = said
            .source_port
            .as_ref()
            .map(|port| self.number(Some(port), 0xc000, 0..=u16::MAX));
        plan.entropy = self.entropy(said);
        plan.qps = self.qps(said.qps.as_ref(), plan.qps);
        plan.spread = self.spread(said.spread.as_ref(), plan.spread);
        plan
    }

    /// Source ports that change with each packet.
    fn entropy(&mut self, said: &Transport) -> Option<Entropy> {
        let choices = [
            ("round-robin", EntropyPick::RoundRobin),
            ("random", EntropyPick::Random),
        ];
        let pick = self.choice(said.entropy_pick.as_ref(), EntropyPick::default(), &choices);
        let Some(values) = &said.entropy else {
            if let Some(pick) = &said.entropy_pick {
                let fix = "add `entropy`, the number of source ports, or leave it out";
                self.wrong(pick.referenced, "`entropy_pick` is of no use here", fix);
            }
            return None;
        };
        Some(Entropy {
            values: self.number(Some(values), 1, 1..=ENTROPY_VALUES_MAX),
            pick,
        })
    }

    pub(super) fn qps(&mut self, qps: Option<&Spanned<u16>>, default: u16) -> u16 {
        self.number(qps, default, 1..=QPS_MAX)
    }

    pub(super) fn spread(
        &mut self,
        spread: Option<&Spanned<String>>,
        default: MessageSpread,
    ) -> MessageSpread {
        self.choice(
            spread,
            default,
            &[
                ("round-robin", MessageSpread::RoundRobin),
                ("split", MessageSpread::Split),
            ],
        )
    }

    fn congestion(&mut self, said: &Transport) -> CongestionConfig {
        let Some(congestion) = &said.congestion else {
            return CongestionConfig::default();
        };
        let at = congestion.referenced;
        let Some(name) = &congestion.value.name else {
            self.wrong(
                at,
                "the congestion control has no `name`",
                "write {name: dcqcn-nic, ...}",
            );
            return CongestionConfig::default();
        };
        let choice = name.parse().map(|algorithm| CongestionConfig {
            algorithm,
            parameters: congestion.value.parameters.clone(),
        });
        // What a factory is made of is checked with it, so it is made here once to be thrown away.
        match choice.and_then(|choice| choice.factory().map(|_| choice)) {
            Ok(choice) => choice,
            Err(error) => {
                self.wrong(
                    at,
                    error.to_string(),
                    "docs/congestion-control.md has all parameters",
                );
                CongestionConfig::default()
            }
        }
    }

    /// What the receiver says of marks, and how often it acknowledges.
    fn marks(&mut self, said: &Transport, plan: &mut TransportPlan) {
        let default = plan.congestion.default_feedback();
        let interval = match default {
            CongestionFeedback::Cnp { interval } => interval,
            _ => Picos::from_nanos(CNP_INTERVAL_NS),
        };
        let interval_ns = self.quantity(
            said.cnp_interval.as_ref(),
            interval.as_nanos(),
            units::duration_ns,
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
        plan.qp.feedback = self.choice(said.feedback.as_ref(), default, &choices);
        if let (Some(interval), true) = (&said.cnp_interval, plan.qp.feedback != cnp) {
            self.wrong(
                interval.referenced,
                "`cnp_interval` is of no use here",
                "add `feedback: cnp`",
            );
        }
        plan.qp.ack_every = self.number(said.ack_every.as_ref(), plan.qp.ack_every, 1..=65_536);
        plan.ecn_capable = said.ecn.unwrap_or(plan.ecn_capable);
    }

    fn recovery(&mut self, said: &Transport, plan: &mut TransportPlan) {
        let choices = [
            ("go-back-n", Recovery::GoBackN),
            ("go-back-zero", Recovery::GoBackZero),
            ("selective-repeat", Recovery::SelectiveRepeat),
        ];
        let qp = &mut plan.qp;
        qp.recovery = self.choice(said.recovery.as_ref(), qp.recovery, &choices);
        qp.out_of_order = match said.out_of_order.as_ref().map(|said| (said, said.value.as_str())) {
            None | Some((_, "false")) => None,
            Some((_, "true")) => Some(GAP),
            Some((text, _)) => {
                let what = "true, false, or how long a packet may be missing, such as 100us";
                Some(Picos::from_nanos(self.quantity(
                    Some(text),
                    1,
                    units::duration_ns,
                    what,
                )))
            }
        };
        qp.reorder_window_packets = self.number(
            said.reorder_window_packets.as_ref(),
            qp.reorder_window_packets,
            1..=65_536,
        );
        qp.ack_timeout = self.number(said.timeout.as_ref(), qp.ack_timeout, 0..=31);
        qp.retry_cnt = self.number(said.retry.as_ref(), qp.retry_cnt, 0..=255);
        qp.rnr_retry = self.number(said.rnr_retry.as_ref(), qp.rnr_retry, 0..=7);
        qp.min_rnr_timer = self.number(said.rnr_timer.as_ref(), qp.min_rnr_timer, 0..=31);
        qp.reads_max = self.number(said.reads.as_ref(), qp.reads_max, 1..=255);
        qp.receive_queue = self.receive_queue(said);
    }

    /// The receive queue of each queue pair: `receives` entries, re-posted at `receive_rate`.
    fn receive_queue(&mut self, said: &Transport) -> ReceiveQueue {
        let Some(receives) = &said.receives else {
            if let Some(rate) = &said.receive_rate {
                let fix = "add `receives`, the number of receive entries, or leave it out";
                self.wrong(rate.referenced, "`receive_rate` is of no use here", fix);
            }
            return ReceiveQueue::Unlimited;
        };
        let depth = self.number(Some(receives), 1, 1..=RECEIVES_MAX);
        let per_second = self.number(
            said.receive_rate.as_ref(),
            RECEIVE_RATE_DEFAULT,
            1..=RECEIVE_RATE_MAX,
        );
        ReceiveQueue::Reposted {
            depth,
            interval_ps: 1_000_000_000_000 / per_second,
        }
    }

    /// Classes follow from the DSCP, as in NICs that trust it and have no map of their own.
    fn classes(&mut self, said: &Transport, plan: &mut TransportPlan) {
        let [data, _, cnp] = plan.dscp;
        let dscp = self.number(said.dscp.as_ref(), data, 0..=63);
        let ack_dscp = self.number(said.ack_dscp.as_ref(), dscp, 0..=63);
        let cnp_dscp = self.number(said.cnp_dscp.as_ref(), cnp, 0..=63);
        plan.dscp = [dscp, ack_dscp, cnp_dscp];
        plan.qp.data_class = self.number(said.class.as_ref(), dscp >> 3, 0..=7);
        let ack_class = if said.ack_dscp.is_some() {
            ack_dscp >> 3
        } else {
            plan.qp.data_class
        };
        plan.qp.ack_class = self.number(said.ack_class.as_ref(), ack_class, 0..=7);
        plan.qp.cnp_class = self.number(said.cnp_class.as_ref(), cnp_dscp >> 3, 0..=7);
    }

    /// One of several words, or the default.
    pub(super) fn choice<T: Copy>(
        &mut self,
        said: Option<&Spanned<String>>,
        default: T,
        choices: &[(&str, T)],
    ) -> T {
        let Some(said) = said else { return default };
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == said.value) {
            return *value;
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        self.wrong(
            said.referenced,
            format!("\"{}\" is not allowed here", said.value),
            format!("write {}", words.join(", ")),
        );
        default
    }
}
