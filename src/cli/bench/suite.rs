//! `xoff bench rfc2544`, `rfc2889` and `rfc8239`: the benchmarks of these RFCs.

use crate::cli::choice::choice_parser;
use clap::{Arg, Args};
use xoff_measure::NamedChoice;

use super::super::output;
use super::dut::{DutArguments, check_port_count, select_fitting_sizes};
use super::result::{ResultArguments, check_no_duplicates};
use xoff_measure::dut::{AnyDut, Dut, FrameSize, TrafficPattern, VirtualDut};
use xoff_measure::result::BenchResult;
use xoff_measure::suite::BenchmarkSuite;
use xoff_measure::{rfc2544, rfc2889, rfc8239};
use xoff_telemetry::count_noun;
use xoff_telemetry::failure::{Exit, Failure};

/// Options of the benchmarks of all three RFCs.
#[derive(Clone, Debug, Args)]
pub(crate) struct SuiteArguments {
    /// Frame lengths with FCS; `imix` is 28 x 64, 16 x 570, 4 x 1518
    #[arg(
        long,
        value_name = "BYTES,...",
        value_delimiter = ',',
        default_value = "64,128,256,512,1024,1280,1518"
    )]
    sizes: Vec<FrameSize>,
    /// Largest burst in frames of each sender
    #[arg(long, value_name = "N", default_value_t = 1 << 18, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    burst_max: u64,
    #[command(flatten)]
    result: ResultArguments,
}

/// Changes an argument for commands that measure only switches in virtual time: the file is required, and
/// options of network devices are hidden.
fn require_virtual_time(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "file" => argument.required(true).help(
            "Configuration in the form of SONiC's config_db.json, or a lab file (.yml, .yaml), of a switch that runs \
             in virtual time",
        ),
        "speed" | "dscp" => argument.hide(true),
        _ => argument,
    }
}

/// `xoff bench rfc2544`
#[derive(Clone, Debug, Args)]
#[command(mut_args(require_virtual_time))]
pub(crate) struct BenchRfc2544 {
    #[command(flatten)]
    dut: DutArguments,
    /// Benchmarks [default: all supported ones]
    #[arg(value_parser = choice_parser::<rfc2544::Rfc2544Test>(), value_name = "TEST", value_delimiter = ',')]
    tests: Vec<rfc2544::Rfc2544Test>,
    /// Traffic pattern
    #[arg(long, value_parser = choice_parser::<TrafficPattern>(), default_value = "pairs")]
    pattern: TrafficPattern,
    #[command(flatten)]
    suite: SuiteArguments,
}

/// `xoff bench rfc2889`
#[derive(Clone, Debug, Args)]
#[command(mut_args(require_virtual_time))]
pub(crate) struct BenchRfc2889 {
    #[command(flatten)]
    dut: DutArguments,
    /// Benchmarks [default: all that are measured]
    #[arg(value_parser = choice_parser::<rfc2889::Rfc2889Test>(), value_name = "TEST", value_delimiter = ',')]
    tests: Vec<rfc2889::Rfc2889Test>,
    /// Traffic pattern of max-fwd
    #[arg(long, value_parser = choice_parser::<TrafficPattern>(), default_value = "pairs")]
    pattern: TrafficPattern,
    #[command(flatten)]
    suite: SuiteArguments,
}

/// `xoff bench rfc8239`
#[derive(Clone, Debug, Args)]
#[command(mut_args(require_virtual_time))]
pub(crate) struct BenchRfc8239 {
    #[command(flatten)]
    dut: DutArguments,
    /// Benchmarks [default: all that are measured]
    #[arg(value_parser = choice_parser::<rfc8239::Rfc8239Test>(), value_name = "TEST", value_delimiter = ',')]
    tests: Vec<rfc8239::Rfc8239Test>,
    #[command(flatten)]
    suite: SuiteArguments,
}

pub(super) const HELP_2544: &str = "\
Runs the benchmarks of RFC 2544 on a switch in virtual time: throughput, latency, loss curve, back-to-back frames
(RFC 9004) and recovery from overload. For a lossless class whose senders honour pauses, paused time replaces the loss
in each definition. `reset` is refused, because a switch in virtual time starts without delay.

Exit codes: 0 done, 2 usage or an unsupported benchmark, 4 invalid configuration, 5 no result, 130 interrupted.

Examples:
  xoff bench rfc2544 config_db.json
  xoff bench rfc2544 config_db.json throughput,loss --pattern many-to-one --sizes 64,1518
  xoff bench rfc2544 testbeds/incast.xoff.yml b2b recovery --pattern many-to-one --json";

pub(super) const HELP_2889: &str = "\
Runs the benchmarks of RFC 2889 on a switch in virtual time: full mesh, one to many, many to one, congestion control,
largest forwarding rate, address cache and broadcasts. For a lossless class whose senders honour pauses, paused time
counts as loss. Forward pressure, learning rate and errored frames are refused. A tester in virtual time sends no
short gaps and no damaged frames, and the switch learns addresses at the rate of arriving frames.

Exit codes: 0 done, 2 usage or an unsupported benchmark, 4 invalid configuration, 5 no result, 130 interrupted.

Examples:
  xoff bench rfc2889 config_db.json
  xoff bench rfc2889 config_db.json mesh broadcast --sizes 64,1518
  xoff bench rfc2889 config_db.json addr-cache";

pub(super) const HELP_8239: &str = "\
Runs the data-centre benchmarks of RFC 8239 on a switch in virtual time: line rate in pairs and full mesh at 99.98 %,
buffers with an over-subscription of 1 %, simultaneous bursts and head-of-line blocking. For a lossless class whose
senders honour pauses, a buffer is full when the switch sends the first pause, and head-of-line blocking is the lost
rate of a victim flow. `incast` is refused, because the tester has no TCP.

Exit codes: 0 done, 2 usage or an unsupported benchmark, 4 invalid configuration, 5 no result, 130 interrupted.

Examples:
  xoff bench rfc8239 config_db.json
  xoff bench rfc8239 config_db.json buffer,microburst --sizes 64,256,1024
  xoff bench rfc8239 config_db.json hol --class 3 --sizes 1082 --json";

/// The benchmarks of an RFC, and the functions that check and run a benchmark.
struct RfcSuite<T: 'static> {
    name: &'static str,
    /// All benchmarks that xoff measures.
    tests: &'static [T],
    /// Checks whether a benchmark can run with this number of ports.
    check: fn(T, usize) -> Result<(), Failure>,
    /// Runs a benchmark and adds its results to the suite.
    run: fn(&mut BenchmarkSuite<'_, VirtualDut>, T) -> Result<(), Failure>,
}

pub(super) fn run_2544(options: &BenchRfc2544) -> Result<Exit, Failure> {
    let rfc = RfcSuite {
        name: "rfc2544",
        tests: &rfc2544::Rfc2544Test::ALL,
        check: rfc2544::check_test,
        run: rfc2544::run_test,
    };
    run_suite(
        &rfc,
        &options.tests,
        &options.dut,
        &options.suite,
        options.pattern,
    )
}

pub(super) fn run_2889(options: &BenchRfc2889) -> Result<Exit, Failure> {
    let rfc = RfcSuite {
        name: "rfc2889",
        tests: &rfc2889::Rfc2889Test::ALL,
        check: rfc2889::check_test,
        run: rfc2889::run_test,
    };
    run_suite(
        &rfc,
        &options.tests,
        &options.dut,
        &options.suite,
        options.pattern,
    )
}

pub(super) fn run_8239(options: &BenchRfc8239) -> Result<Exit, Failure> {
    let rfc = RfcSuite {
        name: "rfc8239",
        tests: &rfc8239::Rfc8239Test::ALL,
        check: rfc8239::check_test,
        run: rfc8239::run_test,
    };
    run_suite(
        &rfc,
        &options.tests,
        &options.dut,
        &options.suite,
        TrafficPattern::Pairs,
    )
}

/// Runs the benchmarks in `named`, or all benchmarks if the list is empty. A named benchmark that needs more
/// ports than the device has is an error. Otherwise such a benchmark is skipped with a note in the result.
fn run_suite<T: NamedChoice>(
    rfc: &RfcSuite<T>,
    named: &[T],
    dut: &DutArguments,
    options: &SuiteArguments,
    pattern: TrafficPattern,
) -> Result<Exit, Failure> {
    options.result.check()?;
    check_no_duplicates("TEST", named, |test| test.choice_name().to_owned())?;
    let mut opened = dut.open()?;
    let AnyDut::Virtual(device) = &mut opened.dut else {
        return Err(
            Failure::usage(format!("{} is measured in virtual time only", rfc.name))
                .because("a generator on this machine cannot send bursts at line rate")
                .fix(
                    "give a FILE, or measure network devices with `xoff bench ndr` and `xoff bench latency`",
                ),
        );
    };
    let mut result = BenchResult::new(rfc.name, &opened.name, dut.seed);
    check_port_count(device.as_ref(), pattern)?;
    let sizes = select_fitting_sizes(device.as_ref(), &options.sizes, &mut result)?;
    let ports = device.ports().len();
    result.notes.push(format!(
        "{}; pattern {}, {}",
        opened.note,
        pattern.name(),
        count_noun(ports as u64, "port")
    ));
    // All named benchmarks are checked before the first one runs.
    for test in named {
        (rfc.check)(*test, ports)?;
    }
    let tests = if named.is_empty() { rfc.tests } else { named };
    for test in tests {
        let name = test.choice_name();
        if let Err(refused) = (rfc.check)(*test, ports) {
            let reason = refused.why.unwrap_or_default();
            result.notes.push(format!("{name} is skipped: {reason}"));
            continue;
        }
        output::print_note(name);
        let mut suite = BenchmarkSuite::new(
            device.as_mut(),
            sizes.clone(),
            pattern,
            options.burst_max,
            &mut result,
        );
        (rfc.run)(&mut suite, *test)?;
    }
    options.result.print_and_save(&result)
}
