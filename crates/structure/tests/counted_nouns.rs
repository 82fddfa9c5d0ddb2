//! Messages pass counted things through `xoff_units::count_noun`, which knows the singular: `1 frame`, `2 frames`.
//!
//! The test reads the string literals of the crates of the product. A placeholder before a plural noun, such as
//! `{count} frames`, would print `1 frames`.

use std::path::{Path, PathBuf};

use regex::Regex;
use structure::source::{SourceFile, TextKind};

/// Plural nouns of things that messages count.
const PLURAL_NOUNS: &[&str] = &[
    "addresses",
    "bits",
    "bytes",
    "cells",
    "classes",
    "conditions",
    "connections",
    "cores",
    "cycles",
    "endpoints",
    "entries",
    "errors",
    "events",
    "figures",
    "files",
    "flows",
    "frames",
    "groups",
    "hosts",
    "instructions",
    "iterations",
    "jobs",
    "labs",
    "lines",
    "links",
    "members",
    "messages",
    "names",
    "nodes",
    "packets",
    "pairs",
    "paths",
    "phases",
    "ports",
    "priorities",
    "processes",
    "profiles",
    "quanta",
    "queues",
    "receivers",
    "routes",
    "runs",
    "samples",
    "seconds",
    "seeds",
    "senders",
    "sizes",
    "steps",
    "switches",
    "tables",
    "taints",
    "threads",
    "values",
    "variants",
    "workers",
];

/// The counted nouns that are justified: the file, the placeholder with its noun, and the reason. A constant (a
/// placeholder in capital letters) and the length of a frame need no entry, because they are above 1.
const JUSTIFIED: &[(&str, &str, &str)] = &[
    (
        "crates/lockstep/src/error.rs",
        "{0} bytes",
        "the limit of waiting frames",
    ),
    (
        "crates/config/src/invariants.rs",
        "{} ports",
        "above the limit of ports",
    ),
    (
        "crates/config/src/problem.rs",
        "{more} more errors",
        "1 has a text of its own",
    ),
    (
        "crates/config/src/resolve/advice.rs",
        "{min_bytes} bytes",
        "a threshold of a buffer",
    ),
    (
        "crates/config/src/resolve/advice.rs",
        "{xoff} bytes",
        "a threshold of a buffer",
    ),
    (
        "crates/config/src/resolve/advice.rs",
        "{limit} bytes",
        "a threshold of a buffer",
    ),
    (
        "crates/config/src/resolve/advice.rs",
        "{need} bytes",
        "headroom for a whole frame",
    ),
    (
        "crates/config/src/resolve/advice.rs",
        "{its} frames",
        "a word, no number",
    ),
    (
        "crates/config/src/resolve/buffer_profiles.rs",
        "{reserve} bytes",
        "larger than a pool",
    ),
    (
        "crates/config/src/resolve/buffer_profiles.rs",
        "{point} bytes",
        "whole cells of a buffer",
    ),
    (
        "crates/config/src/resolve/buffer_sides.rs",
        "{entries} entries",
        "above the limit of entries",
    ),
    (
        "crates/config/src/resolve/chip.rs",
        "{} bytes",
        "a response time of thousands of bytes",
    ),
    (
        "crates/config/src/resolve/context.rs",
        "{} ports",
        "above the limit of ports",
    ),
    (
        "crates/config/src/resolve/dynamic.rs",
        "{xoff_bytes} bytes",
        "above a limit",
    ),
    (
        "crates/config/src/resolve/dynamic.rs",
        "{need} bytes",
        "above a limit",
    ),
    (
        "crates/config/src/resolve/dynamic/pools.rs",
        "{total} bytes",
        "the size of a buffer",
    ),
    (
        "crates/config/src/resolve/flow_control.rs",
        "{quanta} quanta",
        "a longest pause of 65535 quanta or less",
    ),
    (
        "crates/config/src/resolve/mod.rs",
        "{count} routes",
        "above the limit of routes",
    ),
    (
        "crates/fabric/src/deadlock_report.rs",
        "{count} ports",
        "a cycle has two or more ports",
    ),
    (
        "crates/lab/src/capacity.rs",
        "{cores} cores",
        "1 has a text of its own",
    ),
    (
        "crates/lab/src/compare/table.rs",
        "{} seeds",
        "1 has a text of its own",
    ),
    ("crates/lab/src/expr/parser.rs", "{} bytes", "above a limit"),
    (
        "crates/lab/src/ns3/parameters.rs",
        "{} bits",
        "the speed of a link",
    ),
    (
        "crates/lab/src/ns3/parameters.rs",
        "{rate_bps} bits",
        "the speed of a link",
    ),
    (
        "crates/lab/src/plot/pauses.rs",
        "{paused} senders",
        "above the limit of lines",
    ),
    (
        "crates/lab/src/plot/queues.rs",
        "{used_queues} queues",
        "above the limit of lines",
    ),
    (
        "crates/lab/src/problem.rs",
        "{more} more errors",
        "1 has a text of its own",
    ),
    (
        "crates/lab/src/report/job_tables.rs",
        "{} hosts",
        "above the limit of lines",
    ),
    (
        "crates/lab/src/report/table.rs",
        "{} ports",
        "a cycle has two or more ports",
    ),
    (
        "crates/lab/src/resolve/jobs.rs",
        "{} bytes",
        "an MTU, at least 64",
    ),
    (
        "crates/lab/src/resolve/nodes.rs",
        "{} hosts",
        "above the limit of hosts",
    ),
    (
        "crates/lab/src/resolve/script/actions.rs",
        "{given} bytes",
        "longer than a frame",
    ),
    (
        "crates/lab/src/resolve/script/expand.rs",
        "{count} steps",
        "above the limit of steps",
    ),
    (
        "crates/lab/src/resolve/workload.rs",
        "{} bytes",
        "a payload of at least 40 bytes",
    ),
    (
        "crates/lab/src/resolve/workload.rs",
        "{bytes} bytes",
        "a payload of at least 40 bytes",
    ),
    (
        "crates/lab/src/script/run.rs",
        "{events} events",
        "a limit of many events",
    ),
    ("crates/lab/src/sweep/command.rs", "{} runs", "the limit of runs"),
    (
        "crates/lab/src/switch_names.rs",
        "{more} more switches",
        "1 has a text of its own",
    ),
    (
        "crates/lab/src/unconnected_pair.rs",
        "{others} other pairs",
        "1 has a text of its own",
    ),
    (
        "crates/lab/src/virtual_run/command.rs",
        "{} events",
        "a limit of many events",
    ),
    (
        "crates/measure/src/compare/report.rs",
        "{needed} pairs",
        "a test needs 11 pairs or more",
    ),
    (
        "crates/measure/src/dut/traffic.rs",
        "{} bytes",
        "the limit of a frame",
    ),
    (
        "crates/measure/src/dut/virtual_dut/trial.rs",
        "{all:.1e} frames",
        "many frames",
    ),
    (
        "crates/measure/src/ndr/mod.rs",
        "{frames:.3} frames",
        "a decimal fraction",
    ),
    (
        "crates/measure/src/probe/report.rs",
        "{} bytes",
        "the size of a cell",
    ),
    (
        "crates/measure/src/replay/source.rs",
        "{bytes_max} bytes",
        "the limit of a file",
    ),
    (
        "crates/measure/src/rfc2889/mod.rs",
        "{} ports",
        "a test needs two ports or more",
    ),
    (
        "crates/measure/src/rfc8239/mod.rs",
        "{} ports",
        "a test needs two ports or more",
    ),
    (
        "crates/measure/src/rfc8239/mod.rs",
        "{most} bytes",
        "whole frames",
    ),
    (
        "crates/measure/src/tune/bench_result.rs",
        "{cell} bytes",
        "the size of a cell",
    ),
    (
        "crates/measure/src/tune/bench_result.rs",
        "{} bytes",
        "sizes of buffers",
    ),
    (
        "crates/measure/src/tune/headroom_search.rs",
        "{} ports",
        "two ports or more",
    ),
    (
        "crates/ports/src/af_xdp/open.rs",
        "{} queues",
        "more than one queue is the error",
    ),
    (
        "crates/ports/src/arena/store.rs",
        "{len} bytes",
        "the length of a tag or header",
    ),
    (
        "crates/ports/src/frame_check.rs",
        "{frame_len_max} bytes",
        "the limit of a frame",
    ),
    (
        "crates/rdma/src/work.rs",
        "{bytes} bytes",
        "above the limit of a message",
    ),
    (
        "crates/runtime/src/session/losses.rs",
        "{used} bytes",
        "whole cells of a buffer",
    ),
    (
        "crates/runtime/src/session/losses.rs",
        "{} bytes",
        "whole cells of a buffer",
    ),
    (
        "crates/runtime/src/session/losses.rs",
        "{waiting} bytes",
        "whole cells of a buffer",
    ),
    (
        "crates/runtime/src/session/losses.rs",
        "{held} bytes",
        "whole cells of a buffer",
    ),
    (
        "crates/runtime/src/session/losses.rs",
        "{in_headroom} bytes",
        "whole cells of a buffer",
    ),
    (
        "crates/runtime/src/workers/start.rs",
        "{count} switches",
        "more switches than threads",
    ),
    (
        "crates/runtime/src/workers/start.rs",
        "{count} threads",
        "a thread for each of several switches",
    ),
    (
        "crates/wire/src/error.rs",
        "{needed} bytes",
        "the length of a header",
    ),
    (
        "crates/wire/src/error.rs",
        "{value} bytes",
        "a length field with its range",
    ),
    (
        "crates/wire/src/error.rs",
        "{header_len} bytes",
        "the length of a header",
    ),
    (
        "crates/wire/src/link_quality.rs",
        "{needed} bytes",
        "the length of a header",
    ),
    (
        "crates/wire/src/mac_control.rs",
        "{needed} bytes",
        "the length of a header",
    ),
    (
        "crates/wire/src/mac_control.rs",
        "{priority} quanta",
        "the name of a field",
    ),
    (
        "crates/wire/src/roce/build.rs",
        "{needed} bytes",
        "the length of a frame",
    ),
    (
        "crates/wire/src/roce/build.rs",
        "{payload_len} bytes",
        "longer than an IP packet",
    ),
    (
        "crates/workload/src/spec.rs",
        "{0} connections",
        "above the limit of connections",
    ),
    (
        "src/cli/bench/dut.rs",
        "{} ports",
        "a test needs two ports or more",
    ),
    (
        "src/cli/bench/tune.rs",
        "{frame_bytes} bytes",
        "the length of a frame",
    ),
    (
        "src/cli/doctor/machine.rs",
        "{bytes} bytes",
        "the size of a socket buffer",
    ),
    ("src/cli/show/counters.rs", "{} bytes", "the size of a cell"),
];

/// Returns the placeholders with their plural nouns in a literal.
fn counted_nouns(literal: &str) -> Vec<String> {
    let nouns = PLURAL_NOUNS.join("|");
    let pattern = format!(r"\{{([^{{}}]*)\}} (?:(?:more|other|further) )?(?:{nouns})\b");
    let pattern = Regex::new(&pattern).expect("a valid pattern");
    let continued = Regex::new(r"\\\n\s*").expect("a valid pattern");
    let literal = continued.replace_all(literal, "");
    let is_constant = |name: &str| {
        name.chars().any(|letter| letter.is_ascii_uppercase())
            && !name.chars().any(|letter| letter.is_ascii_lowercase())
    };
    let mut found = Vec::new();
    for captures in pattern.captures_iter(&literal) {
        let (whole, placeholder) = (captures.get(0).expect("a match"), &captures[1]);
        let (before, after) = (&literal[..whole.start()], &literal[whole.end()..]);
        let is_frame_length = whole.as_str().ends_with("bytes")
            && ["frame of ", "frames of ", "frames of up to "]
                .iter()
                .any(|words| before.ends_with(words));
        let is_rate = after.starts_with('/');
        if !is_constant(placeholder) && !is_frame_length && !is_rate {
            found.push(whole.as_str().to_owned());
        }
    }
    found
}

/// Returns the Rust files of the crates of the product.
fn product_files(root: &Path) -> Vec<PathBuf> {
    let tools = ["core-bench", "field", "mutator", "structure", "testing"];
    let mut folders = vec![root.join("src"), root.join("dataplane/src")];
    for entry in std::fs::read_dir(root.join("crates")).expect("the folder of the crates") {
        let entry = entry.expect("an entry");
        if !tools.contains(&entry.file_name().to_string_lossy().as_ref()) {
            folders.push(entry.path().join("src"));
        }
    }
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let name = name.unwrap_or_default();
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn counted_things_are_passed_through_count_noun() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut wrong, mut used) = (Vec::new(), vec![false; JUSTIFIED.len()]);
    for path in product_files(&root) {
        let file = path.strip_prefix(&root).expect("below the root").to_owned();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        // Most files have no such literal.
        if counted_nouns(&text).is_empty() {
            continue;
        }
        let source = SourceFile::parse(&file, text).expect("valid Rust");
        for block in source.text_blocks() {
            if block.kind != TextKind::Literal || source.is_test_line(block.line) {
                continue;
            }
            for noun in counted_nouns(&block.text) {
                let justified = JUSTIFIED
                    .iter()
                    .position(|(of, text, _)| file == Path::new(of) && *text == noun);
                match justified {
                    Some(index) => used[index] = true,
                    None => wrong.push(format!("{}:{}: {noun}", file.display(), block.line)),
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "use count_noun, or add the reason to JUSTIFIED:\n{}",
        wrong.join("\n")
    );
    let unused: Vec<_> = JUSTIFIED.iter().zip(used).filter(|(_, used)| !used).collect();
    assert!(unused.is_empty(), "remove from JUSTIFIED: {unused:?}");
}

#[test]
fn plural_nouns_after_placeholders_are_found() {
    assert_eq!(counted_nouns("\"{} frames\""), ["{} frames"]);
    assert_eq!(
        counted_nouns("\"{count} ports are up, {more} more errors\""),
        ["{count} ports", "{more} more errors"]
    );
    for literal in [
        "\"{PORTS_MAX} ports\"",
        "\"frames of {len} bytes\"",
        "\"{rate} frames/s\"",
        "\"{name} sends\"",
        "\"{count} of ports\"",
    ] {
        assert_eq!(counted_nouns(literal), [""; 0], "{literal}");
    }
}
