//! The session of a running switch. The session connects the switch with a configuration, with network
//! devices and with the control API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use xoff_dataplane::PortId;
use xoff_dataplane::config::SwitchConfig;

use super::generation::ConfigGeneration;
use super::losses::predict_losses;
use super::missing_device::MissingDevice;
use super::tables::LinkStates;
use super::watermarks::Watermarks;
use crate::workers::{RunningSwitch, StoppedSwitch, TaintLog};
use xoff_config::{ConfigDb, DeviceDefaults, PortAttachment, ResolveOptions, ResolvedConfig};
use xoff_control::{EventLog, PfcPort, WatermarkKind};
use xoff_telemetry::failure::Failure;

/// A running switch, with its configuration and its watermarks. The session answers the requests of the
/// control API.
///
/// Requests that read hold no lock that a change of the configuration holds while it waits.
#[derive(Debug)]
pub struct SwitchSession {
    /// `None` after the stop has begun. Requests share the lock, and only the stop excludes them.
    pub(super) running: RwLock<Option<RunningSwitch>>,
    /// Held during a change of the configuration. A change is computed from the generation that it replaces.
    pub(super) changing: Mutex<()>,
    /// The generation in use. The lock is held only to copy or to replace the pointer.
    pub(super) current: Mutex<Arc<ConfigGeneration>>,
    pub(super) name: String,
    pub(super) events: Arc<EventLog>,
    /// The options with which configurations are resolved, except [`SwitchSession::devices`].
    pub(super) resolve: ResolveOptions,
    /// The defaults of ports that come from their devices. They change when a missing
    /// device appears, and when the MTU of a device changes.
    pub(super) devices: Mutex<DeviceDefaults>,
    /// The ports whose devices are missing: they did not exist at the start, or were removed later.
    pub(super) missing_devices: Mutex<Vec<MissingDevice>>,
    /// The time at which the MTUs of existing devices were last read. `None` before the first time.
    pub(super) device_mtus_read_at: Mutex<Option<Instant>>,
    /// The devices of the ports that use the MTU of their device, by the number of the port.
    pub(super) device_by_port: BTreeMap<PortId, MissingDevice>,
    pub(super) ledger: TaintLog,
    /// The PFC counters at the time when they were last cleared. Empty if they were never cleared.
    pub(super) pfc_baseline: Mutex<Vec<PfcPort>>,
    /// A clear excludes snapshots, so that no clear happens between a snapshot and the maxima.
    pub(super) watermarks: RwLock<Watermarks>,
    pub(super) ports: Vec<String>,
    /// Notes for the user about the configuration, the ports and the worker threads.
    pub notes: Vec<String>,
    /// Cores of all threads in this order: switch workers, I/O workers, and the other threads of
    /// [`WorkerOptions::other_threads`](crate::workers::WorkerOptions::other_threads). `None` means that the thread
    /// is not pinned.
    pub cores: Vec<Option<usize>>,
}

impl SwitchSession {
    /// Returns whether the switch has stopped or its worker has died.
    pub fn is_dead(&self) -> bool {
        read(&self.running).as_ref().is_none_or(RunningSwitch::is_dead)
    }

    /// Restarts the measurement of utilisation and transmit deficit. Called at the start of a workload.
    pub fn restart_utilisation(&self) {
        if let Some(running) = read(&self.running).as_ref() {
            running.restart_utilisation();
        }
    }

    /// Asks the switch to stop, and returns without waiting. All switches of a lab can thus stop at the
    /// same time.
    pub fn request_stop(&self) {
        if let Some(running) = read(&self.running).as_ref() {
            running.request_stop();
        }
    }

    /// Stops the switch, waits for the end of its threads, and returns its last state. The state has no
    /// snapshot if the worker has died or the switch was stopped before.
    pub fn stop(&self) -> StoppedSwitch {
        let running = write(&self.running).take();
        match running {
            Some(running) => {
                let mut stopped = running.stop();
                if let Some(snapshot) = &mut stopped.snapshot {
                    read(&self.watermarks).apply_to(WatermarkKind::User, &mut snapshot.report);
                }
                stopped
            }
            None => StoppedSwitch {
                snapshot: None,
                taints: self.ledger.taints(),
                notes: Vec::new(),
                _retained_ports: None,
            },
        }
    }

    /// Returns the generation of the configuration in use.
    pub(super) fn current(&self) -> Arc<ConfigGeneration> {
        Arc::clone(&lock(&self.current))
    }

    pub(super) fn port_id(&self, name: &str) -> Result<PortId, Failure> {
        match self.ports.iter().position(|p| p == name) {
            Some(index) => Ok(PortId(index as u16)),
            None => Err(Failure::usage(format!("the switch has no port {name:?}"))
                .fix(format!("its ports are {}", self.ports.join(", ")))),
        }
    }

    /// Returns the states of all ports, LAGs and router interfaces of `current`.
    pub(super) fn link_states(&self, current: &ConfigGeneration) -> Result<LinkStates, Failure> {
        let lags = current.config.lags.len();
        let interfaces = current.config.routing.interfaces.len();
        self.with_running(|running| {
            running.inspect(move |switch, _| LinkStates::of_switch(switch, lags, interfaces))
        })
    }

    /// Returns the losses of frames that the change from `old` to `new` would cause at the present buffer
    /// use, one line each.
    pub(super) fn predict_losses(
        &self,
        old: &SwitchConfig,
        new: &SwitchConfig,
    ) -> Result<Vec<String>, Failure> {
        let now = self.with_running(RunningSwitch::snapshot)?;
        Ok(predict_losses(old, new, &now.report))
    }

    /// Returns the options with which a new configuration is resolved.
    pub(super) fn resolve_options(
        &self,
        current: &ConfigGeneration,
        devices: DeviceDefaults,
    ) -> ResolveOptions {
        ResolveOptions {
            interfaces: current.interface_names(),
            // A running switch cannot get more ports.
            port_source: None,
            attachment: PortAttachment::RunningSwitch,
            devices,
            ..self.resolve.clone()
        }
    }

    /// Makes a configuration the current one. `config` is the resolved configuration with its routes, and `db` is
    /// the configuration as written. Returns the number of the new generation.
    pub(super) fn use_config(
        &self,
        current: &ConfigGeneration,
        db: ConfigDb,
        config: SwitchConfig,
        resolved: ResolvedConfig,
    ) -> Result<u64, Failure> {
        let applied = self.with_running(|running| running.apply_config(config.clone()))?;
        applied.map_err(|error| Failure::configuration(error.to_string()))?;
        let next = current
            .next_generation(db, config, resolved.static_routes)
            .with_generated_fields(resolved.generated);
        let number = next.number;
        *lock(&self.current) = Arc::new(next);
        Ok(number)
    }

    pub(super) fn with_running<R>(
        &self,
        query: impl FnOnce(&RunningSwitch) -> Option<R>,
    ) -> Result<R, Failure> {
        let running = read(&self.running);
        running
            .as_ref()
            .and_then(query)
            .ok_or_else(|| Failure::environment("the switch is stopping").fix("start it again"))
    }
}

pub(super) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    // Values behind these locks are replaced as a whole, so they are valid even if a thread died.
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    // See `read`.
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // See `read`.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the resolved configuration with its routes. They are derived from the current routes, so that groups of
/// next hops keep their flows. The table is computed here, because the switch worker must not wait.
pub(super) fn with_next_routes(
    resolved: &ResolvedConfig,
    current: &ConfigGeneration,
) -> Result<SwitchConfig, Failure> {
    let mut config = resolved.config.clone();
    let fib = resolved.rib.next_generation(&current.config.routing.fib);
    config.routing.fib = Arc::new(fib.map_err(|error| Failure::configuration(error.to_string()))?);
    Ok(config)
}

pub(super) fn config_failure(problems: xoff_config::Problems) -> Failure {
    Failure::configuration("the configuration is invalid").because_of_errors(&problems, problems.as_slice())
}
