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
Finds for each frame size the highest rate without loss (NDR) and the highest rate with at most 0.5 % loss
(PDR), by trials like MLRsearch with the goals of CSIT: exceed ratio 50 %, width 0.5 %, the first trial
at full load discarded. Rates are sums over all senders. `share` is the share of each sender's line rate. For a
lossless class whose senders honour pauses, paused time counts as loss, so NDR is the pause-free rate.

With FILE, the switch and the trials run in virtual time. A trial lasts 10000 frames at line rate. Growth of the backlog
in the second half of a trial counts as loss, because a longer trial would lose these frames. See docs/bench.md.

Without FILE, --ports are network devices of this machine, and the device under test forwards between their far
ends like a bridge. Trials last 1 s, and 21 s decide on a load. The generator limits the load, and the result
reports the limit. Frames are paced RoCEv2 frames, with --pattern pairs or one-way. Needs root or CAP_NET_RAW.

Exit codes: 0 done, 2 usage, 3 a device cannot be used, 4 invalid configuration, 5 no frame was received, a trial
does not end, or the machine can have changed a figure, 130 interrupted.

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
            // The results of other sizes are still valid.
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
