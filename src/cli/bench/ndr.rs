//! `xoff bench ndr`: the highest rates of a switch without loss.

use clap::Args;

use super::super::output;
use super::dut::{DutArguments, TrialArguments};
use super::result::ResultArguments;
use xoff_measure::dut::Dut;
use xoff_measure::ndr::{check_paths, find_rates, no_frame_forwarded_failure, rate_figures};
use xoff_measure::result::BenchResult;
use xoff_telemetry::count_noun;
use xoff_telemetry::failure::{Exit, Failure};

/// `xoff bench ndr`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchNdr {
    #[command(flatten)]
    dut: DutArguments,
    #[command(flatten)]
    trial: TrialArguments,
    #[command(flatten)]
    result: ResultArguments,
}

pub(super) const HELP: &str = "\
Finds the highest rate without loss (NDR) and the highest rate with at most 0.5 % loss (PDR) for each frame size. The
search uses trials like MLRsearch with the goals of CSIT: exceed ratio 50 %, width 0.5 %. The first trial at full
load is discarded. A rate is the sum over all senders. `share` is the share of the line rate of each sender. For a
lossless class whose senders honour pauses, paused time counts as loss. NDR is then the pause-free rate.

With FILE, the switch and the trials run in virtual time. A trial lasts 10000 frames at line rate. Growth of the
backlog in the second half of a trial counts as loss, because a longer trial would lose these frames. See
docs/bench.md.

Without FILE, --ports are network devices of this machine. The device under test is connected to them and forwards
like a bridge. A trial lasts 1 s, and trials of 21 s in total decide on a load. The result reports the largest load
that the generator can send. Frames are paced RoCEv2 frames, with --pattern pairs or one-way. Requires root or
CAP_NET_RAW.

Exit codes: 0 done, 2 usage, 3 a device cannot be used, 4 invalid configuration, 5 no frame was received, a trial
does not end, or the machine disturbed the measurement, 130 interrupted.

Examples:
  xoff bench ndr config_db.json
  xoff bench ndr testbeds/incast.xoff.yml --pattern many-to-one --sizes 1082,4200
  xoff bench ndr config_db.json --ports Ethernet0,Ethernet4 --sizes 64 --json
  xoff bench ndr --ports veth0,veth1 --pattern one-way --sizes 64,1082
  xoff bench ndr config_db.json --class 3 --ignore-pauses --save ndr.json";

pub(super) fn run(options: &BenchNdr) -> Result<Exit, Failure> {
    options.result.check()?;
    let mut opened = options.dut.open()?;
    let mut result = BenchResult::new("ndr", &opened.name, options.dut.seed);
    let sizes = options.trial.check_and_select_sizes(&opened.dut, &mut result)?;
    result.notes.push(opened.note.clone());
    result.notes.push(format!(
        "pattern {}, {}",
        options.trial.pattern.name(),
        count_noun(opened.dut.ports().len() as u64, "port")
    ));
    let mut no_path = None;
    for size in sizes {
        output::print_note(&format!("frames of {} bytes", size.name()));
        let traffic = options.trial.offered_traffic(size);
        let goals = options
            .trial
            .trial_durations(&opened.dut, size)
            .ndr_and_pdr_goals();
        match check_paths(&mut opened.dut, &traffic) {
            Err(failure) if failure.exit == Exit::Inconclusive => {
                // The results of the other frame sizes are still valid.
                result
                    .tainted
                    .push(format!("frames of {} bytes: {}", size.name(), failure.what));
                no_path = Some(failure);
                continue;
            }
            checked => checked?,
        }
        let load_max = options.trial.limit_load(&mut opened.dut, &traffic, &mut result)?;
        let rates = find_rates(&mut opened.dut, &traffic, &goals, load_max)?;
        result.tainted.extend(rates.tainted.iter().cloned());
        if rates.received == 0 {
            // The results of the other frame sizes are still valid.
            result.tainted.push(format!(
                "frames of {} bytes: {}",
                size.name(),
                no_frame_forwarded_failure().what
            ));
            continue;
        }
        for (goal, bounds) in goals.iter().zip(&rates.bounds) {
            if bounds.lower.is_none() {
                let name = goal.name;
                result
                    .notes
                    .push(format!("{}/{name}: no load meets the goal", size.name()));
            }
        }
        result
            .figures
            .extend(rate_figures(&opened.dut, &traffic, &goals, &rates));
    }
    if result.figures.is_empty() {
        return Err(no_path.unwrap_or_else(no_frame_forwarded_failure));
    }
    opened.add_environment(&mut result);
    options.result.print_and_save(&result)
}
