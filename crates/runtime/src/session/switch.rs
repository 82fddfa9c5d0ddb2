//! From a `config_db.json` and devices to a switch that forwards and answers on its control socket.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{Picos, PortId, Switch};

use super::generation::Generation;
use super::losses;
use super::moves::moves;
use super::tables::{self, Links};
use super::watermarks::Watermarks;
use crate::control::{
    Applied, Family, Interfaces, MacControlFrame, MacEntry, Neighbour, PfcPort, RouteEntry, Target,
    WatermarkKind, WatermarkPart,
};
use crate::workers::{
    AttachedPort, RunningSwitch, StartError, StoppedSwitch, SwitchSetup, TaintLedger, WorkerOptions,
    start_switches,
};
use xoff_capture::live::PcapOptions;
use xoff_config::{LoadedConfig, ResolveOptions, diff_configs, parse_asic_part, resolve};
use xoff_ports::net::Netns;
use xoff_ports::{Backend, OpenedPort, PortSpec};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{SwitchSnapshot, Taint};

/// A port of the switch and the device behind it.
#[derive(Debug)]
pub struct SwitchPort {
    /// Name in the configuration.
    pub name: String,
    /// The device.
    pub device: String,
    /// How frames are moved.
    pub backend: Backend,
    /// Where the device is; `None`: in the namespace of the calling thread.
    pub netns: Option<Arc<Netns>>,
    /// The device, where it had to be opened before.
    pub opened: Option<OpenedPort>,
    /// How long a bit is under way on its link, in either direction, in model time.
    pub delay: Picos,
}

/// A switch that is to be started.
#[derive(Debug)]
pub struct SwitchStart {
    /// Its configuration.
    pub loaded: LoadedConfig,
    /// How that was resolved.
    pub resolve: ResolveOptions,
    /// Its ports that have a device.
    pub ports: Vec<SwitchPort>,
    /// What is recorded of the frames that pass.
    pub pcap: PcapOptions,
}

/// A running switch with its configuration.
#[derive(Debug)]
pub struct SwitchSession {
    /// `None` once it is being stopped.
    running: Mutex<Option<RunningSwitch>>,
    current: Mutex<Generation>,
    resolve: ResolveOptions,
    ledger: TaintLedger,
    /// The counters of priority flow control when they were last cleared.
    pfc_base: Mutex<Vec<PfcPort>>,
    watermarks: Mutex<Watermarks>,
    ports: Vec<String>,
    /// What was repaired or should be known, from configuration, ports and driver.
    pub notes: Vec<String>,
    /// Cores of the switch's worker, the I/O workers and the other threads of [`WorkerOptions::other_threads`].
    pub cores: Vec<Option<usize>>,
}

/// What a host may stall, in model time: the driver's budget at this dilation.
pub fn reaction_budget(options: &WorkerOptions) -> Picos {
    let ps = options.reaction_budget.as_nanos() as u64 * 1_000;
    Picos(ps / u64::from(options.dilate.max(1)))
}

impl SwitchSession {
    /// Starts a switch.
    ///
    /// # Errors
    /// Devices that cannot be used, and what the kernel refuses: [`Exit::Environment`].
    pub fn start(
        loaded: LoadedConfig,
        resolve: ResolveOptions,
        ports: Vec<SwitchPort>,
        options: &WorkerOptions,
        ledger: TaintLedger,
    ) -> Result<SwitchSession, Failure> {
        let one = SwitchStart {
            loaded,
            resolve,
            ports,
            pcap: options.pcap.clone(),
        };
        let mut sessions = SwitchSession::start_all(vec![one], options, &ledger)?;
        Ok(sessions.pop().expect("one was started"))
    }

    /// Starts switches that may be joined by links in memory, in as many threads as the options say.
    ///
    /// # Errors
    /// As [`SwitchSession::start`].
    pub fn start_all(
        switches: Vec<SwitchStart>,
        options: &WorkerOptions,
        ledger: &TaintLedger,
    ) -> Result<Vec<SwitchSession>, Failure> {
        let mut setups = Vec::with_capacity(switches.len());
        let mut begun = Vec::with_capacity(switches.len());
        for SwitchStart {
            loaded: LoadedConfig { db, resolved },
            resolve,
            ports,
            pcap,
        } in switches
        {
            let config = resolved.config;
            begun.push(Begun {
                notes: resolved.warnings,
                ports: config.ports.iter().map(|p| p.name.clone()).collect(),
                current: Generation::first(db, config.clone(), resolved.static_routes)
                    .generating(resolved.generated),
                resolve,
            });
            setups.push(SwitchSetup {
                attached: attach(&config, ports)?,
                config,
                pcap,
            });
        }
        let running = start_switches(setups, options, ledger).map_err(start_failure)?;
        let sessions = begun.into_iter().zip(running);
        Ok(sessions
            .map(|(begun, running)| begun.session(running, ledger.clone()))
            .collect())
    }

    /// Whether the switch's worker has died.
    pub fn is_dead(&self) -> bool {
        lock(&self.running).as_ref().is_none_or(RunningSwitch::is_dead)
    }

    /// Starts the measurement of utilisation and deficit anew: the workload begins.
    pub fn restart_utilisation(&self) {
        if let Some(running) = lock(&self.running).as_ref() {
            running.restart_utilisation();
        }
    }

    /// Tells the switch to stop, and does not wait for it: those of a lab stop together.
    pub fn request_stop(&self) {
        if let Some(running) = lock(&self.running).as_ref() {
            running.request_stop();
        }
    }

    /// Stops the switch and takes its last state.
    pub fn stop(&self) -> StoppedSwitch {
        let running = lock(&self.running).take();
        match running {
            Some(running) => {
                let mut finished = running.stop();
                if let Some(snapshot) = &mut finished.snapshot {
                    lock(&self.watermarks).show(WatermarkKind::User, snapshot);
                }
                finished
            }
            None => StoppedSwitch {
                snapshot: None,
                taints: self.ledger.taints(),
                notes: Vec::new(),
                _retained_ports: None,
            },
        }
    }

    fn port(&self, name: &str) -> Result<PortId, Failure> {
        match self.ports.iter().position(|p| p == name) {
            Some(index) => Ok(PortId(index as u16)),
            None => Err(Failure::usage(format!("the switch has no port {name:?}"))
                .fix(format!("its ports are {}", self.ports.join(", ")))),
        }
    }

    /// What is up, of what `current` has.
    fn links(&self, current: &Generation) -> Result<Links, Failure> {
        let lags = current.config.lags.len();
        let interfaces = current.config.routing.interfaces.len();
        self.with_running(|running| running.inspect(move |switch, _| Links::of(switch, lags, interfaces)))
    }

    /// What the change from `old` to `new` must lose at this moment.
    fn losses(&self, old: &SwitchConfig, new: &SwitchConfig) -> Result<Vec<String>, Failure> {
        let now = self.with_running(RunningSwitch::snapshot)?;
        Ok(losses::losses(old, new, &now))
    }

    fn with_running<R>(&self, ask: impl FnOnce(&RunningSwitch) -> Option<R>) -> Result<R, Failure> {
        let running = lock(&self.running);
        running
            .as_ref()
            .and_then(ask)
            .ok_or_else(|| Failure::environment("the switch is stopping"))
    }
}

/// What a session has before its switch runs.
struct Begun {
    current: Generation,
    resolve: ResolveOptions,
    ports: Vec<String>,
    notes: Vec<String>,
}

impl Begun {
    fn session(self, running: RunningSwitch, ledger: TaintLedger) -> SwitchSession {
        let mut notes = self.notes;
        notes.extend(running.notes.iter().cloned());
        // MAC control frames are rare, and who asks for them asks afterwards.
        (0..running.port_count()).for_each(|port| running.set_mac_control_recording(PortId(port), true));
        SwitchSession {
            cores: running.cores.clone(),
            running: Mutex::new(Some(running)),
            current: Mutex::new(self.current),
            resolve: self.resolve,
            ledger,
            pfc_base: Mutex::default(),
            watermarks: Mutex::new(Watermarks::new(Instant::now())),
            ports: self.ports,
            notes,
        }
    }
}

/// Finds each device's port.
fn attach(
    config: &SwitchConfig,
    ports: Vec<SwitchPort>,
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
            },
            opened,
        ))
    };
    ports.into_iter().map(find).collect()
}

fn start_failure(error: StartError) -> Failure {
    if let StartError::Pcap(error) = &error {
        return Failure::environment("the recording cannot be begun")
            .at(format!("--pcap {}", error.file.display()))
            .because(&error.source)
            .fix("give a file in a folder that exists and that you may write to");
    }
    Failure::environment(error.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is replaced whole, so a thread that died left it usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn problems(problems: xoff_config::Problems) -> Failure {
    Failure::configuration("the configuration is invalid").because_of_errors(&problems, problems.as_slice())
}

impl Target for SwitchSession {
    fn snapshot(&self) -> Option<SwitchSnapshot> {
        self.watermarks(WatermarkKind::User)
    }

    fn config(&self) -> Value {
        lock(&self.current).shown().to_value()
    }

    fn buffers(&self, running: bool) -> Result<Value, Failure> {
        Ok(lock(&self.current).buffers(running))
    }

    fn apply(&self, config: Value, dry_run: bool, force: bool) -> Result<Applied, Failure> {
        let text = config.to_string();
        let asic = self.resolve.asic.as_deref();
        let mut new = parse_asic_part(&text, "the configuration sent", asic).map_err(problems)?;
        // One change at a time: what is new is so against what it replaces.
        let mut current = lock(&self.current);
        // What comes back as it was shown is not written, it was computed.
        new.remove_equal_fields(&current.generated);
        let how = ResolveOptions {
            interfaces: current.interfaces(),
            ..self.resolve.clone()
        };
        let resolved = resolve(&new, &how).map_err(problems)?;
        let changes = diff_configs(&current.db, &new)
            .iter()
            .map(ToString::to_string)
            .collect();
        let mut config = resolved.config;
        if !config.ports.iter().map(|port| &port.name).eq(&self.ports) {
            return Err(
                Failure::configuration("ports cannot be added or removed while the switch runs")
                    .because(format!("it has {}", self.ports.join(", ")))
                    .fix("restart the switch with the new ports"),
            );
        }
        // The routes follow those in force, so that groups of next hops know whose flows they take over. This is done
        // here: the worker gets a finished table.
        let fib = resolved.rib.next_generation(&current.config.routing.fib);
        config.routing.fib = Arc::new(fib.map_err(|error| Failure::configuration(error.to_string()))?);
        let losses = self.losses(&current.config, &config)?;
        if !losses.is_empty() && !dry_run && !force {
            return Err(
                Failure::configuration("frames would be lost by this change; nothing was changed")
                    .because(losses.join("\n"))
                    .fix("wait until less is in use, give more room, or repeat it with --force"),
            );
        }
        let moves = moves(&current.config, &config);
        if !dry_run {
            let applied = self.with_running(|running| running.apply_config(config.clone()))?;
            applied.map_err(|error| Failure::configuration(error.to_string()))?;
            *current = current
                .followed_by(new, config, resolved.static_routes)
                .generating(resolved.generated);
        }
        Ok(Applied {
            changes,
            warnings: resolved.warnings,
            losses,
            moves,
        })
    }

    fn mac_table(&self) -> Result<Vec<MacEntry>, Failure> {
        let current = lock(&self.current);
        let entries = self.with_running(|running| running.inspect(Switch::fdb_entries))?;
        Ok(tables::mac_table(&current.config, entries))
    }

    fn neighbours(&self) -> Result<Vec<Neighbour>, Failure> {
        let current = lock(&self.current);
        let entries = self.with_running(|running| running.inspect(Switch::neighbour_entries))?;
        Ok(tables::neighbours(&current.config, entries))
    }

    fn routes(&self, family: Family) -> Result<Vec<RouteEntry>, Failure> {
        let current = lock(&self.current);
        Ok(tables::routes(&current, &self.links(&current)?, family))
    }

    fn interfaces(&self) -> Result<Interfaces, Failure> {
        let current = lock(&self.current);
        Ok(tables::interfaces(&current, &self.links(&current)?))
    }

    fn watermarks(&self, kind: WatermarkKind) -> Option<SwitchSnapshot> {
        // Between the two, nobody may take the peaks.
        let watermarks = lock(&self.watermarks);
        let mut snapshot = lock(&self.running).as_ref()?.snapshot()?;
        watermarks.show(kind, &mut snapshot);
        Some(snapshot)
    }

    fn clear_watermarks(&self, kind: WatermarkKind, part: WatermarkPart) {
        let mut watermarks = lock(&self.watermarks);
        if let Some(taken) = lock(&self.running)
            .as_ref()
            .and_then(RunningSwitch::read_and_clear_watermarks)
        {
            watermarks.clear(taken, kind, part);
        }
    }

    fn clear_watchdog(&self) -> Result<(), Failure> {
        self.with_running(|running| {
            running.clear_watchdog_stats();
            Some(())
        })
    }

    fn pfc_base(&self) -> Vec<PfcPort> {
        lock(&self.pfc_base).clone()
    }

    fn set_pfc_base(&self, base: Vec<PfcPort>) -> Result<(), Failure> {
        *lock(&self.pfc_base) = base;
        Ok(())
    }

    fn tick(&self) -> Option<Duration> {
        let interval = lock(&self.current).watermark_interval();
        let now = Instant::now();
        let mut watermarks = lock(&self.watermarks);
        if watermarks.period_left(now, interval).is_zero()
            && let Some(taken) = lock(&self.running)
                .as_ref()
                .and_then(RunningSwitch::read_and_clear_watermarks)
        {
            watermarks.next_period(taken, now);
        }
        // A switch that is stopping is asked again, but not in a hurry.
        Some(
            watermarks
                .period_left(now, interval)
                .max(Duration::from_millis(100)),
        )
    }

    fn taints(&self) -> Vec<Taint> {
        self.ledger.taints()
    }

    fn send_mac_control(&self, port: &str, frame: &[u8]) -> Result<(), Failure> {
        let id = self.port(port)?;
        if frame.len() < 16 || frame[12..14] != [0x88, 0x08] {
            return Err(Failure::usage("this is no MAC control frame")
                .because("its ethertype is not 0x8808")
                .fix("give at least addresses, ethertype and opcode: 16 bytes"));
        }
        match self.with_running(|running| Some(running.send_mac_control(id, frame.to_vec())))? {
            true => Ok(()),
            false => Err(Failure::new(Exit::Environment, "the frame was not taken")
                .at(port)
                .because("the port is down, or too many control frames wait for its link")),
        }
    }

    fn mac_control(&self, port: &str) -> Result<Vec<MacControlFrame>, Failure> {
        let id = self.port(port)?;
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
