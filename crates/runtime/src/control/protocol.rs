//! Requests and responses of the control socket.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tables::AddressFamily;
use xoff_telemetry::SwitchReport;
use xoff_telemetry::failure::{Exit, Failure};

/// Version of the protocol. A server answers only requests of its own version.
pub const VERSION: u64 = 1;
/// Length of the longest request in bytes, including the line end. The configuration of the largest switch
/// fits in a request.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Name and version of the JSON form of [`CountersReply`].
pub const COUNTERS_SCHEMA: &str = "xoff.counters/1";

/// A request of a client.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Returns the version and the process id. Result: [`PingReply`].
    Ping {},
    /// Returns counters, watermarks and pause states. Result: [`CountersReply`].
    Counters {},
    /// Returns the current configuration. Result: the object of `config_db.json`.
    ConfigGet {},
    /// Applies a configuration as a whole or not at all. Result: [`ConfigApplyReply`].
    ConfigApply {
        /// The object of `config_db.json`.
        config: Value,
        /// Whether to report the changes without applying them.
        #[serde(default)]
        dry_run: bool,
        /// Whether to apply a change that loses lossless frames.
        #[serde(default)]
        force: bool,
    },
    /// Returns counters with the watermarks of a kind. Result: [`CountersReply`].
    Watermarks {
        /// Kind of the watermarks.
        #[serde(default)]
        kind: WatermarkKind,
    },
    /// Resets watermarks to the present use. Result: null.
    ClearWatermarks {
        /// Kind of the watermarks.
        #[serde(default)]
        kind: WatermarkKind,
        /// Part of the switch whose watermarks are reset.
        #[serde(default)]
        part: WatermarkPart,
    },
    /// Returns the buffer tables of `config_db.json`. With `running`, the tables include computed fields.
    /// Result: an object of tables.
    Buffers {
        /// Whether to include computed fields and the profiles in use.
        #[serde(default)]
        running: bool,
    },
    /// Returns the taints of the run. Result: an array of [`xoff_telemetry::Taint`].
    Taints {},
    /// Sends a MAC control frame from a port ahead of its queues. Result: null.
    SendMacControl {
        /// Name of the port.
        port: String,
        /// The frame without FCS, in hexadecimal digits.
        frame: String,
    },
    /// Returns the MAC control frames that a port received last, oldest first. Result: an
    /// array of [`MacControlFrame`].
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
    /// [`xoff_telemetry::WatchdogReport`], or null if no queue is watched.
    Watchdog {},
    /// Returns the load balancing groups, their members and the latest flow moves. Result:
    /// [`xoff_telemetry::LoadBalancingReport`], or null without load balancing groups.
    LoadBalancing {},
    /// Clears the watchdog statistics of all queues. Storms continue. Result: null.
    ClearWatchdog {},
    /// Returns the events of the switch, oldest first. Result: an array of [`xoff_telemetry::EventReport`].
    Events {},
    /// Returns the PFC state of each port and its PFC counters since the last clear. Result: an
    /// array of [`super::PfcPort`].
    Pfc {},
    /// Clears the counters of `pfc`. Other counters continue. Result: null.
    ClearPfc {},
}

/// The three maxima that SONiC keeps of each watermark.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkKind {
    /// Maximum since the last clear of the user watermark.
    #[default]
    User,
    /// Maximum since the last clear of the persistent watermark.
    Persistent,
    /// Maximum since the start of the present telemetry interval (`WATERMARK_TABLE|TELEMETRY_INTERVAL`).
    Periodic,
}

/// The watermarks that one request clears.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkPart {
    /// All watermarks.
    #[default]
    All,
    /// Shared use of priority groups.
    PriorityGroupShared,
    /// Headroom of priority groups.
    PriorityGroupHeadroom,
    /// Use of queues.
    Queue,
    /// Shared use of pools.
    Pool,
    /// Headroom of pools.
    HeadroomPool,
}

/// Reply to a ping.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PingReply {
    /// Version of xoff.
    pub xoff_version: String,
    /// Process id of the switch in its own PID namespace.
    pub pid: u32,
}

/// Counters of a switch at one model time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct CountersReply {
    /// The schema, [`COUNTERS_SCHEMA`].
    pub schema: String,
    /// The switch in the form of a report.
    pub switch: SwitchReport,
}

/// The changes of a new configuration, applied or as a dry run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ConfigApplyReply {
    /// One line for each changed field: table, key, field, old and new value.
    pub changes: Vec<String>,
    /// Settings of the configuration that have no effect.
    pub warnings: Vec<String>,
    /// Losses that the change causes at the present buffer use, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    /// Load balancing groups whose flows are assigned to members again, because the scheme has changed. Each
    /// pair of an old and a new scheme has one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<String>,
}

/// A received MAC control frame.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct MacControlFrame {
    /// Arrival time in nanoseconds of model time.
    pub at_ns: u64,
    /// The frame without FCS, in hexadecimal digits.
    pub frame: String,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is not JSON, has another version, is unknown, incomplete or too long.
    BadRequest,
    /// The configuration of the request is invalid. Nothing was changed.
    InvalidConfiguration,
    /// The switch does not support the request, or cannot execute it now.
    Unavailable,
}

/// The error of a response.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ErrorReply {
    /// The kind of the error, for programs.
    pub code: ErrorCode,
    /// The error, for people.
    pub what: String,
    /// The subject of the error, such as a field.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The reason of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// An action that solves the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// All errors of a configuration, one line each. `why` has only the first ones.
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

/// The id of a request, and the result of parsing it: the request, or the error for the response.
pub(super) type ParsedRequest = (Option<Value>, Result<Operation, ErrorReply>);

/// Parses one line of a client.
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

/// Returns one line for a client, including the line end.
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

/// Converts a type of this program to JSON.
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

/// Parses bytes from hexadecimal digits. Blanks, colons and dashes between bytes are ignored.
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
