//! The start of sessions: switches with their configuration and devices.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{Picos, PortId};

use super::generation::ConfigGeneration;
use super::missing_device::MissingDevice;
use super::switch_session::SwitchSession;
use super::watermarks::Watermarks;
use crate::port_failure;
use crate::workers::{
    AttachedPort, RunningSwitch, StartError, SwitchSetup, TaintLog, WorkerOptions, start_switches,
};
use xoff_capture::recorder::PcapOptions;
use xoff_config::{DeviceDefaults, LoadedConfig, ResolveOptions};
use xoff_control::EventLog;
use xoff_ports::net::Netns;
use xoff_ports::{Backend, OpenedPort, PortSpec};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::unwritable_file;

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

impl From<&SwitchPort> for MissingDevice {
    fn from(port: &SwitchPort) -> MissingDevice {
        MissingDevice {
            port: port.name.clone(),
            device: port.device.clone(),
            netns: port.netns.clone(),
        }
    }
}

impl From<&AttachedPort> for MissingDevice {
    fn from(port: &AttachedPort) -> MissingDevice {
        MissingDevice {
            port: port.spec.name.clone(),
            device: port.spec.device.clone(),
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
    /// Fails with `Exit::Usage` if `ports` names a port that the configuration does not have. Fails with
    /// `Exit::Environment` if a device cannot be used, a recording cannot be started, or the kernel refuses
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
            let attached = assign_devices(&config, ports, &resolve.devices)?;
            pending_sessions.push(PendingSession {
                notes: resolved.warnings,
                missing_devices,
                device_by_port: devices_that_set_mtus(&attached),
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
                attached,
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
}

/// The parts of a session that exist before its switch runs.
struct PendingSession {
    current: ConfigGeneration,
    resolve: ResolveOptions,
    name: String,
    events: Arc<EventLog>,
    ports: Vec<String>,
    missing_devices: Vec<MissingDevice>,
    device_by_port: BTreeMap<PortId, MissingDevice>,
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
            device_mtus_read_at: Mutex::default(),
            device_by_port: self.device_by_port,
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
    devices: &DeviceDefaults,
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
            let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
            return Err(Failure::usage(format!("the switch has no port {name:?}"))
                .fix(format!("its ports are {}", names.join(", "))));
        };
        let mtu = config.ports[index].mtu;
        let awaits_mtu = devices.missing.contains(&name);
        let has_known_mtu = devices.mtu_by_port.contains_key(&name);
        let adopts_mtu = opened.is_none() && !backend.creates_device() && (awaits_mtu || has_known_mtu);
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
                adopts_mtu,
                awaits_mtu,
            },
            opened,
        ))
    };
    ports.into_iter().map(find).collect()
}

/// Returns the devices whose MTUs the session sets at their ports.
fn devices_that_set_mtus(attached: &[(AttachedPort, Option<OpenedPort>)]) -> BTreeMap<PortId, MissingDevice> {
    let ports = attached.iter().map(|(port, _)| port);
    ports
        .filter(|port| port.adopts_mtu)
        .map(|port| (port.id, MissingDevice::from(port)))
        .collect()
}

fn start_failure(error: StartError) -> Failure {
    if let StartError::Port(error) = &error {
        return port_failure(error);
    }
    if let StartError::Pcap(error) = &error {
        return Failure {
            exit: Exit::Environment,
            ..unwritable_file("--pcap", &error.file, &error.source)
        };
    }
    Failure::environment(error.to_string())
}
