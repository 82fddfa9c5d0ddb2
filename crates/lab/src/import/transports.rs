//! Transports from the settings of congestion control and windows.

use std::fmt::{Display, Write};

use super::jobs::FlowGroup;
use crate::ns3::{CongestionMode, Parameters, Scenario};

/// Writes a transport for each group of flows.
pub(super) fn write_transports(
    text: &mut String,
    scenario: &Scenario,
    groups: &[FlowGroup],
    notes: &mut Vec<String>,
) {
    let parameters = &scenario.parameters;
    let mut writer = Writer { parameters, notes };
    writer.note_windows();
    for group in groups {
        let dscp = 8 * group.priority;
        let _ = writeln!(text, "  {}:", group.name);
        let _ = writeln!(text, "    mtu: {}", parameters.payload_bytes);
        let _ = writeln!(text, "    dscp: {dscp}");
        if parameters.acks_pass_pauses {
            text.push_str("    ack_dscp: 0\n");
        }
        let _ = writeln!(text, "    congestion: {}", writer.congestion(group));
        if writer.has_marks() {
            text.push_str("    feedback: ack-echo\n");
        }
        if !parameters.ecn {
            text.push_str("    ecn: false\n");
        }
        // hpcc has its own window. A window of 0 is none in the model.
        if parameters.window.used && !parameters.mode.is_hpcc() && group.window_bytes > 0 {
            let _ = writeln!(text, "    window_bytes: {}", group.window_bytes);
        }
        text.push_str("    timeout: 0\n");
    }
}

struct Writer<'a> {
    parameters: &'a Parameters,
    notes: &'a mut Vec<String>,
}

impl Writer<'_> {
    /// Whether the control acts on marks and some can occur.
    fn has_marks(&self) -> bool {
        self.parameters.can_mark()
    }

    fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn note_windows(&mut self) {
        let (window, mode) = (self.parameters.window, self.parameters.mode);
        let is_hpcc = mode.is_hpcc();
        if is_hpcc && !(window.used && window.follows_rate) {
            self.note("HAS_WIN or VAR_WIN is 0: the window of hpcc follows its rate nevertheless");
        }
        if !is_hpcc && window.used && window.follows_rate {
            self.note("VAR_WIN 1: windows keep their size; in the model they shrink with the rate");
        }
    }

    /// The value of `congestion`.
    fn congestion(&mut self, group: &FlowGroup) -> String {
        match self.parameters.mode {
            CongestionMode::Dcqcn => self.dcqcn(),
            CongestionMode::Hpcc | CongestionMode::HpccPint => self.hpcc(group),
            CongestionMode::Timely => self.timely(),
            CongestionMode::Dctcp => self.dctcp(group),
        }
    }

    /// Without marks a control that acts on them never slows a flow; a lab refuses such a control.
    fn without_marks(&mut self) -> String {
        let why = match (self.parameters.ecn, self.parameters.rate_bound) {
            (false, _) => "ENABLE_QCN 0: nothing is marked",
            (_, false) => "RATE_BOUND 0: flows keep to the rate of their link",
            _ => "KMIN_MAP: no queue can reach the lower thresholds",
        };
        self.note(format!("{why}, so flows have no congestion control"));
        "none".to_owned()
    }

    fn dcqcn(&mut self) -> String {
        if !self.has_marks() {
            return self.without_marks();
        }
        let dcqcn = self.parameters.dcqcn;
        let gain = self.in_range("EWMA_GAIN", dcqcn.gain, 0.0001, 1.0);
        let min_rate_bps = self.min_rate_bps();
        format!(
            "{{name: dcqcn-nic, preset: hpcc-ns3, alpha_interval_ns: {}, g: {gain}, min_decrease_factor: 0, decrease_interval_ns: {}, \
             increase_interval_ns: {}, fast_recovery_times: {}, rate_ai_bps: {}, rate_hai_bps: {}, min_rate_bps: {min_rate_bps}, clamp_target: {}}}",
            self.in_range(
                "ALPHA_RESUME_INTERVAL",
                dcqcn.alpha_interval_us * 1_000,
                100,
                100_000_000
            ),
            self.in_range(
                "RATE_DECREASE_INTERVAL",
                dcqcn.decrease_interval_us * 1_000,
                100,
                100_000_000
            ),
            self.in_range(
                "RP_TIMER",
                dcqcn.increase_interval_us * 1_000,
                1_000,
                1_000_000_000
            ),
            dcqcn.fast_recovery_times,
            self.in_range("RATE_AI", dcqcn.rate_ai_bps, 0, 1_000_000_000_000),
            self.in_range("RATE_HAI", dcqcn.rate_hai_bps, 0, 1_000_000_000_000),
            dcqcn.clamp_target,
        )
    }

    fn hpcc(&mut self, group: &FlowGroup) -> String {
        let hpcc = self.parameters.hpcc;
        let settings = [
            (hpcc.rate_per_hop, "MULTI_RATE 1"),
            (hpcc.skips_empty_queues, "SAMPLE_FEEDBACK 1"),
            (!hpcc.fast_react, "FAST_REACT 0"),
        ];
        for (_, name) in settings.iter().filter(|(is_set, _)| *is_set) {
            self.note(format!(
                "{name} has no counterpart in hpcc (SIGCOMM 2019, algorithm 1)"
            ));
        }
        let increase = bytes_in(self.parameters.dcqcn.rate_ai_bps, group.rtt_ns).round();
        let min_rate_bps = self.min_rate_bps();
        format!(
            "{{name: hpcc, eta: {}, max_stage: {}, w_ai_bytes: {}, base_rtt_ns: {}, min_rate_bps: {min_rate_bps}}}",
            self.in_range("U_TARGET", hpcc.target_utilisation, 0.5, 1.0),
            self.in_range("MI_THRESH", hpcc.stages_max, 0, 1_000),
            self.in_range("RATE_AI", increase, 0.0, 1e9),
            self.in_range("the round trip", group.rtt_ns, 100, 1_000_000_000),
        )
    }

    fn timely(&mut self) -> String {
        let dcqcn = self.parameters.dcqcn;
        let min_rate_bps = self.min_rate_bps();
        format!(
            "{{name: timely, preset: hpcc-ns3, rate_ai_bps: {}, rate_hai_bps: {}, min_rate_bps: {min_rate_bps}}}",
            self.in_range("RATE_AI", dcqcn.rate_ai_bps, 0, 1_000_000_000_000),
            self.in_range("RATE_HAI", dcqcn.rate_hai_bps, 0, 1_000_000_000_000),
        )
    }

    fn dctcp(&mut self, group: &FlowGroup) -> String {
        if !self.has_marks() {
            return self.without_marks();
        }
        let payload = f64::from(self.parameters.payload_bytes);
        let packets = bytes_in(self.parameters.dctcp_rate_ai_bps, group.rtt_ns) / payload;
        let min_rate_bps = self.min_rate_bps();
        format!(
            "{{name: dctcp, g: {}, increase_packets: {}, min_rate_bps: {min_rate_bps}}}",
            self.in_range("EWMA_GAIN", self.parameters.dcqcn.gain, 0.0001, 1.0),
            self.in_range("DCTCP_RATE_AI", (packets * 1e3).round() / 1e3, 0.001, 1_000.0),
        )
    }

    fn min_rate_bps(&mut self) -> u64 {
        self.in_range(
            "MIN_RATE",
            self.parameters.dcqcn.min_rate_bps,
            1_000,
            1_000_000_000_000,
        )
    }

    /// A value in the range of the parameter that it becomes; a note if it lies outside.
    fn in_range<T: PartialOrd + Display + Copy>(&mut self, setting: &str, value: T, min: T, max: T) -> T {
        let inside = if value < min {
            min
        } else if value > max {
            max
        } else {
            value
        };
        if inside != value {
            self.note(format!(
                "{setting} is {value}; the lab has {inside}, the nearest value there is"
            ));
        }
        inside
    }
}

/// What a rate carries during a time.
fn bytes_in(rate_bps: u64, ns: u64) -> f64 {
    rate_bps as f64 * ns as f64 / 8e9
}
