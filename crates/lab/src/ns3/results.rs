//! What the model recorded: completion times and pauses, as tables with a header or as the model writes them.

use std::collections::BTreeMap;

use super::paths::{FIRST_SOURCE_PORT, node_of_address};
use super::scenario::{Flow, PauseEvent};
use super::text::{ReadError, Text};
use super::topology::Topology;

/// How far a flow's start may lie from what the table of completions says: the cut of ns-3's times.
const START_SLACK_NS: u64 = 1;
const COMPLETIONS: [&str; 6] = ["src", "dst", "bytes", "start_ns", "fct_ns", "ideal_fct_ns"];
const PAUSES: [&str; 5] = ["time_ns", "node", "node_is_switch", "interface", "pause"];
const TIMES_MAX: u64 = u64::MAX / 2_000;

/// Gives each flow the reference of its completion, of either form.
pub(super) fn read_completions(text: &Text, flows: &mut [(Flow, usize)]) -> Result<(), ReadError> {
    match text.words().next() {
        Some(word) if word.text.starts_with("src,") || word.text.contains(',') => read_table(text, flows),
        None => Ok(()),
        Some(_) => read_native(text, flows),
    }
}

/// `sip dip sport dport size start fct standalone_fct`, a line for each flow that ended. Source ports count the flows of a pair.
fn read_native(text: &Text, flows: &mut [(Flow, usize)]) -> Result<(), ReadError> {
    const ROW: &str = "`sip dip sport dport size start fct standalone_fct`, such as `0b000101 0b000201 10000 100 5000 2000000000 8910 8937`";
    let mut of_pair: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for (at, (flow, _)) in flows.iter().enumerate() {
        of_pair.entry((flow.src, flow.dst)).or_default().push(at);
    }
    let mut words = text.words().peekable();
    while words.peek().is_some() {
        let mut row = [super::text::Word::default(); 8];
        for word in &mut row {
            *word = text.next(&mut words, "a field of a row", ROW)?;
        }
        let node = |at: usize| {
            let address = u32::from_str_radix(row[at].text, 16).ok();
            address
                .map(node_of_address)
                .ok_or_else(|| text.wrong_word(&row[at], "this is no address", ROW))
        };
        let number = |at: usize, name: &str| text.number(&row[at], name, 0..=TIMES_MAX);
        let (src, dst) = (node(0)?, node(1)?);
        let (port, bytes) = (number(2, "the source port")?, number(4, "the length")?);
        let (start, fct) = (number(5, "the start")?, number(6, "the completion time")?);
        let nth = port
            .checked_sub(u64::from(FIRST_SOURCE_PORT))
            .map(|nth| nth as usize);
        let place = nth.and_then(|nth| of_pair.get(&(src, dst))?.get(nth).copied());
        let is_it = |flow: &Flow| flow.bytes == bytes && flow.start_ns.abs_diff(start) <= START_SLACK_NS;
        let Some(at) = place.filter(|at| is_it(&flows[*at].0)) else {
            let what = format!(
                "the flows have none from {src} to {dst} of {bytes} bytes at {start} ns with source port {port}"
            );
            let expected = "results of these flows; without the file the flows run and nothing is compared";
            return Err(text.wrong_word(&row[0], what, expected));
        };
        flows[at].0.reference_ns = Some(fct);
        flows[at].0.ideal_ns = Some(number(7, "the time alone")?);
    }
    Ok(())
}

/// A table of [`COMPLETIONS`], one for each flow. Flows that it cannot tell apart share theirs out by length.
fn read_table(text: &Text, flows: &mut [(Flow, usize)]) -> Result<(), ReadError> {
    let mut without: BTreeMap<[u64; 3], Vec<usize>> = BTreeMap::new();
    for (at, (flow, _)) in flows.iter().enumerate().rev() {
        let key = [u64::from(flow.src), u64::from(flow.dst), flow.bytes];
        without.entry(key).or_default().push(at);
    }
    let mut rows = Vec::new();
    for line in text.rows(&COMPLETIONS)? {
        let number = |at: usize| text.number(&line.words[at], COMPLETIONS[at], 0..=TIMES_MAX);
        let key = [number(0)?, number(1)?, number(2)?];
        rows.push((number(4)?, key, number(3)?, number(5)?, line.number));
    }
    rows.sort_unstable();
    for (reference_ns, key, start_ns, ideal_ns, line) in rows {
        let is_it = |at: &usize| flows[*at].0.start_ns.abs_diff(start_ns) <= START_SLACK_NS;
        let candidates = without.entry(key).or_default();
        let Some(place) = candidates.iter().rposition(is_it) else {
            let [src, dst, bytes] = key;
            let what = format!("flow.txt has no flow from {src} to {dst} of {bytes} bytes at {start_ns} ns");
            return Err(text.wrong(line, 1, what, "one completion for each flow"));
        };
        let flow = &mut flows[candidates.remove(place)].0;
        (flow.reference_ns, flow.ideal_ns) = (Some(reference_ns), Some(ideal_ns));
    }
    match without.values().flatten().min() {
        None => Ok(()),
        Some(at) => {
            let (flow, line) = flows[*at];
            let what = format!(
                "the completion of the flow from {} to {} in line {line} of flow.txt is missing",
                flow.src, flow.dst
            );
            Err(text.ended(what, "one completion for each flow"))
        }
    }
}

/// Pauses and resumes, of either form: the model's own has the same columns between blanks, and no header.
pub(super) fn read_pauses(text: &Text, topology: &Topology) -> Result<Vec<PauseEvent>, ReadError> {
    let rows = match text.words().next() {
        Some(word) if word.text.contains(',') => text.rows(&PAUSES)?,
        _ => text.lines().collect(),
    };
    let mut events: Vec<PauseEvent> = Vec::new();
    for line in rows {
        if line.words.len() != PAUSES.len() {
            let what = format!("the row has {} fields", line.words.len());
            return Err(text.wrong(line.number, 1, what, format!("5 fields: {}", PAUSES.join(", "))));
        }
        let number = |at: usize, max: u64| text.number(&line.words[at], PAUSES[at], 0..=max);
        let time_ns = number(0, TIMES_MAX)?;
        let node = number(1, topology.nodes.len().saturating_sub(1) as u64)? as u32;
        let kind = &topology.nodes[node as usize];
        if number(2, 1)? != u64::from(kind.is_switch) {
            let what = format!("node_is_switch contradicts the topology about node {node}");
            return Err(text.wrong_word(&line.words[2], what, "1 for switches, 0 for hosts"));
        }
        let interface = text.number(&line.words[3], PAUSES[3], 1..=kind.links.len().max(1) as u32)?;
        let pause = number(4, 1)? == 1;
        if events.last().is_some_and(|last| last.time_ns > time_ns) {
            return Err(text.wrong_word(
                &line.words[0],
                "the time is before that of the row above",
                "rows in the order of time",
            ));
        }
        events.push(PauseEvent {
            time_ns,
            node,
            interface,
            pause,
        });
    }
    Ok(events)
}
