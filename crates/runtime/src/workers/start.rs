//! Starting switches.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{Picos, PortId, Switch};

use super::clock::{ModelClock, monotonic_ns, realtime_ns};
use super::crew::Crew;
use super::idle::{Idle, IdlePolicy};
use super::io::{Io, pair};
use super::keeper::{self, AttachedPort, Lost, Opening};
use super::ledger::Ledger;
use super::pin::{CoreBinding, Pin, assign, bind, exact_timers};
use super::portset::PortSet;
use super::running::{CrewThread, Parts, Running};
use super::teller;
use super::worker::{End, Way, Worker};
use xoff_capture::live::{PcapError, PcapOptions, Recorder, open_recording};
use xoff_driver::IN_FLIGHT_FRAMES_MAX;
use xoff_driver::engine::Engine;
use xoff_driver::snapshot::PortFacts;
use xoff_ports::{Arena, ArenaStore, Bell, Opened, Port, PortError};
use xoff_telemetry::allowed_cpus;

/// Slots beside those of frames in the model: on wires, in device queues, in I/O workers' stocks.
const SPARE_SLOTS_PER_PORT: usize = 2 * IN_FLIGHT_FRAMES_MAX;
/// A frame that does not fit in a small slot occupies at least this much of the model's buffer.
const LARGE_FRAME_BYTES_MIN: u64 = 1_793;

/// How a switch is driven.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads, 1 or more. Of one switch: one for it, the others for its ports. Of several: they share as many as this, and move
    /// the frames of their ports themselves.
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

/// A switch that is to be started.
#[derive(Debug)]
pub struct Start {
    /// What it is told to be.
    pub config: SwitchConfig,
    /// Its devices, with those that had to be opened before.
    pub attached: Vec<(AttachedPort, Option<Opened>)>,
    /// What is recorded of the frames that pass.
    pub pcap: PcapOptions,
}

/// Opens the ports of a switch and starts its threads. Ports without a device start down, and come up when it appears.
///
/// # Errors
/// A device that exists and cannot be used; memory or descriptors that the kernel refuses; no device at all.
pub fn start(
    config: SwitchConfig,
    attached: Vec<(AttachedPort, Option<Opened>)>,
    options: &Options,
    ledger: Ledger,
) -> Result<Running, StartError> {
    let one = Start {
        config,
        attached,
        pcap: options.pcap.clone(),
    };
    let mut running = start_all(vec![one], options, &ledger)?;
    Ok(running.pop().expect("one was started"))
}

/// Starts switches that may be joined by links in memory. Notes about their threads are the first one's.
///
/// # Errors
/// As [`start`].
pub fn start_all(
    switches: Vec<Start>,
    options: &Options,
    ledger: &Ledger,
) -> Result<Vec<Running>, StartError> {
    let count = switches.len();
    let crews = options.workers.clamp(1, count.max(1));
    let io_workers = match switches.as_slice() {
        [only] => (options.workers.max(1) - 1).min(only.attached.len()),
        _ => 0,
    };
    let threads = crews + io_workers + options.other_threads;
    let allowed = allowed_cpus();
    let (cores, note) = assign(&options.pin, threads, &allowed);
    let mut notes: Vec<String> = note.into_iter().collect();
    if count > 1 && options.workers > count {
        notes.push(format!(
            "{count} switches run in {count} threads, not in {}: none of them has more than one",
            options.workers
        ));
    }
    let common = Common {
        options,
        ledger,
        clock: ModelClock::new(options.epoch_ns.unwrap_or_else(monotonic_ns), options.dilate),
        cores: &cores,
        io_cores: &cores[crews..crews + io_workers],
    };
    let mut running: Vec<Running> = Vec::with_capacity(count);
    let mut switches = switches.into_iter();
    for (crew, core) in cores.iter().copied().enumerate().take(crews) {
        // Neighbours in the list share a thread.
        let size = (crew + 1) * count / crews - crew * count / crews;
        let bell = Bell::new().map_err(system("an eventfd"))?;
        let prepared = switches.by_ref().take(size);
        let prepared = prepared
            .map(|start| prepare(start, &common, &bell))
            .collect::<Result<Vec<_>, StartError>>()?;
        let (workers, parts): (Vec<Worker>, Vec<Parts>) = prepared.into_iter().unzip();
        let crew_thread = Crew {
            workers,
            bell,
            idle: IdlePolicy::new(options.idle),
            core_binding: CoreBinding::new(&options.pin, core, &allowed),
        };
        let thread = spawn("xoff-switch", core, || crew_thread.run())?;
        let thread = Arc::new(CrewThread::new(thread));
        running.extend(parts.into_iter().map(|parts| Running::new(parts, &thread)));
    }
    if let Some(first) = running.first_mut() {
        first.notes.append(&mut notes);
    }
    Ok(running)
}

/// What all switches of a start share.
struct Common<'a> {
    options: &'a Options,
    ledger: &'a Ledger,
    clock: ModelClock,
    cores: &'a [Option<usize>],
    io_cores: &'a [Option<usize>],
}

fn system(what: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::System { what, source }
}

/// Opens the ports of a switch, and starts what runs beside its worker.
fn prepare(start: Start, common: &Common<'_>, bell: &Bell) -> Result<(Worker, Parts), StartError> {
    let Start {
        config,
        attached,
        pcap,
    } = start;
    let mut notes = Vec::new();
    let mut facts = vec![PortFacts::default(); config.ports.len()];
    let (attached, mut opened) = open_all(attached, &mut facts, &mut notes)?;
    let held = attached.iter().map(|port| port.spec.slots_held()).sum();
    let mut store = ArenaStore::new(arena_for(&config, held).map_err(system("memory for frames"))?);
    for port in opened.iter_mut().filter_map(|(_, port)| port.as_mut()) {
        port.attach(&store.shared_arena())?;
        port.wake_by(bell);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (lost_in, lost_out) = unbounded();
    let by_port: BTreeMap<PortId, AttachedPort> = attached.into_iter().map(|a| (a.id, a)).collect();
    let mut spread = Spread::new(
        opened,
        &by_port,
        common.io_cores.len(),
        common.clock,
        lost_in,
        config.ports.len(),
    );
    let mut others = Vec::new();
    let owners = std::mem::take(&mut spread.owners);
    let arena = store.shared_arena();
    others.push(spawn("xoff-keeper", None, move || {
        keeper::run(by_port, owners, lost_out, &arena)
    })?);
    let ways = std::mem::take(&mut spread.ways);
    let io = io_of(spread, &mut store, common, bell, &stop, &mut others)?;
    let (recorder, pcap) = recorder(&pcap, &config, common.options.dilate)?;
    let (commands_in, commands_out) = unbounded();
    let (events_in, events_out) = bounded(teller::EVENTS_WAITING_MAX);
    let names = teller::Names::of(&config);
    others.push(spawn("xoff-teller", None, move || {
        teller::run(&names, &events_out)
    })?);
    let (end_in, end_out): (Sender<End>, Receiver<End>) = bounded(1);
    let links: Vec<_> = config.ports.iter().map(|p| p.link).collect();
    let ports = config.ports.len() as u16;
    let mut engine = Engine::new(Switch::new(&config), &links);
    engine.reconfigure_cpu(&config.routing);
    let worker = Worker {
        engine,
        store,
        io,
        clock: common.clock,
        ledger: common.ledger.clone(),
        commands: commands_out,
        stall_ns: common.options.reaction_budget.as_nanos() as u64,
        config,
        facts,
        ways,
        stop: Arc::clone(&stop),
        end: end_in,
        watched_ns: 0,
        clocks_apart: realtime_ns().wrapping_sub(monotonic_ns()),
        leaving: VecDeque::with_capacity(4_096),
        done: Vec::with_capacity(4_096),
        events: Vec::new(),
        recorder,
        teller: events_in,
        told: 0,
        busy_ns: 0,
        was_busy: false,
    };
    let parts = Parts {
        commands: commands_in,
        bell: bell.clone(),
        ledger: common.ledger.clone(),
        stop,
        end: end_out,
        others,
        pcap,
        ports,
        notes,
        cores: common.cores.to_vec(),
        clock: common.clock,
    };
    Ok((worker, parts))
}

/// The worker's way to its ports: its own, or those of I/O workers, whose threads are started.
fn io_of(
    mut spread: Spread,
    store: &mut ArenaStore,
    common: &Common<'_>,
    bell: &Bell,
    stop: &Arc<AtomicBool>,
    others: &mut Vec<JoinHandle<()>>,
) -> Result<Io, StartError> {
    if common.io_cores.is_empty() {
        return Ok(Io::Inline(spread.sets.remove(0)));
    }
    let mut remotes = Vec::new();
    for (n, (set, held)) in spread.sets.into_iter().zip(spread.held).enumerate() {
        let idle = common.options.idle;
        let (remote, worker) =
            pair(set, store, held, bell.clone(), idle, Arc::clone(stop)).map_err(system("an eventfd"))?;
        remotes.push(remote);
        others.push(spawn(&format!("xoff-io{n}"), common.io_cores[n], || {
            worker.run()
        })?);
    }
    Ok(Io::Remote(remotes))
}

/// The worker's end of the recordings, and the thread that writes them, if there are any.
fn recorder(options: &PcapOptions, config: &SwitchConfig, dilate: u32) -> Result<Recording, StartError> {
    if options.requests.is_empty() {
        return Ok((None, None));
    }
    let real_less_monotonic_ns = realtime_ns().wrapping_sub(monotonic_ns()) as i64;
    let (recorder, writer) = open_recording(options, config, dilate, real_less_monotonic_ns)?;
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
    ways: Vec<Way>,
}

impl Spread {
    fn new(
        opened: Vec<(PortId, Option<Port>)>,
        attached: &BTreeMap<PortId, AttachedPort>,
        io_workers: usize,
        clock: ModelClock,
        lost: Sender<Lost>,
        ports: usize,
    ) -> Spread {
        let groups = io_workers.max(1);
        let mut parts: Vec<Vec<(PortId, Option<Port>)>> = (0..groups).map(|_| Vec::new()).collect();
        let mut ways = vec![Way::default(); ports];
        let delay_of = |id: PortId| attached.get(&id).map_or(Picos::ZERO, |port| port.delay);
        let mut held = vec![0; groups];
        for (n, (id, port)) in opened.into_iter().enumerate() {
            let group = n % groups;
            ways[id.index()] = Way {
                place: Some((group, parts[group].len() as u16)),
                delay: delay_of(id),
                in_memory: matches!(port, Some(Port::Link(_))),
            };
            parts[group].push((id, port));
            held[group] += attached.get(&id).map_or(0, |port| port.spec.slots_held());
        }
        let mut owners = BTreeMap::new();
        let sets = parts
            .into_iter()
            .map(|part| {
                let (opened_in, opened_out): (Sender<Opening>, Receiver<Opening>) = unbounded();
                owners.extend(part.iter().map(|(id, _)| (*id, opened_in.clone())));
                PortSet::new(part, delay_of, clock, lost.clone(), opened_out)
            })
            .collect();
        Spread {
            sets,
            held,
            owners,
            ways,
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
