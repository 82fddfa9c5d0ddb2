//! What must hold of a long run.

use serde_json::{Value, json};
use xoff_dataplane::drops::DropReason;

use crate::bed::Run;

/// A link is full when it was busy for this share of its time.
const FULL: f64 = 0.99;
/// Drops that a buffer decided.
const BY_BUFFER: [DropReason; 4] = [
    DropReason::PriorityGroupDropped,
    DropReason::QueueDropped,
    DropReason::WredDropped,
    DropReason::NoBufferSpace,
];
/// Memory is flat if it has not grown by more than this share, or by this much.
const GROWTH: f64 = 0.01;
const GROWTH_KIB: u64 = 1_024;

/// Whether something held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Yes,
    No,
}

impl Kept {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Kept::Yes => "ok",
            Kept::No => "FAIL",
        }
    }
}

/// One of the things that must hold.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) what: &'static str,
    pub(crate) kept: Kept,
    pub(crate) figures: String,
}

impl Finding {
    fn new(what: &'static str, kept: bool, figures: String) -> Finding {
        Finding {
            what,
            kept: if kept { Kept::Yes } else { Kept::No },
            figures,
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"what": self.what, "kept": self.kept == Kept::Yes, "figures": self.figures})
    }
}

/// Whether the link to the receiver stayed full and nothing was lost.
pub(crate) fn is_full(run: &Run) -> bool {
    run.utilisation() >= FULL && buffer_drops(run) == 0 && number(&run.report["totals"]["lost_frames"]) == 0
}

pub(crate) fn findings(run: &Run) -> Vec<Finding> {
    let totals = &run.report["totals"];
    let (sent, received, lost) = (
        number(&totals["sent_frames"]),
        number(&totals["received_frames"]),
        number(&totals["lost_frames"]),
    );
    let taints: Vec<&Value> = run.report["taints"].as_array().into_iter().flatten().collect();
    let named: Vec<String> = taints
        .iter()
        .map(|taint| {
            format!(
                "{} s: {}",
                number(&taint["since_ns"]) / 1_000_000_000,
                taint["cause"]
            )
        })
        .collect();
    let pauses: u64 = sum(run, |port| array(&port["pfc_tx"]));
    let (rx, tx) = (
        sum(run, |port| number(&port["rx_packets"])),
        sum(run, |port| number(&port["tx_packets"])),
    );
    let (own, dropped) = (sum(run, |port| number(&port["rx_own_packets"])), sum(run, drops));
    let waiting = sum(run, |port| {
        port["queues"]
            .as_array()
            .map_or(0, |queues| queues.iter().map(occupied).sum())
    });
    let classes = sum(run, |port| array(&port["rx_class_packets"]));
    let mut all = vec![
        Finding::new(
            "sources were held back by PFC",
            pauses > 0,
            format!("{pauses} PFC frames"),
        ),
        Finding::new(
            "the buffer dropped no lossless frame",
            buffer_drops(run) == 0,
            format!("{} of {sent}", buffer_drops(run)),
        ),
        Finding::new(
            "every other loss lies where the ledger says why",
            lost == 0 || !named.is_empty(),
            format!(
                "{lost} lost; {} entries{}{}",
                named.len(),
                if named.is_empty() { "" } else { ": " },
                named.join("; ")
            ),
        ),
        Finding::new(
            "what hosts sent has arrived or is counted as lost",
            sent == received + lost,
            format!("{sent} = {received} + {lost}"),
        ),
        Finding::new(
            "what came into the switch went out, was its own, or is counted as dropped",
            waiting == 0 && rx == tx + own + dropped,
            format!("{rx} = {tx} + {own} + {dropped}"),
        ),
        Finding::new(
            "classes are all that came",
            classes == rx,
            format!("{classes} = {rx}"),
        ),
    ];
    if let Some((first, second)) = run.memory.halves_kib() {
        let flat = second <= first + GROWTH_KIB.max((first as f64 * GROWTH) as u64);
        let figures = format!("{first} KiB in the first half, {second} KiB in the second");
        all.push(Finding::new("memory is flat", flat, figures));
    }
    all
}

fn buffer_drops(run: &Run) -> u64 {
    sum(run, |port| {
        let of = |reason: &DropReason| number(&port["drops"][reason.name()]);
        BY_BUFFER.iter().map(of).sum()
    })
}

fn drops(port: &Value) -> u64 {
    port["drops"]
        .as_object()
        .map_or(0, |reasons| reasons.values().map(number).sum())
}

fn occupied(queue: &Value) -> u64 {
    number(&queue["SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES"])
}

fn sum(run: &Run, of: impl Fn(&Value) -> u64) -> u64 {
    let ports = run.report["switches"][0]["ports"].as_array();
    ports.map_or(0, |ports| ports.iter().map(of).sum())
}

fn array(value: &Value) -> u64 {
    value.as_array().map_or(0, |all| all.iter().map(number).sum())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
