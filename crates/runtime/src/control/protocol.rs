//! The requests and responses of the control socket.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tables::AddressFamily;
use xoff_telemetry::SwitchReport;
use xoff_telemetry::failure::{Exit, Failure};

/// Version of the protocol. Each request states a version, and the server refuses a request with a
/// different version.
pub const VERSION: u64 = 1;
/// Length of the longest request in bytes, including the end of the line. A request with the configuration of
/// the largest switch is shorter.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Name and version of the JSON schema of [`CountersReply`].
pub const COUNTERS_SCHEMA: &str = "xoff.counters/1";

/// A request of a client. In JSON, `op` is the name of the variant, such as `"op": "config_get"`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Returns the version of xoff and the process id. Result: [`PingReply`].
    Ping {},
    /// Returns counters, watermarks and pause states. Result: [`CountersReply`].
    Counters {},
    /// Returns the current configuration with computed fields. Result: the object of `config_db.json`.
    ConfigGet {},
    /// Applies a configuration, completely or not at all. Result: [`ConfigApplyReply`].
    ConfigApply {
        /// The new configuration, in the form of `config_db.json`.
        config: Value,
        /// Whether to report the changes without applying them. Default: false.
        #[serde(default)]
        dry_run: bool,
        /// Whether to apply the change even if it loses lossless frames. Default: false.
        #[serde(default)]
        force: bool,
    },
    /// Returns counters with the watermarks of one kind. Result: [`CountersReply`].
    Watermarks {
        /// Kind of the watermarks. Default: `user`.
        #[serde(default)]
        kind: WatermarkKind,
    },
    /// Resets the selected watermarks of one kind to the present use. Result: null.
    ClearWatermarkCommand {
        /// Kind of the watermarks. Default: `user`.
        #[serde(default)]
        kind: WatermarkKind,
        /// The watermarks to reset. Default: `all`.
        #[serde(default)]
        part: WatermarkPart,
    },
    /// Returns the buffer tables of `config_db.json`. With `running`, the tables include computed fields.
    /// Result: an object of tables.
    Buffers {
        /// Whether to include computed fields and the profiles in use. Default: false.
        #[serde(default)]
        running: bool,
    },
    /// Returns the taints of the run. Result: an array of [`xoff_telemetry::Taint`].
    Taints {},
    /// Sends a MAC control frame from a port, ahead of all queued frames. Result: null.
    SendMacControl {
        /// Name of the port.
        port: String,
        /// The frame without FCS, with two hexadecimal digits for each byte. Blanks, colons and dashes are
        /// ignored. The frame has at least 16 bytes: the MAC addresses, the ethertype 0x8808 and the opcode.
        frame: String,
    },
    /// Returns the latest MAC control frames that a port received, oldest first. The switch keeps the latest
    /// 256 frames of all its ports. Result: an array of [`MacControlFrame`].
    MacControl {
        /// Name of the port.
        port: String,
    },
    /// Returns the learned MAC addresses. Result: an array of [`super::MacEntry`].
    MacTable {},
    /// Returns the neighbours of the router. Result: an array of [`super::Neighbour`].
    Neighbours {},
    /// Returns the routes of an address family. Result: an array of [`super::RouteEntry`].
    Routes {
        /// The address family.
        family: AddressFamily,
    },
    /// Returns ports, LAGs and router interfaces. Result: [`super::Interfaces`].
    Interfaces {},
    /// Returns the settings, states and statistics of the PFC watchdog. Result:
    /// [`xoff_telemetry::WatchdogReport`], or null if the watchdog watches no queue.
    Watchdog {},
    /// Returns the load balancing groups, their members and the latest flow moves. Result:
    /// [`xoff_telemetry::LoadBalancingReport`], or null if the switch has no group and counts no reordering.
    LoadBalancing {},
    /// Clears the watchdog statistics of all queues. Present storms continue. Result: null.
    ClearWatchdog {},
    /// Returns the events of the switch, oldest first, at most the first 8192. Result: an array
    /// of [`xoff_telemetry::EventReport`].
    Events {},
    /// Returns the PFC state of each port and its PFC counters since the last clear. Result: an
    /// array of [`super::PfcPort`].
    Pfc {},
    /// Clears the counters that `pfc` returns. Other counters are not changed. Result: null.
    ClearPfcCommand {},
}

/// The kinds of watermarks, as in SONiC. Each watermark is a maximum, and the three kinds differ in the start
/// of the measurement.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkKind {
    /// Maximum since the last clear of the user watermarks.
    #[default]
    User,
    /// Maximum since the last clear of the persistent watermarks.
    Persistent,
    /// Maximum since the start of the present telemetry interval: 120 s, or the value
    /// in `WATERMARK_TABLE|TELEMETRY_INTERVAL`.
    Periodic,
}

/// The set of watermarks that a request clears.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkPart {
    /// All watermarks of the switch.
    #[default]
    All,
    /// Use of the shared buffer by priority groups.
    PriorityGroupShared,
    /// Use of the headroom by priority groups.
    PriorityGroupHeadroom,
    /// Buffer use of queues.
    Queue,
    /// Use of the shared buffer in pools.
    Pool,
    /// Use of the headroom in pools.
    HeadroomPool,
}

/// The reply to [`Operation::Ping`].
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PingReply {
    /// Version of xoff.
    pub xoff_version: String,
    /// Process id of the switch, as seen in the PID namespace of the switch.
    pub pid: u32,
}

/// Counters, watermarks and pause states of a switch at one model time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct CountersReply {
    /// Name and version of the schema: [`COUNTERS_SCHEMA`].
    pub schema: String,
    /// The switch, in the same form as in a report.
    pub switch: SwitchReport,
}

/// The reply to [`Operation::ConfigApply`]. With `dry_run`, the changes are not applied.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ConfigApplyReply {
    /// One line for each changed field, with the table, the key, the field, the old value and the new value.
    pub changes: Vec<String>,
    /// Warnings about the new configuration, one line each. For example, a setting has no effect.
    pub warnings: Vec<String>,
    /// Losses of frames that the change causes at the present buffer use, one line each. Empty if no frames
    /// are lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    /// Load balancing groups with a changed scheme. The flows of these groups are assigned to members again.
    /// Each pair of an old and a new scheme has one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<String>,
}

/// A MAC control frame that a port received.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct MacControlFrame {
    /// Model time of the arrival in nanoseconds.
    pub at_ns: u64,
    /// The frame without FCS, with two hexadecimal digits for each byte. Only the first 60 bytes are stored.
    pub frame: String,
}

/// The kind of an error in a response.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is not JSON, is unknown, incomplete or too long, names an unknown port, or has a version
    /// that differs from [`VERSION`].
    BadRequest,
    /// The configuration of the request is invalid. Nothing was changed.
    InvalidConfiguration,
    /// The switch does not support the request or cannot execute it now. For example, the switch is stopping.
    Unavailable,
}

/// The error in a response to a refused request.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ErrorReply {
    /// The kind of the error, for programs.
    pub code: ErrorCode,
    /// The error as a text for the user.
    pub what: String,
    /// The subject of the error, such as a field. `None` if the error has no subject.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The reason of the error. `None` if `what` explains everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// An action that solves the problem. `None` if no action is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// All errors of an invalid configuration, one line each. `why` contains only the first of these errors.
    /// Empty if the request failed for a different reason.
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub errors: Box<[String]>,
}

impl From<Failure> for ErrorReply {
    fn from(failure: Failure) -> ErrorReply {
        let code = match failure.exit {
            Exit::Configuration => ErrorCode::InvalidConfiguration,
            Exit::Usage => ErrorCode::BadRequest,
            _ => ErrorCode::Unavailable,
        };
        ErrorReply {
            code,
            what: failure.what,
            place: failure.location,
            why: failure.why,
            fix: failure.fix,
            errors: failure.errors,
        }
    }
}

impl From<ErrorReply> for Failure {
    fn from(reply: ErrorReply) -> Failure {
        let exit = match reply.code {
            ErrorCode::InvalidConfiguration => Exit::Configuration,
            ErrorCode::BadRequest => Exit::Usage,
            ErrorCode::Unavailable => Exit::Environment,
        };
        Failure {
            exit,
            what: reply.what,
            location: reply.place,
            why: reply.why,
            fix: reply.fix,
            errors: reply.errors,
        }
    }
}

/// A parsed request: the id of the request, and the request or the error for the response.
pub(super) type ParsedRequest = (Option<Value>, Result<Operation, ErrorReply>);

/// Parses one line of a client. The id is `None` if the line has no id or is not a JSON object.
pub(super) fn parse_request(line: &[u8]) -> ParsedRequest {
    let mut object: Map<String, Value> = match serde_json::from_slice(line) {
        Ok(object) => object,
        Err(error) => {
            return (
                None,
                Err(bad_request("the request is not a JSON object in one line", error)),
            );
        }
    };
    let id = object.shift_remove("id");
    match object.shift_remove("version").as_ref().map(Value::as_u64) {
        Some(Some(VERSION)) => {}
        Some(_) => {
            return (
                id,
                Err(bad_request(
                    "another version of the protocol",
                    "this server speaks version 1",
                )),
            );
        }
        None => {
            return (
                id,
                Err(bad_request(
                    "the request has no \"version\"",
                    "this server speaks version 1",
                )),
            );
        }
    }
    let op = serde_json::from_value(Value::Object(object));
    (
        id,
        op.map_err(|error| bad_request("the request is unknown or incomplete", error)),
    )
}

/// Returns the response to a request as one line, including the end of the line.
pub(super) fn response_line(id: Option<Value>, result: Result<Value, ErrorReply>) -> Vec<u8> {
    let mut object = Map::new();
    object.insert("version".to_owned(), VERSION.into());
    if let Some(id) = id {
        object.insert("id".to_owned(), id);
    }
    match result {
        Ok(value) => object.insert("result".to_owned(), value),
        Err(error) => object.insert("error".to_owned(), to_value(&error)),
    };
    let mut line = Value::Object(object).to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Converts a value of a protocol type to JSON.
pub(super) fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("protocol types have string keys and finite numbers")
}

/// Returns the error of an invalid request.
pub(super) fn bad_request(what: &str, why: impl std::fmt::Display) -> ErrorReply {
    ErrorReply {
        code: ErrorCode::BadRequest,
        what: what.to_owned(),
        place: None,
        why: Some(why.to_string()),
        fix: Some("see docs/control-socket.md".to_owned()),
        errors: Box::default(),
    }
}

/// Parses bytes from hexadecimal digits, two digits for each byte. Blanks, colons and dashes are ignored.
pub(super) fn parse_hex_bytes(text: &str) -> Result<Vec<u8>, ErrorReply> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| !matches!(c, ' ' | ':' | '-'))
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => Ok(digits
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()),
        _ => Err(bad_request(
            "the frame is not in hexadecimal digits",
            "two digits for each byte",
        )),
    }
}
