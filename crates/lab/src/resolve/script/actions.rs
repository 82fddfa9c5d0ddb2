//! Resolution of the actions of steps.

use serde_saphyr::Spanned;
use xoff_wire::bth::MASK_24;

use super::super::super::plan::{
    ActionPlan, EgressBlockPlan, FaultPlan, FaultSelectorPlan, FlowPlan, InjectPlan, LinkDirectionPlan,
    OfferedRate, PausePlan, SendPlan, WorkloadTarget,
};
use super::super::super::units;
use super::super::node_kinds::entry_location;
use super::super::{LabResolver, NodeIndex};
use super::names::ScriptNames;
use xoff_lab_file::{
    BlockFields, ConfigureFields, FaultFields, InjectFields, OneOrMore, PauseFields, SendFields,
};

/// The maximum number of frames of one `send` or `inject`.
const FRAMES_MAX: u64 = 1 << 40;
/// The allowed lengths of an injected frame in bytes, without FCS: from the minimum of Ethernet to the
/// maximum of a link.
const INJECTED_FRAME_LEN: std::ops::RangeInclusive<u32> = 60..=9234;
/// The maximum pause time in quanta (IEEE 802.3 annex 31B).
const QUANTA_MAX: u32 = 65_535;
/// The probability 1 in units of 2^-32.
const PROBABILITY_ONE: f64 = 4_294_967_296.0;

impl LabResolver<'_> {
    /// Resolves a `send` step. Its name is `sendN` by default.
    pub(super) fn resolve_send(
        &mut self,
        send: &Spanned<SendFields>,
        names: &mut ScriptNames<'_>,
    ) -> Option<SendPlan> {
        let (at, send) = (send.referenced, &send.value);
        let from = self.find_model_host(&send.from.value, send.from.referenced);
        let to = self.find_model_host(&send.to.value, send.to.referenced);
        let ip = self.parse_ip_version(send.ip.as_ref());
        let dscp = self.number_in_range(send.dscp.as_ref(), 0, 0..=63, "");
        let codepoints = [("not-ect", 0), ("ect1", 1), ("ect0", 2), ("ce", 3)];
        let ecn = self.parse_choice(send.ecn.as_ref(), 0, &codepoints);
        let frame_len = self.parse_frame_len(send.size.as_ref(), ip);
        let is_tagged = send.pcp.is_some() || send.vlan.is_some();
        let tag = (
            self.number_in_range(send.pcp.as_ref(), 0, 0..=7, ""),
            self.number_in_range(send.vlan.as_ref(), 0, 0..=4094, ""),
        );
        let name = self.resolve_send_name(send, names);
        let whole_link = OfferedRate::LinkShare(1_000_000);
        let flow = FlowPlan {
            expect: Vec::new(),
            name,
            from: from.unwrap_or(0),
            to: to.unwrap_or(0),
            rate: self.parse_quantity(send.rate.as_ref(), whole_link, units::parse_rate, units::RATE),
            dscp,
            ecn_capable: ecn != 0,
            class: self.number_in_range(send.class.as_ref(), dscp >> 3, 0..=7, ""),
            lossless: false,
            frame_len,
            // One message for each frame, so the last frame is not shorter.
            message_bytes: frame_len - super::super::workload::header_bytes(ip),
            ip,
            ttl: self.number_in_range(send.ttl.as_ref(), 64, 1..=255, ""),
            start_ns: 0,
        };
        let frames = self.number_in_range(send.frames.as_ref(), 1, 1..=FRAMES_MAX, "");
        let qp = |this: &mut Self, number: &Option<Spanned<u32>>| {
            number
                .as_ref()
                .map(|number| this.number_in_range(Some(number), 0, 0..=MASK_24, ""))
        };
        let (first_psn, dst_qp) = (qp(self, &send.psn), qp(self, &send.qp));
        let (Some(from), Some(to)) = (from, to) else {
            self.rejected_traffic.insert(flow.name);
            return None;
        };
        if from == to {
            self.report_problem(
                at,
                format!("{} sends to itself", self.hosts[from]),
                "choose another receiver",
            );
        }
        self.check_reachable(from, Some(to), at);
        self.check_frame_size(frame_len, from, &names.host_links, at);
        self.check_frame_size(frame_len, to, &names.host_links, at);
        Some(SendPlan {
            flow,
            frames,
            ecn,
            tag: is_tagged.then_some(tag),
            first_psn,
            dst_qp,
        })
    }

    /// Resolves an `inject` step. The frame is padded with zeros to its size.
    pub(super) fn resolve_inject(
        &mut self,
        inject: &Spanned<InjectFields>,
        names: &ScriptNames<'_>,
    ) -> Option<InjectPlan> {
        let inject = &inject.value;
        let host = self.find_model_host(&inject.from.value, inject.from.referenced)?;
        let mut frame = Vec::new();
        for part in &inject.frame.value.0 {
            let Some(bytes) = xoff_wire::parse_hex_bytes(&part.value) else {
                let at = entry_location(part.referenced, inject.frame.referenced);
                let fix =
                    "write pairs of hexadecimal digits, in quotes: \"01:80:c2:00:00:01\" or \"8808 0101\"";
                self.report_problem(at, format!("\"{}\" is not a sequence of bytes", part.value), fix);
                return None;
            };
            frame.extend(bytes);
        }
        let given = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let len = self.number_in_range(
            inject.size.as_ref(),
            given.max(*INJECTED_FRAME_LEN.start()),
            INJECTED_FRAME_LEN,
            "bytes",
        );
        if given > len {
            let what = format!("{given} bytes do not fit in a frame of {len} bytes");
            self.report_problem(
                inject.frame.referenced,
                what,
                "write fewer bytes, or a larger `size`",
            );
            return None;
        }
        frame.resize(len as usize, 0);
        self.check_frame_size(len, host, &names.host_links, inject.frame.referenced);
        let every = inject.every.as_ref();
        let every_ns =
            every.map(|text| self.parse_quantity(Some(text), 1, units::parse_duration_ns, units::DURATION));
        Some(InjectPlan {
            host,
            frame,
            frames: self.number_in_range(inject.frames.as_ref(), 1, 1..=FRAMES_MAX, ""),
            every_ns,
        })
    }

    fn resolve_send_name(&mut self, send: &SendFields, names: &mut ScriptNames<'_>) -> String {
        names.send_count += 1;
        let Some(name) = &send.name else {
            return format!("send{}", names.send_count);
        };
        self.check_name(name, "send");
        if names.is_flow(&name.value) {
            let what = format!("\"{}\" is the name of a flow of the workload", name.value);
            self.report_problem(name.referenced, what, "use another name");
        }
        name.value.clone()
    }

    /// Resolves the jobs and flow groups of a `start` or `stop` step.
    pub(super) fn resolve_targets(
        &mut self,
        list: &Spanned<OneOrMore>,
        names: &ScriptNames<'_>,
    ) -> Vec<WorkloadTarget> {
        let mut targets = Vec::new();
        for name in &list.value.0 {
            let found = names.find_targets(&name.value);
            targets.extend_from_slice(found);
            if found.is_empty() && !self.is_rejected(&name.value) {
                let what = format!("no job or flow is called \"{}\"", name.value);
                let fix = match names.target_names().next() {
                    None => "add it to `workload`".to_owned(),
                    Some(_) => self.suggest(&name.value, names.target_names(), "jobs and flows"),
                };
                self.report_problem(entry_location(name.referenced, list.referenced), what, fix);
            }
        }
        targets
    }

    /// Resolves the port and the queue of a `block` or `unblock` step.
    pub(super) fn resolve_block(
        &mut self,
        block: &BlockFields,
        names: &ScriptNames<'_>,
    ) -> Option<EgressBlockPlan> {
        let queue = block
            .queue
            .as_ref()
            .map(|queue| self.number_in_range(Some(queue), 0, 0..=7, ""));
        let port = &block.port;
        let Some((node, name)) = port.value.split_once(':') else {
            let what = format!("\"{}\" is not a port", port.value);
            self.report_problem(port.referenced, what, "write SWITCH:PORT, such as sw1:Ethernet0");
            return None;
        };
        let Some(&NodeIndex::Switch(switch)) = self.nodes.get(node) else {
            let what = format!("no switch is called \"{node}\"");
            let fix = self.suggest(node, self.switches.iter().map(String::as_str), "switches");
            self.report_problem(port.referenced, what, fix);
            return None;
        };
        let ports = names.ports_of_switch(switch);
        if !ports.contains(&name) {
            let what = format!("{node} has no port \"{name}\" with a link");
            let fix = self.suggest(name, ports.iter().copied(), "ports with a link");
            self.report_problem(port.referenced, what, fix);
            return None;
        }
        Some(EgressBlockPlan {
            switch,
            port: name.to_owned(),
            queue,
        })
    }

    /// Resolves a `pause` step.
    pub(super) fn resolve_pause(&mut self, pause: &Spanned<PauseFields>) -> Option<PausePlan> {
        let (at, pause) = (pause.referenced, &pause.value);
        let host = self.find_model_host(&pause.from.value, pause.from.referenced)?;
        let classes = match (&pause.class, pause.global.unwrap_or(false)) {
            (Some(classes), false) => Some(self.parse_class_bits(classes)),
            (None, true) => None,
            _ => {
                let fix = "write class: 3 or class: [3, 4] for PFC, or global: true for 802.3x";
                self.report_problem(at, "a pause needs either `class` or `global: true`", fix);
                return None;
            }
        };
        let time = |this: &mut Self, text: &Option<Spanned<String>>| {
            text.as_ref()
                .map(|text| this.parse_quantity(Some(text), 1, units::parse_duration_ns, units::DURATION))
        };
        let (every_ns, for_ns) = (time(self, &pause.every), time(self, &pause.lasting));
        if every_ns == Some(0) {
            self.report_problem(
                at,
                "the interval of pauses must be greater than 0",
                "write a time, such as every: 10us",
            );
        }
        if every_ns.is_none() && for_ns.is_some() {
            self.report_problem(
                at,
                "`for` has no effect without `every`, because there is only one pause",
                "add `every`, such as every: 10us",
            );
        }
        Some(PausePlan {
            host,
            classes,
            quanta: self.number_in_range(pause.quanta.as_ref(), QUANTA_MAX, 0..=QUANTA_MAX, "") as u16,
            every_ns,
            for_ns,
        })
    }

    fn parse_class_bits(&mut self, classes: &Spanned<OneOrMore>) -> u8 {
        let mut bits = 0;
        for class in &classes.value.0 {
            match class.value.parse::<u8>().ok().filter(|class| *class <= 7) {
                Some(class) => bits |= 1 << class,
                None => {
                    let at = entry_location(class.referenced, classes.referenced);
                    self.report_problem(
                        at,
                        format!("\"{}\" is not a class", class.value),
                        "write a number from 0 to 7",
                    );
                }
            }
        }
        bits
    }

    /// Finds a link by its name or by one of its ends. The name selects both directions of the link. The name
    /// of an end selects only the direction in which this end sends.
    pub(super) fn resolve_direction(
        &mut self,
        on: &Spanned<String>,
        names: &ScriptNames<'_>,
    ) -> Option<LinkDirectionPlan> {
        let found = names.find_direction(&on.value);
        if found.is_none() {
            let what = format!("there is no link \"{}\", and none with such an end", on.value);
            let links = self.suggest(&on.value, names.link_names(), "links");
            self.report_problem(
                on.referenced,
                what,
                format!("{links}; write the name of a link or one of its ends"),
            );
        }
        found
    }

    /// Resolves a `fault` step.
    pub(super) fn resolve_fault(
        &mut self,
        fault: &Spanned<FaultFields>,
        names: &ScriptNames<'_>,
    ) -> Option<FaultPlan> {
        let (at, fault) = (fault.referenced, &fault.value);
        let corrupts = self.parse_choice(Some(&fault.action), false, &[("drop", false), ("corrupt", true)]);
        let selector = match (&fault.every, &fault.probability, &fault.psn) {
            (None, None, None) => FaultSelectorPlan::All,
            (Some(every), None, None) => {
                FaultSelectorPlan::EveryNth(self.number_in_range(Some(every), 1, 1..=u64::MAX, ""))
            }
            (None, Some(share), None) => {
                let share = self.parse_quantity(
                    Some(share),
                    1.0,
                    units::parse_percent,
                    "a probability above 0, such as 1% or 0.001%",
                );
                FaultSelectorPlan::Probability((share.min(1.0) * PROBABILITY_ONE).round() as u64)
            }
            (None, None, Some(psn)) => {
                let qp = fault
                    .qp
                    .as_ref()
                    .map(|qp| self.number_in_range(Some(qp), 0, 0..=MASK_24, ""));
                FaultSelectorPlan::Psn(self.number_in_range(Some(psn), 0, 0..=MASK_24, ""), qp)
            }
            _ => {
                let fix = "write one of `every`, `probability` and `psn`, or another fault";
                self.report_problem(at, "a fault selects frames in one way only", fix);
                return None;
            }
        };
        if let Some(qp) = fault.qp.as_ref().filter(|_| fault.psn.is_none()) {
            self.report_problem(
                qp.referenced,
                "`qp` has no effect without `psn`",
                "add `psn`, or remove `qp`",
            );
        }
        Some(FaultPlan {
            direction: self.resolve_direction(&fault.on, names)?,
            corrupts,
            selector,
            frames_max: self.number_in_range(fault.count.as_ref(), u64::MAX, 1..=u64::MAX, ""),
            spares_up_to_len: fault.spare_up_to.as_ref().map_or(0, |len| len.value),
        })
    }

    /// Resolves a `configure` step.
    pub(super) fn resolve_configure(&mut self, configure: &ConfigureFields) -> Option<ActionPlan> {
        let layers = self.config_layers(Some(&configure.config));
        match self.nodes.get(&configure.switch.value) {
            Some(&NodeIndex::Switch(switch)) => Some(ActionPlan::Configure { switch, layers }),
            _ => {
                let what = format!("no switch is called \"{}\"", configure.switch.value);
                let names = self.switches.iter().map(String::as_str);
                let fix = self.suggest(&configure.switch.value, names, "switches");
                self.report_problem(configure.switch.referenced, what, fix);
                None
            }
        }
    }

    /// Resolves a `clear` step, which has one action for each word.
    pub(super) fn resolve_clear(&mut self, objects: &Spanned<OneOrMore>) -> Vec<ActionPlan> {
        let mut actions = Vec::new();
        for word in &objects.value.0 {
            match word.value.as_str() {
                "watermarks" => actions.push(ActionPlan::ClearWatermarkCommand),
                "counters" => actions.push(ActionPlan::ClearCounters),
                other => {
                    let at = entry_location(word.referenced, objects.referenced);
                    self.report_problem(
                        at,
                        format!("\"{other}\" cannot be cleared"),
                        "write watermarks, counters, or a list of both",
                    );
                }
            }
        }
        actions
    }
}
