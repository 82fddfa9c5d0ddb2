//! Writes transports with the congestion control and window settings of the model.

use std::fmt::{Display, Write};

use super::jobs::FlowGroup;
use crate::ns3::{CongestionMode, Ns3ModelParameters, Scenario};

/// Writes a transport for each flow group.
pub(super) fn write_transports(
    text: &mut String,
    scenario: &Scenario,
    groups: &[FlowGroup],
    notes: &mut Vec<String>,
) {
    let parameters = &scenario.parameters;
    let mut writer = TransportWriter { parameters, notes };
    writer.add_window_setting_notes();
    for group in groups {
        let dscp = 8 * group.priority;
        let _ = writeln!(text, "  {}:", group.name);
        let _ = writeln!(text, "    mtu: {}", parameters.payload_bytes);
        let _ = writeln!(text, "    dscp: {dscp}");
        if parameters.acks_pass_pauses {
            text.push_str("    ack_dscp: 0\n");
        }
        let _ = writeln!(text, "    congestion: {}", writer.congestion_value(group));
        if writer.reacts_to_ecn_marks() {
            text.push_str("    feedback: ack-echo\n");
        }
        if !parameters.ecn {
            text.push_str("    ecn: false\n");
        }
        // hpcc has its own window. In the model, a window of 0 means no window.
        if parameters.window.is_used && !parameters.mode.is_hpcc() && group.window_bytes > 0 {
            let _ = writeln!(text, "    window_bytes: {}", group.window_bytes);
        }
        text.push_str("    timeout: 0\n");
    }
}

/// Converts the settings of the model and collects notes.
struct TransportWriter<'a> {
    parameters: &'a Ns3ModelParameters,
    notes: &'a mut Vec<String>,
}

impl TransportWriter<'_> {
    /// Returns whether ECN marks can occur and the congestion control reacts to them.
    fn reacts_to_ecn_marks(&self) -> bool {
        self.parameters.can_mark()
    }

    /// Adds a note, unless the same note exists.
    fn add_note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds notes about window settings that a lab does not have.
    fn add_window_setting_notes(&mut self) {
        let (window, mode) = (self.parameters.window, self.parameters.mode);
        let is_hpcc = mode.is_hpcc();
        if is_hpcc && !(window.is_used && window.follows_rate) {
            self.add_note("HAS_WIN or VAR_WIN is 0: the window of hpcc follows its rate nevertheless");
        }
        if !is_hpcc && window.is_used && window.follows_rate {
            self.add_note("VAR_WIN 1: windows keep their size; in the model they shrink with the rate");
        }
    }

    /// Returns the value of the field `congestion`.
    fn congestion_value(&mut self, group: &FlowGroup) -> String {
        match self.parameters.mode {
            CongestionMode::Dcqcn => self.dcqcn_value(),
            CongestionMode::Hpcc | CongestionMode::HpccPint => self.hpcc_value(group),
            CongestionMode::Timely => self.timely_value(),
            CongestionMode::Dctcp => self.dctcp_value(group),
        }
    }

    /// Returns `none` and adds a note with the reason.
    ///
    /// Without ECN marks, DCQCN and DCTCP would never decrease a rate. A lab reports such a setting.
    fn congestion_value_without_ecn(&mut self) -> String {
        let reason = match (self.parameters.ecn, self.parameters.rate_bound) {
            (false, _) => "ENABLE_QCN 0: nothing is marked",
            (_, false) => "RATE_BOUND 0: flows use the rate of their link",
            _ => "KMIN_MAP: no queue can reach the lower thresholds",
        };
        self.add_note(format!("{reason}, so flows have no congestion control"));
        "none".to_owned()
    }

    /// Returns the value of `congestion` for DCQCN.
    fn dcqcn_value(&mut self) -> String {
        if !self.reacts_to_ecn_marks() {
            return self.congestion_value_without_ecn();
        }
        let dcqcn = self.parameters.dcqcn;
        let gain = self.clamp_with_note("EWMA_GAIN", dcqcn.gain, 0.0001, 1.0);
        let min_rate_bps = self.min_rate_bps();
        format!(
            "{{name: dcqcn-nic, preset: hpcc-ns3, alpha_interval_ns: {}, g: {gain}, min_decrease_factor: 0, decrease_interval_ns: {}, \
             increase_interval_ns: {}, fast_recovery_times: {}, rate_ai_bps: {}, rate_hai_bps: {}, min_rate_bps: {min_rate_bps}, clamp_target: {}}}",
            self.clamp_with_note(
                "ALPHA_RESUME_INTERVAL",
                dcqcn.alpha_interval_us * 1_000,
                100,
                100_000_000
            ),
            self.clamp_with_note(
                "RATE_DECREASE_INTERVAL",
                dcqcn.decrease_interval_us * 1_000,
                100,
                100_000_000
            ),
            self.clamp_with_note(
                "RP_TIMER",
                dcqcn.increase_interval_us * 1_000,
                1_000,
                1_000_000_000
            ),
            dcqcn.fast_recovery_times,
            self.clamp_with_note("RATE_AI", dcqcn.rate_ai_bps, 0, 1_000_000_000_000),
            self.clamp_with_note("RATE_HAI", dcqcn.rate_hai_bps, 0, 1_000_000_000_000),
            dcqcn.clamp_target,
        )
    }

    /// Returns the value of `congestion` for HPCC.
    fn hpcc_value(&mut self, group: &FlowGroup) -> String {
        let hpcc = self.parameters.hpcc;
        let settings = [
            (hpcc.rate_per_hop, "MULTI_RATE 1"),
            (hpcc.skips_empty_queues, "SAMPLE_FEEDBACK 1"),
            (!hpcc.fast_react, "FAST_REACT 0"),
        ];
        for (_, name) in settings.iter().filter(|(is_set, _)| *is_set) {
            self.add_note(format!(
                "{name} has no counterpart in hpcc (SIGCOMM 2019, algorithm 1)"
            ));
        }
        let increase = bytes_sent_at_rate(self.parameters.dcqcn.rate_ai_bps, group.rtt_ns).round();
        let min_rate_bps = self.min_rate_bps();
        format!(
            "{{name: hpcc, eta: {}, max_stage: {}, w_ai_bytes: {}, base_rtt_ns: {}, min_rate_bps: {min_rate_bps}}}",
            self.clamp_with_note("U_TARGET", hpcc.target_utilisation, 0.5, 1.0),
            self.clamp_with_note("MI_THRESH", hpcc.stages_max, 0, 1_000),
            self.clamp_with_note("RATE_AI", increase, 0.0, 1e9),
            self.clamp_with_note("the round-trip time", group.rtt_ns, 100, 1_000_000_000),
        )
    }

    /// Returns the value of `congestion` for TIMELY.
    fn timely_value(&mut self) -> String {
        let dcqcn = self.parameters.dcqcn;
        let min_rate_bps = self.min_rate_bps();
        format!(
            "{{name: timely, preset: hpcc-ns3, rate_ai_bps: {}, rate_hai_bps: {}, min_rate_bps: {min_rate_bps}}}",
            self.clamp_with_note("RATE_AI", dcqcn.rate_ai_bps, 0, 1_000_000_000_000),
            self.clamp_with_note("RATE_HAI", dcqcn.rate_hai_bps, 0, 1_000_000_000_000),
        )
    }

    /// Returns the value of `congestion` for DCTCP.
    fn dctcp_value(&mut self, group: &FlowGroup) -> String {
        if !self.reacts_to_ecn_marks() {
            return self.congestion_value_without_ecn();
        }
        let payload = f64::from(self.parameters.payload_bytes);
        let packets = bytes_sent_at_rate(self.parameters.dctcp_rate_ai_bps, group.rtt_ns) / payload;
        let min_rate_bps = self.min_rate_bps();
        format!(
            "{{name: dctcp, g: {}, increase_packets: {}, min_rate_bps: {min_rate_bps}}}",
            self.clamp_with_note("EWMA_GAIN", self.parameters.dcqcn.gain, 0.0001, 1.0),
            self.clamp_with_note("DCTCP_RATE_AI", (packets * 1e3).round() / 1e3, 0.001, 1_000.0),
        )
    }

    /// Returns the smallest rate of a flow in bits per second.
    fn min_rate_bps(&mut self) -> u64 {
        self.clamp_with_note(
            "MIN_RATE",
            self.parameters.dcqcn.min_rate_bps,
            1_000,
            1_000_000_000_000,
        )
    }

    /// Limits a value to the range that xoff allows for the parameter. Adds a note if this changes the value.
    fn clamp_with_note<T: PartialOrd + Display + Copy>(
        &mut self,
        setting: &str,
        value: T,
        min: T,
        max: T,
    ) -> T {
        let clamped = if value < min {
            min
        } else if value > max {
            max
        } else {
            value
        };
        if clamped != value {
            self.add_note(format!(
                "{setting} is {value}; the lab has {clamped}, the nearest possible value"
            ));
        }
        clamped
    }
}

/// Returns the number of bytes that a rate transfers during a time.
fn bytes_sent_at_rate(rate_bps: u64, ns: u64) -> f64 {
    rate_bps as f64 * ns as f64 / 8e9
}
