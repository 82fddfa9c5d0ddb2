//! The report of a run as one page of HTML without other files.

use std::fmt::Write;

use xoff_units::{LinkTiming, Picos, count_noun};

use crate::outcome::{CheckReport, RunReport};
use crate::report::run_table::{describe_counts, describe_run};
use crate::report::timeline::{BINS, SenderTimeline, Timeline};

/// Width of the area with frames, and of the labels on its left side, in pixels.
const AREA_WIDTH: usize = 2 * BINS;
const LABEL_WIDTH: usize = 150;
/// Height of a row in pixels.
const ROW_HEIGHT: usize = 22;

const STYLE: &str = "\
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1000px;color:#1a1a1a;background:#fff}
table{border-collapse:collapse}td,th{padding:2px 10px 2px 0;text-align:left;vertical-align:top}
h2{margin:1.6em 0 .2em;font-size:1.1em}dl{margin:.3em 0;display:grid;grid-template-columns:max-content 1fr;gap:0 1em}
dd{margin:0}svg{max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#1a1a1a}
.pass,.info,.xfail{color:#176b2c}.fail,.xpass{color:#b00020;font-weight:bold}.skip,.inconclusive{color:#6b5900}
.frames{stroke:#2b5fab;stroke-width:2}.pause{fill:#d9534f;fill-opacity:.28}.xoff{stroke:#b00020;stroke-width:2}
.xon{stroke:#176b2c;stroke-width:2}.grid{stroke:#ddd}";

/// Formats a report as an HTML page. Checks with recorded frames have a picture.
pub fn format_html(report: &RunReport) -> String {
    let link = LinkTiming::ethernet(report.speed_mbps);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>xoff conform: {device}</title>\
         <style>{STYLE}</style>\n<h1>PFC conformance: {device}</h1><p>{run}</p>",
        device = escape(&report.device),
        run = escape(&describe_run(report)),
    );
    if report.is_interrupted {
        page.push_str("<p class=\"inconclusive\">The run was interrupted. Later checks did not run.</p>");
    }
    if let Some(reason) = &report.failure {
        let _ = write!(
            page,
            "<p class=\"fail\">The run ended early: {}.</p>",
            escape(reason)
        );
    }
    if report.preflight.has_failed() {
        let detail = escape(&report.preflight.detail);
        let _ = write!(
            page,
            "<p class=\"fail\">MAC control frames do not pass: {detail}. No check ran.</p>"
        );
    }
    let _ = write!(page, "<p>{}</p>\n<table>", describe_counts(&report.counts));
    for check in &report.checks {
        let (id, name) = (check.check.id, check.outcome.name());
        let _ = writeln!(
            page,
            "<tr><td><a href=\"#{id}\">{id}</a><td class=\"{class}\">{name}<td>{title}",
            class = name.to_lowercase(),
            title = escape(check.check.title)
        );
    }
    page.push_str("</table>\n");
    page.push_str(LEGEND);
    report
        .checks
        .iter()
        .for_each(|check| write_check(&mut page, check, &link));
    page.push_str("</html>\n");
    page
}

const LEGEND: &str = "<p>In the pictures, blue lines are data frames: the higher, the more. Lines of MAC control frames \
                      are red if they pause a class, and green otherwise; point at a line to read the frame. A red area \
                      is a pause that the received frames imply.</p>\n";

fn write_check(page: &mut String, check: &CheckReport, link: &LinkTiming) {
    let name = check.outcome.name();
    let _ = write!(
        page,
        "<h2 id=\"{id}\">{id}: {title} <span class=\"{class}\">{name}</span></h2><dl>",
        id = check.check.id,
        title = escape(check.check.title),
        class = name.to_lowercase(),
    );
    let attempts = count_noun(u64::from(check.attempts), "attempt");
    for (label, text) in [
        ("result", check.describe().as_str()),
        ("stimulus", check.check.stimulus),
        ("observation", check.check.observation),
        ("criterion", check.check.criterion),
        ("clause", check.check.clause),
        ("attempts", attempts.as_str()),
    ] {
        let _ = write!(page, "<dt>{label}<dd>{}", escape(text));
    }
    page.push_str("</dl>\n");
    if let Some(trace) = &check.trace {
        let duration = Picos::from_nanos(check.model_time_ns);
        write_picture(page, &Timeline::new(trace, duration, link));
        if trace.missing_frames > 0 {
            let missing = count_noun(trace.missing_frames, "later frame");
            let _ = writeln!(page, "<p>{missing} missing in the picture.</p>");
        }
    }
}

/// Returns the horizontal position of a time in pixels.
fn position(timeline: &Timeline, at: Picos) -> f64 {
    let share = at.0 as f64 / timeline.duration.0 as f64;
    LABEL_WIDTH as f64 + AREA_WIDTH as f64 * share.min(1.0)
}

fn write_picture(page: &mut String, timeline: &Timeline) {
    let senders = [("instrument", &timeline.instrument), ("device", &timeline.device)];
    let rows: usize = senders
        .iter()
        .map(|(_, sender)| sender.classes().count() + usize::from(!sender.control.is_empty()))
        .sum();
    let height = (rows + 1) * ROW_HEIGHT;
    let width = LABEL_WIDTH + AREA_WIDTH + 10;
    let _ = write!(
        page,
        "<svg role=\"img\" aria-label=\"frames of the check\" viewBox=\"0 0 {width} {height}\" width=\"{width}\">"
    );
    let mut row = 0;
    for (name, sender) in senders {
        if !sender.control.is_empty() {
            write_control_row(page, timeline, name, sender, row);
            row += 1;
        }
        for class in sender.classes() {
            write_class_row(page, timeline, name, sender, class, row);
            row += 1;
        }
    }
    for tenth in (0..=10).step_by(2) {
        let at = Picos(timeline.duration.0 / 10 * tenth);
        let (x, y) = (position(timeline, at), height - 6);
        let millis = at.0 as f64 / 1e9;
        let anchor = if tenth == 10 { "end" } else { "middle" };
        let _ = write!(
            page,
            "<path class=\"grid\" d=\"M{x:.1} 0v{}\"/><text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{millis:.1} \
             ms</text>",
            rows * ROW_HEIGHT
        );
    }
    page.push_str("</svg>\n");
}

fn write_label(page: &mut String, row: usize, label: &str) {
    let y = row * ROW_HEIGHT + ROW_HEIGHT - 7;
    let _ = write!(page, "<text x=\"0\" y=\"{y}\">{label}</text>");
}

fn write_control_row(
    page: &mut String,
    timeline: &Timeline,
    name: &str,
    sender: &SenderTimeline,
    row: usize,
) {
    write_label(page, row, &format!("{name}, MAC control"));
    let (y, height) = (row * ROW_HEIGHT + 3, ROW_HEIGHT - 6);
    for mark in &sender.control {
        let class = if mark.is_xon { "xon" } else { "xoff" };
        let x = position(timeline, mark.at);
        let millis = mark.at.0 as f64 / 1e9;
        let more = match mark.count {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let _ = write!(
            page,
            "<path class=\"{class}\" d=\"M{x:.1} {y}v{height}\"><title>{millis:.3} ms: {}{more}</title></path>",
            escape(&mark.text)
        );
    }
}

fn write_class_row(
    page: &mut String,
    timeline: &Timeline,
    name: &str,
    sender: &SenderTimeline,
    class: usize,
    row: usize,
) {
    write_label(page, row, &format!("{name}, class {class}"));
    let top = row * ROW_HEIGHT;
    for (from, until) in &sender.pauses[class] {
        let (left, right) = (position(timeline, *from), position(timeline, *until));
        let [from, until] = [from, until].map(|time| time.0 as f64 / 1e9);
        let _ = write!(
            page,
            "<rect class=\"pause\" x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{ROW_HEIGHT}\"><title>paused from \
             {from:.3} to {until:.3} ms</title></rect>",
            (right - left).max(0.5)
        );
    }
    let most = sender.frames[class]
        .iter()
        .copied()
        .max()
        .unwrap_or_default()
        .max(1);
    let bottom = top + ROW_HEIGHT - 2;
    let mut lines = String::new();
    for (bin, count) in sender.frames[class]
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
    {
        let height = (*count as usize * (ROW_HEIGHT - 4)).div_ceil(most as usize);
        let x = LABEL_WIDTH + bin * AREA_WIDTH / BINS + 1;
        let _ = write!(lines, "M{x} {bottom}v-{height}");
    }
    if !lines.is_empty() {
        let _ = write!(page, "<path class=\"frames\" d=\"{lines}\"/>");
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
