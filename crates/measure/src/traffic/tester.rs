//! A tester with a generator and a sink, and the trials that it runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::frames::TrafficProfile;
use super::generator::{Generator, SendRate, SendResult, send_live_frames};
use super::sink::{Arrivals, ReceivingInterface};
use xoff_ports::net::Netns;
use xoff_ports::tester::{FrameSender, KernelFrameSender};
use xoff_runtime::workers::pin;
use xoff_telemetry::failure::Failure;

/// Largest recorded latency, 10 s.
const LATENCY_NS_MAX: u64 = 10_000_000_000;
/// A trial ends if no frame arrives for this time after the generator has finished.
const QUIET_TIME: Duration = Duration::from_millis(20);
/// Longest wait for frames in flight at the end of a trial.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);
/// Interval at which the socket of the sink is read.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// An interface of the tester and its network namespace.
#[derive(Debug)]
pub struct TesterInterface {
    /// Network namespace of the interface.
    pub netns: Netns,
    /// Name of the interface.
    pub device: String,
}

/// The method by which the generator builds and sends frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendMethod {
    /// The generator sends prebuilt frames from a packet socket that bypasses the queueing discipline.
    #[default]
    PacketSocket,
    /// The kernel builds XDP frames ([`KernelFrameSender`]) and sends them as fast as possible, without
    /// samples. This method needs Linux 5.18 and frames below 3.4 KB. The receiving interface must use NAPI
    /// polling: it needs an XDP program or GRO.
    KernelFrames,
}

/// Settings of a trial of a [`Tester`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialConfig {
    /// Rate of the generator. With [`SendMethod::KernelFrames`], this field is ignored.
    pub rate: SendRate,
    /// Sending time.
    pub duration: Duration,
    /// Shortest interval between two latency samples in nanoseconds, or `None` for no samples. With
    /// [`SendMethod::KernelFrames`], there are no samples.
    pub sample_every_ns: Option<u64>,
    /// Method by which the generator builds and sends frames.
    pub method: SendMethod,
    /// CPU core of the sending thread, or `None` if the kernel may choose the core. A thread that cannot be
    /// pinned to the core sends anyway.
    pub core: Option<usize>,
}

impl TrialConfig {
    /// Creates a trial that sends from a packet socket without samples. The kernel chooses the core of the
    /// sending thread.
    pub fn new(rate: SendRate, duration: Duration) -> TrialConfig {
        TrialConfig {
            rate,
            duration,
            sample_every_ns: None,
            method: SendMethod::PacketSocket,
            core: None,
        }
    }
}

/// The result of a trial of a [`Tester`].
#[derive(Clone, Debug)]
pub struct TesterResult {
    /// The frames that the generator sent.
    pub sending: SendResult,
    /// The frames that arrived at the sink. Frames that were in flight at the end of the sending time
    /// are included.
    pub arrivals: Arrivals,
    /// Frames that arrived in the last four fifths of the sending time, when the rates are steady.
    pub window: SteadyWindow,
    /// Latencies of the samples in nanoseconds, at most 10 s. A latency starts just before the system call
    /// that sends the frame. It ends with the time stamp of the kernel at the sink. Empty without samples.
    pub latency_ns: Histogram<u64>,
}

/// The part of a trial in which the rates are steady.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SteadyWindow {
    /// Frames that arrived in the window.
    pub frames: u64,
    /// Length of the window in seconds. 0 if the trial was too short for a window.
    pub seconds: f64,
    /// Increase, within the window, of the counter that the caller observes
    /// ([`Tester::run_trial_observing`]). 0 for [`Tester::run_trial`].
    pub observed: u64,
}

impl SteadyWindow {
    /// Returns the receive rate in frames per second, or 0 if the window is empty.
    pub fn rate_fps(&self) -> f64 {
        if self.seconds > 0.0 {
            self.frames as f64 / self.seconds
        } else {
            0.0
        }
    }
}

impl TesterResult {
    /// Returns the number of frames that the sending interface accepted, minus the number of frames that
    /// arrived. Returns 0 if more frames arrived. Refused frames ([`SendResult::refused`]) are not included.
    pub fn lost_frames(&self) -> u64 {
        self.sending.frames.saturating_sub(self.arrivals.frames)
    }
}

/// A generator at one interface, and a sink at another interface.
#[derive(Debug)]
pub struct Tester {
    from: TesterInterface,
    traffic: TrafficProfile,
    generator: Generator,
    sink: ReceivingInterface,
}

impl Tester {
    /// Opens a generator at `from` and a sink at `to`. The process needs CAP_NET_RAW in both
    /// network namespaces.
    ///
    /// # Errors
    /// The traffic profile is out of range, or an interface is missing or not accessible.
    pub fn open(
        from: TesterInterface,
        to: &TesterInterface,
        traffic: &TrafficProfile,
    ) -> Result<Tester, Failure> {
        let frames = traffic.build_frames()?;
        let sender = from.netns.run(|| FrameSender::open(&from.device));
        let sink = to.netns.run(|| ReceivingInterface::open(&to.device));
        Ok(Tester {
            generator: Generator::new(check_opened(&from, sender)?, frames),
            sink: check_opened(to, sink)?,
            traffic: traffic.clone(),
            from,
        })
    }

    /// Sends one frame from the sink to the source MAC address of the traffic. The source of the frame is the
    /// destination MAC address of the traffic, so that bridges learn the port of the destination.
    ///
    /// # Errors
    /// The interface cannot send the frame, for example because it is down or was removed.
    pub fn send_learning_frame(&mut self) -> Result<(), Failure> {
        let frame = self.traffic.learning_frame();
        let sent = self.sink.sender.send(&[&frame]);
        sent.map(drop)
            .map_err(|error| Failure::environment("the sink cannot send").because(error))
    }

    /// Sends the frames of a trial, waits for the frames in flight, and counts the frames that arrive.
    ///
    /// # Errors
    /// The kernel refuses a thread, refuses to send or to build frames, or the frame counter of the sink
    /// cannot be read.
    pub fn run_trial(&mut self, trial: &TrialConfig) -> Result<TesterResult, Failure> {
        self.run_trial_observing(trial, || 0)
    }

    /// Works like [`run_trial`](Tester::run_trial), and also observes a counter, such as the processor time
    /// of a forwarding program. `observe` returns the value of the counter. [`SteadyWindow::observed`]
    /// contains the increase of the counter.
    ///
    /// # Errors
    /// See [`run_trial`](Tester::run_trial).
    pub fn run_trial_observing(
        &mut self,
        trial: &TrialConfig,
        observe: impl FnMut() -> u64,
    ) -> Result<TesterResult, Failure> {
        let read_error = |error| Failure::environment("the sink's interface cannot be read").because(error);
        self.sink.reset().map_err(read_error)?;
        let mut live_frames = self.open_kernel_frame_sender(trial)?;
        let stop = AtomicBool::new(false);
        let (generator, sink, netns) = (&mut self.generator, &mut self.sink, &self.from.netns);
        let (sending, window) = thread::scope(|scope| {
            let stop = &stop;
            let send = || {
                // A thread that cannot be pinned still sends.
                let _ = pin::bind_to_core(trial.core);
                match &mut live_frames {
                    None => generator.send_frames(trial.rate, trial.duration, trial.sample_every_ns, stop),
                    Some(frames) => netns
                        .enter()
                        .map_err(|error| Failure::environment(error.to_string()))
                        .and_then(|()| send_live_frames(frames, trial.duration, stop)),
                }
            };
            let sender = thread::Builder::new()
                .name("generator".to_owned())
                .spawn_scoped(scope, send)
                .map_err(|error| Failure::environment("no thread for the generator").because(error))?;
            let window = observe_window(sink, trial.duration, || sender.is_finished(), observe);
            stop.store(window.is_err(), Ordering::Relaxed);
            let sending = sender
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok::<_, Failure>((sending, window.map_err(read_error)?))
        })?;
        wait_for_frames_in_flight(sink).map_err(read_error)?;
        let (arrivals, samples) = sink.arrivals().map_err(read_error)?;
        let mut latency_ns = new_latency_histogram();
        for &(number, at_ns) in samples {
            if let Some(sent_ns) = sending.sampled_ns.get(number) {
                latency_ns.saturating_record(at_ns.saturating_sub(*sent_ns));
            }
        }
        Ok(TesterResult {
            sending,
            arrivals,
            window,
            latency_ns,
        })
    }

    fn open_kernel_frame_sender(&self, trial: &TrialConfig) -> Result<Option<KernelFrameSender>, Failure> {
        if trial.method == SendMethod::PacketSocket {
            return Ok(None);
        }
        let (netns, device) = (&self.from.netns, &self.from.device);
        let frame = &self.generator.frames[0].bytes;
        let flows = u32::from(self.traffic.flows);
        let opened = netns.run(|| KernelFrameSender::open(device, frame, flows));
        check_opened(&self.from, opened).map(Some)
    }
}

/// Creates an empty histogram of latencies in nanoseconds.
fn new_latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("bounds and digits are constant and valid")
}

/// Reads the sink until the generator has finished. Returns the steady window.
fn observe_window(
    sink: &mut ReceivingInterface,
    duration: Duration,
    is_finished: impl Fn() -> bool,
    mut observe: impl FnMut() -> u64,
) -> std::io::Result<SteadyWindow> {
    let began = Instant::now();
    let mut marks: Option<[(Instant, u64, u64); 2]> = None;
    while !is_finished() {
        thread::sleep(POLL_INTERVAL);
        sink.read_socket();
        let elapsed = began.elapsed();
        if elapsed >= duration / 5 && elapsed < duration {
            let mark = (Instant::now(), sink.received_frames()?, observe());
            marks = Some([marks.map_or(mark, |[first, _]| first), mark]);
        }
    }
    Ok(
        marks.map_or_else(SteadyWindow::default, |[first, last]| SteadyWindow {
            frames: last.1.saturating_sub(first.1),
            seconds: (last.0 - first.0).as_secs_f64(),
            observed: last.2.saturating_sub(first.2),
        }),
    )
}

/// Waits until the frames in flight have arrived.
fn wait_for_frames_in_flight(sink: &mut ReceivingInterface) -> std::io::Result<()> {
    let began = Instant::now();
    let mut before = sink.received_frames()?;
    let mut changed = Instant::now();
    while changed.elapsed() < QUIET_TIME && began.elapsed() < DRAIN_TIME_MAX {
        thread::sleep(Duration::from_millis(2));
        sink.read_socket();
        let now = sink.received_frames()?;
        if now != before {
            (before, changed) = (now, Instant::now());
        }
    }
    Ok(())
}

fn check_opened<T>(
    interface: &TesterInterface,
    result: xoff_ports::net::Result<std::io::Result<T>>,
) -> Result<T, Failure> {
    let failure = |why: String| {
        Failure::environment(format!("test traffic cannot use interface \"{}\"", interface.device))
            .because(why)
            .fix("name an interface of this machine (`ip link`), and run as root or with CAP_NET_RAW in its namespace")
    };
    result
        .map_err(|error| failure(error.to_string()))?
        .map_err(|error| failure(error.to_string()))
}
