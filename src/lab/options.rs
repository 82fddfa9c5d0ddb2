//! What a command asks of a lab, beside its file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::driver::{Idle, Options, Pin};
use crate::ports::Backend;

/// `xoff lab run`.
#[derive(Clone, Debug)]
pub struct LabRunArgs {
    /// The lab file.
    pub file: PathBuf,
    /// How to run it.
    pub options: LabOptions,
}

/// `xoff lab up`.
#[derive(Clone, Debug)]
pub struct LabUpArgs {
    /// The lab file.
    pub file: PathBuf,
    /// How to run it.
    pub options: LabOptions,
}

/// How a lab is run. Handed to the switch as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabOptions {
    /// Where the report goes, as JSON. Becomes absolute before anything is started.
    pub report: Option<PathBuf>,
    /// Model time runs so many times slower than the wall, at least 1.
    pub dilate: u32,
    /// Threads of the driver; `None` leaves it to the driver.
    pub workers: Option<usize>,
    /// Pinning: `auto`, `none` or a list of cores (`0,1`).
    pub pin: String,
    /// Idle policy: `adaptive` or `spin`.
    pub idle: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Backend of the ports towards hosts: `auto`, `packet`, `tap` or `pnet`. With `tap` the switch owns a tap
    /// per host instead of a veth pair. External devices are always opened as what they are.
    pub backend: String,
}

impl Default for LabOptions {
    fn default() -> LabOptions {
        LabOptions {
            report: None,
            dilate: 1,
            workers: None,
            pin: "auto".to_owned(),
            idle: "adaptive".to_owned(),
            seed: 0,
            backend: "auto".to_owned(),
        }
    }
}

impl LabOptions {
    /// Whether hosts hang on taps that the switch makes.
    pub fn uses_taps(&self) -> bool {
        self.backend == "tap"
    }

    /// The backend of the ports towards hosts. External devices exist already: for them [`Backend::Tap`] means
    /// [`Backend::Auto`].
    pub fn port_backend(&self) -> Backend {
        self.backend.parse().unwrap_or_default()
    }

    /// What the driver is told; `other_threads` are those of the hosts.
    pub fn driver(&self, other_threads: usize) -> Options {
        let cores = || {
            self.pin
                .split(',')
                .map(|core| core.parse().ok())
                .collect::<Option<Vec<usize>>>()
        };
        let default = Options::default();
        Options {
            workers: self.workers.unwrap_or(default.workers),
            pin: match self.pin.as_str() {
                "none" => Pin::None,
                _ => cores().map_or(Pin::Auto, Pin::List),
            },
            idle: if self.idle == "spin" {
                Idle::Spin
            } else {
                Idle::Adaptive
            },
            dilate: self.dilate,
            other_threads,
            ..default
        }
    }
}

/// What a lab is up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// `lab run`: the workload, then a result, then the end.
    Run,
    /// `lab up`: until it is asked to stop. The workload is not started.
    Up,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_what_the_driver_knows() {
        for (pin, expected) in [
            ("auto", Pin::Auto),
            ("none", Pin::None),
            ("3", Pin::List(vec![3])),
            ("0,2,1", Pin::List(vec![0, 2, 1])),
        ] {
            let options = LabOptions {
                pin: pin.to_owned(),
                idle: "spin".to_owned(),
                dilate: 10,
                ..LabOptions::default()
            };
            let driver = options.driver(5);
            assert_eq!(
                (driver.pin, driver.idle, driver.dilate, driver.other_threads),
                (expected, Idle::Spin, 10, 5)
            );
        }
        for backend in [Backend::Auto, Backend::Packet, Backend::Tap, Backend::Pnet] {
            let options = LabOptions {
                backend: backend.to_string(),
                ..LabOptions::default()
            };
            assert_eq!(options.port_backend(), backend);
            assert_eq!(options.uses_taps(), backend == Backend::Tap);
        }
    }
}
