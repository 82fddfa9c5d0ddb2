//! Tables of counters on a terminal.

use comfy_table::{Cell, CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};

use super::SwitchReport;
use super::number::grouped;
use super::switch::describe_drop;

/// SONiC's look (tabulate's "simple"): headers, a dashed line, two blanks between columns.
const SIMPLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('-').junction(' '))
    .content_lines(ContentLineStyle::none().junction(' '));

/// A table in SONiC's look; the first `text_columns` columns are aligned left, the others, numbers, right.
pub fn simple_table(header: &[&str], text_columns: usize, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(SIMPLE)
        .force_no_tty()
        .set_header(header.iter().map(Cell::new));
    table.add_rows(rows);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        column.set_cell_alignment(if at < text_columns {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// Counts per class in a word: `3: 1,204  4: 7`, or a dash where all are zero.
pub fn numbers(counts: &[u64], form: impl Fn(u64) -> String) -> String {
    let words: Vec<String> = counts
        .iter()
        .enumerate()
        .filter(|&(_, &count)| count > 0)
        .map(|(class, &count)| format!("{class}: {}", form(count)))
        .collect();
    if words.is_empty() {
        "-".to_owned()
    } else {
        words.join("  ")
    }
}

/// Every reason on every port; nothing if no switch dropped a frame.
pub fn drops_table(switches: &[SwitchReport]) -> Option<String> {
    let mut rows = Vec::new();
    for switch in switches {
        for port in &switch.ports {
            for (reason, classes) in &port.drops_by_class {
                rows.push(vec![
                    format!("{} {}", switch.name, port.name),
                    reason.clone(),
                    describe_drop(reason).unwrap_or("-").to_owned(),
                    numbers(classes, grouped),
                ]);
                // Under it, the limit that decided: what there is to tune.
                if let Some(limit) = port.drop_limits.get(reason) {
                    let limit = format!("Latest: {limit}.");
                    rows.push(vec![String::new(), String::new(), limit, String::new()]);
                }
            }
        }
    }
    let header = ["Dropped at", "Reason", "Meaning", "Frames by class"];
    (!rows.is_empty()).then(|| simple_table(&header, 3, rows))
}
