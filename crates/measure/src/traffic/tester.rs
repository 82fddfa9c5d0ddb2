//! A trial: frames in at one end, counted at the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::frames::Traffic;
use super::generator::{Generator, Rate, Sending, run_live};
use super::sink::{Arrivals, Sink};
use xoff_ports::net::Netns;
use xoff_ports::tester::{FrameSender, LiveFrames};
use xoff_runtime::workers::pin;
use xoff_telemetry::failure::Failure;

/// Latencies are told up to this: ten seconds.
const LATENCY_NS_MAX: u64 = 10_000_000_000;
/// Frames under way are waited for until none has come for so long,
const QUIET: Duration = Duration::from_millis(20);
/// and no longer than this.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// How often the sink's socket is emptied.
const LOOK: Duration = Duration::from_millis(5);

/// An interface of the tester, and its namespace.
#[derive(Debug)]
pub struct End {
    /// Namespace.
    pub netns: Netns,
    /// Interface.
    pub device: String,
}

/// How frames are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Means {
    /// A packet socket: past the queueing discipline.
    #[default]
    Packet,
    /// The kernel, as XDP frames: only as fast as possible, without samples, and only towards a device that polls ([`LiveFrames`]).
    Live,
}

/// What a trial is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// How fast.
    pub rate: Rate,
    /// For how long frames are sent.
    pub duration: Duration,
    /// A frame's latency is measured at most this often, in nanoseconds; `None`: never.
    pub sample_every_ns: Option<u64>,
    /// How frames are made.
    pub means: Means,
    /// The core of the thread that sends.
    pub core: Option<usize>,
}

impl Trial {
    /// A trial from a packet socket, without samples, of a thread that the kernel places.
    pub fn new(rate: Rate, duration: Duration) -> Trial {
        Trial {
            rate,
            duration,
            sample_every_ns: None,
            means: Means::Packet,
            core: None,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was sent.
    pub sending: Sending,
    /// What arrived, including what was under way at the end.
    pub arrivals: Arrivals,
    /// What arrived while frames were sent, from the first fifth of the time on.
    pub window: Window,
    /// Time from before the system call that sent a sample to the sink's kernel, in nanoseconds.
    pub latency_ns: Histogram<u64>,
}

/// A part of a trial in which all is in steady state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Frames that arrived.
    pub frames: u64,
    /// Its length, in seconds.
    pub seconds: f64,
    /// By how much the number grew that the trial was told to observe.
    pub observed: u64,
}

impl Window {
    /// Frames a second that arrived.
    pub fn rate_fps(&self) -> f64 {
        if self.seconds > 0.0 {
            self.frames as f64 / self.seconds
        } else {
            0.0
        }
    }
}

impl Outcome {
    /// Frames that were sent and did not arrive.
    pub fn lost(&self) -> u64 {
        self.sending.frames.saturating_sub(self.arrivals.frames)
    }
}

/// A generator and a sink.
#[derive(Debug)]
pub struct Tester {
    from: End,
    traffic: Traffic,
    generator: Generator,
    sink: Sink,
}

impl Tester {
    /// Opens both ends. Takes CAP_NET_RAW in both namespaces.
    ///
    /// # Errors
    /// Traffic out of range; an interface that is not there or that we may not use.
    pub fn open(from: End, to: &End, traffic: &Traffic) -> Result<Tester, Failure> {
        let frames = traffic.build()?;
        let sender = from.netns.run(|| FrameSender::open(&from.device));
        let sink = to.netns.run(|| Sink::open(&to.device));
        Ok(Tester {
            generator: Generator::new(opened(&from, sender)?, frames),
            sink: opened(to, sink)?,
            traffic: traffic.clone(),
            from,
        })
    }

    /// Has the sink send a frame, so that bridges know where the destination is.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn say_hello(&mut self) -> Result<(), Failure> {
        let hello = self.traffic.hello();
        let sent = self.sink.sender.send(&[&hello]);
        sent.map(drop)
            .map_err(|error| Failure::environment("the sink cannot send").because(error))
    }

    /// Sends, counts, and waits for what is under way.
    ///
    /// # Errors
    /// The kernel refuses to send, or to make frames.
    pub fn trial(&mut self, trial: &Trial) -> Result<Outcome, Failure> {
        self.trial_observing(trial, || 0)
    }

    /// As [`trial`](Tester::trial), and says by how much a number grows meanwhile that only grows, such as the processor time of who forwards.
    ///
    /// # Errors
    /// As there.
    pub fn trial_observing(
        &mut self,
        trial: &Trial,
        observe: impl FnMut() -> u64,
    ) -> Result<Outcome, Failure> {
        let gone = |error| Failure::environment("the sink's interface cannot be read").because(error);
        self.sink.reset().map_err(gone)?;
        let mut live = self.live(trial)?;
        let stop = AtomicBool::new(false);
        let (generator, sink, netns) = (&mut self.generator, &mut self.sink, &self.from.netns);
        let (sending, window) = thread::scope(|scope| {
            let stop = &stop;
            let send = || {
                // A thread that cannot be pinned sends all the same.
                let _ = pin::bind(trial.core);
                match &mut live {
                    None => generator.run(trial.rate, trial.duration, trial.sample_every_ns, stop),
                    Some(frames) => netns
                        .enter()
                        .map_err(|error| Failure::environment(error.to_string()))
                        .and_then(|()| run_live(frames, trial.duration, stop)),
                }
            };
            let sender = thread::Builder::new()
                .name("generator".to_owned())
                .spawn_scoped(scope, send)
                .map_err(|error| Failure::environment("no thread for the generator").because(error))?;
            let window = watch(sink, trial.duration, || sender.is_finished(), observe);
            stop.store(window.is_err(), Ordering::Relaxed);
            let sending = sender
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok::<_, Failure>((sending, window.map_err(gone)?))
        })?;
        drain(sink).map_err(gone)?;
        let (arrivals, samples) = sink.arrivals().map_err(gone)?;
        let mut latency_ns = latencies();
        for &(number, at_ns) in samples {
            if let Some(sent_ns) = sending.sampled_ns.get(number) {
                latency_ns.saturating_record(at_ns.saturating_sub(*sent_ns));
            }
        }
        Ok(Outcome {
            sending,
            arrivals,
            window,
            latency_ns,
        })
    }

    fn live(&self, trial: &Trial) -> Result<Option<LiveFrames>, Failure> {
        if trial.means == Means::Packet {
            return Ok(None);
        }
        let (netns, device) = (&self.from.netns, &self.from.device);
        let frame = &self.generator.frames[0].bytes;
        let flows = u32::from(self.traffic.flows);
        let made = netns.run(|| LiveFrames::open(device, frame, flows));
        opened(&self.from, made).map(Some)
    }
}

/// A histogram of latencies in nanoseconds.
fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("bounds and digits are constant and valid")
}

/// Watches the sink until the sender has finished.
fn watch(
    sink: &mut Sink,
    duration: Duration,
    finished: impl Fn() -> bool,
    mut observe: impl FnMut() -> u64,
) -> std::io::Result<Window> {
    let began = Instant::now();
    let mut marks: Option<[(Instant, u64, u64); 2]> = None;
    while !finished() {
        thread::sleep(LOOK);
        sink.collect();
        let elapsed = began.elapsed();
        if elapsed >= duration / 5 && elapsed < duration {
            let mark = (Instant::now(), sink.received()?, observe());
            marks = Some([marks.map_or(mark, |[first, _]| first), mark]);
        }
    }
    Ok(marks.map_or_else(Window::default, |[first, last]| Window {
        frames: last.1.saturating_sub(first.1),
        seconds: (last.0 - first.0).as_secs_f64(),
        observed: last.2.saturating_sub(first.2),
    }))
}

/// Waits for frames that are under way.
fn drain(sink: &mut Sink) -> std::io::Result<()> {
    let began = Instant::now();
    let mut before = sink.received()?;
    let mut changed = Instant::now();
    while changed.elapsed() < QUIET && began.elapsed() < DRAIN_MAX {
        thread::sleep(Duration::from_millis(2));
        sink.collect();
        let now = sink.received()?;
        if now != before {
            (before, changed) = (now, Instant::now());
        }
    }
    Ok(())
}

fn opened<T>(end: &End, result: xoff_ports::net::Result<std::io::Result<T>>) -> Result<T, Failure> {
    let failure = |why: String| {
        Failure::environment(format!("test traffic cannot use interface \"{}\"", end.device))
            .because(why)
            .fix("name an interface of this machine (`ip link`), and run as root or with CAP_NET_RAW in its namespace")
    };
    result
        .map_err(|error| failure(error.to_string()))?
        .map_err(|error| failure(error.to_string()))
}
