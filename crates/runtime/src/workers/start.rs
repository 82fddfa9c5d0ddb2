//! Starts switches and their threads.

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
use super::device_watcher::{AttachedPort, DeviceRequest, DeviceWatcher, OpenedDevice};
use super::event_printer;
use super::idle::{IdleMode, IdlePolicy};
use super::pin::{CoreBinding, CorePinning, assign_cores, bind_to_core, set_exact_timers};
use super::port_io::{PortIo, create_io_worker};
use super::port_notes::{PortNote, join_port_notes};
use super::port_set::PortSet;
use super::running_switch::{RunningSwitch, RunningSwitchParts, SwitchThreadHandle};
use super::switch_thread::SwitchThread;
use super::switch_worker::{PortLink, SwitchWorker, WorkerResult};
use super::taint_ledger::TaintLog;
use xoff_capture::recorder::{PcapError, PcapOptions, Recorder, open_recording};
use xoff_config::PORT_MTU_MAX;
use xoff_control::EventLog;
use xoff_driver::IN_FLIGHT_FRAMES_MAX;
use xoff_driver::engine::Engine;
use xoff_driver::snapshot::PortDeviceInfo;
use xoff_ports::{Arena, ArenaStore, OpenedPort, Port, PortError, ThreadWaker};
use xoff_telemetry::{StreamReport, allowed_cpus};

/// Number of additional frame slots for each port. These slots are for frames on links and in device queues,
/// and for the empty slots that I/O workers keep.
const SPARE_SLOTS_PER_PORT: usize = 2 * IN_FLIGHT_FRAMES_MAX;
/// Length of the shortest frame that needs a large slot, in bytes. Such a frame occupies at least this number
/// of bytes of the switch buffer.
const LARGE_FRAME_BYTES_MIN: u64 = 1_793;

/// Options of the worker threads of one or more switches.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Number of worker threads. 0 counts as 1. With a single switch, one thread is the switch worker, and
    /// the remaining threads are I/O workers for its ports. Several switches share the threads: each thread
    /// then owns some switches together with their ports.
    pub workers: usize,
    /// The cores to which the threads are pinned. The first core is for the first switch worker.
    pub pin: CorePinning,
    /// The way in which the threads wait for work.
    pub idle: IdleMode,
    /// Factor by which model time is slower than wall time. 0 counts as 1.
    pub dilate: u32,
    /// Longest stall of the machine in wall time that does not taint the run. A tainted run proves nothing.
    pub reaction_budget: Duration,
    /// Number of threads outside the switches that also need a core, such as the threads of the hosts of a
    /// lab. These threads are counted if cores are assigned automatically ([`CorePinning::Auto`]).
    pub other_threads: usize,
    /// The recordings to write, and the number of bytes that they store of each frame.
    pub pcap: PcapOptions,
    /// Wall time at which model time is zero, in nanoseconds of `CLOCK_MONOTONIC`. `None` means the time of
    /// the start. Hosts and switches with the same value have the same model time.
    pub epoch_ns: Option<u64>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            workers: 1,
            pin: CorePinning::Auto,
            idle: IdleMode::Adaptive,
            dilate: 1,
            reaction_budget: Duration::from_millis(20),
            other_threads: 0,
            pcap: PcapOptions::default(),
            epoch_ns: None,
        }
    }
}

/// The reason for which a switch did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An existing device cannot be used, or none of the devices exists.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A recording cannot be started, for example because its file cannot be written.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// The kernel refused a resource, such as memory or a thread.
    #[error("cannot start the switch: {what}: {source}")]
    System {
        /// Name of the resource, such as `a thread`.
        what: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

/// The configuration of a switch and its ports before the start.
#[derive(Debug)]
pub struct SwitchSetup {
    /// The configuration of the switch.
    pub config: SwitchConfig,
    /// The ports of the switch that have a device. The second value is the open device. If it is `None`, the
    /// start opens the device.
    pub attached: Vec<(AttachedPort, Option<OpenedPort>)>,
    /// The recordings to write, and the number of bytes that they store of each frame.
    pub pcap: PcapOptions,
    /// The log that gets the events of the switch.
    pub events: Arc<EventLog>,
}

/// Opens the ports of a switch and starts its threads. If a device is missing, its port is down. The port
/// comes up when the device appears. Taints of the run are added to `ledger`.
///
/// # Errors
/// Returns an error if an existing device cannot be used, none of the devices exists, a recording cannot be
/// started, or the kernel refuses memory, a thread or a descriptor.
pub fn start_switch(
    config: SwitchConfig,
    attached: Vec<(AttachedPort, Option<OpenedPort>)>,
    options: &WorkerOptions,
    ledger: TaintLog,
) -> Result<RunningSwitch, StartError> {
    let setup = SwitchSetup {
        config,
        attached,
        pcap: options.pcap.clone(),
        events: Arc::default(),
    };
    let mut running = start_switches(vec![setup], options, &ledger)?;
    Ok(running.pop().expect("one was started"))
}

/// Starts several switches and returns them in the same order. In-memory links can connect the switches. The
/// notes about all threads are in the first switch.
///
/// # Errors
/// Returns the same errors as [`start_switch`].
pub fn start_switches(
    switches: Vec<SwitchSetup>,
    options: &WorkerOptions,
    ledger: &TaintLog,
) -> Result<Vec<RunningSwitch>, StartError> {
    let count = switches.len();
    let thread_count = options.workers.clamp(1, count.max(1));
    let io_workers = match switches.as_slice() {
        [only] => (options.workers.max(1) - 1).min(only.attached.len()),
        _ => 0,
    };
    let all_threads = thread_count + io_workers + options.other_threads;
    let allowed = allowed_cpus();
    let (cores, note) = assign_cores(&options.pin, all_threads, &allowed);
    let mut notes: Vec<String> = note.into_iter().collect();
    if count > 1 && options.workers > count {
        notes.push(format!(
            "{count} switches run in {count} threads, not in {}: a switch in a lab has one thread",
            options.workers
        ));
    }
    let context = StartContext {
        options,
        ledger,
        clock: ModelClock::new(options.epoch_ns.unwrap_or_else(monotonic_ns), options.dilate),
        cores: &cores,
        io_cores: &cores[thread_count..thread_count + io_workers],
    };
    let mut running: Vec<RunningSwitch> = Vec::with_capacity(count);
    let mut switches = switches.into_iter();
    for (thread_index, core) in cores.iter().copied().enumerate().take(thread_count) {
        // Adjacent switches of the list share a thread.
        let switches_of_thread =
            (thread_index + 1) * count / thread_count - thread_index * count / thread_count;
        let waker = ThreadWaker::new().map_err(system_error("an eventfd"))?;
        let prepared = switches.by_ref().take(switches_of_thread);
        let prepared = prepared
            .map(|setup| prepare_switch(setup, &context, &waker))
            .collect::<Result<Vec<_>, StartError>>()?;
        let (workers, parts): (Vec<SwitchWorker>, Vec<RunningSwitchParts>) = prepared.into_iter().unzip();
        let switch_thread = SwitchThread {
            workers,
            waker,
            idle: IdlePolicy::new(options.idle),
            core_binding: CoreBinding::new(&options.pin, core, &allowed),
        };
        let thread = spawn_thread("xoff-switch", core, || switch_thread.run())?;
        let thread = Arc::new(SwitchThreadHandle::new(thread));
        running.extend(parts.into_iter().map(|parts| RunningSwitch::new(parts, &thread)));
    }
    if let Some(first) = running.first_mut() {
        first.notes.append(&mut notes);
    }
    Ok(running)
}

/// Values that all switches of one start share.
struct StartContext<'a> {
    options: &'a WorkerOptions,
    ledger: &'a TaintLog,
    clock: ModelClock,
    cores: &'a [Option<usize>],
    io_cores: &'a [Option<usize>],
}

/// Returns a function that converts an error of the kernel to a [`StartError`]. `what` is the name of the
/// refused resource.
fn system_error(what: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::System { what, source }
}

/// Opens the ports of a switch, starts its other threads, and creates the switch worker.
fn prepare_switch(
    setup: SwitchSetup,
    context: &StartContext<'_>,
    waker: &ThreadWaker,
) -> Result<(SwitchWorker, RunningSwitchParts), StartError> {
    let SwitchSetup {
        config,
        attached,
        pcap,
        events,
    } = setup;
    let mut notes = Vec::new();
    let mut facts = vec![PortDeviceInfo::default(); config.ports.len()];
    let mut opened_mtus = vec![None; config.ports.len()];
    let mut mtu_max = config.ports.iter().map(|port| port.mtu).max().unwrap_or(0);
    for (port, _) in attached
        .iter()
        .filter(|(port, opened)| opened.is_none() && !port.spec.backend.creates_device())
    {
        opened_mtus[port.id.index()] = Some(port.spec.mtu);
        // A later configuration can increase the MTU of the port up to the MTU of the device.
        // A device that appears later can have a larger MTU.
        let mtu_if_new = if port.adopts_mtu { PORT_MTU_MAX } else { 0 };
        mtu_max = mtu_max.max(port.device_mtu().unwrap_or(0)).max(mtu_if_new);
    }
    let (attached, mut opened) = open_ports(attached, &mut facts, &mut notes)?;
    let held_slots = attached.iter().map(|port| port.spec.reserved_slots()).sum();
    let arena = allocate_arena(&config, mtu_max, held_slots);
    let mut store = ArenaStore::new(arena.map_err(system_error("memory for frames"))?);
    for (id, port) in opened
        .iter_mut()
        .filter_map(|(id, port)| Some((id, port.as_mut()?)))
    {
        port.attach(&store.shared_arena())?;
        port.set_waker(waker);
        port.set_stream_link(config.ports[id.index()].link, context.options.dilate);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (requests_in, requests_out) = unbounded();
    let attached_by_port: BTreeMap<PortId, AttachedPort> = attached.into_iter().map(|a| (a.id, a)).collect();
    let mut distribution = PortDistribution::new(
        opened,
        &attached_by_port,
        context.io_cores.len(),
        context.clock,
        requests_in.clone(),
        config.ports.len(),
    );
    let mut helper_threads = Vec::new();
    let owners = std::mem::take(&mut distribution.owners);
    let arena = store.shared_arena();
    let (removed_in, removed_devices) = unbounded();
    let watcher = DeviceWatcher::new(attached_by_port, owners, arena, removed_in);
    helper_threads.push(spawn_thread("xoff-devices", None, move || {
        watcher.run(&requests_out)
    })?);
    let port_links = std::mem::take(&mut distribution.port_links);
    let io = start_port_io(
        distribution,
        &mut store,
        context,
        waker,
        &stop,
        &mut helper_threads,
    )?;
    let (recorder, recording_thread) = start_recording(&pcap, &config, context.options.dilate)?;
    let (commands_in, commands_out) = unbounded();
    let (events_in, events_out) = bounded(event_printer::EVENTS_WAITING_MAX);
    let switch_names = event_printer::SwitchNames::from_config(&config);
    helper_threads.push(spawn_thread("xoff-events", None, move || {
        event_printer::print_events(&switch_names, &events_out, &events)
    })?);
    let (result_in, result_out): (Sender<WorkerResult>, Receiver<WorkerResult>) = bounded(1);
    let links: Vec<_> = config.ports.iter().map(|p| p.link).collect();
    let port_count = config.ports.len() as u16;
    let mut switch = Switch::new(&config);
    switch.reserve_memory();
    let mut engine = Engine::new(switch, &links);
    engine.reconfigure_cpu(&config.routing);
    engine.attach_lldp(config.lldp.as_ref());
    let worker = SwitchWorker {
        engine,
        store,
        io,
        clock: context.clock,
        ledger: context.ledger.clone(),
        commands: commands_out,
        stall_ns: context.options.reaction_budget.as_nanos() as u64,
        config,
        facts,
        port_links,
        stop: Arc::clone(&stop),
        opened_mtus,
        device_requests: requests_in,
        result: result_in,
        last_check_ns: 0,
        clock_difference_ns: realtime_ns().wrapping_sub(monotonic_ns()),
        departures: VecDeque::with_capacity(4_096),
        sent_frames: Vec::with_capacity(4_096),
        events: Vec::new(),
        recorder,
        event_printer: events_in,
        printed_events: 0,
        busy_ns: 0,
        was_busy: false,
    };
    let parts = RunningSwitchParts {
        commands: commands_in,
        waker: waker.clone(),
        ledger: context.ledger.clone(),
        stop,
        result: result_out,
        helper_threads,
        removed_devices,
        recording_thread,
        port_count,
        notes,
        cores: context.cores.to_vec(),
        clock: context.clock,
    };
    Ok((worker, parts))
}

/// Returns the access of the switch worker to its ports. If the switch has I/O workers, the function starts
/// their threads.
fn start_port_io(
    mut distribution: PortDistribution,
    store: &mut ArenaStore,
    context: &StartContext<'_>,
    waker: &ThreadWaker,
    stop: &Arc<AtomicBool>,
    helper_threads: &mut Vec<JoinHandle<()>>,
) -> Result<PortIo, StartError> {
    if context.io_cores.is_empty() {
        return Ok(PortIo::Direct(distribution.sets.remove(0)));
    }
    let mut remotes = Vec::new();
    for (n, (set, held_slots)) in distribution
        .sets
        .into_iter()
        .zip(distribution.held_slots)
        .enumerate()
    {
        let idle = context.options.idle;
        let (remote, worker) =
            create_io_worker(set, store, held_slots, waker.clone(), idle, Arc::clone(stop))
                .map_err(system_error("an eventfd"))?;
        remotes.push(remote);
        helper_threads.push(spawn_thread(&format!("xoff-io{n}"), context.io_cores[n], || {
            worker.run()
        })?);
    }
    Ok(PortIo::IoWorkers(remotes))
}

/// Opens the files of the recordings and starts the thread that writes them. Does nothing if no recording
/// is requested.
fn start_recording(
    options: &PcapOptions,
    config: &SwitchConfig,
    dilation: u32,
) -> Result<RecordingEnds, StartError> {
    if options.requests.is_empty() {
        return Ok((None, None));
    }
    let realtime_offset_ns = realtime_ns().wrapping_sub(monotonic_ns()) as i64;
    let (recorder, writer) = open_recording(options, config, dilation, realtime_offset_ns)?;
    let thread = spawn_thread("xoff-pcap", None, || writer.run())?;
    Ok((Some(recorder), Some(thread)))
}

/// The recorder of the switch worker, and the thread that writes the files.
type RecordingEnds = (Option<Recorder>, Option<JoinHandle<Vec<String>>>);

/// All ports of a switch with a device, and the open device of each port. `None` means that the device
/// is missing.
type OpenPorts = (Vec<AttachedPort>, Vec<(PortId, Option<Port>)>);

/// Opens all existing devices that are not open yet. The device watcher opens missing devices later. Returns
/// an error if none of the devices exists.
fn open_ports(
    attached: Vec<(AttachedPort, Option<OpenedPort>)>,
    facts: &mut [PortDeviceInfo],
    notes: &mut Vec<String>,
) -> Result<OpenPorts, StartError> {
    let mut ports = Vec::with_capacity(attached.len());
    let mut attached_ports = Vec::with_capacity(attached.len());
    let mut port_notes = Vec::new();
    let mut missing = None;
    for (port, opened) in attached {
        let facts = &mut facts[port.id.index()];
        facts.device = Some(port.spec.device.clone());
        match opened.map_or_else(|| port.open(), Ok) {
            Ok(opened) => {
                facts.backend = Some(opened.port.backend_name().to_owned());
                facts.stream = matches!(opened.port, Port::Stream(_)).then(StreamReport::default);
                let name = &port.spec.name;
                port_notes.extend(opened.notes.into_iter().map(|text| PortNote {
                    port: name.clone(),
                    text,
                }));
                ports.push((port.id, Some(opened.port)));
            }
            Err(error) if error.is_absent() => {
                notes.push(format!("{error}; {} is down until it appears", port.spec.name));
                missing.get_or_insert(error);
                ports.push((port.id, None));
            }
            Err(error) => return Err(error.into()),
        }
        attached_ports.push(port);
    }
    notes.extend(join_port_notes(port_notes));
    match missing {
        Some(error) if ports.iter().all(|(_, port)| port.is_none()) => Err(error.into()),
        _ => Ok((attached_ports, ports)),
    }
}

/// Allocates the frame slots of a switch. `mtu_max` is the largest MTU of a port or of its device in bytes.
/// `held_slots` is the number of small slots that the ports occupy as long as they are open.
fn allocate_arena(config: &SwitchConfig, mtu_max: u32, held_slots: usize) -> io::Result<Arc<Arena>> {
    let spare = config.ports.len() * SPARE_SLOTS_PER_PORT;
    let buffer_bytes: u64 = config.pools.iter().map(|p| p.size_bytes + p.xoff_bytes).sum();
    let has_jumbo_frames = u64::from(mtu_max) + 22 >= LARGE_FRAME_BYTES_MIN;
    let large_slots = match has_jumbo_frames {
        true => {
            usize::try_from(buffer_bytes / LARGE_FRAME_BYTES_MIN)
                .unwrap_or(usize::MAX)
                .min(config.frames_max)
                + spare
        }
        false => 0,
    };
    Arena::new(config.frames_max + spare + held_slots, large_slots)
}

/// The ports of a switch, distributed over threads. Adjacent ports of the list get different threads.
struct PortDistribution {
    sets: Vec<PortSet>,
    /// Number of small slots that the ports of each set hold.
    held_slots: Vec<usize>,
    owners: BTreeMap<PortId, Sender<OpenedDevice>>,
    port_links: Vec<PortLink>,
}

impl PortDistribution {
    /// Distributes the ports over `io_workers` threads. If this number is 0, one thread gets all ports.
    fn new(
        opened: Vec<(PortId, Option<Port>)>,
        attached: &BTreeMap<PortId, AttachedPort>,
        io_workers: usize,
        clock: ModelClock,
        device_requests: Sender<DeviceRequest>,
        port_count: usize,
    ) -> PortDistribution {
        let groups = io_workers.max(1);
        let mut port_groups: Vec<Vec<(PortId, Option<Port>)>> = (0..groups).map(|_| Vec::new()).collect();
        let mut port_links = vec![PortLink::default(); port_count];
        let delay_of = |id: PortId| attached.get(&id).map_or(Picos::ZERO, |port| port.delay);
        let mut held_slots = vec![0; groups];
        for (n, (id, port)) in opened.into_iter().enumerate() {
            let group = n % groups;
            port_links[id.index()] = PortLink {
                location: Some((group, port_groups[group].len() as u16)),
                delay: delay_of(id),
                is_in_memory: matches!(port, Some(Port::Link(_))),
            };
            port_groups[group].push((id, port));
            held_slots[group] += attached.get(&id).map_or(0, |port| port.spec.reserved_slots());
        }
        let mut owners = BTreeMap::new();
        let sets = port_groups
            .into_iter()
            .map(|part| {
                let (opened_in, opened_out): (Sender<OpenedDevice>, Receiver<OpenedDevice>) = unbounded();
                owners.extend(part.iter().map(|(id, _)| (*id, opened_in.clone())));
                PortSet::new(part, delay_of, clock, device_requests.clone(), opened_out)
            })
            .collect();
        PortDistribution {
            sets,
            held_slots,
            owners,
            port_links,
        }
    }
}

/// Starts a thread that runs `body` with exact timers. If `core` is not `None`, the thread is pinned
/// to this core.
fn spawn_thread<T: Send + 'static>(
    name: &str,
    core: Option<usize>,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    let thread = thread::Builder::new().name(name.to_owned());
    let body = move || {
        set_exact_timers();
        if let Err(refused) = bind_to_core(core) {
            log::warn!("{refused}");
        }
        body()
    };
    thread.spawn(body).map_err(|source| StartError::System {
        what: "a thread",
        source,
    })
}
