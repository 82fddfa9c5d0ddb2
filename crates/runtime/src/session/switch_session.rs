//! The session of a running switch. The session connects the switch with a configuration, with network
//! devices and with the control API.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::Value;
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{Picos, PortId, Switch};

use super::flow_moves::describe_scheme_changes;
use super::generation::ConfigGeneration;
use super::losses::predict_losses;
use super::missing_device::MissingDevice;
use super::tables::{self, LinkStates};
use super::watermarks::Watermarks;
use crate::workers::{
    AttachedPort, RunningSwitch, StartError, StoppedSwitch, SwitchSetup, TaintLog, WorkerOptions,
    start_switches,
};
use xoff_capture::recorder::PcapOptions;
use xoff_config::{
    ConfigDb, DeviceDefaults, LoadedConfig, ResolveOptions, ResolvedConfig, diff_configs, parse_asic_part,
    resolve,
};
use xoff_control::{
    AddressFamily, ConfigApplyReply, ControlTarget, CurrentConfig, EventLog, Interfaces, MacControlFrame,
    MacEntry, Neighbour, PfcPort, RouteEntry, WatermarkKind, WatermarkPart,
};
use xoff_ports::net::Netns;
use xoff_ports::{Backend, OpenedPort, PortSpec};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{SwitchSnapshot, Taint};

/// A port of a switch, with its device.
#[derive(Debug)]
pub struct SwitchPort {
    /// Name of the port in the configuration, such as `Ethernet0`.
    pub name: String,
    /// Name of the network device.
    pub device: String,
    /// The backend with which the port uses the device.
    pub backend: Backend,
    /// The network namespace of the device. `None` means the namespace of the calling thread.
    pub netns: Option<Arc<Netns>>,
    /// The open device. `None` if the session opens the device.
    pub opened: Option<OpenedPort>,
    /// The one-way delay of the link in model time.
    pub delay: Picos,
}

/// The configuration and the devices of a switch before its start.
#[derive(Debug)]
pub struct SwitchStart {
    /// The configuration as written and as resolved.
    pub loaded: LoadedConfig,
    /// The options with which the configuration was resolved. The session resolves new configurations with
    /// the same options.
    pub resolve: ResolveOptions,
    /// The ports that have a device. Other ports of the configuration have no link.
    pub ports: Vec<SwitchPort>,
    /// The recordings to write, and the number of bytes that they store of each frame.
    pub pcap: PcapOptions,
}

/// A running switch, with its configuration and its watermarks. The session answers the requests of the
/// control API.
///
/// Requests that read hold no lock that a change of the configuration holds while it waits.
#[derive(Debug)]
pub struct SwitchSession {
    /// `None` after the stop has begun. Requests share the lock, and only the stop excludes them.
    running: RwLock<Option<RunningSwitch>>,
    /// Held during a change of the configuration. A change is computed from the generation that it replaces.
    pub(super) changing: Mutex<()>,
    /// The generation in use. The lock is held only to copy or to replace the pointer.
    current: Mutex<Arc<ConfigGeneration>>,
    name: String,
    events: Arc<EventLog>,
    /// The options with which configurations are resolved, except [`SwitchSession::devices`].
    resolve: ResolveOptions,
    /// The defaults of ports that come from their devices. They change when a missing device appears.
    pub(super) devices: Mutex<DeviceDefaults>,
    /// The ports whose devices were missing at the start and have not appeared yet.
    pub(super) missing_devices: Mutex<Vec<MissingDevice>>,
    ledger: TaintLog,
    /// The PFC counters at the time when they were last cleared. Empty if they were never cleared.
    pfc_baseline: Mutex<Vec<PfcPort>>,
    /// A clear excludes snapshots, so that no clear happens between a snapshot and the maxima.
    watermarks: RwLock<Watermarks>,
    ports: Vec<String>,
    /// Notes for the user about the configuration, the ports and the worker threads.
    pub notes: Vec<String>,
    /// Cores of all threads in this order: switch workers, I/O workers, and the other threads of
    /// [`WorkerOptions::other_threads`]. `None` means that the thread is not pinned.
    pub cores: Vec<Option<usize>>,
}

impl From<&SwitchPort> for MissingDevice {
    fn from(port: &SwitchPort) -> MissingDevice {
        MissingDevice {
            port: port.name.clone(),
            device: port.device.clone(),
            netns: port.netns.clone(),
        }
    }
}

/// Returns the reaction budget of the options as model time. The reaction budget is the longest permitted
/// stall of the machine.
pub fn reaction_budget_in_model_time(options: &WorkerOptions) -> Picos {
    let ps = options.reaction_budget.as_nanos() as u64 * 1_000;
    Picos(ps / u64::from(options.dilate.max(1)))
}

impl SwitchSession {
    /// Starts one switch. `resolve` contains the options with which `loaded` was resolved. Taints of the run
    /// are added to `ledger`.
    ///
    /// # Errors
    /// Fails with [`Exit::Usage`] if `ports` names a port that the configuration does not have. Fails with
    /// [`Exit::Environment`] if a device cannot be used, a recording cannot be started, or the kernel refuses
    /// a resource.
    pub fn start(
        loaded: LoadedConfig,
        resolve: ResolveOptions,
        ports: Vec<SwitchPort>,
        options: &WorkerOptions,
        ledger: TaintLog,
    ) -> Result<SwitchSession, Failure> {
        let switch_start = SwitchStart {
            loaded,
            resolve,
            ports,
            pcap: options.pcap.clone(),
        };
        let mut sessions = SwitchSession::start_all(vec![switch_start], options, &ledger)?;
        Ok(sessions.pop().expect("one switch was started"))
    }

    /// Starts several switches and returns their sessions in the same order. In-memory links can connect the
    /// switches. All switches share the threads of `options`.
    ///
    /// # Errors
    /// Returns the same errors as [`SwitchSession::start`].
    pub fn start_all(
        switches: Vec<SwitchStart>,
        options: &WorkerOptions,
        ledger: &TaintLog,
    ) -> Result<Vec<SwitchSession>, Failure> {
        let mut setups = Vec::with_capacity(switches.len());
        let mut pending_sessions = Vec::with_capacity(switches.len());
        for SwitchStart {
            loaded: LoadedConfig { db, resolved },
            resolve,
            ports,
            pcap,
        } in switches
        {
            let config = resolved.config;
            let missing = ports
                .iter()
                .filter(|port| resolve.devices.missing.contains(&port.name));
            let missing_devices: Vec<MissingDevice> = missing.map(MissingDevice::from).collect();
            pending_sessions.push(PendingSession {
                notes: resolved.warnings,
                missing_devices: missing_devices.clone(),
                name: config.name.clone(),
                events: Arc::default(),
                ports: config.ports.iter().map(|p| p.name.clone()).collect(),
                current: ConfigGeneration::initial(db, config.clone(), resolved.static_routes)
                    .with_generated_fields(resolved.generated),
                resolve,
            });
            let events = pending_sessions
                .last()
                .map(|pending: &PendingSession| Arc::clone(&pending.events));
            setups.push(SwitchSetup {
                attached: assign_devices(&config, ports, &missing_devices)?,
                config,
                pcap,
                events: events.unwrap_or_default(),
            });
        }
        let running = start_switches(setups, options, ledger).map_err(start_failure)?;
        let sessions = pending_sessions.into_iter().zip(running);
        Ok(sessions
            .map(|(pending_session, running)| pending_session.into_session(running, ledger.clone()))
            .collect())
    }

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

    fn port_id(&self, name: &str) -> Result<PortId, Failure> {
        match self.ports.iter().position(|p| p == name) {
            Some(index) => Ok(PortId(index as u16)),
            None => Err(Failure::usage(format!("the switch has no port {name:?}"))
                .fix(format!("its ports are {}", self.ports.join(", ")))),
        }
    }

    /// Returns the states of all ports, LAGs and router interfaces of `current`.
    fn link_states(&self, current: &ConfigGeneration) -> Result<LinkStates, Failure> {
        let lags = current.config.lags.len();
        let interfaces = current.config.routing.interfaces.len();
        self.with_running(|running| {
            running.inspect(move |switch, _| LinkStates::of_switch(switch, lags, interfaces))
        })
    }

    /// Returns the losses of frames that the change from `old` to `new` would cause at the present buffer
    /// use, one line each.
    fn predict_losses(&self, old: &SwitchConfig, new: &SwitchConfig) -> Result<Vec<String>, Failure> {
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

    fn with_running<R>(&self, query: impl FnOnce(&RunningSwitch) -> Option<R>) -> Result<R, Failure> {
        let running = read(&self.running);
        running
            .as_ref()
            .and_then(query)
            .ok_or_else(|| Failure::environment("the switch is stopping"))
    }
}

/// The parts of a session that exist before its switch runs.
struct PendingSession {
    current: ConfigGeneration,
    resolve: ResolveOptions,
    name: String,
    events: Arc<EventLog>,
    ports: Vec<String>,
    missing_devices: Vec<MissingDevice>,
    notes: Vec<String>,
}

impl PendingSession {
    fn into_session(self, running: RunningSwitch, ledger: TaintLog) -> SwitchSession {
        let mut notes = self.notes;
        notes.extend(running.notes.iter().cloned());
        // MAC control frames are rare, and requests for them come after their arrival. They are therefore
        // always recorded.
        (0..running.port_count()).for_each(|port| running.set_mac_control_recording(PortId(port), true));
        SwitchSession {
            cores: running.cores.clone(),
            running: RwLock::new(Some(running)),
            changing: Mutex::default(),
            current: Mutex::new(Arc::new(self.current)),
            name: self.name,
            events: self.events,
            devices: Mutex::new(self.resolve.devices.clone()),
            resolve: self.resolve,
            missing_devices: Mutex::new(self.missing_devices),
            ledger,
            pfc_baseline: Mutex::default(),
            watermarks: RwLock::new(Watermarks::new(Instant::now())),
            ports: self.ports,
            notes,
        }
    }
}

/// Assigns each device to the index of its port.
fn assign_devices(
    config: &SwitchConfig,
    ports: Vec<SwitchPort>,
    missing_devices: &[MissingDevice],
) -> Result<Vec<(AttachedPort, Option<OpenedPort>)>, Failure> {
    let find = |port: SwitchPort| {
        let SwitchPort {
            name,
            device,
            backend,
            netns,
            opened,
            delay,
        } = port;
        let Some(index) = config.ports.iter().position(|p| p.name == name) else {
            return Err(Failure::usage(format!("the switch has no port {name:?}")));
        };
        let mtu = config.ports[index].mtu;
        let awaits_mtu = missing_devices.iter().any(|missing| missing.port == name);
        let spec = PortSpec {
            name,
            device,
            backend,
            mtu,
        };
        Ok((
            AttachedPort {
                id: PortId(index as u16),
                spec,
                netns,
                delay,
                awaits_mtu,
            },
            opened,
        ))
    };
    ports.into_iter().map(find).collect()
}

fn start_failure(error: StartError) -> Failure {
    if let StartError::Pcap(error) = &error {
        return Failure::environment("the recording cannot be started")
            .at(format!("--pcap {}", error.file.display()))
            .because(&error.source)
            .fix("give a file in an existing folder with write permission");
    }
    Failure::environment(error.to_string())
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    // Values behind these locks are replaced as a whole, so they are valid even if a thread died.
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
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

impl ControlTarget for SwitchSession {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn port_names(&self) -> Vec<String> {
        self.ports.clone()
    }

    fn event_log(&self) -> Arc<EventLog> {
        Arc::clone(&self.events)
    }

    fn snapshot(&self) -> Option<SwitchSnapshot> {
        self.watermarks(WatermarkKind::User)
    }

    fn config(&self) -> CurrentConfig {
        let current = self.current();
        CurrentConfig {
            generation: current.number,
            tables: current.complete_db().to_value(),
        }
    }

    fn config_generation(&self) -> u64 {
        lock(&self.current).number
    }

    fn buffers(&self, running: bool) -> Result<Value, Failure> {
        Ok(self.current().buffer_tables(running))
    }

    fn apply_config(&self, config: Value, dry_run: bool, force: bool) -> Result<ConfigApplyReply, Failure> {
        let text = config.to_string();
        let asic = self.resolve.asic.as_deref();
        let mut new = parse_asic_part(&text, "the configuration sent", asic).map_err(config_failure)?;
        let _change = lock(&self.changing);
        let current = self.current();
        // Computed fields that the client sends back unchanged are removed again.
        new.remove_equal_fields(&current.generated);
        let options = self.resolve_options(&current, lock(&self.devices).clone());
        let resolved = resolve(&new, &options).map_err(config_failure)?;
        let changes = diff_configs(&current.db, &new)
            .iter()
            .map(ToString::to_string)
            .collect();
        let config = &resolved.config;
        if !config.ports.iter().map(|port| &port.name).eq(&self.ports) {
            return Err(
                Failure::configuration("ports cannot be added or removed while the switch runs")
                    .because(format!("it has {}", self.ports.join(", ")))
                    .fix("restart the switch with the new ports"),
            );
        }
        let config = with_next_routes(&resolved, &current)?;
        let losses = self.predict_losses(&current.config, &config)?;
        if !losses.is_empty() && !dry_run && !force {
            return Err(
                Failure::configuration("frames would be lost by this change; nothing was changed")
                    .because(losses.join("\n"))
                    .fix("wait until less is in use, give more space, or repeat the command with --force"),
            );
        }
        let moves = describe_scheme_changes(&current.config, &config);
        let mut generation = current.number;
        let warnings = resolved.warnings.clone();
        if !dry_run {
            generation = self.use_config(&current, new, config, resolved)?;
        }
        Ok(ConfigApplyReply {
            changes,
            warnings,
            losses,
            moves,
            generation,
        })
    }

    fn mac_table(&self) -> Result<Vec<MacEntry>, Failure> {
        let current = self.current();
        let entries = self.with_running(|running| running.inspect(Switch::fdb_entries))?;
        Ok(tables::list_mac_entries(&current.config, entries))
    }

    fn neighbours(&self) -> Result<Vec<Neighbour>, Failure> {
        let current = self.current();
        let entries = self.with_running(|running| running.inspect(Switch::neighbour_entries))?;
        Ok(tables::list_neighbours(&current.config, entries))
    }

    fn routes(&self, family: AddressFamily) -> Result<Vec<RouteEntry>, Failure> {
        let current = self.current();
        Ok(tables::list_routes(
            &current,
            &self.link_states(&current)?,
            family,
        ))
    }

    fn interfaces(&self) -> Result<Interfaces, Failure> {
        let current = self.current();
        Ok(tables::list_interfaces(&current, &self.link_states(&current)?))
    }

    fn watermarks(&self, kind: WatermarkKind) -> Option<SwitchSnapshot> {
        let watermarks = read(&self.watermarks);
        let mut snapshot = read(&self.running).as_ref()?.snapshot()?;
        watermarks.apply_to(kind, &mut snapshot.report);
        Some(snapshot)
    }

    fn clear_watermarks(&self, kind: WatermarkKind, part: WatermarkPart) {
        let mut watermarks = write(&self.watermarks);
        if let Some(cleared_snapshot) = read(&self.running)
            .as_ref()
            .and_then(RunningSwitch::read_and_clear_watermarks)
        {
            watermarks.clear(cleared_snapshot.report, kind, part);
        }
    }

    fn clear_watchdog(&self) -> Result<(), Failure> {
        self.with_running(|running| {
            running.clear_watchdog_stats();
            Some(())
        })
    }

    fn pfc_baseline(&self) -> Vec<PfcPort> {
        lock(&self.pfc_baseline).clone()
    }

    fn set_pfc_baseline(&self, base: Vec<PfcPort>) -> Result<(), Failure> {
        *lock(&self.pfc_baseline) = base;
        Ok(())
    }

    fn run_due_tasks(&self) -> Option<Duration> {
        let interval = self.current().watermark_interval();
        let now = Instant::now();
        let mut watermarks = write(&self.watermarks);
        if watermarks.remaining_period(now, interval).is_zero()
            && let Some(cleared_snapshot) = read(&self.running)
                .as_ref()
                .and_then(RunningSwitch::read_and_clear_watermarks)
        {
            watermarks.next_period(cleared_snapshot.report, now);
        }
        // A switch that is stopping has no snapshot. The next attempt follows after a pause.
        Some(
            watermarks
                .remaining_period(now, interval)
                .max(Duration::from_millis(100)),
        )
    }

    fn taints(&self) -> Vec<Taint> {
        self.ledger.taints()
    }

    fn send_mac_control(&self, port: &str, frame: &[u8]) -> Result<(), Failure> {
        let id = self.port_id(port)?;
        if frame.len() < 16 || frame[12..14] != [0x88, 0x08] {
            return Err(Failure::usage("this is not a MAC control frame")
                .because("its ethertype is not 0x8808")
                .fix("give at least addresses, ethertype and opcode: 16 bytes"));
        }
        match self.with_running(|running| Some(running.send_mac_control(id, frame.to_vec())))? {
            true => Ok(()),
            false => Err(Failure::new(Exit::Environment, "the frame was not sent")
                .at(port)
                .because("the port is down, or too many control frames wait for its link")),
        }
    }

    fn mac_control(&self, port: &str) -> Result<Vec<MacControlFrame>, Failure> {
        let id = self.port_id(port)?;
        let records = self.with_running(|running| Some(running.mac_control_records()))?;
        let frame = |record: &xoff_dataplane::ControlRecord| MacControlFrame {
            at_ns: record.at.as_nanos(),
            frame: record.bytes[..record.frame_len.min(record.bytes.len())]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        };
        Ok(records
            .iter()
            .filter(|record| record.port == id)
            .map(frame)
            .collect())
    }
}
