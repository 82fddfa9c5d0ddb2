//! Requests and responses of the control socket.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tables::Family;
use xoff_telemetry::SwitchReport;
use xoff_telemetry::failure::{Exit, Failure};

/// Version of the protocol. A server answers requests of its own version only.
pub const VERSION: u64 = 1;
/// Longest request in bytes, line end included: room for the configuration of the largest switch.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Name and version of the form of [`Counters`].
pub const COUNTERS_SCHEMA: &str = "xoff.counters/1";

/// What a client may ask for.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// Who answers. Result: [`Hello`].
    Ping {},
    /// Counters, watermarks and pause states. Result: [`Counters`].
    Counters {},
    /// The configuration in force. Result: the object of `config_db.json`.
    ConfigGet {},
    /// A new configuration, in force whole or not at all. Result: [`Applied`].
    ConfigApply {
        /// The object of `config_db.json`.
        config: Value,
        /// Only say what would change.
        #[serde(default)]
        dry_run: bool,
        /// Also if lossless frames will be lost by it.
        #[serde(default)]
        force: bool,
    },
    /// Counters with the watermarks of a kind. Result: [`Counters`].
    Watermarks {
        /// Which of the three maxima.
        #[serde(default)]
        kind: WatermarkKind,
    },
    /// Start watermarks again from the present occupancy. Result: null.
    ClearWatermarks {
        /// Which of the three maxima.
        #[serde(default)]
        kind: WatermarkKind,
        /// Of what.
        #[serde(default)]
        part: WatermarkPart,
    },
    /// The buffer configuration as written or, with `running`, as completed. Result: the tables of `config_db.json` that concern
    /// buffers.
    Buffers {
        /// With what is computed, and under the names in use.
        #[serde(default)]
        running: bool,
    },
    /// What has tainted the run so far. Result: an array of [`xoff_telemetry::Taint`].
    Taints {},
    /// Send a MAC control frame out of a port ahead of its queues. Result: null.
    SendMacControl {
        /// Name of the port.
        port: String,
        /// The frame without FCS, in hexadecimal digits.
        frame: String,
    },
    /// The MAC control frames a port received last. Result: an array of [`MacControlFrame`], oldest first.
    MacControl {
        /// Name of the port.
        port: String,
    },
    /// The MAC addresses learnt. Result: an array of [`super::MacEntry`].
    MacTable {},
    /// The router's neighbours. Result: an array of [`super::Neighbour`].
    Neighbours {},
    /// The routes of a family. Result: an array of [`super::RouteEntry`].
    Routes {
        /// Which.
        family: Family,
    },
    /// Ports, LAGs and router interfaces. Result: [`super::Interfaces`].
    Interfaces {},
    /// The PFC watchdog: what it is told, what it has seen and done. Result: [`xoff_telemetry::WatchdogReport`], or null where
    /// it watches nothing.
    Watchdog {},
    /// Load balancing: groups, their members, the latest moves of flows. Result: [`xoff_telemetry::LoadBalancingReport`], or null
    /// where there is nothing to choose.
    LoadBalancing {},
    /// Sets the watchdog's statistics of all queues back to zero; storms go on. Result: null.
    ClearWatchdog {},
    /// What the switch has told its operator. Result: an array of [`xoff_telemetry::EventReport`], oldest first.
    Events {},
    /// Priority flow control of each port, counted since it was last cleared. Result: an array of [`super::PfcPort`].
    Pfc {},
    /// Lets the counters of `pfc` begin anew; all others go on. Result: null.
    ClearPfc {},
}

/// Which of the three maxima that SONiC keeps of each watermark.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkKind {
    /// Since the user cleared it.
    #[default]
    User,
    /// Since the user cleared it, apart from the other one.
    Persistent,
    /// Since the present telemetry interval began (`WATERMARK_TABLE|TELEMETRY_INTERVAL`).
    Periodic,
}

/// Watermarks that are cleared together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkPart {
    /// All.
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

/// Who answers on a control socket.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Hello {
    /// Version of xoff.
    pub xoff_version: String,
    /// Process id of the switch, in its own PID namespace.
    pub pid: u32,
}

/// Counters of a switch at one moment.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Counters {
    /// [`COUNTERS_SCHEMA`].
    pub schema: String,
    /// The switch, in the form of a run's report.
    pub switch: SwitchReport,
}

/// What a new configuration changed, or would change.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Applied {
    /// One line for each changed field: table, key, field, old and new value.
    pub changes: Vec<String>,
    /// What is in the configuration but not done.
    pub warnings: Vec<String>,
    /// What will be lost, or has been lost, by the change while the buffer is as it is; one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    /// Groups of links whose flows are placed anew, or have been; one line for each change of scheme.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<String>,
}

/// A MAC control frame as a port received it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct MacControlFrame {
    /// Arrival in nanoseconds of model time.
    pub at_ns: u64,
    /// The frame without FCS, in hexadecimal digits.
    pub frame: String,
}

/// What kind of error a request met.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is not JSON, of another version, unknown, incomplete or too long.
    BadRequest,
    /// The configuration in the request is invalid; nothing was changed.
    InvalidConfiguration,
    /// The switch cannot do it, or not now.
    Unavailable,
}

/// An error as a response carries it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ErrorReply {
    /// Its kind, for programs.
    pub code: ErrorCode,
    /// What went wrong, for people.
    pub what: String,
    /// What it concerns.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// All mistakes of a configuration, one line each, where `why` has the first ones.
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
            place: failure.place,
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
            place: reply.place,
            why: reply.why,
            fix: reply.fix,
            errors: reply.errors,
        }
    }
}

/// A request that was understood, or the answer to one that was not; both with the `id` to send back.
pub(super) type Parsed = (Option<Value>, Result<Op, ErrorReply>);

/// Reads one line of a client.
pub(super) fn parse_request(line: &[u8]) -> Parsed {
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
        op.map_err(|error| bad_request("the request is not understood", error)),
    )
}

/// One line for a client, line end included.
pub(super) fn response(id: Option<Value>, result: Result<Value, ErrorReply>) -> Vec<u8> {
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

/// The JSON form of one of our own types.
pub(super) fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("protocol types have string keys and finite numbers")
}

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

/// Bytes from hexadecimal digits; blanks, colons and dashes between bytes are allowed.
pub(super) fn from_hex(text: &str) -> Result<Vec<u8>, ErrorReply> {
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
