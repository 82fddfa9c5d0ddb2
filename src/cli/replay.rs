//! `xoff replay`: sends the frames of a capture through a switch and writes the departures to another
//! capture.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde_json::json;
use xoff_units::Picos;

use super::{ConfigurationInput, args, output, values};
use xoff_capture::{ReadError, Reader};
use xoff_config::{LoadedConfig, PortAttachment, ResolveOptions, build_preset, load, parse_layers};
use xoff_measure::replay::{
    CaptureDestination, CaptureSource, CaptureSurvey, ConfiguredPorts, FrameSource, MappingMode,
    MappingOptions, PortMapping, ReplayCaptureFiles, ReplayError, ReplayPace, ReplayReport, ReplayRun,
    SkipReason,
};
use xoff_telemetry::failure::{Exit, Failure};

/// MTU of ports without an MTU in the configuration, so that all captured frames pass.
const MTU: &str = "9216";
/// The MAC address that `--port` accepts although no station can have it.
const ZERO_MAC: &str = "00:00:00:00:00:00";
/// Speed in Mb/s of ports without a speed in the command line or in the configuration.
const SPEED_MBPS: u32 = 1_000;

pub(super) const HELP: &str = "\
Every frame of the capture arrives at the port of its sender, at the time of its time stamp, no faster
than the link of the port carries it. Departures are written with their time, their class, and a
comment with the number of the captured frame and the ECN mark. The same input gives the same
output, byte for byte.

Port mapping: each sender has its own port, in the order of the first frames, followed by a port for
each station that never sends. A capture of several interfaces has a port for each interface (frames that
left by an interface are not replayed), unless this loses frames. --port, --ingress and --map override
this. The switch knows the ports of all stations from the start, so each frame leaves once. With
--no-learn, it learns from the frames and floods until then. See docs/replay.md.

Exit codes: 0 ok, 2 usage, 3 a file cannot be read or written, 4 invalid configuration,
5 the capture is damaged or truncated (earlier frames are replayed), or frames were stuck.

Examples:
  xoff replay in.pcap --out out.pcapng
  xoff replay in.pcap --preset roce-lossless --speed 100g --back-to-back --out out.pcapng
  xoff replay in.pcap --config sw.json --out out.pcapng --drops drops.pcapng --report result.json
  xoff replay in.pcap --port Ethernet0=02:00:00:00:00:01 --out - | tshark -r - -O pkt_comment
  xoff replay all.pcapng --config new.json --out what-if.pcapng   (all.pcapng: a recording of --pcap)";

/// `xoff replay`
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The capture: pcap or pcapng of Ethernet frames, optionally gzip; `-` is standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Write the frames that leave the switch here as pcapng; `-` is standard output
    #[arg(long, short = 'w', value_name = "FILE")]
    pub out: PathBuf,
    /// Write the dropped frames here as pcapng, each with reason, place and limit
    #[arg(long, value_name = "FILE")]
    pub drops: Option<PathBuf>,
    /// Configuration in the form of SONiC's config_db.json, a layer over the preset. Repeated files are
    /// layers over the earlier ones, in which null removes a value (RFC 7386) [default: all ports form one
    /// bridge]
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Options for reading the configuration.
    #[command(flatten)]
    pub configuration: ConfigurationInput,
    /// A built-in configuration: roce-lossless or roce-lossy
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// The stations of a port: MAC addresses, or interfaces of the capture by name or number; once for each
    /// port
    #[arg(long = "port", value_name = "Ethernet0=MAC|INTERFACE[,...]")]
    pub ports: Vec<PortStations>,
    /// The port for frames that no --port assigns
    #[arg(long, value_name = "PORT")]
    pub ingress: Option<String>,
    /// The mapping of frames to ports if no --port assigns them
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = MapChoice::Auto, conflicts_with = "ingress")]
    pub map: MapChoice,
    /// Speed of ports without a speed in the configuration, such as 100g [default: 1g]
    #[arg(long, value_name = "SPEED", value_parser = values::parse_speed_mbps)]
    pub speed: Option<u32>,
    /// Offer the frames N times as fast as they were captured, such as 10 or 0.5
    #[arg(long, value_name = "N", value_parser = parse_factor, default_value = "1", conflicts_with = "back_to_back")]
    pub multiplier: (u64, u64),
    /// Offer the frames at link speed and ignore their time stamps (keeps the capture in memory)
    #[arg(long)]
    pub back_to_back: bool,
    /// Start with an empty MAC table: the switch floods until it has learned the stations
    #[arg(long)]
    pub no_learn: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the result here as JSON (docs/replay.md)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Seed of all random decisions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// The values of `--map`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MapChoice {
    /// The mapping that loses fewer frames; the sender for a capture of one interface.
    #[default]
    Auto,
    /// The MAC address of the sender.
    Mac,
    /// The interface of the capture.
    Interface,
}

impl From<MapChoice> for MappingMode {
    fn from(choice: MapChoice) -> MappingMode {
        match choice {
            MapChoice::Auto => MappingMode::Auto,
            MapChoice::Mac => MappingMode::Sender,
            MapChoice::Interface => MappingMode::Interface,
        }
    }
}

/// The value of `--port Ethernet0=02:00:00:00:00:01,eth1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortStations {
    /// The port.
    pub port: String,
    /// The stations behind the port.
    pub behind: Vec<FrameSource>,
}

impl FromStr for PortStations {
    type Err = String;

    fn from_str(text: &str) -> Result<PortStations, String> {
        const FORM: &str =
            "write PORT=MAC or PORT=INTERFACE, such as Ethernet0=02:00:00:00:00:01 or Ethernet0=eth1";
        let (port, rest) = text
            .split_once('=')
            .ok_or_else(|| format!("no '=' in it; {FORM}"))?;
        values::check_port_name(port).map_err(|why| format!("{why}; {FORM}"))?;
        let behind = |word: &str| match values::parse_mac(word) {
            Ok(mac) => Ok(FrameSource::Station(mac)),
            // No station has this address, but devices send PFC frames with it.
            Err(_) if word == ZERO_MAC => Ok(FrameSource::Station([0; 6])),
            Err(_) if word.is_empty() => Err(format!("nothing behind '='; {FORM}")),
            Err(why) if word.matches(':').count() == 5 => Err(why),
            Err(_) => Ok(FrameSource::Interface(word.to_owned())),
        };
        Ok(PortStations {
            port: port.to_owned(),
            behind: rest.split(',').map(behind).collect::<Result<_, _>>()?,
        })
    }
}

/// Parses a positive decimal number to numerator and denominator, with up to six digits on each side of the
/// point.
fn parse_factor(text: &str) -> Result<(u64, u64), String> {
    let wrong =
        || format!("'{text}' is no factor; write a number above 0 and up to 1000000, such as 10 or 0.5");
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let digits =
        |text: &str, most: usize| text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole, 7) || !digits(places, 6) || whole.is_empty() {
        return Err(wrong());
    }
    let by = 10_u64.pow(places.len() as u32);
    let number = format!("{whole}{places}").parse::<u64>().map_err(|_| wrong())?;
    match number {
        1.. if number <= 1_000_000 * by => Ok((number, by)),
        _ => Err(wrong()),
    }
}

/// Runs `xoff replay`.
pub(super) fn run(arguments: &ReplayArguments) -> Result<Exit, Failure> {
    check_output_files(arguments)?;
    let file = arguments.input.display().to_string();
    let unreadable = |error: ReadError| error.to_failure(&file);
    let source = CaptureSource::open(&arguments.input).map_err(unreadable)?;
    let survey = source.read().and_then(CaptureSurvey::read).map_err(unreadable)?;
    let layers = args::read_layers(&arguments.config)?;
    let configured = configured_ports(&layers, arguments.configuration.asic.as_deref())?;
    let read = || source.read().and_then(Reader::new).map_err(unreadable);
    let mapping = PortMapping::choose(&survey, &mapping_options(arguments), &configured, read)?;
    note_ports_down(&configured, &mapping);
    let loaded = load_for_mapping(arguments, layers, &mapping)?;
    for warning in &loaded.resolved.warnings {
        output::note(&format!("note: {warning}"));
    }
    let config = loaded.resolved.config;
    let to = CaptureDestination::of(&arguments.out);
    let drops = arguments.drops.as_deref().map(CaptureDestination::of);
    let mut files = ReplayCaptureFiles::create(&config, survey.first_ns, &file, &to, drops.as_ref())
        .map_err(|(place, error)| write_failure(&place, &error))?;
    let pace = match arguments.back_to_back {
        true => ReplayPace::BackToBack,
        false => ReplayPace::Captured(arguments.multiplier.0, arguments.multiplier.1),
    };
    let seed = config.seed;
    let mut replay = ReplayRun::new(config, &mapping, &survey, pace, &mut files);
    if !arguments.no_learn {
        replay.learn_stations(&survey);
    }
    let mut reader = read()?;
    let result = replay
        .run(&mut reader)
        .map_err(|error| replay_failure(error, &file, &to))?;
    files.finish().map_err(|error| write_failure(&to, &error))?;
    let report = ReplayReport::new(&file, seed, &survey, &mapping, &result);
    print_warnings(&report, arguments);
    print_result(&report, arguments, &to)?;
    Ok(report.exit())
}

/// Refuses output files that are the input or another output.
fn check_output_files(arguments: &ReplayArguments) -> Result<(), Failure> {
    let written = [
        ("--out", Some(&arguments.out)),
        ("--drops", arguments.drops.as_ref()),
        ("--report", arguments.report.as_ref()),
    ];
    let mut seen = vec![("the capture", &arguments.input)];
    for (option, path) in written {
        let Some(path) = path else { continue };
        let same = |(_, other): &&(&str, &PathBuf)| is_same_file(path, other);
        if let Some((other, _)) = seen.iter().find(same) {
            return Err(Failure::usage(format!("{option} is the same file as {other}"))
                .at(format!("{option} {}", path.display()))
                .fix("give it a name of its own"));
        }
        seen.push((option, path));
    }
    match &arguments.report {
        Some(path) => output::check_report_path("--report", path),
        None => Ok(()),
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let dash = Path::new("-");
    if a == dash || b == dash {
        // Standard input and standard output are different.
        return false;
    }
    let id = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        // Writing does not damage devices such as `/dev/null`.
        metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
    };
    match (id(a), id(b)) {
        (Some(a), Some(b)) => a == b,
        _ => std::path::absolute(a).ok() == std::path::absolute(b).ok() && !a.starts_with("/dev"),
    }
}

/// Returns the ports of a configuration and the MAC address of its router.
fn configured_ports(layers: &[(String, String)], asic: Option<&str>) -> Result<ConfiguredPorts, Failure> {
    let Some((place, _)) = layers.last() else {
        return Ok(ConfiguredPorts::default());
    };
    let db = parse_layers(&args::borrow_layers(layers), asic)
        .map_err(|problems| invalid_configuration(place, &problems))?;
    let router = db.get("DEVICE_METADATA", "localhost", "mac");
    let router = router.and_then(|mac| values::parse_mac(&mac).ok());
    let names: Vec<String> = db.keys("PORT").map(str::to_owned).collect();
    let is_down = |name: &&String| {
        db.get("PORT", name, "admin_status")
            .is_some_and(|status| status == "down")
    };
    Ok(ConfiguredPorts {
        down: names.iter().filter(is_down).cloned().collect(),
        names,
        router,
    })
}

/// Prints a note for each port that drops all frames because it is configured down.
fn note_ports_down(configured: &ConfiguredPorts, mapping: &PortMapping) {
    for port in mapping
        .ports_in_use()
        .into_iter()
        .filter(|port| configured.down.contains(*port))
    {
        output::note(&format!(
            "note: {port}: frames of the capture come in on it, but PORT sets admin_status down"
        ));
    }
}

fn mapping_options(arguments: &ReplayArguments) -> MappingOptions {
    let each = |argument: &PortStations| {
        let port = argument.port.clone();
        argument
            .behind
            .clone()
            .into_iter()
            .map(move |behind| (port.clone(), behind))
    };
    MappingOptions {
        ports: arguments.ports.iter().flat_map(each).collect(),
        ingress: arguments.ingress.clone(),
        mode: arguments.map.into(),
    }
}

/// Resolves the configuration for the ports of the mapping.
fn load_for_mapping(
    arguments: &ReplayArguments,
    written: Vec<(String, String)>,
    mapping: &PortMapping,
) -> Result<LoadedConfig, Failure> {
    let speed_mbps = arguments.speed.unwrap_or(SPEED_MBPS);
    let mut ports = serde_json::Map::new();
    for port in &mapping.ports {
        ports.insert(
            port.clone(),
            json!({ "speed": speed_mbps.to_string(), "mtu": MTU }),
        );
    }
    let mut layers = vec![(
        "the command line".to_owned(),
        json!({ "PORT": ports }).to_string(),
    )];
    if let Some(name) = &arguments.preset {
        let ports: Vec<(String, u32)> = mapping
            .ports
            .iter()
            .map(|port| (port.clone(), speed_mbps))
            .collect();
        let preset = build_preset(name, &ports, Picos::ZERO)
            .map_err(|unknown| Failure::usage(unknown.to_string()).at(format!("--preset {name}")))?;
        layers.push((format!("preset {name}"), preset.to_json()));
    }
    layers.extend(written);
    let layers = args::borrow_layers(&layers);
    let resolve = arguments.configuration.apply_to(ResolveOptions {
        ports: mapping.ports.clone(),
        seed: arguments.seed,
        reaction_budget: Picos::ZERO,
        attachment: PortAttachment::Capture,
        ..ResolveOptions::default()
    })?;
    let place = layers.last().map_or("", |(place, _)| *place);
    let loaded = load(&layers, &resolve).map_err(|problems| invalid_configuration(place, &problems))?;
    let names = loaded.resolved.config.ports.iter().map(|port| &port.name);
    if !names.eq(&mapping.ports) {
        return Err(
            Failure::configuration("the ports of the configuration are not those of the mapping").at(place),
        );
    }
    Ok(loaded)
}

fn invalid_configuration(place: &str, problems: &xoff_config::Problems) -> Failure {
    Failure::configuration("the configuration is invalid")
        .at(place)
        .because_of_errors(problems, problems.as_slice())
}

fn replay_failure(error: ReplayError, file: &str, to: &CaptureDestination) -> Failure {
    match error {
        ReplayError::Read(error) => error.to_failure(file),
        ReplayError::Write(error) => write_failure(to, &error),
        ReplayError::TooLate(frame, days) => Failure::environment(format!(
            "frame {frame} arrives {days} days after the first one, with gaps over an hour cut"
        ))
        .at(file)
        .because("model time ends after 106 days")
        .fix("offer the frames faster with --multiplier, or regardless of their stamps with --back-to-back"),
    }
}

fn write_failure(place: &CaptureDestination, error: &std::io::Error) -> Failure {
    let place = match place {
        CaptureDestination::File(path) => path.display().to_string(),
        CaptureDestination::Output => "standard output".to_owned(),
    };
    Failure::environment("the capture cannot be written")
        .at(place)
        .because(error)
        .fix("choose an existing folder with write permission and free space")
}

/// Prints notes about skipped frames, except those that were skipped because of their sender.
fn note_skipped_frames(report: &ReplayReport) {
    let of_reader = |reason: &str| !matches!(reason, "outbound" | "of_a_switch");
    for (reason, count) in report
        .frames
        .skipped
        .iter()
        .filter(|(reason, _)| of_reader(reason))
    {
        let name = &report.capture.file;
        output::note(&format!(
            "note: {count} frames of {name} are {}",
            SkipReason::explanation_of(reason)
        ));
    }
}

/// Prints warnings and notes about the result.
fn print_warnings(report: &ReplayReport, arguments: &ReplayArguments) {
    let name = report.capture.file.as_str();
    if report.capture.frames == 0 && report.taints.is_empty() {
        output::note(&format!("note: no frame is in {name}"));
    }
    for taint in &report.taints {
        output::note(&format!("warning: {name}: {taint}"));
    }
    note_skipped_frames(report);
    if report.frames.gaps_cut > 0 {
        output::note(&format!(
            "note: {} gaps of more than an hour between the stamps of {name} were cut to 1 s of model time",
            report.frames.gaps_cut
        ));
    }
    if report.capture.without_class > 0 {
        output::note(&format!(
            "note: {} frames of {name} are too short to tell their traffic class, and count as frames without IP; \
             capture with a longer snap length, `tcpdump -s 64`",
            report.capture.without_class
        ));
    }
    if report.frames.same_port > 0 {
        output::note(&format!(
            "note: {} frames were dropped since their sender and receiver are behind one port, with ports by {} \
             (L2_LOOPBACK_FILTER); --map and --port map them otherwise",
            report.frames.same_port, report.capture.ports_by
        ));
    }
    if report.frames.disordered > 0 && !arguments.back_to_back {
        output::note(&format!(
            "note: {} frames of {name} are stamped before an earlier one and arrived as soon as they could; \
             `reordercap` of Wireshark sorts a capture",
            report.frames.disordered
        ));
    }
    let too_long: u64 = report
        .switch
        .ports
        .iter()
        .filter_map(|port| port.drops.get("EXCEEDS_L2_MTU"))
        .sum();
    if too_long > 0 {
        output::note(
            "note: frames longer than the MTU were captured before a NIC segmented them, if the MTU is right; capture on the \
             wire, or with `ethtool -K DEV tso off gso off gro off`",
        );
    }
}

/// Prints the result. It goes to standard error if the capture goes to standard output.
fn print_result(
    report: &ReplayReport,
    arguments: &ReplayArguments,
    to: &CaptureDestination,
) -> Result<(), Failure> {
    if let Some(path) = &arguments.report {
        xoff_telemetry::write_report_file(path, &report.to_json())?;
    }
    let text = match arguments.json {
        true => report.to_json(),
        false => report.render(),
    };
    match to {
        CaptureDestination::File(_) => output::print(&text),
        CaptureDestination::Output => {
            output::note(text.trim_end());
            Ok(())
        }
    }
}
