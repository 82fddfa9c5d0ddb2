//! The types of the bodies of requests and responses.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use xoff_telemetry::SwitchReport;

/// Length of the longest request body in bytes. The configuration of the largest switch is shorter.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Name and version of the JSON schema of [`CountersReply`].
pub const COUNTERS_SCHEMA: &str = "xoff.counters/1";

/// The kinds of watermarks, as in SONiC. Each watermark is a maximum, and the three kinds differ in the start
/// of the measurement.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
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

impl WatermarkKind {
    /// Returns the name of the kind in requests.
    pub fn name(self) -> &'static str {
        match self {
            WatermarkKind::User => "user",
            WatermarkKind::Persistent => "persistent",
            WatermarkKind::Periodic => "periodic",
        }
    }
}

/// The set of watermarks that a request clears.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
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

/// The counters that a request clears.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum ClearRequest {
    /// Resets the selected watermarks of one kind to the present use.
    Watermarks {
        /// Kind of the watermarks. Default: `user`.
        #[serde(default)]
        kind: WatermarkKind,
        /// The watermarks to reset. Default: `all`.
        #[serde(default)]
        part: WatermarkPart,
    },
    /// Clears the watchdog statistics of all queues. Present storms continue.
    Watchdog {},
    /// Clears the counters of the resource `pfc`. Other counters are not changed.
    Pfc {},
}

/// A server and its switches.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct ServerInfo {
    /// Version of xoff.
    pub xoff_version: String,
    /// Process id of the server, as seen in the PID namespace of the server.
    pub pid: u32,
    /// Names of the switches, in the order of the lab file.
    pub switches: Vec<String>,
}

/// A switch of a server.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct SwitchSummary {
    /// Name of the switch.
    pub name: String,
    /// Generation of the configuration. Each applied change increments this number.
    pub config_generation: u64,
    /// Names of the ports, in the order of the configuration.
    pub ports: Vec<String>,
}

/// Counters, watermarks and pause states of a switch at one model time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq)]
pub struct CountersReply {
    /// Name and version of the schema: [`COUNTERS_SCHEMA`].
    pub schema: String,
    /// The switch, in the same form as in a report.
    pub switch: SwitchReport,
}

/// A configuration in the form of `config_db.json`: tables, keys, fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct ConfigTables(pub Value);

/// The configuration in use, with its generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurrentConfig {
    /// Generation of the configuration. Each applied change increments this number.
    pub generation: u64,
    /// The configuration in the form of `config_db.json`, including computed fields.
    pub tables: Value,
    /// The part of [`CurrentConfig::tables`] that was written, without computed fields.
    pub written_tables: Value,
}

/// A new configuration for a switch, in the form of `config_db.json`.
#[derive(Clone, Debug, PartialEq)]
pub enum NewConfig {
    /// A complete document, such as an edited copy of [`CurrentConfig::tables`]. A field that is equal to a computed
    /// field of the present configuration remains computed.
    Document(Value),
    /// Only written fields, such as a patched copy of [`CurrentConfig::written_tables`]. A field that is equal to a
    /// computed field becomes a written field.
    Written(Value),
}

/// The reply to a change of the configuration. With `dry_run`, the changes are not applied.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
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
    /// Generation of the configuration after the request.
    #[serde(default)]
    pub generation: u64,
}

/// A MAC control frame to send.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct MacControlRequest {
    /// The frame without FCS, with two hexadecimal digits for each byte. Blanks, colons and dashes are
    /// ignored. The frame has at least 16 bytes: the MAC addresses, the ethertype 0x8808 and the opcode.
    pub frame: String,
}

/// A MAC control frame that a port received.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct MacControlFrame {
    /// Model time of the arrival in nanoseconds.
    pub at_ns: u64,
    /// The frame without FCS, with two hexadecimal digits for each byte. Only the first 60 bytes are stored.
    pub frame: String,
}

/// The data of an event `gap` in an event stream: the reader has missed events.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct EventGap {
    /// Number of events that the reader has missed.
    pub missed: u64,
}
