//! Parsers of argument values.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use super::args::BackendChoice;
use xoff_ports::{Backend, StreamAddress};
use xoff_runtime::workers::CorePinning;
use xoff_units::Picos;

use xoff_lab::plan::OfferedRate;
use xoff_lab::units;
use xoff_lab::{FieldSetting, LOAD_BALANCING, ThreadCount};
use xoff_telemetry::failure::Failure;

/// The names of the presets, as the name of the value of `--preset`. The message about a missing configuration contains
/// this name.
pub(crate) const PRESET_VALUE: &str = "roce-lossless|roce-lossy";

/// Longest name of a network device: `IFNAMSIZ` without its zero byte.
const DEVICE_NAME_MAX: usize = 15;
/// Number of CPUs that a list can name (`CPU_SETSIZE`).
const CPUS_MAX: usize = 1024;
/// Largest number of threads of a run in virtual time.
const THREADS_MAX: usize = 256;

/// The value of `--port Ethernet0=DEV[,backend=...]` or `--port Ethernet0=stream:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortArgument {
    /// Name of the port in the configuration, such as `Ethernet0`.
    pub name: String,
    /// The network device, or the address of a stream.
    pub device: String,
    /// The port backend.
    pub backend: Backend,
}

impl FromStr for PortArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<PortArgument, String> {
        const FORM: &str = "write PORT=DEVICE, such as Ethernet0=veth0, Ethernet0=veth0,backend=packet or Ethernet0=stream:/tmp/vm1.sock";
        let (name, rest) = text
            .split_once('=')
            .ok_or_else(|| format!("'=' is missing; {FORM}"))?;
        check_port_name(name).map_err(|why| format!("{why}; {FORM}"))?;
        let mut fields = rest.split(',');
        let device = fields.next().unwrap_or_default();
        if StreamAddress::is_stream_device(device) {
            let address: StreamAddress = device.parse().map_err(|why| format!("{why}"))?;
            if fields.next().is_some() {
                return Err("a stream has no backend=, and its path has no ','".to_owned());
            }
            return Ok(PortArgument {
                name: name.to_owned(),
                device: address.to_string(),
                backend: Backend::Stream,
            });
        }
        check_device_name(device).map_err(|why| format!("{why}; {FORM}"))?;
        let mut backend = None;
        for field in fields {
            let value = field
                .strip_prefix("backend=")
                .ok_or_else(|| format!("'{field}' is unknown, the only field is backend=; {FORM}"))?;
            if backend.is_some() {
                return Err("backend= is given twice".to_owned());
            }
            let choice = BackendChoice::from_str(value, false)
                .map_err(|_| format!("no backend '{value}'; there are auto, packet, tap, pnet and xdp"))?;
            backend = Some(choice);
        }
        Ok(PortArgument {
            name: name.to_owned(),
            device: device.to_owned(),
            backend: backend.unwrap_or_default().into(),
        })
    }
}

/// The value of `--pcap [PORT=]FILE`, in labs `--pcap [SWITCH[:PORT]=]FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PcapArgument {
    /// Port, switch, or switch and port, as written on the command line. `None` means every port.
    pub location: Option<String>,
    /// Output file. `-` is standard output.
    pub file: PathBuf,
}

impl FromStr for PcapArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<PcapArgument, String> {
        // Text before the first '=' is a port or switch if it has the form of one. `./a=b.pcapng` is a file.
        let (location, file) = match text.split_once('=') {
            Some((location, file)) if !location.contains(['/', '.']) => (Some(location), file),
            _ => (None, text),
        };
        if location == Some("") || file.is_empty() {
            return Err("write FILE or PORT=FILE, such as all.pcapng or Ethernet0=e0.pcapng".to_owned());
        }
        Ok(PcapArgument {
            location: location.map(str::to_owned),
            file: PathBuf::from(file),
        })
    }
}

/// Refuses recordings with the same file.
///
/// # Errors
/// Two recordings have the same file.
pub(super) fn check_pcap_files(recordings: &[PcapArgument]) -> Result<(), Failure> {
    for (index, recording) in recordings.iter().enumerate() {
        let same = |other: &&PcapArgument| other.file == recording.file;
        if recordings[..index].iter().any(|other| same(&other)) {
            return Err(Failure::usage("two recordings in one file")
                .at(format!("--pcap {}", recording.file.display()))
                .fix("give each recording its own file; a recording without a port has the frames of all ports"));
        }
    }
    Ok(())
}

/// Checks that the name of a port has SONiC's form: `Ethernet` and one to five digits.
pub(super) fn check_port_name(name: &str) -> Result<(), String> {
    match name.strip_prefix("Ethernet") {
        Some(digits) if is_short_decimal(digits) => Ok(()),
        _ => Err(format!(
            "'{name}' is no port name; ports are named Ethernet0, Ethernet4, ..."
        )),
    }
}

/// Returns whether a text is a decimal number of one to five digits.
fn is_short_decimal(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Checks that a device name is valid by the rules of the kernel (`dev_valid_name`).
fn check_device_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > DEVICE_NAME_MAX || name == "." || name == ".." {
        return Err(format!(
            "'{name}' is no device name; device names have 1 to {DEVICE_NAME_MAX} bytes"
        ));
    }
    if name
        .bytes()
        .any(|byte| byte == b'/' || byte == b':' || byte.is_ascii_whitespace() || byte == 0)
    {
        return Err(format!(
            "'{name}' is no device name; device names have no '/', ':' or blanks"
        ));
    }
    Ok(())
}

/// Refuses ports with equal names or equal devices.
///
/// # Errors
/// Two ports have the same name or the same device.
pub(super) fn check_ports(ports: &[PortArgument]) -> Result<(), Failure> {
    for (index, port) in ports.iter().enumerate() {
        for earlier in &ports[..index] {
            let place = format!(
                "--port {}={} and --port {}={}",
                earlier.name, earlier.device, port.name, port.device
            );
            if earlier.name == port.name {
                return Err(Failure::usage(format!("port {} is given twice", port.name))
                    .at(place)
                    .fix("give each port once"));
            }
            if earlier.device == port.device {
                return Err(
                    Failure::usage(format!("two ports on one device, {}", port.device))
                        .at(place)
                        .because("a device is one end of a link, and a link has one port at each end")
                        .fix("give each port its own device"),
                );
            }
        }
    }
    Ok(())
}

/// Parses the value of `--pin auto|none|LIST`.
pub(super) fn parse_pinning(text: &str) -> Result<CorePinning, String> {
    match text {
        "auto" => return Ok(CorePinning::Auto),
        "none" => return Ok(CorePinning::None),
        _ => {}
    }
    let wrong = || format!("'{text}' is no list of cores; write auto, none, or numbers such as 0,1 or 2-5");
    let number = |digits: &str| {
        let cpu = if is_short_decimal(digits) {
            digits.parse::<usize>().ok()
        } else {
            None
        };
        cpu.filter(|&cpu| cpu < CPUS_MAX).ok_or_else(wrong)
    };
    let mut cores = Vec::new();
    for entry in text.split(',') {
        let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
        let range = number(first)?..=number(last)?;
        if range.is_empty() {
            return Err(wrong());
        }
        cores.extend(range);
    }
    let different: BTreeSet<usize> = cores.iter().copied().collect();
    if different.len() < cores.len() {
        return Err("a core is named twice; give each worker its own core, or use --pin none".to_owned());
    }
    Ok(CorePinning::List(cores))
}

/// The value of `--send ADDRESS[,field=value...]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SendArgument {
    /// Destination address of the flow.
    pub destination: IpAddr,
    /// MAC address of the receiver. `None`: the host resolves the address with ARP or neighbour discovery.
    pub mac: Option<[u8; 6]>,
    /// Queue of the NIC and PFC priority, 0 to 7.
    pub class: u8,
    /// DSCP of the frames, 0 to 63.
    pub dscp: u8,
    /// Whether switches may mark the frames: the ECN field is ECT(0) instead of Not-ECT.
    pub ecn: bool,
    /// Largest rate of the flow: a share of the link or bits per second.
    pub rate: OfferedRate,
    /// Length of a frame without FCS in bytes, 64 to 9216.
    pub frame_bytes: u32,
    /// 802.1Q VLAN id, 1 to 4094. `None`: the frames have no VLAN tag.
    pub vlan: Option<u16>,
    /// Number of frames after which the flow ends, at least 1. `None`: the flow has no end.
    pub frames_max: Option<u64>,
}

impl FromStr for SendArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<SendArgument, String> {
        let mut fields = text.split(',');
        let address = fields.next().unwrap_or_default();
        let destination = address.parse::<IpAddr>().map_err(|_| {
            format!("'{address}' is no IP address; write ADDRESS[,field=value...], such as 10.0.0.2,rate=40%")
        })?;
        let mut flow = SendArgument {
            destination,
            mac: None,
            class: 3,
            dscp: 0,
            ecn: false,
            rate: OfferedRate::LinkShare(1_000_000),
            frame_bytes: 1082,
            vlan: None,
            frames_max: None,
        };
        let (mut dscp, mut ecn) = (None, None);
        let mut seen = BTreeSet::new();
        for field in fields {
            let (key, value) = field
                .split_once('=')
                .ok_or_else(|| format!("'{field}' has no '='"))?;
            if !seen.insert(key) {
                return Err(format!("{key}= is given twice"));
            }
            match key {
                "rate" => flow.rate = parse_rate(value)?,
                "class" => flow.class = parse_in_range(key, value, 0, 7)? as u8,
                "dscp" => dscp = Some(parse_in_range(key, value, 0, 63)? as u8),
                "frame" => flow.frame_bytes = parse_in_range(key, value, 64, 9_216)? as u32,
                "mac" => flow.mac = Some(parse_mac(value)?),
                "ecn" => ecn = Some(parse_on_off(value)?),
                "vlan" => flow.vlan = Some(parse_in_range(key, value, 1, 4_094)? as u16),
                "frames" => flow.frames_max = Some(parse_in_range(key, value, 1, u64::MAX)?),
                _ => {
                    return Err(format!(
                        "unknown field '{key}'; there are rate, class, dscp, frame, mac, ecn, vlan and frames"
                    ));
                }
            }
        }
        // DSCP 26 is the usual value of RoCE for class 3. The other classes use class selectors (RFC 2474).
        flow.dscp = dscp.unwrap_or(if flow.class == 3 { 26 } else { flow.class * 8 });
        flow.ecn = ecn.unwrap_or(flow.class == 3);
        Ok(flow)
    }
}

/// Parses an integer from `min` to `max`.
fn parse_in_range(field: &str, value: &str, min: u64, max: u64) -> Result<u64, String> {
    let wrong = || format!("{field} is '{value}', but must be {min} to {max}");
    value
        .parse()
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(wrong)
}

/// Parses the field `ecn=`.
fn parse_on_off(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("ecn is '{value}', but must be on or off")),
    }
}

/// Parses the rate of a flow.
fn parse_rate(text: &str) -> Result<OfferedRate, String> {
    units::parse_rate(text).ok_or_else(|| format!("rate is '{text}', but must be {}", units::RATE))
}

/// Parses a link speed such as `1g` to Mb/s.
pub(super) fn parse_speed_mbps(text: &str) -> Result<u32, String> {
    units::parse_speed_mbps(text).ok_or_else(|| format!("write {}", units::SPEED))
}

/// Parses a duration in model time, such as `10us`. The duration must be greater than zero.
pub(super) fn parse_model_time(text: &str) -> Result<Picos, String> {
    let ns = xoff_lab::units::parse_duration_ns(text).filter(|ns| *ns > 0);
    ns.map(Picos::from_nanos)
        .ok_or_else(|| "write a number and its unit, such as 10us, 5ms or 1s".to_owned())
}

/// Parses the number of threads of a run in virtual time, or `auto`.
pub(super) fn parse_threads(text: &str) -> Result<ThreadCount, String> {
    match text.parse() {
        Ok(count @ 1..=THREADS_MAX) => Ok(ThreadCount::Fixed(count)),
        _ if text == "auto" => Ok(ThreadCount::Auto),
        _ => Err(format!("write a number from 1 to {THREADS_MAX}, or auto")),
    }
}

/// Parses a duration, such as `20s`.
pub(super) fn parse_wall_time(text: &str) -> Result<Duration, String> {
    let span = units::parse_duration_ns(text).map(Duration::from_nanos);
    span.ok_or_else(|| format!("write {}", units::DURATION))
}

/// Parses a unicast MAC address.
pub(super) fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    units::parse_mac(text).ok_or_else(|| format!("'{text}' is not {}", units::MAC))
}

/// Parses a comma-separated list of load-balancing schemes. The result sets the field `load_balancing` of a
/// lab to each scheme in turn.
pub(super) fn parse_schemes(text: &str) -> Result<FieldSetting, String> {
    let setting: Result<FieldSetting, String> = format!("{LOAD_BALANCING}={text}").parse();
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(format!(
            "'{text}' has an empty name; write names such as ecmp,flowlet"
        ));
    }
    setting.map_err(|_| format!("'{text}' names a scheme twice"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_argument_has_a_name_a_device_and_an_optional_backend() {
        let port: PortArgument = "Ethernet0=veth0".parse().unwrap();
        assert_eq!(
            (port.name.as_str(), port.device.as_str(), port.backend),
            ("Ethernet0", "veth0", Backend::Auto)
        );
        let port: PortArgument = "Ethernet12=tap.1,backend=tap".parse().unwrap();
        assert_eq!((port.device.as_str(), port.backend), ("tap.1", Backend::Tap));
        let port: PortArgument = "Ethernet0=stream:/tmp/a=b.sock".parse().unwrap();
        assert_eq!(
            (port.device.as_str(), port.backend),
            ("stream:/tmp/a=b.sock", Backend::Stream)
        );
    }

    #[test]
    fn errors_of_port_arguments_have_the_reason_and_the_form() {
        for (text, reason) in [
            ("Ethernet0", "'=' is missing"),
            ("eth0=veth0", "ports are named Ethernet0"),
            ("Ethernet=veth0", "ports are named"),
            ("Ethernet-1=veth0", "ports are named"),
            ("Ethernet0=", "1 to 15 bytes"),
            ("Ethernet0=a-name-that-is-too-long", "1 to 15 bytes"),
            ("Ethernet0=a b", "blanks"),
            ("Ethernet0=../x", "'/'"),
            ("Ethernet0=veth0,mtu=9000", "the only field is backend="),
            ("Ethernet0=veth0,backend=dpdk", "auto, packet, tap, pnet and xdp"),
            ("Ethernet0=veth0,backend=tap,backend=tap", "twice"),
            ("Ethernet0=stream:", "the path is missing"),
            ("Ethernet0=stream:/tmp/a,backend=tap", "a stream has no backend="),
            ("Ethernet0=stream:192.0.2.1:7", "a loopback address"),
        ] {
            let message = text.parse::<PortArgument>().unwrap_err();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }

    #[test]
    fn repeated_ports_and_devices_are_refused() {
        let ports = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| text.parse().unwrap())
                .collect::<Vec<PortArgument>>()
        };
        check_ports(&ports(&["Ethernet0=a", "Ethernet4=b"])).unwrap();
        let twice = check_ports(&ports(&["Ethernet0=a", "Ethernet0=b"])).unwrap_err();
        assert!(twice.what.contains("given twice"), "{twice}");
        let shared = check_ports(&ports(&["Ethernet0=a", "Ethernet4=b", "Ethernet8=a"])).unwrap_err();
        assert_eq!(
            shared.location.as_deref(),
            Some("--port Ethernet0=a and --port Ethernet8=a")
        );
    }

    #[test]
    fn core_lists_have_numbers_and_ranges_without_repetition() {
        assert_eq!(parse_pinning("auto"), Ok(CorePinning::Auto));
        assert_eq!(parse_pinning("none"), Ok(CorePinning::None));
        assert_eq!(parse_pinning("0,1"), Ok(CorePinning::List(vec![0, 1])));
        assert_eq!(parse_pinning("4,0-2"), Ok(CorePinning::List(vec![4, 0, 1, 2])));
        for text in [
            "",
            "x",
            "1,",
            "3-1",
            "-1",
            "0-",
            "1024",
            "99999999999999999999",
            "0,0",
            "0-2,1",
        ] {
            assert!(parse_pinning(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn defaults_of_a_flow_depend_on_its_class() {
        let flow: SendArgument = "10.0.0.2".parse().unwrap();
        assert_eq!(
            (flow.class, flow.dscp, flow.ecn, flow.frame_bytes),
            (3, 26, true, 1082)
        );
        assert_eq!(flow.rate, OfferedRate::LinkShare(1_000_000));
        let flow: SendArgument = "fd00::2,class=0,rate=2.5g,vlan=10,frames=7".parse().unwrap();
        assert_eq!((flow.class, flow.dscp, flow.ecn), (0, 0, false));
        assert_eq!(
            (flow.rate, flow.vlan, flow.frames_max),
            (OfferedRate::WireBitsPerSecond(2_500_000_000), Some(10), Some(7))
        );
        let flow: SendArgument = "10.0.0.2,rate=40%,dscp=24,ecn=off,mac=02:00:00:00:00:01"
            .parse()
            .unwrap();
        assert_eq!(
            (flow.rate, flow.dscp, flow.ecn, flow.mac),
            (
                OfferedRate::LinkShare(400_000),
                24,
                false,
                Some([2, 0, 0, 0, 0, 1])
            )
        );
    }

    #[test]
    fn errors_of_flow_arguments_name_the_field() {
        for (text, reason) in [
            ("nowhere", "no IP address"),
            ("10.0.0.2,class=8", "0 to 7"),
            ("10.0.0.2,dscp=64", "0 to 63"),
            ("10.0.0.2,frame=63", "64 to 9216"),
            ("10.0.0.2,rate=0%", "rate is '0%'"),
            ("10.0.0.2,rate=nan%", "rate is"),
            ("10.0.0.2,rate=100", "rate is"),
            ("10.0.0.2,ecn=yes", "on or off"),
            ("10.0.0.2,mac=01:00:00:00:00:01", "unicast"),
            ("10.0.0.2,colour=red", "unknown field"),
            ("10.0.0.2,class", "no '='"),
            ("10.0.0.2,class=1,class=2", "twice"),
        ] {
            let message = text.parse::<SendArgument>().unwrap_err();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }

    #[test]
    fn speeds_and_times_need_a_unit() {
        assert_eq!(parse_speed_mbps("2.5g"), Ok(2_500));
        assert_eq!(parse_wall_time("1.5ms"), Ok(Duration::from_micros(1_500)));
        for text in ["1000", "9m", "2t", "fast", ""] {
            assert!(parse_speed_mbps(text).is_err(), "{text}");
        }
        for text in ["20", "1e3s", "-1s", "9999999999m", "s", ""] {
            assert!(parse_wall_time(text).is_err(), "{text}");
        }
    }
}
