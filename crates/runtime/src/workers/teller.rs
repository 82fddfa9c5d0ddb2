//! The teller shows what an operator wants to know while it happens: a line on standard error for each event.

use crossbeam_channel::Receiver;
use xoff_dataplane::SwitchEvent;
use xoff_dataplane::config::SwitchConfig;

use xoff_telemetry::EventReport;

/// Events that may wait for a slow terminal.
pub(crate) const EVENTS_WAITING_MAX: usize = 1_024;

/// Names of a switch and its ports, which stay what they are while it runs.
#[derive(Debug)]
pub(crate) struct Names {
    switch: String,
    ports: Vec<String>,
}

impl Names {
    pub(crate) fn of(config: &SwitchConfig) -> Names {
        Names {
            switch: config.name.clone(),
            ports: config.ports.iter().map(|port| port.name.clone()).collect(),
        }
    }
}

/// Runs until the switch's worker is gone.
pub(crate) fn run(names: &Names, events: &Receiver<SwitchEvent>) {
    for event in events {
        eprintln!(
            "{}",
            EventReport::new(&event, &names.ports).log_line(&names.switch)
        );
    }
}
