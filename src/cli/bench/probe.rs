//! `xoff bench probe`: finds the buffer thresholds of a switch with frames from a tester.

use std::path::{Path, PathBuf};

use clap::Args;
use xoff_dataplane::config::SwitchConfig;

use super::super::output;
use xoff_config::{ResolveOptions, load};
use xoff_measure::probe::{
    ClassThresholds, PROBE_SCHEMA, ProbeOptions, ProbeReport, VirtualProbeDevice, expected_thresholds,
    measure_thresholds, reachable_classes,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{InputLimit, read_input_text};

/// Size of the ingress pool in cells that is assumed if the class has no known ingress pool. The first
/// attempt sends as many frames as fit in this pool.
const FIRST_ATTEMPT_FRAMES: u32 = 1_024;

/// `xoff bench probe`
#[derive(Clone, Debug, Args)]
pub(crate) struct ProbeBenchArguments {
    /// Configuration in the form of SONiC's config_db.json, or a lab file (.yml, .yaml)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Switch of the lab file [default: the first switch]
    #[arg(long, value_name = "NAME")]
    pub switch: Option<String>,
    /// Ingress port [default: the first port]
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// One or two egress ports. Only two ports find the XON threshold [default: the first two other ports]
    #[arg(long, value_name = "PORT[,PORT]", value_delimiter = ',')]
    pub to: Vec<String>,
    /// Traffic class. Repeat the option for each class [default: all classes that a header can select]
    #[arg(long = "class", value_name = "N", value_parser = clap::value_parser!(u8).range(0..16))]
    pub classes: Vec<u8>,
    /// Length of the frames with FCS in bytes. If a frame fits one cell, the thresholds are exact to one cell
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(64..=9_234))]
    pub frame_size: u32,
    /// Compare with the thresholds of this configuration [default: the configuration of the switch]
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Permitted difference of a threshold in cells
    #[arg(long, value_name = "CELLS", default_value_t = 0)]
    pub tolerance: u32,
    /// Number of times that each threshold is measured, 1 to 5
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=5))]
    pub verify: u32,
    /// Largest number of frames of an attempt
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 21))]
    pub frames_max: u32,
    /// Print the result as JSON (docs/probe.md)
    #[arg(long)]
    pub json: bool,
}

pub(super) const HELP: &str = "\
The switch runs in virtual time between the ports of a tester. The tester fills the buffer with numbered frames of one
class, and pauses the egress ports so that the frames stay in the switch. A class that does not honour pauses is
blocked in the switch. The tester observes PFC frames and the frames that leave. The search for a threshold doubles,
halves and bisects the number of frames to 5 %, and then adds single frames. Each threshold is verified, and the
switch is drained between attempts. docs/probe.md has the definitions.

Exit codes: 0 all thresholds are as configured, 1 a threshold differs by more than --tolerance, 2 usage, 4 invalid
configuration, 5 no result, because frames do not stay in the switch or results vary.

Examples:
  xoff bench probe config_db.json
  xoff bench probe config_db.json --port Ethernet4 --to Ethernet8,Ethernet12 --class 3
  xoff bench probe testbeds/incast.xoff.yml --json
  xoff bench probe old.json --expect new.json --tolerance 8";

pub(super) fn run(options: &ProbeBenchArguments) -> Result<Exit, Failure> {
    let config = read_switch_config(&options.file, options.switch.as_deref())?;
    let expected_config = match &options.expect {
        Some(path) => read_switch_config(path, options.switch.as_deref())?,
        None => config.clone(),
    };
    let ports = ProbedPorts::choose(options, &config)?;
    let report = probe_switch(options, &config, &expected_config, &ports)?;
    if options.json {
        output::print_json(&report);
    } else {
        output::print(&report.render());
    }
    Ok(report.exit())
}

/// Reads the configuration of a switch from a configuration file or a lab file. `switch` selects a switch of
/// a lab file; `None` selects the first switch.
pub(super) fn read_switch_config(path: &Path, switch: Option<&str>) -> Result<SwitchConfig, Failure> {
    if is_lab_file(path) {
        return read_switch_of_lab(path, switch);
    }
    let place = path.display().to_string();
    let text = read_input_text(path, InputLimit::CONFIGURATION).map_err(|error| {
        Failure::configuration("the configuration cannot be read")
            .at(&place)
            .because(error)
            .fix("give a readable config_db.json, or a lab file whose name ends in .yml")
    })?;
    let loaded = load(&[(&place, &text)], &ResolveOptions::default())
        .map_err(|problems| Failure::configuration(problems.to_string()))?;
    Ok(loaded.resolved.config)
}

/// Returns whether the name of a file ends in `.yml` or `.yaml`, like a lab file.
pub(super) fn is_lab_file(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "yml" || ext == "yaml")
}

/// Reads the configuration of the named switch of a lab file, or of the first switch.
fn read_switch_of_lab(path: &Path, switch: Option<&str>) -> Result<SwitchConfig, Failure> {
    let switches = xoff_lab::switch_configurations(path)?;
    let names: Vec<String> = switches.iter().map(|config| config.name.clone()).collect();
    let chosen = match switch {
        Some(name) => switches.into_iter().find(|config| config.name == name),
        None => switches.into_iter().next(),
    };
    chosen.ok_or_else(|| {
        Failure::usage("the lab has no such switch")
            .at(path.display().to_string())
            .fix(format!("name one of: {}", names.join(", ")))
    })
}

/// Indices of the ports that a probe uses.
struct ProbedPorts {
    ingress: usize,
    egresses: Vec<usize>,
}

impl ProbedPorts {
    /// Selects the ports of the arguments, or the first ports of the switch.
    fn choose(options: &ProbeBenchArguments, config: &SwitchConfig) -> Result<ProbedPorts, Failure> {
        let index = |option: &str, name: &str| {
            config
                .ports
                .iter()
                .position(|port| port.name == name)
                .ok_or_else(|| {
                    let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
                    Failure::usage(format!("the switch has no port {name}"))
                        .at(format!("{option} {name}"))
                        .fix(format!("name one of: {}", names.join(", ")))
                })
        };
        let ingress = match &options.port {
            Some(name) => index("--port", name)?,
            None => 0,
        };
        let mut egresses: Vec<usize> = options
            .to
            .iter()
            .map(|name| index("--to", name))
            .collect::<Result<_, _>>()?;
        if egresses.is_empty() {
            egresses = (0..config.ports.len())
                .filter(|port| *port != ingress)
                .take(2)
                .collect();
        }
        if egresses.is_empty() {
            return Err(
                Failure::configuration("a switch with fewer than two ports has nothing to probe")
                    .fix("add ports to PORT"),
            );
        }
        let doubled = egresses.len() > 1 && egresses[0] == egresses[1];
        if egresses.contains(&ingress) || doubled || egresses.len() > 2 {
            return Err(Failure::usage(
                "the egress ports must be one or two different ports, without the ingress port",
            )
            .at(format!("--to {}", options.to.join(",")))
            .fix("name one or two other ports"));
        }
        Ok(ProbedPorts { ingress, egresses })
    }
}

/// Measures the thresholds of each class and compares them with the thresholds of `expected_config`.
fn probe_switch(
    options: &ProbeBenchArguments,
    config: &SwitchConfig,
    expected_config: &SwitchConfig,
    ports: &ProbedPorts,
) -> Result<ProbeReport, Failure> {
    let ingress = &config.ports[ports.ingress];
    let egress = &config.ports[ports.egresses[0]];
    let classes = match options.classes.as_slice() {
        [] => reachable_classes(ingress)
            .into_iter()
            .map(|(class, _)| class)
            .collect(),
        named => named.to_vec(),
    };
    let frame_cells = options.frame_size.div_ceil(config.cell_bytes);
    let expected = |class: u8| {
        let index = |name: &str| expected_config.ports.iter().position(|port| port.name == name);
        expected_thresholds(
            expected_config,
            index(&ingress.name)?,
            index(&egress.name)?,
            class,
            options.frame_size,
            options.frames_max,
        )
    };
    let mut results = Vec::with_capacity(classes.len());
    for class in classes {
        output::print_note(&format!("class {class}"));
        let mut device =
            VirtualProbeDevice::new(config, ports.ingress, &ports.egresses, class, options.frame_size)?;
        let search = ProbeOptions {
            first: first_attempt_frames(config, ports, class, frame_cells).min(options.frames_max),
            frames_max: options.frames_max,
            verifications: options.verify,
        };
        let measured = measure_thresholds(&mut device, &search)?;
        results.push(ClassThresholds::new(
            class,
            &measured,
            expected(class),
            (options.frame_size, frame_cells),
            options.tolerance,
            ports.egresses.len() > 1,
        ));
    }
    let name = |port: &usize| config.ports[*port].name.clone();
    Ok(ProbeReport {
        schema: PROBE_SCHEMA,
        xoff_version: env!("CARGO_PKG_VERSION"),
        switch: config.name.clone(),
        ingress: name(&ports.ingress),
        egresses: ports.egresses.iter().map(name).collect(),
        cell_bytes: config.cell_bytes,
        frame_bytes: options.frame_size,
        frame_cells,
        tolerance_cells: options.tolerance,
        holds: results
            .iter()
            .flat_map(|class| &class.thresholds)
            .all(|threshold| threshold.holds),
        classes: results,
    })
}

/// Returns the number of frames of the first attempt, 1 to 2^20. As in SONiC's probe, these frames fill the
/// ingress pool.
fn first_attempt_frames(config: &SwitchConfig, ports: &ProbedPorts, class: u8, frame_cells: u32) -> u32 {
    let ingress = &config.ports[ports.ingress];
    let pg = usize::from(ingress.classify.tc_to_pg[usize::from(class)]);
    let profile = config.profiles.get(usize::from(ingress.pgs[pg]));
    let pool = profile.and_then(|profile| config.pools.get(usize::from(profile.pool)));
    let cells = pool.map_or(u64::from(FIRST_ATTEMPT_FRAMES), |pool| {
        pool.size_bytes / u64::from(config.cell_bytes)
    });
    (cells / u64::from(frame_cells)).clamp(1, 1 << 20) as u32
}
