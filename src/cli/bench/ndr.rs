//! `xoff bench ndr`: loss-free rates.

use clap::Args;

use super::super::output;
use super::dut::{DutArguments, TrialArguments};
use super::result::ResultArguments;
use xoff_measure::dut::Dut;
use xoff_measure::ndr::{find_rates, no_frame_forwarded, rate_figures};
use xoff_measure::result::BenchResult;
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
Finds for each frame size the highest rate at which nothing is lost (NDR) and that at which at most 0.5 % is
(PDR), by trials in the manner of MLRsearch with CSIT's goals: exceed ratio 50 %, width 0.5 %, the first trial
at full load discarded. Rates are sums over all senders; `share` is that of each sender's line rate. For a
lossless class whose senders obey pauses the time paused counts as loss does, so NDR is the pause-free rate.

With FILE the switch runs in virtual time, and so do the trials: they last 10000 frames at line rate. What the switch's
backlog grows by in a trial's second half counts as loss: in a longer trial it would be. docs/bench.md

Without FILE --ports are network devices of this machine, and something beyond them forwards between their far
ends as a bridge does. Trials last 1 s, 21 s decide on a load; loads go up to what the generator can send, and
the result says so. Frames are RoCEv2, paced; --pattern pairs or one-way. Takes root or CAP_NET_RAW.

Exit codes: 0 done, 2 usage, 3 a device cannot be used, 4 invalid configuration, 5 no frame came out, a trial
does not end or something can have changed a figure, 130 interrupted.

Examples:
  xoff bench ndr config_db.json
  xoff bench ndr testbeds/incast.xoff.yml --pattern many-to-one --sizes 1082,4200
  xoff bench ndr config_db.json --ports Ethernet0,Ethernet4 --sizes 64 --json
  xoff bench ndr --ports veth0,veth1 --pattern one-way --sizes 64,1082
  xoff bench ndr config_db.json --class 3 --ignore-pauses --save ndr.json";

pub(super) fn run(options: &BenchNdr) -> Result<Exit, Failure> {
    options.result.check()?;
    let mut subject = options.dut.open()?;
    let mut result = BenchResult::new("ndr", &subject.name, options.dut.seed);
    let sizes = options.trial.check(&subject.dut, &mut result)?;
    result.notes.push(subject.note.clone());
    result.notes.push(format!(
        "pattern {}, {} ports",
        options.trial.pattern.name(),
        subject.dut.ports().len()
    ));
    for size in sizes {
        output::note(&format!("frames of {} bytes", size.name()));
        let offer = options.trial.offer(size);
        let goals = options.trial.durations(&subject.dut, size).ndr_and_pdr_goals();
        let load_max = options.trial.load_max(&mut subject.dut, &offer, &mut result)?;
        let rates = find_rates(&mut subject.dut, &offer, &goals, load_max)?;
        result.tainted.extend(rates.tainted.iter().cloned());
        if rates.received == 0 {
            // What passes in other sizes is a result nevertheless.
            result.tainted.push(format!(
                "frames of {} bytes: {}",
                size.name(),
                no_frame_forwarded().what
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
            .extend(rate_figures(&subject.dut, &offer, &goals, &rates));
    }
    if result.figures.is_empty() {
        return Err(no_frame_forwarded());
    }
    subject.finish(&mut result);
    options.result.give(&result)
}
