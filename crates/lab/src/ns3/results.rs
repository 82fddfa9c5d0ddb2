//! Reads the results of the model: completion times and pauses.
//!
//! Each file has either the native format of the model or is a CSV table with a header.

use std::collections::BTreeMap;

use xoff_telemetry::count_noun;

use super::flow::{Flow, PauseEvent};
use super::paths::{FIRST_SOURCE_PORT, node_of_model_address};
use super::text::{InputText, ReadError};
use super::topology::Topology;

/// Largest difference in nanoseconds between the start of a flow in the flow list and in the results. The
/// times can differ, because ns-3 rounds times down.
const START_SLACK_NS: u64 = 1;
/// Columns of the CSV table of completions.
const COMPLETION_COLUMNS: [&str; 6] = ["src", "dst", "bytes", "start_ns", "fct_ns", "ideal_fct_ns"];
/// Columns of a pause event, in both formats.
const PAUSE_COLUMNS: [&str; 5] = ["time_ns", "node", "node_is_switch", "interface", "pause"];
/// Largest time in nanoseconds.
const TIME_NS_MAX: u64 = u64::MAX / 2_000;

/// Reads the completions in either format and stores the completion times of the model in `flows`.
pub(super) fn read_completions(text: &InputText, flows: &mut [(Flow, usize)]) -> Result<(), ReadError> {
    match text.words().next() {
        Some(word) if word.text.starts_with("src,") || word.text.contains(',') => {
            read_completion_table(text, flows)
        }
        None => Ok(()),
        Some(_) => read_native_completions(text, flows),
    }
}

/// Reads completions in the native format: `sip dip sport dport size start fct standalone_fct`.
///
/// Each completed flow has one row. If a pair of hosts has several flows, the source port identifies
/// the flow.
fn read_native_completions(text: &InputText, flows: &mut [(Flow, usize)]) -> Result<(), ReadError> {
    const ROW: &str = "`sip dip sport dport size start fct standalone_fct`, such as `0b000101 0b000201 10000 100 5000 2000000000 8910 8937`";
    let mut flows_of_pair: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for (index, (flow, _)) in flows.iter().enumerate() {
        flows_of_pair.entry((flow.src, flow.dst)).or_default().push(index);
    }
    let mut words = text.words().peekable();
    while words.peek().is_some() {
        let mut row = [super::text::InputWord::default(); 8];
        for word in &mut row {
            *word = text.next_word(&mut words, "a field of a row", ROW)?;
        }
        let node = |index: usize| {
            let address = u32::from_str_radix(row[index].text, 16).ok();
            address
                .map(node_of_model_address)
                .ok_or_else(|| text.error_at_word(&row[index], "this is not an address", ROW))
        };
        let number = |index: usize, name: &str| text.parse_number(&row[index], name, 0..=TIME_NS_MAX);
        let (src, dst) = (node(0)?, node(1)?);
        let (port, bytes) = (number(2, "the source port")?, number(4, "the length")?);
        let (start, fct) = (number(5, "the start")?, number(6, "the completion time")?);
        let nth = port
            .checked_sub(u64::from(FIRST_SOURCE_PORT))
            .map(|nth| nth as usize);
        let position = nth.and_then(|nth| flows_of_pair.get(&(src, dst))?.get(nth).copied());
        let matches_row =
            |flow: &Flow| flow.bytes == bytes && flow.start_ns.abs_diff(start) <= START_SLACK_NS;
        let Some(index) = position.filter(|index| matches_row(&flows[*index].0)) else {
            let what = format!(
                "the flows have none from {src} to {dst} of {} at {start} ns with source port {port}",
                count_noun(bytes, "byte")
            );
            let expected =
                "results of these flows; without the file, xoff runs the flows and compares nothing";
            return Err(text.error_at_word(&row[0], what, expected));
        };
        flows[index].0.reference_ns = Some(fct);
        flows[index].0.ideal_ns = Some(number(7, "the time alone")?);
    }
    Ok(())
}

/// Reads completions from a CSV table with [`COMPLETION_COLUMNS`] and one row for each flow.
///
/// Several flows can have the same hosts, size and start time. These flows get their completion times in
/// increasing order.
fn read_completion_table(text: &InputText, flows: &mut [(Flow, usize)]) -> Result<(), ReadError> {
    let mut open_flows: BTreeMap<[u64; 3], Vec<usize>> = BTreeMap::new();
    for (index, (flow, _)) in flows.iter().enumerate().rev() {
        let key = [u64::from(flow.src), u64::from(flow.dst), flow.bytes];
        open_flows.entry(key).or_default().push(index);
    }
    let mut rows = Vec::new();
    for line in text.table_rows(&COMPLETION_COLUMNS)? {
        let number =
            |index: usize| text.parse_number(&line.words[index], COMPLETION_COLUMNS[index], 0..=TIME_NS_MAX);
        let key = [number(0)?, number(1)?, number(2)?];
        rows.push((number(4)?, key, number(3)?, number(5)?, line.number));
    }
    rows.sort_unstable();
    for (reference_ns, key, start_ns, ideal_ns, line) in rows {
        let matches_row = |index: &usize| flows[*index].0.start_ns.abs_diff(start_ns) <= START_SLACK_NS;
        let candidates = open_flows.entry(key).or_default();
        let Some(position) = candidates.iter().rposition(matches_row) else {
            let [src, dst, bytes] = key;
            let bytes = count_noun(bytes, "byte");
            let what = format!("flow.txt has no flow from {src} to {dst} of {bytes} at {start_ns} ns");
            return Err(text.error_at(line, 1, what, "one completion for each flow"));
        };
        let flow = &mut flows[candidates.remove(position)].0;
        (flow.reference_ns, flow.ideal_ns) = (Some(reference_ns), Some(ideal_ns));
    }
    match open_flows.values().flatten().min() {
        None => Ok(()),
        Some(index) => {
            let (flow, line) = flows[*index];
            let what = format!(
                "the completion of the flow from {} to {} in line {line} of flow.txt is missing",
                flow.src, flow.dst
            );
            Err(text.error_at_end(what, "one completion for each flow"))
        }
    }
}

/// Reads the pause and resume events in either format.
///
/// The native format has the same columns as the CSV table, but white space between them and no header.
pub(super) fn read_pauses(text: &InputText, topology: &Topology) -> Result<Vec<PauseEvent>, ReadError> {
    let rows = match text.words().next() {
        Some(word) if word.text.contains(',') => text.table_rows(&PAUSE_COLUMNS)?,
        _ => text.lines().collect(),
    };
    let mut events: Vec<PauseEvent> = Vec::new();
    for line in rows {
        if line.words.len() != PAUSE_COLUMNS.len() {
            let what = format!(
                "the row has {}",
                xoff_telemetry::count_noun(line.words.len() as u64, "field")
            );
            return Err(text.error_at(
                line.number,
                1,
                what,
                format!("5 fields: {}", PAUSE_COLUMNS.join(", ")),
            ));
        }
        let number =
            |index: usize, max: u64| text.parse_number(&line.words[index], PAUSE_COLUMNS[index], 0..=max);
        let time_ns = number(0, TIME_NS_MAX)?;
        let node = number(1, topology.nodes.len().saturating_sub(1) as u64)? as u32;
        let node_entry = &topology.nodes[node as usize];
        if number(2, 1)? != u64::from(node_entry.is_switch) {
            let what = format!("node_is_switch contradicts the topology about node {node}");
            return Err(text.error_at_word(&line.words[2], what, "1 for switches, 0 for hosts"));
        }
        let interface = text.parse_number(
            &line.words[3],
            PAUSE_COLUMNS[3],
            1..=node_entry.links.len().max(1) as u32,
        )?;
        let is_pause = number(4, 1)? == 1;
        if events.last().is_some_and(|last| last.time_ns > time_ns) {
            return Err(text.error_at_word(
                &line.words[0],
                "the time is before that of the row above",
                "rows in the order of time",
            ));
        }
        events.push(PauseEvent {
            time_ns,
            node,
            interface,
            is_pause,
        });
    }
    Ok(events)
}
