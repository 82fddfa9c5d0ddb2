//! Tests that messages name only options that exist.
//!
//! The tests read the string literals of all crates. A message that names commands, such as `xoff lab run --virtual`,
//! may name their options. All other messages may name only options of all commands that can print them
//! ([`PRINTING_COMMANDS`]).

use std::path::{Path, PathBuf};

use clap::Command;
use structure::source::{SourceFile, TextKind};

use super::command::build_command;

/// The commands that print the messages of source files. The longest prefix of the path of a file applies. A command
/// stands for all its subcommands that take a configuration, a lab or a running switch.
const PRINTING_COMMANDS: &[(&str, &[&str])] = &[
    (
        "crates/config/src/resolve/mod.rs",
        &["config check", "replay", "switch run"],
    ),
    ("crates/conform/src/", &["conform run"]),
    ("crates/conform-port/src/", &["conform run"]),
    ("crates/control/src/", &["switch run"]),
    (
        "crates/control/src/routes/extract.rs",
        &["config get", "show interfaces status"],
    ),
    ("crates/lab/src/", &["lab run"]),
    ("crates/lab/src/compare/", &["lab compare"]),
    ("crates/lab/src/lab_fields/", &["lab compare", "lab run"]),
    ("crates/lab/src/plot/", &["lab compare", "lab run"]),
    (
        "crates/lab/src/programs.rs",
        &["lab compare", "lab run", "lab up"],
    ),
    ("crates/lab/src/recording_option.rs", &["lab run", "lab up"]),
    ("crates/lab/src/report/", &["host run", "lab run", "switch run"]),
    ("crates/lab/src/script/", &["lab check"]),
    ("crates/lab/src/sweep/command.rs", &["lab compare", "lab run"]),
    (
        "crates/lab/src/sweep/pool.rs",
        &["bench ai", "lab check", "lab compare", "lab run"],
    ),
    ("crates/measure/src/ai/", &["bench ai"]),
    ("crates/measure/src/compare/", &["bench compare"]),
    (
        "crates/measure/src/dut/real_dut.rs",
        &["bench latency", "bench ndr"],
    ),
    (
        "crates/measure/src/dut/virtual_dut/",
        &[
            "bench latency",
            "bench ndr",
            "bench rfc2544",
            "bench rfc2889",
            "bench rfc8239",
        ],
    ),
    ("crates/measure/src/frame_cost/", &["bench core"]),
    ("crates/measure/src/latency/", &["bench latency"]),
    ("crates/measure/src/ndr/", &["bench latency", "bench ndr"]),
    ("crates/measure/src/placement/", &["bench placement"]),
    ("crates/measure/src/probe/", &["bench probe"]),
    ("crates/measure/src/replay/", &["replay"]),
    (
        "crates/measure/src/result/",
        &[
            "bench ai",
            "bench core",
            "bench ndr",
            "bench rfc2544",
            "bench tune-buffers",
        ],
    ),
    (
        "crates/measure/src/suite.rs",
        &["bench rfc2544", "bench rfc2889", "bench rfc8239"],
    ),
    ("crates/measure/src/tune/", &["bench tune-buffers"]),
    (
        "crates/runtime/src/workers/pin.rs",
        &["lab compare", "lab run", "lab up", "switch run"],
    ),
    (
        "crates/telemetry/src/memory.rs",
        &[
            "bench ai",
            "config check",
            "lab check",
            "lab compare",
            "lab run",
            "lab up",
            "replay",
            "switch run",
        ],
    ),
    ("src/cli/bench/ai.rs", &["bench ai"]),
    ("src/cli/bench/compare.rs", &["bench compare"]),
    ("src/cli/bench/core.rs", &["bench core"]),
    ("src/cli/bench/dut.rs", &["bench latency", "bench ndr"]),
    ("src/cli/bench/latency.rs", &["bench latency"]),
    ("src/cli/bench/ndr.rs", &["bench ndr"]),
    ("src/cli/bench/placement.rs", &["bench placement"]),
    ("src/cli/bench/probe.rs", &["bench probe"]),
    (
        "src/cli/bench/result.rs",
        &[
            "bench ai",
            "bench core",
            "bench ndr",
            "bench rfc2544",
            "bench tune-buffers",
        ],
    ),
    (
        "src/cli/bench/suite.rs",
        &["bench rfc2544", "bench rfc2889", "bench rfc8239"],
    ),
    ("src/cli/bench/tune.rs", &["bench tune-buffers"]),
    (
        "src/cli/args/configuration.rs",
        &["config check", "replay", "switch run"],
    ),
    ("src/cli/conform.rs", &["conform run"]),
    ("src/cli/conform/", &["conform run"]),
    ("src/cli/host.rs", &["host run"]),
    ("src/cli/lab.rs", &["lab run"]),
    ("src/cli/man.rs", &["man"]),
    ("src/cli/replay.rs", &["replay"]),
    (
        "src/cli/running_labs.rs",
        &["config get", "show interfaces status"],
    ),
    ("src/cli/show/", &["show interfaces status"]),
    ("src/cli/switch.rs", &["switch run"]),
];

/// Options of other programs, with the words that the message contains too.
const OTHER_PROGRAMS: &[(&str, &str)] = &[
    ("privileged", "docker run"),
    ("privileged", "in a container"),
    ("release", "cargo "),
    ("smp", "-smp"),
    ("version", "--version"),
    ("tool", "cachegrind"),
    ("cache-sim", "--cache-sim"),
    ("cachegrind-out-file", "/dev/null"),
];

/// Options in files whose messages belong to several commands, with the command of each option. The files of
/// `bench compare` contain options of the benchmarks that it starts.
const OPTIONS_OF_FILES: &[(&str, &str, &str)] = &[
    ("crates/lab/src/lab_fields/changed_lab.rs", "lb", "lab compare"),
    ("crates/lab/src/lab_fields/setting.rs", "by", "lab compare"),
    ("crates/lab/src/lab_fields/setting.rs", "lb", "lab compare"),
    (
        "crates/measure/src/compare/compared_side.rs",
        "config",
        "bench core",
    ),
    ("crates/measure/src/compare/compared_side.rs", "lab", "bench core"),
    (
        "crates/runtime/src/session/control_target.rs",
        "force",
        "config apply",
    ),
    (
        "crates/runtime/src/session/session_start.rs",
        "pcap",
        "switch run",
    ),
    ("src/cli/args/configuration.rs", "config", "switch run"),
    ("src/cli/bench/compare.rs", "instructions", "bench core"),
    ("src/cli/bench/compare.rs", "sizes", "bench ndr"),
    ("src/cli/lab.rs", "lb", "lab compare"),
    ("src/cli/lab.rs", "output", "lab import"),
    ("src/cli/show/balancing.rs", "report", "show load-balancing"),
    ("src/cli/show/pfcwd.rs", "empty", "show pfcwd stats"),
];

/// A message that names an option.
struct OptionMention {
    place: String,
    file: PathBuf,
    option: String,
    message: String,
}

/// Returns the Rust files of a folder and its subfolders, sorted.
fn rust_files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns all options that the string literals of production code name.
fn option_mentions() -> Vec<OptionMention> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = ["core-bench", "field", "mutator", "structure", "testing"];
    let crates = std::fs::read_dir(root.join("crates")).expect("the folder of the crates");
    let names = crates.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    let mut folders: Vec<PathBuf> = names
        .filter(|name| !tools.contains(&name.as_str()))
        .map(|name| root.join("crates").join(name).join("src"))
        .collect();
    folders.extend([root.join("dataplane/src"), root.join("src")]);
    let mut mentions = Vec::new();
    for folder in folders {
        for path in rust_files_below(&folder) {
            let file = path.strip_prefix(root).expect("below the root").to_owned();
            let is_test = file.components().any(|part| part.as_os_str() == "tests")
                || file
                    .file_stem()
                    .is_some_and(|name| name == "tests" || name == "documented_commands");
            if is_test || file.ends_with("option_messages.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a readable file");
            let source = SourceFile::parse(&file, text).expect("valid Rust");
            for block in source.text_blocks() {
                if block.kind != TextKind::Literal || source.is_test_line(block.line) {
                    continue;
                }
                mentions.extend(options_of(&block.text).into_iter().map(|option| OptionMention {
                    place: format!("{}:{}", file.display(), block.line),
                    file: file.clone(),
                    option,
                    message: block.text.clone(),
                }));
            }
        }
    }
    mentions
}

/// Returns the names of the long options in a message, without dashes.
fn options_of(message: &str) -> Vec<String> {
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let mut options = Vec::new();
    for (at, _) in message.match_indices("--") {
        let (before, rest) = (&message[..at], &message[at + 2..]);
        let name: String = rest.chars().take_while(|letter| is_name(*letter)).collect();
        let starts_a_word = !before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '-');
        if starts_a_word && name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            options.push(name.trim_end_matches('-').to_owned());
        }
    }
    options
}

/// Returns the command with a path such as `lab run`.
fn find_command<'a>(root: &'a Command, path: &str) -> Option<&'a Command> {
    path.split(' ')
        .try_fold(root, |command, name| command.find_subcommand(name))
}

/// Returns whether a command or one of its subcommands has an option.
fn has_option(command: &Command, option: &str) -> bool {
    let own = command
        .get_arguments()
        .any(|argument| argument.get_long() == Some(option));
    own || command
        .get_subcommands()
        .any(|subcommand| has_option(subcommand, option))
}

/// Returns the commands that a message names, such as `lab run` in `xoff lab run --virtual`.
fn named_commands<'a>(root: &'a Command, message: &str) -> Vec<&'a Command> {
    let mut commands = Vec::new();
    for (at, start) in message.match_indices("xoff ") {
        let mut command = root;
        for word in message[at + start.len()..].split([' ', '`', ',', ')']) {
            match command.find_subcommand(word) {
                Some(subcommand) => command = subcommand,
                None => break,
            }
        }
        commands.extend((!std::ptr::eq(command, root)).then_some(command));
    }
    commands
}

/// Returns the commands that print the messages of a file. Empty if the table does not contain the file.
fn printing_commands(file: &Path) -> &'static [&'static str] {
    let matching = PRINTING_COMMANDS.iter();
    let matching = matching.filter(|(prefix, _)| file.to_string_lossy().starts_with(prefix));
    matching
        .max_by_key(|(prefix, _)| prefix.len())
        .map_or(&[], |(_, commands)| *commands)
}

#[test]
fn messages_name_options_of_the_commands_that_print_them() {
    let root = build_command();
    let mentions = option_mentions();
    assert!(mentions.len() > 150, "only {} options are named", mentions.len());
    let mut wrong = Vec::new();
    for OptionMention {
        place,
        file,
        option,
        message,
    } in &mentions
    {
        let of_other_program = OTHER_PROGRAMS
            .iter()
            .any(|(name, word)| name == option && message.contains(word));
        let of_named_command = named_commands(&root, message)
            .into_iter()
            .any(|command| has_option(command, option));
        let of_file = OPTIONS_OF_FILES
            .iter()
            .find(|(name, of_file, _)| file == Path::new(name) && of_file == option);
        let is_option_of_file = of_file.is_some_and(|(_, _, path)| {
            let command = find_command(&root, path).unwrap_or_else(|| panic!("no command {path}"));
            has_option(command, option)
        });
        if of_other_program || of_named_command || is_option_of_file {
            continue;
        }
        let commands = printing_commands(file);
        let missing: Vec<&str> = commands
            .iter()
            .copied()
            .filter(|path| {
                let command = find_command(&root, path).unwrap_or_else(|| panic!("no command {path}"));
                !has_option(command, option)
            })
            .collect();
        let is_known_somewhere = has_option(&root, option);
        if !missing.is_empty() || !is_known_somewhere {
            wrong.push(format!(
                "{place}: --{option} does not exist at {missing:?}: {message}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn options_and_commands_are_found_in_messages() {
    let found = options_of("run `xoff lab run --virtual`, or h1:eth0--sw1:eth0, --set a=1; -- bench");
    assert_eq!(found, ["virtual", "set"]);
    let root = build_command();
    let names = |message: &str| -> Vec<String> {
        let commands = named_commands(&root, message).into_iter();
        commands.map(|command| command.get_name().to_owned()).collect()
    };
    assert_eq!(
        names("start it with `xoff switch run --asic NAME` or `xoff replay`"),
        ["run", "replay"]
    );
    assert_eq!(names("xoff forwards frames"), [""; 0]);
    assert!(has_option(
        find_command(&root, "lab run").expect("lab run"),
        "seed"
    ));
    assert!(!has_option(
        find_command(&root, "lab compare").expect("lab compare"),
        "seed"
    ));
}
