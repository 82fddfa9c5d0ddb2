//! The arguments of `xoff pfc`.

use std::time::Duration;

use clap::{Args, Subcommand};
use xoff_measure::pfc::FRAME_LEN_MAX;

use super::super::values::{parse_speed_mbps, parse_wall_time};
use super::values::{
    ClassSet, ParameterBytes, QuantaArgument, parse_any_mac, parse_rate, parse_u8, parse_u16,
};

const SEND_HELP: &str = "\
Prints the frame, its deviations from the standard, and how many copies the device accepted.

Exit codes: 0 all frames were sent, 2 usage, 3 the device is missing, down or not permitted, 5 the device accepted
fewer frames, 130 interrupted.

Examples:
  xoff pfc send --dev eth1 --class 3                         pause class 3 for the longest time
  xoff pfc send --dev eth1 --class 3 --quanta 0              resume class 3
  xoff pfc send --dev eth1 --class 3,4 --quanta 3=100,4=0    pause class 3 and resume class 4
  xoff pfc send --dev eth1 --pause --quanta 1000             802.3x PAUSE
  xoff pfc send --dev eth1 --vector 0xff08 --quanta 3=9,4=7  reserved bits, and a pause time without its enable bit
  xoff pfc send --dev eth1 --class 3 --destination 01:80:c2:00:00:02 --length 64 --padding 0xee
  xoff pfc send --dev eth1 --opcode 0x0101 --parameters 0008 --length 20";

const STORM_HELP: &str = "\
Sends PFC frames at a constant rate for a limited time, then a frame that resumes the classes. The far end must
honour PFC, so its traffic in these classes stops. A PFC watchdog detects the storm (docs/watchdog.md).

Exit codes: 0 done, 2 usage, 3 the device is missing, down or not permitted, 5 fewer frames than ordered were sent,
130 interrupted. After an interruption the classes are resumed as well.

Examples:
  xoff pfc storm --dev eth1 --class 3 --duration 2s
  xoff pfc storm --dev eth1 --class 3,4 --quanta 1000 --rate 10k --duration 500ms
  xoff pfc storm --dev eth1 --pause --rate 100";

const WATCH_HELP: &str = "\
Prints each received MAC control frame with its deviations from the standard, and the pauses that it implies for a
receiver at --speed: paused until when, refreshed, resumed, expired. Times are in seconds after the start. Ctrl-C ends
the observation with a summary. --format json prints a JSON object in each line (docs/pfc.md).

Exit codes: 0 done, also after Ctrl-C without a limit, 2 usage, 3 the device is missing, down or not permitted, 5 frames
were lost before the decoder, or --count frames did not arrive within --duration, 130 interrupted before the limit.

Examples:
  xoff pfc watch --dev eth1
  xoff pfc watch --dev eth1 --speed 100g --duration 10s --format json";

/// `xoff pfc`
#[derive(Debug, Subcommand)]
pub(crate) enum PfcCommand {
    /// Send single PFC, PAUSE or other MAC control frames, also malformed ones
    #[command(after_help = SEND_HELP)]
    Send(Box<PfcSend>),
    /// Send PFC frames at a constant rate for a limited time
    #[command(after_help = STORM_HELP)]
    Storm(PfcStorm),
    /// Decode received MAC control frames and the pauses that they imply
    #[command(after_help = WATCH_HELP)]
    Watch(PfcWatch),
}

/// The classes and the pause times of a frame.
#[derive(Clone, Debug, Args)]
pub(crate) struct PauseArguments {
    /// Classes whose enable bit is set, such as 3, 3,4, 0-7 or all
    #[arg(long, value_name = "CLASSES", conflicts_with = "pause")]
    pub class: Option<ClassSet>,
    /// Pause time in quanta of 512 bit times, 0 to 65535. 0 resumes
    ///
    /// One number is the pause time of each enabled class. CLASS=QUANTA,... gives each class of --class its own pause
    /// time. With --vector, classes without a pause time have 0.
    #[arg(long, value_name = "QUANTA", default_value = "65535")]
    pub quanta: QuantaArgument,
    /// Send 802.3x PAUSE instead of PFC
    #[arg(long)]
    pub pause: bool,
    /// Speed of the link, such as 10g, for the length of a quantum [default: the device's, or 1g]
    #[arg(long, value_name = "SPEED", value_parser = parse_speed_mbps)]
    pub speed: Option<u32>,
}

/// `xoff pfc send`
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("content").required(true).multiple(true)
    .args(["class", "pause", "vector", "parameters"])))]
pub(crate) struct PfcSend {
    /// The network device
    #[arg(long, value_name = "DEV")]
    pub dev: String,
    #[command(flatten)]
    pub pauses: PauseArguments,
    /// Class-enable vector of 16 bits, instead of the bits of --class
    #[arg(long, value_name = "NUMBER", value_parser = parse_u16, conflicts_with_all = ["class", "pause"])]
    pub vector: Option<u16>,
    /// Bytes after the opcode in hexadecimal digits, instead of vector and pause times
    #[arg(long, value_name = "HEX", conflicts_with_all = ["class", "pause", "vector", "quanta"])]
    pub parameters: Option<ParameterBytes>,
    /// Opcode [default: 0x0101, or 0x0001 with --pause]
    #[arg(long, value_name = "NUMBER", value_parser = parse_u16)]
    pub opcode: Option<u16>,
    /// Ethertype of the frame
    #[arg(long, value_name = "NUMBER", value_parser = parse_u16, default_value = "0x8808")]
    pub ethertype: u16,
    /// Destination address
    #[arg(long, value_name = "MAC", value_parser = parse_any_mac, default_value = "01:80:c2:00:00:01")]
    pub destination: [u8; 6],
    /// Source address [default: the device's]
    #[arg(long, value_name = "MAC", value_parser = parse_any_mac)]
    pub source: Option<[u8; 6]>,
    /// 802.1Q VLAN id, 0 to 4095 [default: no tag]
    #[arg(long, value_name = "VID", value_parser = clap::value_parser!(u16).range(0..=4095))]
    pub vlan: Option<u16>,
    /// Priority of the VLAN tag, 0 to 7
    #[arg(long, value_name = "PCP", requires = "vlan", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub pcp: u8,
    /// Length of the frame in bytes without FCS, 14 to 9216. A longer frame is cut, and a shorter one is padded
    #[arg(long, value_name = "BYTES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(14..=FRAME_LEN_MAX as i64))]
    pub length: u32,
    /// Value of the padding bytes
    #[arg(long, value_name = "NUMBER", value_parser = parse_u8, default_value = "0")]
    pub padding: u8,
    /// Number of frames
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Frames per second, such as 30 or 1k
    #[arg(long, value_name = "RATE", default_value = "10", value_parser = parse_rate)]
    pub rate: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `xoff pfc storm`
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("content").required(true).args(["class", "pause"])))]
pub(crate) struct PfcStorm {
    /// The network device
    #[arg(long, value_name = "DEV")]
    pub dev: String,
    #[command(flatten)]
    pub pauses: PauseArguments,
    /// Frames per second, such as 100 or 10k
    #[arg(long, value_name = "RATE", default_value = "1k", value_parser = parse_rate)]
    pub rate: f64,
    /// Duration of the storm, such as 500ms or 10s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_wall_time)]
    pub duration: Duration,
    /// Send no frame that resumes the classes at the end
    #[arg(long)]
    pub no_resume: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `xoff pfc watch`
#[derive(Clone, Debug, Args)]
pub(crate) struct PfcWatch {
    /// The network device
    #[arg(long, value_name = "DEV")]
    pub dev: String,
    /// Speed of the link, such as 10g, for the length of a quantum [default: the device's, or 1g]
    #[arg(long, value_name = "SPEED", value_parser = parse_speed_mbps)]
    pub speed: Option<u32>,
    /// Duration, such as 20s. Without this option, the command runs until interrupted
    #[arg(long, value_name = "TIME", value_parser = parse_wall_time)]
    pub duration: Option<Duration>,
    /// End after this number of MAC control frames
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print a JSON object in each line
    #[arg(long)]
    pub json: bool,
}
