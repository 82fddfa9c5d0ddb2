//! Writes the results of a sweep as Markdown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::Value;

use super::incast::IncastResult;
use super::lossless::HeadroomSource;
use super::{ConfigCase, LinkCase, LinkResult, LoadResult};

/// Largest number of names in a list of the page. A longer list ends with the number of the names that are
/// left out.
const LISTED_MAX: usize = 4;

/// Returns the whole page as Markdown.
pub(super) fn render_markdown(index: &Value, cases: &[ConfigCase]) -> String {
    let mut text = format!(
        "# SKUs of sonic-buildimage\n\n\
         This page lists every buffer and QoS configuration of sonic-net/sonic-buildimage at commit\n\
         {} ({}). xoff renders each configuration from its templates, loads it with\n\
         `xoff config check`, and runs it in virtual time. This command writes the page:\n\n    cargo run -p field -- skus GITDIR --markdown docs/skus.md\n\n",
        index["commit"].as_str().unwrap_or("?"),
        index["date"].as_str().unwrap_or("?"),
    );
    text.push_str(METHOD);
    write_summary(&mut text, cases);
    write_link_summary(&mut text, cases);
    write_vendors(&mut text, cases);
    write_true_errors(&mut text, cases);
    write_explained_drops(&mut text, cases);
    write_folders(&mut text, cases);
    write_examples(&mut text, cases);
    text
}

const METHOD: &str = "\
A path has the form `device/VENDOR/PLATFORM/SKU[/ASIC]`. A SKU with both buffer models counts once for each model. Many
paths are symbolic links. The real folder is the folder that contains the template. The ports come from
`port_config.ini`, or from `platform.json` and `hwsku.json`. There are no neighbours, so every port is in use, and every
cable has the default length of the template.

The incast has two senders and one receiver at three ports, for every speed and cable length of a configuration. The
delay of a link is the delay of its cable (198 000 km/s). Frames carry 4096 bytes of payload in the lossless class of
the configuration. There is no congestion control, and hosts respond to a pause in 2 quanta. A link passes if both
senders were paused, all messages are complete and no frame is dropped.

";

fn write_summary(text: &mut String, cases: &[ConfigCase]) {
    text.push_str(
        "## Summary\n\n| input | by path | load | true error | refused | by real folder | load in every path |\n|---|---|---|---|---|---|---|\n",
    );
    for group in [
        "traditional",
        "dynamic",
        "Configuration.md",
        "sample_config_db.json",
    ] {
        let of_group: Vec<&ConfigCase> = cases.iter().filter(|case| case.group == group).collect();
        let _ = writeln!(text, "{}", summary_row(group, &of_group));
    }
    text.push('\n');
}

fn summary_row(group: &str, cases: &[&ConfigCase]) -> String {
    let count = |is: fn(&LoadResult) -> bool| cases.iter().filter(|case| is(&case.result)).count();
    let loads = |result: &LoadResult| matches!(result, LoadResult::Loaded(_));
    let mut real: BTreeMap<&str, bool> = BTreeMap::new();
    for case in cases.iter().filter(|case| !case.real.is_empty()) {
        *real.entry(&case.real).or_insert(true) &= loads(&case.result);
    }
    let [folders, loaded] = match real.is_empty() {
        true => [String::new(), String::new()],
        false => [
            real.len().to_string(),
            real.values().filter(|loaded| **loaded).count().to_string(),
        ],
    };
    format!(
        "| {group} | {} | {} | {} | {} | {folders} | {loaded} |",
        cases.len(),
        count(loads),
        count(|result| matches!(result, LoadResult::TrueError { .. })),
        count(|result| matches!(result, LoadResult::Refused(_))),
    )
}

/// The result of a lossless link, as a row or column of the summaries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LinkCategory {
    Passes,
    Short,
    NoProfile,
    NoCable,
    NotRun,
    Unexplained,
}

impl LinkCategory {
    const ALL: [(LinkCategory, &'static str); 6] = [
        (LinkCategory::Passes, "the incast is lossless"),
        (
            LinkCategory::Short,
            "frames are dropped: the headroom is smaller than the link needs, see below",
        ),
        (
            LinkCategory::NoProfile,
            "no row for speed and cable, or no pool: SONiC creates no profile, and `config check` prints a note",
        ),
        (
            LinkCategory::NoCable,
            "a cable of 0 m, or none: the dynamic model creates no profile",
        ),
        (
            LinkCategory::NotRun,
            "no incast: two senders of this speed and a receiver that they exceed do not exist, or no DSCP has a lossless class",
        ),
        (LinkCategory::Unexplained, "not explained"),
    ];

    fn of(link: &LinkCase) -> LinkCategory {
        match &link.result {
            LinkResult::Incast(IncastResult::Passed { .. }) => LinkCategory::Passes,
            LinkResult::Incast(IncastResult::Explained(_)) => LinkCategory::Short,
            LinkResult::Incast(IncastResult::NotRun(_)) => LinkCategory::NotRun,
            LinkResult::Incast(IncastResult::Failed(_)) | LinkResult::NoProfile { is_noted: false } => {
                LinkCategory::Unexplained
            }
            LinkResult::NoProfile { is_noted: true } => LinkCategory::NoProfile,
            LinkResult::NoCable => LinkCategory::NoCable,
        }
    }
}

fn write_link_summary(text: &mut String, cases: &[ConfigCase]) {
    text.push_str("| lossless links (a speed and a cable of a configuration) | traditional | dynamic |\n|---|---|---|\n");
    for (kind, meaning) in LinkCategory::ALL {
        let count = |group: &str| {
            let links = cases
                .iter()
                .filter(|case| case.group == group)
                .flat_map(|case| &case.links);
            links.filter(|link| LinkCategory::of(link) == kind).count()
        };
        let _ = writeln!(
            text,
            "| {meaning} | {} | {} |",
            count("traditional"),
            count("dynamic")
        );
    }
    // A configuration is counted if at least one of its incasts ran.
    let with_incast = |group: &str, is_wanted: fn(LinkCategory) -> bool| {
        let ran = |link: &LinkCase| matches!(&link.result, LinkResult::Incast(result) if !matches!(result, IncastResult::NotRun(_)));
        let of_group = cases.iter().filter(|case| case.group == group);
        let wanted = of_group.filter(|case| {
            let mut links = case.links.iter().filter(|link| ran(link)).peekable();
            links.peek().is_some() && links.all(|link| is_wanted(LinkCategory::of(link)))
        });
        wanted.count()
    };
    for (meaning, is_wanted) in [
        (
            "configurations with an incast",
            (|_| true) as fn(LinkCategory) -> bool,
        ),
        ("of them every incast is lossless", |kind| {
            kind == LinkCategory::Passes
        }),
    ] {
        let _ = writeln!(
            text,
            "| {meaning} | {} | {} |",
            with_incast("traditional", is_wanted),
            with_incast("dynamic", is_wanted)
        );
    }
    let without = |group: &str| {
        let loaded = cases
            .iter()
            .filter(|case| case.group == group && matches!(case.result, LoadResult::Loaded(_)));
        loaded.filter(|case| case.links.is_empty()).count()
    };
    let _ = writeln!(
        text,
        "| configurations without PFC: nothing to try | {} | {} |\n",
        without("traditional"),
        without("dynamic")
    );
}

fn write_vendors(text: &mut String, cases: &[ConfigCase]) {
    text.push_str("## By vendor\n\n| vendor | platforms | traditional | dynamic | real folders | do not load | links that pass | short | no profile |\n|---|---|---|---|---|---|---|---|---|\n");
    let mut by_vendor: BTreeMap<&str, Vec<&ConfigCase>> = BTreeMap::new();
    for case in cases.iter().filter(|case| !case.real.is_empty()) {
        let vendor = case.path.split('/').nth(1).unwrap_or("");
        by_vendor.entry(vendor).or_default().push(case);
    }
    for (vendor, cases) in by_vendor {
        let platforms: BTreeSet<_> = cases.iter().map(|case| case.path.split('/').nth(2)).collect();
        let folders: BTreeSet<_> = cases.iter().map(|case| (&case.real, &case.group)).collect();
        let model = |group: &str| cases.iter().filter(|case| case.group == group).count();
        let links = |kind| {
            let all = cases.iter().flat_map(|case| &case.links);
            all.filter(|link| LinkCategory::of(link) == kind).count()
        };
        let _ = writeln!(
            text,
            "| {vendor} | {} | {} | {} | {} | {} | {} | {} | {} |",
            platforms.len(),
            model("traditional"),
            model("dynamic"),
            folders.len(),
            cases
                .iter()
                .filter(|case| !matches!(case.result, LoadResult::Loaded(_)))
                .count(),
            links(LinkCategory::Passes),
            links(LinkCategory::Short),
            links(LinkCategory::NoProfile),
        );
    }
    text.push('\n');
}

fn write_true_errors(text: &mut String, cases: &[ConfigCase]) {
    text.push_str(
        "## True errors\n\nErrors of the repository's own files.\n\n| input | why | error |\n|---|---|---|\n",
    );
    for case in cases {
        match &case.result {
            LoadResult::TrueError { error, why } => {
                let _ = writeln!(
                    text,
                    "| {} {} | {} | {} |",
                    strip_device_prefix(&case.path),
                    model_of(case),
                    escape_cell(why),
                    escape_cell(error)
                );
            }
            LoadResult::Refused(errors) => {
                let first = errors.first().map_or("no reason", String::as_str);
                let _ = writeln!(
                    text,
                    "| {} {} | **not explained** | {} |",
                    strip_device_prefix(&case.path),
                    model_of(case),
                    escape_cell(first)
                );
            }
            LoadResult::Loaded(_) => {}
        }
    }
    text.push('\n');
}

fn model_of(case: &ConfigCase) -> &str {
    if case.real.is_empty() { "" } else { &case.group }
}

/// Writes the lossless links with too little headroom, and the calculation for each of them.
fn write_explained_drops(text: &mut String, cases: &[ConfigCase]) {
    text.push_str("## Why incasts drop\n\n");
    let mut kinds: BTreeMap<(u64, &str, &str), Vec<&ConfigCase>> = BTreeMap::new();
    for case in cases {
        for link in &case.links {
            if let LinkResult::Incast(IncastResult::Explained(why) | IncastResult::Failed(why)) = &link.result
            {
                kinds
                    .entry((link.ports.speed_mbps, &link.ports.cable, why))
                    .or_default()
                    .push(case);
            }
        }
    }
    if kinds.is_empty() {
        text.push_str("No incast dropped a frame.\n\n");
        return;
    }
    text.push_str("Bytes of one priority group. The need is that of the incast above, in whole cells.\n\n| speed, cable | arithmetic | configurations | for example |\n|---|---|---|---|\n");
    for ((speed, cable, why), cases) in kinds {
        let example = cases.first().map_or("", |case| strip_device_prefix(&case.path));
        let _ = writeln!(
            text,
            "| {} {cable} | {} | {} | {example} |",
            format_speed(speed),
            escape_cell(why),
            cases.len()
        );
    }
    text.push('\n');
}

fn write_folders(text: &mut String, cases: &[ConfigCase]) {
    text.push_str("## Folders\n\nThe table has one row for each real folder and buffer model. `100G 5m: 15360/18432` is a speed and a cable length with a\n\
                   lossless incast that used 15360 of 18432 bytes of headroom. `computed` is headroom from the dynamic buffer model.\n\n| folder | model | paths | load | lossless links |\n|---|---|---|---|---|\n");
    let mut by_folder: BTreeMap<(&str, &str), Vec<&ConfigCase>> = BTreeMap::new();
    for case in cases.iter().filter(|case| !case.real.is_empty()) {
        by_folder.entry((&case.real, &case.group)).or_default().push(case);
    }
    for ((real, model), cases) in by_folder {
        let mut links: Vec<String> = Vec::new();
        for link in cases.iter().flat_map(|case| &case.links).map(link_text) {
            if !links.contains(&link) {
                links.push(link);
            }
        }
        let loaded = cases
            .iter()
            .filter(|case| matches!(case.result, LoadResult::Loaded(_)))
            .count();
        let links = match (links.is_empty(), loaded) {
            (true, 0) => "true error, see above".to_owned(),
            (true, _) => "no PFC".to_owned(),
            _ => links.join("; "),
        };
        let _ = writeln!(
            text,
            "| {} | {model} | {} | {loaded} | {links} |",
            strip_device_prefix(real),
            cases.len()
        );
    }
    text.push('\n');
}

fn link_text(link: &LinkCase) -> String {
    let what = match &link.result {
        LinkResult::Incast(IncastResult::Passed { headroom_used }) => match &link.ports.headroom {
            HeadroomSource::Row(sizes) | HeadroomSource::Profile(sizes) => {
                format!("{headroom_used}/{}", sizes.xoff_bytes)
            }
            _ => format!("{headroom_used}/computed"),
        },
        LinkResult::Incast(IncastResult::Explained(_)) => "**short**".to_owned(),
        LinkResult::Incast(IncastResult::NotRun(why)) => format!("not run, {why}"),
        LinkResult::Incast(IncastResult::Failed(_)) => "**not explained**".to_owned(),
        LinkResult::NoProfile { is_noted } => {
            let missing = match link.ports.headroom {
                HeadroomSource::NoPool => "no pool",
                _ => "no row",
            };
            match is_noted {
                true => format!("{missing}, noted"),
                false => format!("**{missing}, not noted**"),
            }
        }
        LinkResult::NoCable => "no cable".to_owned(),
    };
    format!(
        "{} {}: {what}",
        format_speed(link.ports.speed_mbps),
        link.ports.cable
    )
}

fn write_examples(text: &mut String, cases: &[ConfigCase]) {
    text.push_str("## Examples\n\nThese examples of `src/sonic-yang-models/doc/Configuration.md` load after completion. An example refers to objects that\n\
                   it does not show. The missing objects come from other examples of the document, or are a bare port, LAG or VLAN.\n\n| line | completed |\n|---|---|\n");
    for case in cases.iter().filter(|case| case.real.is_empty()) {
        if let LoadResult::Loaded(Some(how)) = &case.result {
            let line = case.path.rsplit(':').next().unwrap_or("");
            let _ = writeln!(text, "| {line} | {} |", escape_cell(how));
        }
    }
}

/// Returns one line for each result that is not explained.
pub(super) fn failure_lines(cases: &[ConfigCase]) -> String {
    let mut text = String::new();
    for case in cases.iter().filter(|case| case.is_failure()) {
        if let LoadResult::Refused(errors) = &case.result {
            let first = errors.first().map_or("no reason", String::as_str);
            let _ = writeln!(text, "{} {}: {first}", case.path, case.group);
        }
        for link in &case.links {
            let place = format!("{} {} {}", case.path, case.group, link_text(link));
            match &link.result {
                LinkResult::Incast(IncastResult::Failed(why)) => {
                    let _ = writeln!(text, "{place}: {why}");
                }
                LinkResult::NoProfile { is_noted: false } => {
                    let _ = writeln!(text, "{place}");
                }
                _ => {}
            }
        }
    }
    text
}

/// Joins at most [`LISTED_MAX`] names to a text. If there are more names, the text ends with the number of
/// the names that are left out.
pub(super) fn join_limited(names: &[String]) -> String {
    let shown = names.len().min(LISTED_MAX);
    let mut text = names[..shown].join(", ");
    if names.len() > shown {
        let _ = write!(text, " and {} more", names.len() - shown);
    }
    text
}

fn strip_device_prefix(path: &str) -> &str {
    path.strip_prefix("device/").unwrap_or(path)
}

fn format_speed(speed_mbps: u64) -> String {
    match speed_mbps % 1000 {
        0 => format!("{}G", speed_mbps / 1000),
        _ => format!("{speed_mbps}M"),
    }
}

fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skus::lossless::{LosslessPorts, ProfileSizes};
    use serde_json::json;

    fn case(path: &str, real: &str, result: LoadResult, links: Vec<LinkCase>) -> ConfigCase {
        ConfigCase {
            path: format!("device/v/p/{path}"),
            real: format!("device/v/p/{real}"),
            group: "traditional".to_owned(),
            result,
            links,
        }
    }

    fn link(result: LinkResult) -> LinkCase {
        let sizes = ProfileSizes {
            xoff_bytes: 18_432,
            threshold: 0,
            pool: "p".to_owned(),
        };
        LinkCase {
            ports: LosslessPorts {
                speed_mbps: 100_000,
                cable: "5m".to_owned(),
                priority: 3,
                dscp: Some(3),
                headroom: HeadroomSource::Row(sizes),
                ports: vec!["Ethernet0".to_owned()],
            },
            result,
        }
    }

    #[test]
    fn summary_counts_paths_and_real_folders() {
        let passed = || link(LinkResult::Incast(IncastResult::Passed { headroom_used: 512 }));
        let loaded = || LoadResult::Loaded(None);
        let true_error = LoadResult::TrueError {
            error: "A|b: no".to_owned(),
            why: "misprint".to_owned(),
        };
        let refused = LoadResult::Refused(vec!["QUEUE|Ethernet0|8: wrong".to_owned()]);
        let short = link(LinkResult::Incast(IncastResult::Explained(
            "xoff is 1 B".to_owned(),
        )));
        let unnoted = link(LinkResult::NoProfile { is_noted: false });
        let cases = [
            case("a", "x", loaded(), vec![passed(), short]),
            case("b", "x", loaded(), vec![passed()]),
            case("c", "y", true_error, Vec::new()),
            case("d", "y", refused, Vec::new()),
            case("e", "z", loaded(), vec![unnoted]),
        ];
        let text = render_markdown(&json!({"commit": "abc", "date": "2026-01-01"}), &cases);
        for line in [
            "at commit\nabc (2026-01-01)",
            "| traditional | 5 | 3 | 1 | 1 | 3 | 2 |",
            "| the incast is lossless | 2 | 0 |",
            "| not explained | 1 | 0 |",
            "| configurations with an incast | 2 | 0 |",
            "| of them every incast is lossless | 1 | 0 |",
            "| v/p/c traditional | misprint | A\\|b: no |",
            "| v/p/d traditional | **not explained** | QUEUE\\|Ethernet0\\|8: wrong |",
            "| 100G 5m | xoff is 1 B | 1 | v/p/a |",
            "| v/p/x | traditional | 2 | 2 | 100G 5m: 512/18432; 100G 5m: **short** |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(
            failure_lines(&cases),
            "device/v/p/d traditional: QUEUE|Ethernet0|8: wrong\ndevice/v/p/e traditional 100G 5m: **no row, not noted**\n"
        );
        assert_eq!(failure_lines(&cases[..3]), "");
    }

    #[test]
    fn long_lists_end_with_a_count() {
        let names: Vec<String> = (0..6).map(|number| format!("n{number}")).collect();
        assert_eq!(join_limited(&names), "n0, n1, n2, n3 and 2 more");
        assert_eq!(join_limited(&names[..2]), "n0, n1");
    }
}
