//! `xoff bench latency`: latency of frames at percentages of the loss-free rate.

use clap::Args;

use super::super::output;
use super::dut::{DutArguments, TrialArguments, parse_load_percent};
use super::result::{ResultArguments, check_no_duplicates};
use xoff_measure::dut::Dut;
use xoff_measure::latency::{latency_figures, measure_latencies};
use xoff_measure::ndr::{check_paths, find_rates, no_frame_forwarded_failure};
use xoff_measure::result::{BenchFigure, BenchResult, ImprovementDirection};
use xoff_telemetry::count_noun;
use xoff_telemetry::failure::{Exit, Failure};

/// `xoff bench latency`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchLatency {
    #[command(flatten)]
    dut: DutArguments,
    #[command(flatten)]
    trial: TrialArguments,
    /// Loads in percent of the loss-free rate
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "10,50,90", value_parser = parse_load_percent)]
    loads: Vec<f64>,
    #[command(flatten)]
    result: ResultArguments,
}

pub(super) const HELP: &str = "\
Finds the loss-free rate of each frame size like `xoff bench ndr`, and measures the latency of frames at percentages
of this rate. The latency is the time from the first bit sent to the last bit received (FILO, RFC 8238), without the
preamble before the first bit. Minimum, maximum and mean are exact. Quantiles have three digits.

The latency of an empty switch is the sum of twice the serialisation time of the frame, the preamble of the sent
frame, the pipeline latency (`XOFF_SWITCH|localhost pipeline_latency`) and twice --cable-delay.

Without FILE, --ports are network devices, as for `xoff bench ndr`. The latency is then the time from the system call
that sends a frame to the time stamp of the receiving kernel. A frame is sent every 100 us.

Exit codes: 0 done, 2 usage, 3 a device cannot be used, 4 invalid configuration, 5 frames were lost or a trial does
not end, 130 interrupted.

Examples:
  xoff bench latency config_db.json
  xoff bench latency testbeds/incast.xoff.yml --sizes 1082 --loads 1,50,99,100
  xoff bench latency config_db.json --pattern mesh --cable-delay 25ns --json";

pub(super) fn run(options: &BenchLatency) -> Result<Exit, Failure> {
    options.result.check()?;
    check_no_duplicates("--loads", &options.loads, f64::to_string)?;
    let mut opened = options.dut.open()?;
    let mut result = BenchResult::new("latency", &opened.name, options.dut.seed);
    let sizes = options.trial.check_and_select_sizes(&opened.dut, &mut result)?;
    result.notes.push(opened.note.clone());
    let ports = opened.dut.ports().len();
    result.notes.push(format!(
        "pattern {}, {}; from first bit to last bit",
        options.trial.pattern.name(),
        count_noun(ports as u64, "port")
    ));
    for size in sizes {
        output::print_note(&format!("frames of {} bytes", size.name()));
        let traffic = options.trial.offered_traffic(size);
        let durations = options.trial.trial_durations(&opened.dut, size);
        check_paths(&mut opened.dut, &traffic)?;
        let load_max = options.trial.limit_load(&mut opened.dut, &traffic, &mut result)?;
        let rates = find_rates(
            &mut opened.dut,
            &traffic,
            &durations.ndr_and_pdr_goals()[..1],
            load_max,
        )?;
        if rates.received == 0 {
            return Err(no_frame_forwarded_failure().at(format!("frames of {} bytes", size.name())));
        }
        let Some(loss_free) = rates.bounds[0].lower else {
            return Err(Failure::new(
                Exit::Inconclusive,
                "no load is free of loss, so the latency cannot be measured",
            )
            .at(format!("frames of {} bytes", size.name())));
        };
        let rate = traffic.offered_rate(&opened.dut, loss_free).0;
        let name = format!("{}/ndr/rate", size.name());
        result.figures.push(BenchFigure::new(
            name,
            "frames/s",
            ImprovementDirection::Bigger,
            vec![rate],
        ));
        result.tainted.extend(rates.tainted);
        for measured in measure_latencies(
            &mut opened.dut,
            &traffic,
            loss_free,
            &options.loads,
            durations.full,
        )? {
            let prefix = format!("{}/{}%", size.name(), measured.percent);
            result
                .figures
                .extend(latency_figures(&prefix, &measured.latencies));
            result.tainted.extend(measured.tainted);
        }
    }
    opened.add_environment(&mut result);
    options.result.print_and_save(&result)
}
