//! The conditions of a long run.

use serde_json::{Value, json};
use xoff_dataplane::drops::DropReason;

use crate::bed::SoakRun;

/// A link counts as full at this utilisation.
const FULL: f64 = 0.99;
/// Drop reasons of buffer decisions.
const BY_BUFFER: [DropReason; 4] = [
    DropReason::PriorityGroupDropped,
    DropReason::QueueDropped,
    DropReason::WredDropped,
    DropReason::NoBufferSpace,
];
/// Traffic class of all frames of the hosts. Other classes carry only ARP, which is flooded and therefore
/// leaves more often than it arrives.
const LOSSLESS: usize = 3;
/// Text in all ledger entries about frames that the kernel or a device lost. A stall alone does not
/// explain a loss.
const LOSS: &str = "lost frames";
/// Memory counts as constant if it grows by at most this share or by at most this amount.
const GROWTH: f64 = 0.01;
const GROWTH_KIB: u64 = 1_024;

/// A condition of the run and its result.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) what: &'static str,
    pub(crate) kept: bool,
    pub(crate) figures: String,
}

impl Condition {
    fn new(what: &'static str, kept: bool, figures: String) -> Condition {
        Condition { what, kept, figures }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"what": self.what, "kept": self.kept, "figures": self.figures})
    }
}

/// Returns true if the link to the receiver stayed full and no frame was lost.
pub(crate) fn is_full(run: &SoakRun) -> bool {
    run.utilisation() >= FULL
        && buffer_drops(run) == 0
        && count_or_zero(&run.report["totals"]["lost_frames"]) == 0
}

pub(crate) fn findings(run: &SoakRun) -> Vec<Condition> {
    let totals = &run.report["totals"];
    let (sent, received, lost) = (
        count_or_zero(&totals["sent_frames"]),
        count_or_zero(&totals["received_frames"]),
        count_or_zero(&totals["lost_frames"]),
    );
    let ledger = ledger_entries(run);
    let pauses: u64 = sum_over_ports(run, |port| sum_of_array(&port["pfc_tx"]));
    let (rx, tx, dropped) = lossless_frames(run);
    let all = sum_over_ports(run, |port| count_or_zero(&port["rx_packets"]));
    let classes = sum_over_ports(run, |port| sum_of_array(&port["rx_class_packets"]));
    let mut findings = vec![
        Condition::new(
            "sources were held back by PFC",
            pauses > 0,
            format!("{pauses} PFC frames"),
        ),
        Condition::new(
            "the buffer dropped no lossless frame",
            buffer_drops(run) == 0,
            format!("{} of {rx}", buffer_drops(run)),
        ),
        Condition::new(
            "every other loss lies where the ledger says why",
            lost == 0 || ledger.iter().any(|entry| entry.contains(LOSS)),
            format!("{lost} lost; {} entries {}", ledger.len(), ledger.join("; ")),
        ),
        Condition::new(
            "what hosts sent has reached the switch, or is counted as lost",
            rx <= sent && sent - rx <= lost,
            format!("{rx} of {sent}"),
        ),
        Condition::new(
            "what came into the switch went out, or is counted as dropped",
            rx == tx + dropped,
            format!("{rx} = {tx} + {dropped}"),
        ),
        Condition::new(
            "what went out has arrived, or is counted as lost",
            received <= tx && tx - received <= lost,
            format!("{received} of {tx}"),
        ),
        Condition::new(
            "classes are all that came",
            classes == all,
            format!("{classes} = {all}"),
        ),
    ];
    if let Some((first, second)) = run.memory.halves_kib() {
        let flat = second <= first + GROWTH_KIB.max((first as f64 * GROWTH) as u64);
        let figures = format!("{first} KiB in the first half, {second} KiB in the second");
        findings.push(Condition::new("memory is flat", flat, figures));
    }
    findings
}

/// Returns the entries of the taint ledger with their seconds.
fn ledger_entries(run: &SoakRun) -> Vec<String> {
    let taints = run.report["taints"].as_array().into_iter().flatten();
    let entry = |taint: &Value| {
        let second = count_or_zero(&taint["since_ns"]) / 1_000_000_000;
        format!("{second} s: {}", taint["cause"])
    };
    taints.map(entry).collect()
}

/// Frames of the lossless class that the switch received, sent and dropped.
fn lossless_frames(run: &SoakRun) -> (u64, u64, u64) {
    let of_class = |port: &Value, field: &str| count_or_zero(&port[field][LOSSLESS]);
    let dropped = |port: &Value| {
        let reasons = port["drops_by_class"].as_object();
        reasons.map_or(0, |reasons| {
            reasons
                .values()
                .map(|classes| count_or_zero(&classes[LOSSLESS]))
                .sum()
        })
    };
    (
        sum_over_ports(run, |port| of_class(port, "rx_class_packets")),
        sum_over_ports(run, |port| of_class(port, "tx_class_packets")),
        sum_over_ports(run, dropped),
    )
}

fn buffer_drops(run: &SoakRun) -> u64 {
    sum_over_ports(run, |port| {
        let of = |reason: &DropReason| count_or_zero(&port["drops"][reason.name()]);
        BY_BUFFER.iter().map(of).sum()
    })
}

fn sum_over_ports(run: &SoakRun, of: impl Fn(&Value) -> u64) -> u64 {
    let ports = run.report["switches"][0]["ports"].as_array();
    ports.map_or(0, |ports| ports.iter().map(of).sum())
}

fn sum_of_array(value: &Value) -> u64 {
    value
        .as_array()
        .map_or(0, |all| all.iter().map(count_or_zero).sum())
}

fn count_or_zero(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
