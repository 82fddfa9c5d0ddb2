//! The commands to a running switch.

use std::fmt;

use crossbeam_channel::Sender;
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, ControlRecord, Picos, PortId, Switch};
use xoff_telemetry::SwitchSnapshot;

/// A function that reads the state of the switch, at the present model time. The switch forwards no frames
/// while the function runs, so the function must be short.
pub(crate) struct Inspection(pub(crate) Box<InspectFn>);

type InspectFn = dyn FnOnce(&Switch, Picos) + Send;

impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inspection")
    }
}

/// A command to a running switch. If the command has a `Sender`, the switch worker sends the reply over
/// this channel.
#[derive(Debug)]
pub(crate) enum Command {
    Snapshot(Sender<SwitchSnapshot>),
    Inspect(Inspection),
    Apply(Box<SwitchConfig>, Sender<Result<(), ApplyError>>),
    ClearWatchdogStats,
    /// Returns the state of the switch, and then resets all watermarks.
    ReadAndClearWatermarks(Sender<SwitchSnapshot>),
    RestartUtilisation,
    SetTxEnabled {
        port: PortId,
        is_enabled: bool,
    },
    SendMacControl {
        port: PortId,
        bytes: Vec<u8>,
        reply: Sender<bool>,
    },
    RecordMacControl {
        port: PortId,
        is_enabled: bool,
    },
    MacControlRecords(Sender<Vec<ControlRecord>>),
}
