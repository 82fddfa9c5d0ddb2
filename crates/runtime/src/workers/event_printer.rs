//! The event printer writes a line to standard error for each event of a switch, as soon as the event
//! happens.

use crossbeam_channel::Receiver;
use xoff_dataplane::SwitchEvent;
use xoff_dataplane::config::SwitchConfig;

use xoff_telemetry::EventReport;

/// Largest number of events that wait for a slow terminal.
pub(crate) const EVENTS_WAITING_MAX: usize = 1_024;

/// The names of a switch and its ports. They do not change while the switch runs.
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

/// Prints events until the switch worker has ended.
pub(crate) fn print_events(names: &SwitchNames, events: &Receiver<SwitchEvent>) {
    for event in events {
        eprintln!(
            "{}",
            EventReport::new(&event, &names.ports).log_line(&names.switch)
        );
    }
}
