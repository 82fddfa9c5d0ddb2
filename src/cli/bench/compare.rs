//! `xoff bench compare`: whether one thing is slower than another.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::{output, signals};
use xoff_measure::compare::{Asked, Settings, Subject, compare};
use xoff_telemetry::failure::{Exit, Failure};

/// `xoff bench compare`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchCompare {
    /// What B is compared with: a xoff program, a config_db.json, a lab file (.yml) or a saved result
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The other one
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Exit with 1 if B is worse by so many percent, with 5 if that cannot be said
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub gate: Option<f64>,
    /// What is compared
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub by: By,
    /// Workloads of `xoff bench core` that programs run; several with commas
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "ecmp")]
    pub workload: Vec<String>,
    /// Most pairs, a process of each side for each [default: 64; 256 with a gate on workloads of `xoff bench core`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: Option<u16>,
    /// Seed of the order within pairs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the result as JSON (docs/bench.md)
    #[arg(long)]
    pub json: bool,
    /// Another bench that both sides run, and its arguments, less the file where a side is one
    #[arg(last = true, value_name = "BENCH ARGUMENTS", conflicts_with_all = ["by", "workload"])]
    pub bench: Vec<String>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Processor time a frame
    #[default]
    Time,
    /// Instructions a frame, counted by valgrind: exact, on a busy machine too
    Instructions,
}

pub(super) const HELP: &str = "\
Programs, configurations and labs are run in turns, a process for each sample, in either order; a signed-rank
test on the pairs says whether B is worse. Intervals are of 99.9 % for all figures and all looks together; with a
gate, pairs are measured until it is decided, or there are --rounds of them.

Behind -- stands another bench. Programs run it as it is; a configuration or a lab is put in where it takes its
FILE: core, ndr, latency, rfc2544, rfc2889, rfc8239, tune-buffers; ai for labs. The form is always JSON.

Worse by the gate: B is significantly worse, and the estimate is at the gate or above. Within it: the whole
interval is below the gate; equal is said only if it lies above minus the gate, too. Otherwise inconclusive,
as it is when other programs or the hypervisor took too much of the machine, and when B lacks a figure of A.

Exit codes: 0 not worse by the gate (or no gate), 1 worse by the gate, 2 results of different benches or usage,
3 a side cannot be run or fails, 4 a file is no result, configuration or lab, 5 inconclusive.

Examples:
  xoff bench compare ./xoff.old ./xoff.new --gate 3
  xoff bench compare ./xoff.old ./xoff.new --gate 3 --by instructions --workload ecmp,fabric
  xoff bench compare before.json after.json --gate 5
  xoff bench compare config_db.json tuned.json
  xoff bench compare config_db.json tuned.json --gate 1 -- ndr --sizes 64
  xoff bench compare ./xoff.old ./xoff.new -- core --workload lb-flowlet --rounds 1";

pub(super) fn run(options: &BenchCompare) -> Result<Exit, Failure> {
    let asked = asked(options)?;
    let a = Subject::of("A", &options.a, &asked)?;
    let b = Subject::of("B", &options.b, &asked)?;
    if let (Subject::Saved { .. }, Subject::Saved { .. }, [bench, ..]) = (&a, &b, &options.bench[..]) {
        return Err(Failure::usage("nothing runs: both sides are saved results")
            .at(format!("-- {bench}"))
            .fix("leave it out, or give programs, configurations or labs"));
    }
    let settings = Settings {
        gate_percent: options.gate,
        pairs_max: pairs_max(options),
        seed: options.seed,
    };
    let stop = signals::watch()?;
    let comparison = compare([&a, &b], &settings, &stop, output::note)?.concluded();
    if options.json {
        output::print_json(&comparison)?;
    } else {
        output::print(&comparison.render())?;
    }
    Ok(comparison.exit())
}

/// A pair of core's samples takes a tenth of a second; one of another bench may take a minute.
fn pairs_max(options: &BenchCompare) -> usize {
    let default = match options.gate.is_some() && options.bench.is_empty() {
        true => 256,
        false => 64,
    };
    options.rounds.map_or(default, usize::from)
}

fn asked(options: &BenchCompare) -> Result<Asked, Failure> {
    if !options.bench.is_empty() {
        let words = without_form(&options.bench)?;
        return Ok(Asked {
            of_programs: words.clone(),
            of_files: words,
        });
    }
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    let of_files = match options.by {
        By::Time => words("core --rounds 1"),
        By::Instructions => words("core --instructions"),
    };
    let mut of_programs = of_files.clone();
    of_programs.extend(["--workload".to_owned(), options.workload.join(",")]);
    Ok(Asked {
        of_programs,
        of_files,
    })
}

/// The words behind `--` less those that ask for JSON: that is asked for anyway, and twice is a mistake.
fn without_form(words: &[String]) -> Result<Vec<String>, Failure> {
    let mut kept = Vec::with_capacity(words.len());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let form = match word.split_once('=') {
            Some(("--format", form)) => form,
            _ if word == "--json" => continue,
            _ if word == "--format" => words.next().map_or("", String::as_str),
            _ => {
                kept.push(word.clone());
                continue;
            }
        };
        if form != "json" {
            return Err(
                Failure::usage("sides of a comparison print JSON, and nothing else can be read")
                    .at(format!("--format {form}"))
                    .fix("leave it out; --json in front of `--` is the form of the comparison itself"),
            );
        }
    }
    Ok(kept)
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 1_000.0 => Ok(percent),
        _ => Err("a percentage above 0, at most 1000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str) -> Result<String, Failure> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        without_form(&words).map(|words| words.join(" "))
    }

    #[test]
    fn json_is_asked_for_once() {
        for text in [
            "ndr --json --sizes 64",
            "ndr --sizes 64 --format json",
            "ndr --format=json --sizes 64",
            "ndr --sizes 64",
        ] {
            assert_eq!(without(text).unwrap(), "ndr --sizes 64");
        }
    }

    #[test]
    fn another_form_is_refused_by_name() {
        for text in ["ndr --format csv", "ndr --format=csv", "ndr --format"] {
            let failure = without(text).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.to_string().contains("--format"), "{failure}");
        }
    }
}
