//! The event printer is a thread that logs one line for each event of a switch, as soon as the event happens. The
//! thread also adds the event to the log of the control API.

use crossbeam_channel::Receiver;
use xoff_dataplane::SwitchEvent;
use xoff_dataplane::config::SwitchConfig;

use xoff_control::EventLog;
use xoff_telemetry::EventReport;

/// Largest number of events that wait for a slow terminal. Further events are not printed.
pub(crate) const EVENTS_WAITING_MAX: usize = 1_024;

/// Log target of switch events. The log records have the level `info`. The text of a log record is the
/// complete line to print.
pub const EVENT_LOG_TARGET: &str = "xoff_runtime::switch_events";

/// The names of a switch and its ports. The names do not change while the switch runs.
#[derive(Debug)]
pub(crate) struct SwitchNames {
    switch: String,
    ports: Vec<String>,
}

impl SwitchNames {
    pub(crate) fn from_config(config: &SwitchConfig) -> SwitchNames {
        SwitchNames {
            switch: config.name.clone(),
            ports: config.ports.iter().map(|port| port.name.clone()).collect(),
        }
    }
}

/// An event with its number since the start of the switch, from 1.
pub(crate) type NumberedEvent = (u64, SwitchEvent);

/// Logs events until the switch worker has ended.
pub(crate) fn print_events(names: &SwitchNames, events: &Receiver<NumberedEvent>, log: &EventLog) {
    for (number, event) in events {
        let report = EventReport::new(&event, &names.ports);
        log::info!(
            target: EVENT_LOG_TARGET,
            "{}",
            report.log_line(&names.switch)
        );
        log.push(number, report);
    }
}
