//! Tables in the format of SONiC's commands: format "simple" of Python's `tabulate`.

/// Alignment of text columns. A column that contains only numbers is always aligned right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextAlignment {
    Left,
    Right,
}

/// Smallest number of characters by which a column is wider than its header, as in `tabulate`.
const HEADER_PADDING: usize = 2;

/// Returns a table with a header and a dashed line. Two spaces separate the columns.
pub(super) fn tabulate(header: &[&str], rows: &[Vec<String>], text_alignment: TextAlignment) -> String {
    let column = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    let columns: Vec<(usize, TextAlignment)> = header
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let widest = column(at).map(|cell| cell.chars().count()).max().unwrap_or(0);
            let numbers = !rows.is_empty() && column(at).all(|cell| is_number(cell));
            let align = if numbers {
                TextAlignment::Right
            } else {
                text_alignment
            };
            (widest.max(name.chars().count() + HEADER_PADDING), align)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells
            .zip(&columns)
            .map(|(cell, (width, align))| match align {
                TextAlignment::Left => format!("{cell:<width$}"),
                TextAlignment::Right => format!("{cell:>width$}"),
            })
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let mut table = line(&mut header.iter().copied());
    let dashes: Vec<String> = columns.iter().map(|(width, _)| "-".repeat(*width)).collect();
    table.push_str(&line(&mut dashes.iter().map(String::as_str)));
    for row in rows {
        table.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    table
}

fn is_number(cell: &str) -> bool {
    cell.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter()
            .map(|row| row.iter().map(|cell| (*cell).to_owned()).collect())
            .collect()
    }

    /// Output of SONiC's `fdbshow`.
    #[test]
    fn numbers_are_aligned_right_and_text_is_aligned_left() {
        let rows = rows(&[
            &["1", "1000", "7C:FE:90:80:9F:05", "Ethernet20", "Dynamic"],
            &["2", "1000", "7C:FE:90:80:9F:01", "Ethernet4", "Dynamic"],
        ]);
        let expected = "  No.    Vlan  MacAddress         Port        Type
-----  ------  -----------------  ----------  -------
    1    1000  7C:FE:90:80:9F:05  Ethernet20  Dynamic
    2    1000  7C:FE:90:80:9F:01  Ethernet4   Dynamic
";
        let header = ["No.", "Vlan", "MacAddress", "Port", "Type"];
        assert_eq!(tabulate(&header, &rows, TextAlignment::Left), expected);
    }

    /// Output of SONiC's `portstat`, cut down.
    #[test]
    fn text_can_be_aligned_right() {
        let rows = rows(&[&["Ethernet0", "D", "8"], &["Ethernet4", "N/A", "1,000"]]);
        let expected = "    IFACE    STATE    RX_OK
---------  -------  -------
Ethernet0        D        8
Ethernet4      N/A    1,000
";
        assert_eq!(
            tabulate(&["IFACE", "STATE", "RX_OK"], &rows, TextAlignment::Right),
            expected
        );
    }

    #[test]
    fn an_empty_table_is_its_header() {
        assert_eq!(
            tabulate(&["No.", "Vlan"], &[], TextAlignment::Left),
            "No.    Vlan\n-----  ------\n"
        );
    }
}
