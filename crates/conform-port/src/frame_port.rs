//! A network port that sends and receives single frames with the times of a clock.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use xoff_conform::ArrivedFrame;
use xoff_ports::{
    Arena, ArenaStore, BURST_FRAMES, Backend, Port, PortFrame, PortSpec, SlotSource, is_device_removed, net,
    read_device_mtu, request_real_time_priority,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_units::Picos;

/// Number of slots for frames: all frames that wait in one burst in each direction, and a reserve for AF_XDP.
const SMALL_SLOTS: usize = 8_192;
const LARGE_SLOTS: usize = 256;
/// Time before the end of a wait in which the thread does not sleep, because a wake-up takes about this long.
const AWAKE_TIME: Duration = Duration::from_micros(30);
/// Longest time for which a frame waits for a full port.
const SEND_MAX: Picos = Picos::from_millis(20);
/// Longest wait for the peer of a stream port.
const PEER_WAIT_MAX: Duration = Duration::from_secs(60);
/// Interval between two looks for the peer of a stream port.
const PEER_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between two looks at the state of the link.
const LINK_CHECK_INTERVAL: Picos = Picos::from_millis(100);
/// Longest time for which the link may be down, for example after a reset of the device.
const LINK_DOWN_MAX: Picos = Picos::from_millis(4_000);

/// Gives the calling thread exact timers and, where permitted, a real-time priority.
pub(crate) fn prepare_thread() {
    // A refusal is no error: wake-ups are later, and the checks measure this.
    let _ = nix::sys::prctl::set_timerslack(1);
    if !request_real_time_priority() {
        log::debug!("no real-time priority: CAP_SYS_NICE is missing");
    }
}

fn monotonic_ns() -> u64 {
    // Linux has this clock since 2.6, so the call cannot fail.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
    })
}

/// An open network port.
#[derive(Debug)]
pub(crate) struct FramePort {
    port: Port,
    store: ArenaStore,
    /// The start of the clock, in nanoseconds of `CLOCK_MONOTONIC`.
    epoch_ns: u64,
    received: Vec<PortFrame>,
    next_link_check: Picos,
    link_down_since: Option<Picos>,
    /// Number of frames that the full port did not accept.
    refused_frames: u64,
    is_software: bool,
}

impl FramePort {
    /// Opens a network device of the calling thread's namespace. `option` is the option that names the device.
    /// A stream port waits for its peer, until `stop` is true.
    pub(crate) fn open(
        option: &str,
        device: &str,
        backend: Backend,
        stop: &AtomicBool,
    ) -> Result<FramePort, Failure> {
        let failure = |what: &str, error: &dyn std::fmt::Display| {
            Failure::environment(what.to_owned())
                .at(format!("{option} {device}"))
                .because(error)
                .fix("list the devices with `ip link`; the port needs CAP_NET_RAW and CAP_NET_ADMIN")
        };
        let spec = PortSpec {
            name: device.to_owned(),
            device: device.to_owned(),
            backend,
            mtu: read_device_mtu(device)
                .ok()
                .flatten()
                .unwrap_or(1_500)
                .clamp(68, xoff_ports::MTU_MAX),
        };
        let opened = Port::open(&spec).map_err(|error| match (backend, error.fix()) {
            (Backend::Stream, Some(fix)) => Failure::environment(error.cause())
                .at(format!("{option} {device}"))
                .fix(fix),
            _ => failure("the port cannot be opened", &error),
        })?;
        for note in &opened.notes {
            log::info!("{note}");
        }
        let mut port = opened.port;
        let arena = Arena::new(SMALL_SLOTS + port.reserved_slots(), LARGE_SLOTS)
            .map_err(|error| failure("there is no memory for frames", &error))?;
        port.attach(&arena)
            .map_err(|error| failure("the port cannot use the memory for frames", &error))?;
        let mut store = ArenaStore::new(Arc::clone(&arena));
        if backend == Backend::Stream {
            wait_for_peer(&mut port, &mut store, stop)
                .map_err(|failure| failure.at(format!("{option} {device}")))?;
        }
        Ok(FramePort {
            port,
            store,
            epoch_ns: monotonic_ns(),
            received: Vec::with_capacity(BURST_FRAMES),
            next_link_check: Picos::ZERO,
            link_down_since: None,
            refused_frames: 0,
            is_software: net::read_link(device)
                .is_ok_and(|link| matches!(link.kind.as_deref(), Some("veth" | "tun")))
                || backend == Backend::Stream,
        })
    }

    pub(crate) fn now(&self) -> Picos {
        Picos::from_nanos(monotonic_ns() - self.epoch_ns)
    }

    /// Appends all received frames.
    pub(crate) fn receive(&mut self, frames: &mut Vec<ArrivedFrame>) -> Result<(), String> {
        loop {
            let received = self
                .port
                .receive(&mut self.store, BURST_FRAMES, &mut self.received);
            for frame in self.received.drain(..) {
                let (start, rest) = self.store.arena().segments(frame.frame);
                frames.push(ArrivedFrame {
                    at: Picos::from_nanos(frame.received_ns.saturating_sub(self.epoch_ns)),
                    bytes: [start, rest].concat(),
                });
                self.store.return_slot(frame.frame);
            }
            match received {
                Ok(count) if count == BURST_FRAMES => {}
                Ok(_) => break,
                Err(error) if is_device_removed(&error) => {
                    return Err(format!("the device {} was removed", self.port.device_name()));
                }
                Err(error) => return Err(format!("{} cannot receive: {error}", self.port.device_name())),
            }
        }
        self.check_link()
    }

    /// Fails if the link is down for too long.
    fn check_link(&mut self) -> Result<(), String> {
        let now = self.now();
        if now < self.next_link_check {
            return Ok(());
        }
        self.next_link_check = now + LINK_CHECK_INTERVAL;
        if self.port.is_link_up() {
            self.link_down_since = None;
            return Ok(());
        }
        let name = self.port.device_name().to_owned();
        if !self.port.device_exists() {
            return Err(format!("the device {name} was removed"));
        }
        let since = *self.link_down_since.get_or_insert(now);
        match now.since(since) > LINK_DOWN_MAX {
            true => Err(format!("the link of {name} is down")),
            false => Ok(()),
        }
    }

    /// Sends a frame. Returns the time at which the port has accepted it.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<Picos, String> {
        let slot = self
            .store
            .store_frame(frame)
            .ok_or_else(|| format!("a frame of {} bytes has no place in memory", frame.len()))?;
        let deadline = self.now() + SEND_MAX;
        let result = loop {
            match self.port.transmit(self.store.arena(), &[slot]) {
                Ok(0) if self.now() < deadline => std::thread::yield_now(),
                Ok(0) => {
                    self.refused_frames += 1;
                    break Ok(());
                }
                Ok(_) => break Ok(()),
                Err(error) => break Err(format!("{} cannot send: {error}", self.port.device_name())),
            }
        };
        self.store.return_slot(slot);
        result.map(|()| self.now())
    }

    /// Returns whether the device is a veth or a tap.
    pub(crate) fn is_software(&self) -> bool {
        self.is_software
    }

    /// Returns the number of frames that the port has lost since the last call.
    pub(crate) fn count_lost_frames(&mut self) -> u64 {
        self.port.take_drops().lost + std::mem::take(&mut self.refused_frames)
    }

    /// Waits until a frame arrives, until `other` is readable, or until `until`. Returns a little early, so that the
    /// caller can read the clock until the exact time.
    pub(crate) fn wait(&self, until: Picos, other: Option<BorrowedFd<'_>>) {
        let left = Duration::from_nanos(until.since(self.now()).as_nanos());
        let sleep = left.saturating_sub(AWAKE_TIME);
        if sleep.is_zero() {
            std::hint::spin_loop();
            return;
        }
        let fds = self.port.fd().into_iter().chain(other);
        let mut polled: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // An interrupted wait only ends earlier. A device that went down makes the socket readable with an error.
        let woken = ppoll(&mut polled, Some(TimeSpec::from_duration(sleep)), None);
        let has_error = |polled: &PollFd<'_>| {
            polled
                .revents()
                .is_some_and(|events| events.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL))
        };
        if woken.is_err() || polled.iter().any(has_error) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Waits until a peer has connected to a stream port.
fn wait_for_peer(port: &mut Port, store: &mut ArenaStore, stop: &AtomicBool) -> Result<(), Failure> {
    let deadline = Instant::now() + PEER_WAIT_MAX;
    // With a limit of 0 frames, the port only accepts a connection.
    while port.receive(store, 0, &mut Vec::new()).is_err() || !port.is_link_up() {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::new(
                Exit::Interrupted,
                "the wait for a peer was interrupted",
            ));
        }
        if Instant::now() > deadline {
            return Err(
                Failure::environment("no peer connected to the stream within 60 s")
                    .fix("start QEMU after this program; the note above has its option -netdev"),
            );
        }
        std::thread::sleep(PEER_CHECK_INTERVAL);
    }
    Ok(())
}

impl Drop for FramePort {
    fn drop(&mut self) {
        self.port.close(&mut self.store);
    }
}
