//! Tables for a terminal.

use comfy_table::{Cell, CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};

use super::SwitchReport;
use super::number::group_thousands;
use super::switch::describe_drop;

/// The style of SONiC tables (format `simple` of the Python package tabulate). A dashed line follows the
/// headers. Two blanks separate columns.
const SIMPLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('-').junction(' '))
    .content_lines(ContentLineStyle::none().junction(' '));

/// Formats a table in the style of SONiC, with a line break at the end. The first `text_columns` columns are
/// aligned left, and all other columns are aligned right. Each row has one text for each header.
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

/// Formats the counts of all classes on one line, such as `3: 1,204  4: 7`. The index in `counts` is the
/// class, and `form` formats a count. Classes with the count zero are left out. The result is a dash if all
/// counts are zero.
pub fn format_counts_by_class(counts: &[u64], form: impl Fn(u64) -> String) -> String {
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

/// Formats a table of dropped frames with a row for each port and drop reason. Returns `None` if no switch
/// dropped a frame.
pub fn drops_table(switches: &[SwitchReport]) -> Option<String> {
    let mut rows = Vec::new();
    for switch in switches {
        for port in &switch.ports {
            for (reason, classes) in &port.drops_by_class {
                rows.push(vec![
                    format!("{} {}", switch.name, port.name),
                    reason.clone(),
                    describe_drop(reason).unwrap_or("-").to_owned(),
                    format_counts_by_class(classes, group_thousands),
                ]);
                // The next row names the limit that caused the latest drop, so that the user knows which
                // setting to change.
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
