//! Arguments that describe the device under test, and the opened device.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cli::choice::choice_parser;
use clap::Args;
use xoff_dataplane::config::SwitchConfig;
use xoff_units::Picos;

use super::super::{output, signals};
use super::probe::{is_lab_file, read_switch_config};
use super::result::check_no_duplicates;
use xoff_lab::units::try_parse_duration_ns;
use xoff_measure::dut::{
    AnyDut, Dut, FrameSize, RealDut, TrafficPattern, VirtualDut, VirtualDutOptions, lossless_classes,
};
use xoff_measure::ndr::{self, OfferedTraffic, TrialDurations};
use xoff_measure::result::{BenchResult, MachineMeter, TaintLimits};
use xoff_telemetry::failure::Failure;

/// Number of ports of the tester if `--ports` is missing. A switch with fewer ports uses all its ports.
const DEFAULT_PORT_COUNT: usize = 8;
/// Default frame sizes. CSIT, the performance test project of FD.io, uses the same sizes.
const DEFAULT_SIZES: [FrameSize; 4] = [
    FrameSize::Fixed(64),
    FrameSize::Imix,
    FrameSize::Fixed(1_518),
    FrameSize::Fixed(9_000),
];

/// The device under test and the frames.
#[derive(Clone, Debug, Args)]
pub(crate) struct DutArguments {
    /// Configuration of a switch in the form of SONiC's config_db.json, or a lab file (.yml, .yaml). The
    /// switch runs in virtual time [default: measure a device that is connected to the network devices
    /// of --ports]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Switch of the lab file [default: the first switch]
    #[arg(long, value_name = "NAME", requires = "file")]
    pub switch: Option<String>,
    /// Ports of the tester, in the order of the pattern [default: the first eight ports]
    #[arg(long, value_name = "PORT,...", value_delimiter = ',')]
    pub ports: Vec<String>,
    /// Traffic class of all frames [default: the first lossless class, or class 0]
    #[arg(long, value_name = "N", requires = "file", value_parser = clap::value_parser!(u8).range(0..16))]
    pub class: Option<u8>,
    /// Let senders ignore pauses, to measure the loss of a lossless class
    #[arg(long, requires = "file")]
    pub ignore_pauses: bool,
    /// Propagation delay of each cable, such as 25ns for 5 m
    #[arg(long, value_name = "TIME", default_value = "0ns", requires = "file", value_parser = parse_model_time)]
    pub cable_delay: Picos,
    /// For network devices: speed in Mb/s that counts as a load of 100 percent
    #[arg(long, value_name = "MBPS", default_value_t = 10_000, conflicts_with = "file")]
    pub speed: u32,
    /// For network devices: DSCP of all frames
    #[arg(long, value_name = "N", default_value_t = 26, conflicts_with = "file", value_parser = clap::value_parser!(u8).range(0..64))]
    pub dscp: u8,
    /// Seed of the random start times of the streams. Without effect for network devices
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Parses a duration in model time, such as `25ns`.
pub(super) fn parse_model_time(text: &str) -> Result<Picos, String> {
    try_parse_duration_ns(text).map(Picos::from_nanos)
}

/// Reads the configuration of a switch. `switch` selects a switch of a lab file, and `None` selects the first
/// switch. If the file is not a lab file, `switch` must be `None`.
pub(super) fn read_dut_config(file: &Path, switch: Option<&str>) -> Result<SwitchConfig, Failure> {
    if let Some(name) = switch.filter(|_| !is_lab_file(file)) {
        return Err(Failure::usage("--switch needs a lab file")
            .at(format!("--switch {name}"))
            .because(format!("{} is no lab file (.yml, .yaml)", file.display()))
            .fix("remove --switch, or give a lab file"));
    }
    read_switch_config(file, switch)
}

/// Frame sizes, loads and durations for benches that search for rates.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrialArguments {
    /// Frame lengths with FCS; `imix` is 28 x 64, 16 x 570, 4 x 1518 [default: 64,imix,1518,9000;
    /// network devices: 64,1518,9000]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    pub sizes: Vec<FrameSize>,
    /// Traffic pattern
    #[arg(long, value_parser = choice_parser::<TrafficPattern>(), default_value = "pairs")]
    pub pattern: TrafficPattern,
    /// Number of UDP source ports of each stream, used in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub flows: u16,
    /// Largest load in percent of line rate
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = parse_load_percent)]
    pub load_max: f64,
    /// Duration of the first trials [default: --trial-duration]
    #[arg(long, value_name = "TIME", value_parser = parse_model_time)]
    pub trial_initial: Option<Picos>,
    /// Duration of the last trials in model time [default: 10000 frames at line rate, more with many streams]
    #[arg(long, value_name = "TIME", value_parser = parse_model_time)]
    pub trial_duration: Option<Picos>,
    /// Total time of the trials at one load, after which the load passes or fails [default: the time of
    /// three trials]
    #[arg(long, value_name = "TIME", value_parser = parse_model_time)]
    pub trial_sum: Option<Picos>,
}

/// A device under test that is ready for trials.
#[derive(Debug)]
pub(super) struct OpenedDut {
    pub(super) dut: AnyDut,
    /// Name of the device in the result.
    pub(super) name: String,
    /// Conditions of the measurement, as a note for the result.
    pub(super) note: String,
    /// Measures disturbances by the machine. `None` in virtual time, where the machine has no influence.
    meter: Option<MachineMeter>,
}

impl OpenedDut {
    /// Adds the environment of the measurement to the result, and the disturbances by the machine as taints
    /// (reasons for which the result proves nothing). Does nothing in virtual time.
    pub(super) fn add_environment(&self, result: &mut BenchResult) {
        let Some(meter) = &self.meter else { return };
        // The device under test can be a program of this machine. CPU time of other processes therefore does
        // not taint the result.
        let limits = TaintLimits {
            others_percent: f64::INFINITY,
            ..TaintLimits::default()
        };
        let (environment, tainted) = meter.finish(&limits);
        result.environment = Some(environment);
        result.tainted.extend(tainted);
    }
}

impl DutArguments {
    /// Opens the device for trials.
    ///
    /// # Errors
    /// A file cannot be read, or the switch does not have a port or class.
    pub(super) fn open(&self) -> Result<OpenedDut, Failure> {
        if self.file.is_none() && self.ports.is_empty() {
            return Err(Failure::usage("no device under test is given")
                .at("FILE, --ports")
                .fix("give a config_db.json or a lab file, or network devices of this machine: --ports DEV,DEV"));
        }
        let stop = signals::watch_stop_signals()?;
        let Some(file) = &self.file else {
            return self.open_network_devices(stop);
        };
        let config = read_dut_config(file, self.switch.as_deref())?;
        let ports = self.port_indices(&config)?;
        let lossless = lossless_classes(&config, ports[0]);
        let class = self.class.or(lossless.first().copied()).unwrap_or(0);
        let options = self.virtual_dut_options(ports, class, stop);
        let dut = VirtualDut::new(&config, options)?;
        let kind = match (lossless.contains(&class), self.ignore_pauses) {
            (true, false) => "lossless: senders honour pauses, and paused time counts as loss",
            (true, true) => "lossless, but senders ignore pauses",
            (false, _) => "not lossless",
        };
        Ok(OpenedDut {
            dut: AnyDut::Virtual(Box::new(dut)),
            name: format!("{} ({})", file.display(), config.name),
            note: format!("virtual time; traffic class {class} is {kind}"),
            meter: None,
        })
    }

    fn open_network_devices(&self, stop: Arc<AtomicBool>) -> Result<OpenedDut, Failure> {
        if self.ports.len() < 2 {
            return Err(Failure::usage("a tester needs two network devices")
                .at("--ports")
                .fix("name at least two devices"));
        }
        check_no_duplicates("--ports", &self.ports, String::clone)?;
        let dut = RealDut::open(&self.ports, self.speed, self.dscp, stop)?;
        Ok(OpenedDut {
            dut: AnyDut::Real(dut),
            name: self.ports.join(","),
            note: format!(
                "real time; links of {} Mb/s, senders ignore pauses, the order of frames is not checked",
                self.speed
            ),
            meter: Some(MachineMeter::start()),
        })
    }

    fn virtual_dut_options(&self, ports: Vec<usize>, class: u8, stop: Arc<AtomicBool>) -> VirtualDutOptions {
        VirtualDutOptions {
            ports,
            class,
            honours_pauses: !self.ignore_pauses,
            delay: self.cable_delay,
            seed: self.seed,
            stop,
        }
    }

    /// Returns the indices of the ports of `--ports` in the configuration. Without `--ports`, returns the
    /// first [`DEFAULT_PORT_COUNT`] ports.
    fn port_indices(&self, config: &SwitchConfig) -> Result<Vec<usize>, Failure> {
        check_no_duplicates("--ports", &self.ports, String::clone)?;
        let mut indices: Vec<usize> = Vec::new();
        for name in &self.ports {
            let fix = || {
                let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
                format!("name ports of this list: {}", names.join(", "))
            };
            let found = config.ports.iter().position(|port| port.name == *name);
            let Some(index) = found else {
                return Err(Failure::usage(format!("the switch has no port {name}"))
                    .at("--ports")
                    .fix(fix()));
            };
            indices.push(index);
        }
        if self.ports.is_empty() {
            indices = (0..config.ports.len().min(DEFAULT_PORT_COUNT)).collect();
        }
        if indices.len() < 2 {
            return Err(Failure::usage("a tester needs two ports of the switch")
                .fix("name at least two ports in --ports"));
        }
        Ok(indices)
    }
}

/// Parses a load in percent of line rate, above 0 and at most 100.
pub(super) fn parse_load_percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("a load must be above 0 and at most 100 percent".to_owned()),
    }
}

impl TrialArguments {
    /// Returns the largest load as a share of line rate, above 0 and at most 1. The result is `--load-max`,
    /// or in real time the load that the generator can send if it is smaller. In the second case, adds a note
    /// to `result`.
    ///
    /// # Errors
    /// A trial in real time fails ([`Dut::run`]).
    pub(super) fn limit_load(
        &self,
        dut: &mut AnyDut,
        traffic: &OfferedTraffic,
        result: &mut BenchResult,
    ) -> Result<f64, Failure> {
        let requested = self.load_max / 100.0;
        let AnyDut::Real(device) = dut else {
            return Ok(requested);
        };
        let streams = traffic
            .trial_at_load(device.ports().len(), 1.0, Picos::from_millis(1_000), 0)
            .streams;
        let (possible, frames_per_second) = device.calibrate(&streams)?;
        if possible < requested {
            result.notes.push(format!(
                "{}: the generator can send {frames_per_second:.0} frames/s of a stream; the largest offered load is \
                 {:.1} % of line rate, and a rate at this load is a lower bound",
                traffic.size.name(),
                possible * 100.0
            ));
        }
        Ok(possible.min(requested))
    }

    /// Returns the durations of trials with this frame size: the arguments, or default values.
    pub(super) fn trial_durations(&self, dut: &AnyDut, size: FrameSize) -> TrialDurations {
        let default = match dut {
            AnyDut::Virtual(_) => TrialDurations::for_virtual_time(dut, self.pattern, size),
            AnyDut::Real(_) => TrialDurations::REAL_TIME,
        };
        let full = self.trial_duration.unwrap_or(default.full);
        let trials = default.sum.0 / default.full.0.max(1);
        TrialDurations {
            initial: self.trial_initial.unwrap_or(full).min(full),
            full,
            sum: self
                .trial_sum
                .unwrap_or(Picos(full.0.saturating_mul(trials)))
                .max(full),
        }
    }

    /// Returns the offered traffic with this frame size.
    pub(super) fn offered_traffic(&self, size: FrameSize) -> OfferedTraffic {
        OfferedTraffic {
            pattern: self.pattern,
            size,
            flows: self.flows,
        }
    }

    /// Checks the arguments. Returns the frame sizes that the ports accept, in the order of the arguments.
    /// Adds a note to the result about each size that the ports refuse.
    ///
    /// # Errors
    /// No frame size fits, a size is repeated or cannot be offered, the pattern needs more ports, or a
    /// duration is out of range.
    pub(super) fn check_and_select_sizes(
        &self,
        dut: &AnyDut,
        result: &mut BenchResult,
    ) -> Result<Vec<FrameSize>, Failure> {
        check_port_count(dut, self.pattern)?;
        for (option, time) in [
            ("--trial-initial", self.trial_initial),
            ("--trial-duration", self.trial_duration),
            ("--trial-sum", self.trial_sum),
        ] {
            if time == Some(Picos::ZERO) {
                return Err(Failure::usage("the duration of a trial must be greater than 0")
                    .at(option)
                    .fix("write a duration such as 1ms or 10s"));
            }
        }
        let sizes = self.requested_sizes(matches!(dut, AnyDut::Real(_)), result);
        let sizes = select_fitting_sizes(dut, &sizes, result)?;
        for &size in &sizes {
            let goals = self.trial_durations(dut, size).ndr_and_pdr_goals();
            ndr::check_trials(dut, &self.offered_traffic(size), &goals, self.load_max / 100.0)?;
        }
        Ok(sizes)
    }

    /// Returns the frame sizes of the argument, or the default sizes for this kind of device.
    fn requested_sizes(&self, is_real: bool, result: &mut BenchResult) -> Vec<FrameSize> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        if !is_real {
            return DEFAULT_SIZES.to_vec();
        }
        note_skipped_size(
            "imix",
            "a stream on network devices has frames of one length",
            result,
        );
        DEFAULT_SIZES
            .into_iter()
            .filter(|size| *size != FrameSize::Imix)
            .collect()
    }
}

/// Adds a note about a skipped frame size to the result, and prints the note.
fn note_skipped_size(name: &str, reason: &str, result: &mut BenchResult) {
    let note = format!("frames of {name} bytes are skipped: {reason}");
    output::print_note(&note);
    result.notes.push(note);
}

/// Checks that the device has enough ports for a traffic pattern.
///
/// # Errors
/// The pattern needs more ports.
pub(super) fn check_port_count(dut: &impl Dut, pattern: TrafficPattern) -> Result<(), Failure> {
    match dut.ports().len() >= pattern.min_port_count() {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} needs {} ports, and there are {}",
            pattern.name(),
            pattern.min_port_count(),
            dut.ports().len()
        ))
        .at("--ports")
        .fix("name more ports, or choose another pattern")),
    }
}

/// Returns the frame sizes that all ports accept. For each size that a port refuses, adds a note to `result`
/// and prints the note.
///
/// # Errors
/// No size fits, or a size is repeated.
pub(super) fn select_fitting_sizes(
    dut: &impl Dut,
    sizes: &[FrameSize],
    result: &mut BenchResult,
) -> Result<Vec<FrameSize>, Failure> {
    check_no_duplicates("--sizes", sizes, |size| size.name())?;
    let frame_bytes_max = dut
        .ports()
        .iter()
        .map(|port| port.frame_bytes_max)
        .min()
        .unwrap_or(0);
    let fits = |size: &FrameSize| size.max_bytes() <= frame_bytes_max;
    let (fitting, others): (Vec<FrameSize>, Vec<FrameSize>) = sizes.iter().copied().partition(fits);
    for size in others {
        note_skipped_size(
            &size.name(),
            &format!("the MTU of the ports allows at most {frame_bytes_max}"),
            result,
        );
    }
    match fitting.is_empty() {
        true => Err(Failure::usage("no frame size fits the MTU of the ports")
            .at("--sizes")
            .fix(format!("choose sizes up to {frame_bytes_max}"))),
        false => Ok(fitting),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct DutCommandLine {
        #[command(flatten)]
        dut: DutArguments,
        #[command(flatten)]
        trial: TrialArguments,
    }

    #[test]
    fn imix_is_skipped_for_network_devices_unless_it_is_given() {
        let sizes = |arguments: &[&str], is_real| {
            let line = DutCommandLine::try_parse_from([&["ndr"], arguments].concat()).unwrap();
            let mut result = BenchResult::new("ndr", "test", 0);
            let sizes = line.trial.requested_sizes(is_real, &mut result);
            (sizes.contains(&FrameSize::Imix), sizes.len(), result.notes.len())
        };
        assert_eq!(sizes(&["config.json"], false), (true, 4, 0));
        assert_eq!(sizes(&["--ports", "a0,b0"], true), (false, 3, 1));
        assert_eq!(
            sizes(&["--ports", "a0,b0", "--sizes", "64,imix"], true),
            (true, 2, 0)
        );
    }

    #[test]
    fn options_of_the_other_kind_of_device_are_refused() {
        for (arguments, is_accepted) in [
            (&["config.json"][..], true),
            (&["config.json", "--class", "3", "--cable-delay", "5us"], true),
            (&["--ports", "a0,b0", "--speed", "1000", "--dscp", "0"], true),
            (&["config.json", "--speed", "1000"], false),
            (&["config.json", "--dscp", "26"], false),
            (&["--ports", "a0,b0", "--class", "3"], false),
            (&["--ports", "a0,b0", "--switch", "sw1"], false),
            (&["--ports", "a0,b0", "--ignore-pauses"], false),
            (&["--ports", "a0,b0", "--cable-delay", "5us"], false),
        ] {
            let parsed = DutCommandLine::try_parse_from([&["ndr"], arguments].concat());
            assert_eq!(parsed.is_ok(), is_accepted, "{arguments:?}");
        }
    }

    #[test]
    fn a_time_beyond_the_limit_is_refused() {
        assert!(parse_model_time("6000h").unwrap_err().contains("5000h"));
        assert!(parse_model_time("6000").unwrap_err().contains("10us"));
    }
}
