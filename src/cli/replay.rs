//! `xoff replay`: sends the frames of a capture through a switch and writes the sent frames to a new capture.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde_json::json;
use xoff_units::Picos;

use super::size::parse_size_bytes;
use super::{ConfigurationInput, args, output, values};
use xoff_capture::{ReadError, Reader};
use xoff_config::{
    LoadedConfig, PORT_OPTION, PortAttachment, ResolveOptions, build_preset, load, parse_layers,
};
use xoff_measure::replay::{
    CaptureDestination, CaptureSource, CaptureSurvey, ConfiguredPorts, FrameSource, MappingMode,
    MappingOptions, PortMapping, ReplayCaptureFiles, ReplayDestinations, ReplayError, ReplayPace,
    ReplayReport, ReplayRun, SkipReason,
};
use xoff_telemetry::count_noun;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::verdict::Expectation;

/// MTU in bytes of ports without an MTU in the configuration. The value is large, so that captured
/// frames fit.
const DEFAULT_MTU: &str = "9216";
/// A MAC address that no station can have. `--port` accepts it because some devices send PFC frames with it.
const ZERO_MAC: &str = "00:00:00:00:00:00";
/// Default speed of ports in Mb/s, if neither the command line nor the configuration has a speed.
const DEFAULT_SPEED_MBPS: u32 = 1_000;

pub(super) const HELP: &str = "\
Every frame of the capture arrives at the port of its sender, at the time of its time stamp. If the link of
the port is too slow, the frame arrives later. The output has the time and the class of each sent frame,
and a comment with the number of the captured frame and the ECN mark. The same input gives the same output,
byte for byte.

Port mapping: each sender has its own port, in the order of the first frames. The ports of stations that
never send follow. A capture of several interfaces has a port for each interface, unless this loses frames.
Frames that an interface sent are then not replayed. --port, --ingress and --map override the mapping. The
switch knows the ports of all stations from the start and does not flood. With --no-learn, the switch
floods until it has learned the stations. See docs/replay.md.

Exit codes: 0 ok, 1 an --expect does not hold or frames of a lossless class exceed an MTU, 2 usage, 3 a file
cannot be read or written, 4 invalid configuration, 5 no frame was offered, the capture is damaged or truncated
(earlier frames are replayed), or frames were stuck.

Examples:
  xoff replay in.pcap --out out.pcapng
  xoff replay in.pcap --preset roce-lossless --speed 100g --back-to-back --out out.pcapng
  xoff replay in.pcap --config sw.json --out out.pcapng --drops drops.pcapng --report result.json
  xoff replay in.pcap --port Ethernet0=02:00:00:00:00:01 --out - | tshark -r - -O pkt_comment
  xoff replay all.pcapng --config new.json --out what-if.pcapng   (all.pcapng: of `xoff switch run --pcap`)";

/// `xoff replay`
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The capture: pcap or pcapng of Ethernet frames, optionally gzip; `-` is standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Write the frames that leave the switch here as pcapng; `-` is standard output
    #[arg(long, short = 'w', value_name = "FILE")]
    pub out: PathBuf,
    /// Write the dropped frames here as pcapng. A comment in each frame has the drop reason, the port or
    /// queue, and the limit
    #[arg(long, value_name = "FILE")]
    pub drops: Option<PathBuf>,
    /// Configuration in the form of SONiC's config_db.json. Its values override the preset. Repeat the option
    /// to add layers; null removes a value (RFC 7386) [default: all ports form one bridge]
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Options for reading the configuration.
    #[command(flatten)]
    pub configuration: ConfigurationInput,
    /// A built-in configuration
    #[arg(long, value_name = values::PRESET_VALUE)]
    pub preset: Option<String>,
    /// The stations of a port: MAC addresses, or interfaces of the capture by name or number. Repeat the option
    /// for each port
    #[arg(long = "port", value_name = "Ethernet0=MAC|INTERFACE[,...]")]
    pub ports: Vec<PortSourcesArgument>,
    /// The port for frames that no --port assigns
    #[arg(long, value_name = "PORT")]
    pub ingress: Option<String>,
    /// Mapping of frames to ports if no --port assigns them
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = PortMappingOption::Auto, conflicts_with = "ingress")]
    pub map: PortMappingOption,
    /// Speed of ports without a speed in the configuration, such as 100g [default: 1g]
    #[arg(long, value_name = "SPEED", value_parser = values::parse_speed_mbps)]
    pub speed: Option<u32>,
    /// Send the frames N times as fast as they were captured, such as 10 or 0.5
    #[arg(long, value_name = "N", value_parser = parse_multiplier, default_value = "1", conflicts_with = "back_to_back")]
    pub multiplier: (u64, u64),
    /// Send the frames at link speed and ignore their time stamps
    #[arg(long)]
    pub back_to_back: bool,
    /// Largest size of the temporary file for a capture from a pipe or standard input, such as 500M or 8G
    #[arg(long, value_name = "SIZE", value_parser = parse_size_bytes, default_value = "4G")]
    pub spool: u64,
    /// Start with an empty MAC table: the switch floods until it has learned the stations
    #[arg(long)]
    pub no_learn: bool,
    /// What must leave the switch, such as frames>=1000 or bytes>=1M (bytes with FCS), or 1000 for that many
    /// frames. Exit with code 1 if it does not. Repeat the option for each condition
    #[arg(long, value_name = "CONDITION")]
    pub expect: Vec<Expectation>,
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
pub enum PortMappingOption {
    /// By sender for a capture of one interface, otherwise the mapping that loses fewer frames.
    #[default]
    Auto,
    /// By the MAC address of the sender.
    Mac,
    /// By the interface of the capture.
    Interface,
}

impl From<PortMappingOption> for MappingMode {
    fn from(choice: PortMappingOption) -> MappingMode {
        match choice {
            PortMappingOption::Auto => MappingMode::Auto,
            PortMappingOption::Mac => MappingMode::Sender,
            PortMappingOption::Interface => MappingMode::Interface,
        }
    }
}

/// The value of `--port Ethernet0=02:00:00:00:00:01,eth1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortSourcesArgument {
    /// Name of the port, such as `Ethernet0`.
    pub port: String,
    /// Stations and interfaces of the capture. Their frames arrive at the port.
    pub sources: Vec<FrameSource>,
}

impl FromStr for PortSourcesArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<PortSourcesArgument, String> {
        const FORM: &str =
            "write PORT=MAC or PORT=INTERFACE, such as Ethernet0=02:00:00:00:00:01 or Ethernet0=eth1";
        let (port, rest) = text
            .split_once('=')
            .ok_or_else(|| format!("'=' is missing; {FORM}"))?;
        values::check_port_name(port).map_err(|why| format!("{why}; {FORM}"))?;
        let source = |word: &str| match values::parse_mac(word) {
            Ok(mac) => Ok(FrameSource::Station(mac)),
            // No station has this address, but devices send PFC frames with it.
            Err(_) if word == ZERO_MAC => Ok(FrameSource::Station([0; 6])),
            Err(_) if word.is_empty() => Err(format!("no station is given after '='; {FORM}")),
            Err(why) if word.matches(':').count() == 5 => Err(why),
            Err(_) => Ok(FrameSource::Interface(word.to_owned())),
        };
        Ok(PortSourcesArgument {
            port: port.to_owned(),
            sources: rest.split(',').map(source).collect::<Result<_, _>>()?,
        })
    }
}

/// Parses a decimal number above 0 and up to 1000000, with up to six digits after the point. Returns its
/// numerator and denominator.
fn parse_multiplier(text: &str) -> Result<(u64, u64), String> {
    let wrong =
        || format!("'{text}' is no factor; write a number above 0 and up to 1000000, such as 10 or 0.5");
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str, count_max: usize| {
        text.len() <= count_max && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !are_digits(integer, 7) || !are_digits(fraction, 6) || integer.is_empty() {
        return Err(wrong());
    }
    let denominator = 10_u64.pow(fraction.len() as u32);
    let numerator = format!("{integer}{fraction}")
        .parse::<u64>()
        .map_err(|_| wrong())?;
    match numerator {
        1.. if numerator <= 1_000_000 * denominator => Ok((numerator, denominator)),
        _ => Err(wrong()),
    }
}

/// Runs `xoff replay`.
pub(super) fn run(arguments: &ReplayArguments) -> Result<Exit, Failure> {
    if arguments.out == Path::new("-") || arguments.drops.as_deref() == Some(Path::new("-")) {
        output::reserve_stdout();
    }
    check_output_files(arguments)?;
    let file = arguments.input.display().to_string();
    let unreadable = |error: ReadError| error.to_failure(&file);
    let source = CaptureSource::open(&arguments.input, arguments.spool)?;
    let survey = source.read().and_then(CaptureSurvey::read).map_err(unreadable)?;
    let layers = args::read_layers(&arguments.config, &arguments.configuration)?;
    let configured = read_configured_ports(&layers, arguments.configuration.asic.as_deref())?;
    let read = || source.read().and_then(Reader::new).map_err(unreadable);
    let mapping = PortMapping::choose(&survey, &mapping_options(arguments), &configured, read)?;
    print_notes_about_down_ports(&configured, &mapping);
    let loaded = load_config_for_mapping(arguments, layers, &mapping)?;
    for warning in &loaded.resolved.warnings {
        output::print_note(&format!("note: {warning}"));
    }
    let config = loaded.resolved.config;
    let destination = CaptureDestination::of(&arguments.out);
    let drops = arguments.drops.as_deref().map(CaptureDestination::of);
    let destinations = ReplayDestinations {
        sent: &destination,
        dropped: drops.as_ref(),
        standard_output: output::open_standard_output,
    };
    let mut files = ReplayCaptureFiles::create(&config, survey.first_ns, &file, &destinations)
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
        .map_err(|error| replay_failure(error, &file, &destination))?;
    files
        .finish()
        .map_err(|error| write_failure(&destination, &error))?;
    let report = ReplayReport::new(&file, seed, &arguments.expect, &survey, &mapping, result);
    print_warnings(&report, arguments);
    print_result(&report, arguments, &destination)?;
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
                .fix("give it its own name"));
        }
        seen.push((option, path));
    }
    match &arguments.report {
        Some(path) => output::check_report_path("--report", path),
        None => Ok(()),
    }
}

/// Returns whether two paths name the same file. The path `-` (standard input or output) never names the same
/// file as a second path.
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

/// Reads the names of the ports of a configuration, the ports that are down, and the MAC address of the
/// router. `asic` selects an ASIC of a multi-ASIC device. Without layers, the result is empty.
fn read_configured_ports(
    layers: &[(String, String)],
    asic: Option<&str>,
) -> Result<ConfiguredPorts, Failure> {
    let Some((place, _)) = layers.last() else {
        return Ok(ConfiguredPorts::default());
    };
    let db = parse_layers(&args::borrow_layers(layers), asic)
        .map_err(|problems| invalid_config_failure(place, &problems))?;
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

/// Prints a note for each port that has the `admin_status` down although frames of the capture arrive there.
/// The port drops all these frames.
fn print_notes_about_down_ports(configured: &ConfiguredPorts, mapping: &PortMapping) {
    for port in mapping
        .ports_in_use()
        .into_iter()
        .filter(|port| configured.down.contains(*port))
    {
        output::print_note(&format!(
            "note: frames of the capture arrive at {port}, but PORT sets its admin_status to down"
        ));
    }
}

fn mapping_options(arguments: &ReplayArguments) -> MappingOptions {
    let sources_with_port = |argument: &PortSourcesArgument| {
        let port = argument.port.clone();
        argument
            .sources
            .clone()
            .into_iter()
            .map(move |source| (port.clone(), source))
    };
    MappingOptions {
        ports: arguments.ports.iter().flat_map(sources_with_port).collect(),
        ingress: arguments.ingress.clone(),
        mode: arguments.map.into(),
    }
}

/// Loads the configuration for the ports of the mapping. `file_layers` override the values of the command
/// line and of the preset.
fn load_config_for_mapping(
    arguments: &ReplayArguments,
    file_layers: Vec<(String, String)>,
    mapping: &PortMapping,
) -> Result<LoadedConfig, Failure> {
    let speed_mbps = arguments.speed.unwrap_or(DEFAULT_SPEED_MBPS);
    let mut ports = serde_json::Map::new();
    for port in &mapping.ports {
        ports.insert(
            port.clone(),
            json!({ "speed": speed_mbps.to_string(), "mtu": DEFAULT_MTU }),
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
        let preset = build_preset(name, &ports, Picos::ZERO).map_err(|unknown| {
            Failure::usage(unknown.to_string())
                .at(format!("--preset {name}"))
                .fix(format!("write --preset {}", values::PRESET_VALUE))
        })?;
        layers.push((format!("preset {name}"), preset.to_json()));
    }
    layers.extend(file_layers);
    let layers = args::borrow_layers(&layers);
    let resolve = arguments.configuration.apply_to(ResolveOptions {
        ports: mapping.ports.clone(),
        seed: arguments.seed,
        reaction_budget: Picos::ZERO,
        attachment: PortAttachment::Capture,
        port_source: Some(PORT_OPTION),
        ..ResolveOptions::default()
    })?;
    let place = layers.last().map_or("", |(place, _)| *place);
    let loaded = load(&layers, &resolve).map_err(|problems| invalid_config_failure(place, &problems))?;
    let names = loaded.resolved.config.ports.iter().map(|port| &port.name);
    if !names.eq(&mapping.ports) {
        return Err(
            Failure::configuration("the ports of the configuration are not those of the mapping")
                .at(place)
                .fix("write an entry in PORT for each port of the mapping, and for no other port"),
        );
    }
    Ok(loaded)
}

fn invalid_config_failure(place: &str, problems: &xoff_config::Problems) -> Failure {
    Failure::configuration("the configuration is invalid")
        .at(place)
        .because_of_errors(problems, problems.as_slice())
}

fn replay_failure(error: ReplayError, capture: &str, destination: &CaptureDestination) -> Failure {
    match error {
        ReplayError::Read(error) => error.to_failure(capture),
        ReplayError::Write(error) => write_failure(destination, &error),
        ReplayError::TooLate(frame, days) => Failure::environment(format!(
            "frame {frame} arrives {} after the first frame, without the gaps of more than an hour",
            count_noun(days, "day")
        ))
        .at(capture)
        .because("model time ends after 106 days")
        .fix("send the frames faster with --multiplier, or ignore their time stamps with --back-to-back"),
    }
}

fn write_failure(destination: &CaptureDestination, error: &std::io::Error) -> Failure {
    let place = match destination {
        CaptureDestination::File(path) => path.display().to_string(),
        CaptureDestination::Output => "standard output".to_owned(),
    };
    Failure::environment("the capture cannot be written")
        .at(place)
        .because(error)
        .fix("choose an existing folder with write permission and free space")
}

/// Prints a note for each reason why frames were skipped. There is no note for outbound frames of the
/// capturing machine, or for frames that a switch sent.
fn print_notes_about_skipped_frames(report: &ReplayReport) {
    let is_unreadable = |reason: &str| !matches!(reason, "outbound" | "of_a_switch");
    for (reason, count) in report
        .frames
        .skipped
        .iter()
        .filter(|(reason, _)| is_unreadable(reason))
    {
        let name = &report.capture.file;
        output::print_note(&format!(
            "note: {} of {name} {} {}",
            count_noun(*count, "frame"),
            if *count == 1 { "is" } else { "are" },
            SkipReason::skip_reason_explanation(reason)
        ));
    }
}

/// Prints warnings and notes about the result.
fn print_warnings(report: &ReplayReport, arguments: &ReplayArguments) {
    let name = report.capture.file.as_str();
    if report.capture.frames == 0 && report.taints.is_empty() {
        output::print_note(&format!("note: {name} has no frames"));
    }
    for taint in &report.taints {
        output::print_note(&format!("warning: {name}: {taint}"));
    }
    print_notes_about_skipped_frames(report);
    if report.frames.gaps_cut > 0 {
        output::print_note(&format!(
            "note: {} of more than an hour between time stamps of {name} {} shortened to 1 s of model time",
            count_noun(report.frames.gaps_cut, "gap"),
            if report.frames.gaps_cut == 1 {
                "was"
            } else {
                "were"
            }
        ));
    }
    if report.capture.without_class > 0 {
        output::print_note(&format!(
            "note: {} of {name} cut before the DSCP, and classified as without IP; capture \
             with a longer snap length, such as `tcpdump -s 64`",
            count_noun(report.capture.without_class, "frame")
        ));
    }
    if report.frames.same_port > 0 {
        output::print_note(&format!(
            "note: {} dropped, with sender and receiver behind the same port \
             (L2_LOOPBACK_FILTER); ports are mapped by {}, and --map and --port change the mapping",
            count_noun(report.frames.same_port, "frame"),
            report.capture.ports_by
        ));
    }
    if report.frames.disordered > 0 && !arguments.back_to_back {
        output::print_note(&format!(
            "note: {} of {name} with an earlier time stamp than a frame before, sent without \
             delay; `reordercap` of Wireshark sorts a capture",
            count_noun(report.frames.disordered, "frame")
        ));
    }
    let too_long: u64 = report
        .switch
        .ports
        .iter()
        .filter_map(|port| port.drops.get("EXCEEDS_L2_MTU"))
        .sum();
    if too_long > 0 {
        output::print_note(
            "note: frames longer than the MTU were dropped. If the MTU is right, they were captured before the NIC \
             segmented them; capture on the link, or turn off offloads: `ethtool -K DEV tso off gso off gro off`",
        );
    }
}

/// Prints the result to standard output, or to standard error if the capture goes to standard output. Also
/// writes the file of `--report`.
fn print_result(
    report: &ReplayReport,
    arguments: &ReplayArguments,
    destination: &CaptureDestination,
) -> Result<(), Failure> {
    if let Some(path) = &arguments.report {
        xoff_telemetry::write_report_file(path, &report.to_json())?;
    }
    let text = match arguments.json {
        true => report.to_json(),
        false => report.render(),
    };
    match destination {
        CaptureDestination::File(_) => output::print(&text),
        CaptureDestination::Output => output::print_note(text.trim_end()),
    }
    Ok(())
}
