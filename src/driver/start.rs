//! Starting, asking and stopping a switch.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, ControlRecord, Picos, PortId, Switch};

use super::clock::{ModelClock, monotonic_ns, realtime_ns};
use super::engine::{Engine, WIRE_FRAMES_MAX};
use super::idle::{Idle, IdlePolicy};
use super::io::{Io, pair};
use super::keeper::{self, AttachedPort, Lost, Opening};
use super::ledger::Ledger;
use super::pin::{Pin, assign, bind, exact_timers};
use super::portset::PortSet;
use super::snapshot::PortFacts;
use super::teller;
use super::wake::Bell;
use super::worker::{Command, Look, Worker};
use crate::capture::live::{PcapError, PcapOptions, Recorder, record};
use crate::ports::{Arena, ArenaStore, Opened, Port, PortError};
use crate::report::{SwitchSnapshot, Taint, allowed_cpus};

/// Slots beside those of frames in the model: on wires, in device queues, in I/O workers' stocks.
const SPARE_SLOTS_PER_PORT: usize = 2 * WIRE_FRAMES_MAX;
/// Longest wait for an answer of the switch's worker.
const ANSWER: Duration = Duration::from_secs(5);
/// A frame that does not fit in a small slot occupies at least this much of the model's buffer.
const LARGE_FRAME_BYTES_MIN: u64 = 1_793;

/// How a switch is driven.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads: one for the switch, the others for its ports. 1 or more.
    pub workers: usize,
    /// Which cores they run on. The first entry is the switch's worker.
    pub pin: Pin,
    /// What they do when there is nothing to do.
    pub idle: Idle,
    /// Model time runs this many times slower than the wall.
    pub dilate: u32,
    /// What the host may stall, in wall time.
    pub reaction_budget: Duration,
    /// Cores left free for others, such as lab hosts: counted when `Pin::Auto` decides whether there is a core each.
    pub other_threads: usize,
    /// What is recorded of the frames that pass.
    pub pcap: PcapOptions,
    /// Where model time begins (CLOCK_MONOTONIC); `None`: at the start. Hosts that share it speak of the same time.
    pub epoch_ns: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: 1,
            pin: Pin::Auto,
            idle: Idle::Adaptive,
            dilate: 1,
            reaction_budget: Duration::from_millis(20),
            other_threads: 0,
            pcap: PcapOptions::default(),
            epoch_ns: None,
        }
    }
}

/// Why a switch did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A device cannot be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A recording cannot be begun.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// The kernel refused a resource.
    #[error("cannot start the switch: {what}: {source}")]
    System {
        /// Which.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

/// A switch that forwards.
#[derive(Debug)]
pub struct Running {
    commands: Sender<Command>,
    bell: Bell,
    ledger: Ledger,
    stop: Arc<AtomicBool>,
    switch: Option<JoinHandle<SwitchSnapshot>>,
    others: Vec<JoinHandle<()>>,
    /// Writes recordings; ends with what it has to say about them.
    pcap: Option<JoinHandle<Vec<String>>>,
    ports: u16,
    /// What was repaired or should be known.
    pub notes: Vec<String>,
    /// Cores of the switch's worker, the I/O workers and the `other_threads`, in this order.
    pub cores: Vec<Option<usize>>,
    /// The model's time.
    pub clock: ModelClock,
}

/// What a run leaves.
#[derive(Debug)]
pub struct Finished {
    /// The last state of the switch; `None` if its worker died.
    pub snapshot: Option<SwitchSnapshot>,
    /// Why the run is tainted; empty if it is clean.
    pub taints: Vec<Taint>,
    /// What should be known of its recordings.
    pub notes: Vec<String>,
}

/// Opens the ports and starts the threads. Ports without a device start down, and come up when it appears.
///
/// # Errors
/// A device that exists and cannot be used; memory or descriptors that the kernel refuses; no device at all.
pub fn start(
    config: SwitchConfig,
    attached: Vec<(AttachedPort, Option<Opened>)>,
    options: &Options,
    ledger: Ledger,
) -> Result<Running, StartError> {
    let mut notes = Vec::new();
    let mut facts = vec![PortFacts::default(); config.ports.len()];
    let (attached, mut opened) = open_all(attached, &mut facts, &mut notes)?;
    let system = |what| move |source| StartError::System { what, source };
    let held = attached.iter().map(|port| port.spec.slots_held()).sum();
    let mut store = ArenaStore::new(arena_for(&config, held).map_err(system("memory for frames"))?);
    for port in opened.iter_mut().filter_map(|(_, port)| port.as_mut()) {
        port.attach(&store.shared_arena())?;
    }
    let bell = Bell::new().map_err(system("an eventfd"))?;
    let stop = Arc::new(AtomicBool::new(false));
    let io_workers = (options.workers.max(1) - 1).min(opened.len());
    let threads = 1 + io_workers + options.other_threads;
    let (cores, note) = assign(&options.pin, threads, &allowed_cpus());
    notes.extend(note);
    let (lost_in, lost_out) = unbounded();
    let held = attached
        .iter()
        .map(|port| (port.id, port.spec.slots_held()))
        .collect();
    let mut spread = Spread::new(opened, &held, io_workers, lost_in, config.ports.len());
    let mut others = Vec::new();
    let owners = std::mem::take(&mut spread.owners);
    let by_port: BTreeMap<PortId, AttachedPort> = attached.into_iter().map(|a| (a.id, a)).collect();
    let arena = store.shared_arena();
    others.push(spawn("xoff-keeper", None, move || {
        keeper::run(by_port, owners, lost_out, &arena)
    })?);
    let io = if io_workers == 0 {
        Io::Inline(spread.sets.remove(0))
    } else {
        let mut remotes = Vec::new();
        for (n, (set, held)) in spread.sets.into_iter().zip(spread.held).enumerate() {
            let (remote, worker) = pair(
                set,
                &mut store,
                held,
                bell.clone(),
                options.idle,
                Arc::clone(&stop),
            )
            .map_err(system("an eventfd"))?;
            remotes.push(remote);
            others.push(spawn(&format!("xoff-io{n}"), cores[1 + n], || worker.run())?);
        }
        Io::Remote(remotes)
    };
    let clock = ModelClock::new(options.epoch_ns.unwrap_or_else(monotonic_ns), options.dilate);
    let links: Vec<_> = config.ports.iter().map(|p| p.link).collect();
    let ports = config.ports.len() as u16;
    let (recorder, pcap) = recorder(&options.pcap, &config, options.dilate)?;
    let (commands_in, commands_out) = unbounded();
    let (events_in, events_out) = bounded(teller::EVENTS_WAITING_MAX);
    let names = teller::Names::of(&config);
    others.push(spawn("xoff-teller", None, move || {
        teller::run(&names, &events_out)
    })?);
    let mut engine = Engine::new(Switch::new(&config), &links);
    engine.reconfigure_cpu(&config.routing);
    let worker = Worker {
        engine,
        store,
        io,
        clock,
        ledger: ledger.clone(),
        commands: commands_out,
        bell: bell.clone(),
        idle: IdlePolicy::new(options.idle),
        stall_ns: options.reaction_budget.as_nanos() as u64,
        config,
        facts,
        place: spread.place,
        stop: Arc::clone(&stop),
        leaving: VecDeque::with_capacity(4_096),
        done: Vec::with_capacity(4_096),
        events: Vec::new(),
        recorder,
        teller: events_in,
        told: 0,
    };
    let switch = spawn("xoff-switch", cores[0], || worker.run())?;
    Ok(Running {
        commands: commands_in,
        bell,
        ledger,
        stop,
        switch: Some(switch),
        others,
        pcap,
        ports,
        notes,
        cores,
        clock,
    })
}

/// The worker's end of the recordings, and the thread that writes them, if there are any.
fn recorder(options: &PcapOptions, config: &SwitchConfig, dilate: u32) -> Result<Recording, StartError> {
    if options.requests.is_empty() {
        return Ok((None, None));
    }
    let real_less_monotonic_ns = realtime_ns().wrapping_sub(monotonic_ns()) as i64;
    let (recorder, writer) = record(options, config, dilate, real_less_monotonic_ns)?;
    let thread = spawn("xoff-pcap", None, || writer.run())?;
    Ok((Some(recorder), Some(thread)))
}

/// Both ends of the recordings.
type Recording = (Option<Recorder>, Option<JoinHandle<Vec<String>>>);

/// Devices, and the ports behind which they were opened.
type OpenPorts = (Vec<AttachedPort>, Vec<(PortId, Option<Port>)>);

/// Opens what is there and not open yet. A device that is missing is left to the keeper, unless none is there at all.
fn open_all(
    attached: Vec<(AttachedPort, Option<Opened>)>,
    facts: &mut [PortFacts],
    notes: &mut Vec<String>,
) -> Result<OpenPorts, StartError> {
    let mut ports = Vec::with_capacity(attached.len());
    let mut keep = Vec::with_capacity(attached.len());
    let mut missing = None;
    for (port, opened) in attached {
        let facts = &mut facts[port.id.index()];
        facts.device = Some(port.spec.device.clone());
        match opened.map_or_else(|| port.open(), Ok) {
            Ok(opened) => {
                facts.backend = Some(opened.port.backend().to_owned());
                notes.extend(opened.notes);
                ports.push((port.id, Some(opened.port)));
            }
            Err(error) if error.is_absent() => {
                notes.push(format!("{error}; {} is down until it appears", port.spec.name));
                missing.get_or_insert(error);
                ports.push((port.id, None));
            }
            Err(error) => return Err(error.into()),
        }
        keep.push(port);
    }
    match missing {
        Some(error) if ports.iter().all(|(_, port)| port.is_none()) => Err(error.into()),
        _ => Ok((keep, ports)),
    }
}

/// `held`: small slots that ports keep for themselves.
fn arena_for(config: &SwitchConfig, held: usize) -> io::Result<Arc<Arena>> {
    let spare = config.ports.len() * SPARE_SLOTS_PER_PORT;
    let cells: u64 = config.pools.iter().map(|p| p.size_bytes + p.xoff_bytes).sum();
    let jumbo = config
        .ports
        .iter()
        .any(|p| u64::from(p.mtu) + 22 >= LARGE_FRAME_BYTES_MIN);
    let large = match jumbo {
        true => {
            usize::try_from(cells / LARGE_FRAME_BYTES_MIN)
                .unwrap_or(usize::MAX)
                .min(config.frames_max)
                + spare
        }
        false => 0,
    };
    Arena::new(config.frames_max + spare + held, large)
}

/// Ports over threads, neighbours apart.
struct Spread {
    sets: Vec<PortSet>,
    /// Small slots that the ports of each set keep for themselves.
    held: Vec<usize>,
    owners: BTreeMap<PortId, Sender<Opening>>,
    place: Vec<Option<(usize, u16)>>,
}

impl Spread {
    fn new(
        opened: Vec<(PortId, Option<Port>)>,
        held_by_port: &BTreeMap<PortId, usize>,
        io_workers: usize,
        lost: Sender<Lost>,
        ports: usize,
    ) -> Spread {
        let groups = io_workers.max(1);
        let mut parts: Vec<Vec<(PortId, Option<Port>)>> = (0..groups).map(|_| Vec::new()).collect();
        let mut place = vec![None; ports];
        let mut held = vec![0; groups];
        for (n, (id, port)) in opened.into_iter().enumerate() {
            let group = n % groups;
            place[id.index()] = Some((group, parts[group].len() as u16));
            parts[group].push((id, port));
            held[group] += held_by_port.get(&id).copied().unwrap_or_default();
        }
        let mut owners = BTreeMap::new();
        let sets = parts
            .into_iter()
            .map(|part| {
                let (opened_in, opened_out): (Sender<Opening>, Receiver<Opening>) = unbounded();
                owners.extend(part.iter().map(|(id, _)| (*id, opened_in.clone())));
                PortSet::new(part, lost.clone(), opened_out)
            })
            .collect();
        Spread {
            sets,
            held,
            owners,
            place,
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    core: Option<usize>,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    let thread = thread::Builder::new().name(name.to_owned());
    let body = move || {
        exact_timers();
        if let Err(refused) = bind(core) {
            eprintln!("warning: {refused}");
        }
        body()
    };
    thread.spawn(body).map_err(|source| StartError::System {
        what: "a thread",
        source,
    })
}

impl Running {
    /// How many ports the switch has, with or without a device.
    pub fn port_count(&self) -> u16 {
        self.ports
    }

    /// A copy of the switch's state; `None` if its worker is gone.
    pub fn snapshot(&self) -> Option<SwitchSnapshot> {
        let (reply, answer) = bounded(1);
        self.ask(Command::Snapshot(reply));
        answer.recv_timeout(ANSWER).ok()
    }

    /// What `look` finds in the switch; `None` if its worker is gone. No frame moves meanwhile: it must be short, and
    /// what it finds is put into words elsewhere.
    pub fn look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&Switch, Picos) -> R + Send + 'static,
    ) -> Option<R> {
        let (reply, answer) = bounded(1);
        self.ask(Command::Look(Look(Box::new(move |switch, now| {
            // An asker that has gone away does not want the answer.
            let _ = reply.send(look(switch, now));
        }))));
        answer.recv_timeout(ANSWER).ok()
    }

    /// Makes `config` the current generation; `None` if the worker is gone.
    pub fn apply(&self, config: SwitchConfig) -> Option<Result<(), ApplyError>> {
        let (reply, answer) = bounded(1);
        self.ask(Command::Apply(Box::new(config), reply));
        answer.recv_timeout(ANSWER).ok()
    }

    /// Sets every watermark back to what is in use now; the state before that.
    pub fn take_watermarks(&self) -> Option<SwitchSnapshot> {
        let (reply, answer) = bounded(1);
        self.ask(Command::TakeWatermarks(reply));
        answer.recv_timeout(ANSWER).ok()
    }

    /// Sets the statistics of the PFC watchdog back to zero; storms go on.
    pub fn clear_watchdog_stats(&self) {
        self.ask(Command::ClearWatchdogStats);
    }

    /// Starts the measurement of utilisation and deficit anew.
    pub fn restart_utilisation(&self) {
        self.ask(Command::RestartUtilisation);
    }

    /// Holds a port's queues back, or lets them go on; MAC control frames still leave.
    pub fn set_tx_enabled(&self, port: PortId, on: bool) {
        self.ask(Command::SetTxEnabled { port, on });
    }

    /// Sends a raw MAC control frame from a port; whether it was taken.
    pub fn send_mac_control(&self, port: PortId, bytes: Vec<u8>) -> bool {
        let (reply, answer) = bounded(1);
        self.ask(Command::SendMacControl { port, bytes, reply });
        answer.recv_timeout(ANSWER).unwrap_or(false)
    }

    /// Records the MAC control frames that a port receives, or stops doing so.
    pub fn record_mac_control(&self, port: PortId, on: bool) {
        self.ask(Command::RecordMacControl { port, on });
    }

    /// Recorded MAC control frames, oldest first.
    pub fn mac_control_records(&self) -> Vec<ControlRecord> {
        let (reply, answer) = bounded(1);
        self.ask(Command::MacControlRecords(reply));
        answer.recv_timeout(ANSWER).unwrap_or_default()
    }

    /// Why the run is tainted so far.
    pub fn taints(&self) -> Vec<Taint> {
        self.ledger.taints()
    }

    /// Whether the switch's worker has died.
    pub fn is_dead(&self) -> bool {
        self.switch.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops all threads and takes the last state.
    pub fn stop(mut self) -> Finished {
        let (snapshot, mut notes) = self.halt();
        if snapshot.is_none() {
            self.ledger.taint(0, "the switch's worker died".to_owned());
        }
        let ports = snapshot.iter().flat_map(|snapshot| &snapshot.ports);
        for port in ports.filter(|port| port.pcap_missed > 0) {
            notes.push(format!(
                "{} frames of {} are missing in its recording, which could not be written as fast as they came",
                port.pcap_missed, port.name
            ));
        }
        Finished {
            snapshot,
            taints: self.ledger.taints(),
            notes,
        }
    }

    fn halt(&mut self) -> (Option<SwitchSnapshot>, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        self.bell.ring();
        let snapshot = self.switch.take().and_then(|thread| thread.join().ok());
        for thread in self.others.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
        // It has all frames now that the worker is gone, and ends when it has written them.
        let notes = self.pcap.take().and_then(|thread| thread.join().ok());
        (snapshot, notes.unwrap_or_default())
    }

    fn ask(&self, command: Command) {
        // A worker that is gone does not answer; the asker notices by that.
        let _ = self.commands.send(command);
        self.bell.ring();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.halt();
    }
}
