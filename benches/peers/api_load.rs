//! Measures the processor time of the switch worker per frame while clients of the control API ask for all counters,
//! and without clients. Only turns with work count.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use xoff_measure::result::{BenchFigure, BenchResult, ImprovementDirection};
use xoff_measure::traffic::{SendRate, TrafficProfile, TrialConfig};

use crate::forwarders::{Switch, worker_busy_ns};
use crate::measure::{mtu_for, wait_until_forwarding};
use crate::{Failure, Run};

const FRAME_BYTES: u32 = 1_082;
/// Frames per second. Every machine carries this rate with and without clients, so batches are equally long.
const RATE_FPS: f64 = 100_000.0;
/// Number of clients. Together they use the whole budget of requests.
const CLIENTS: usize = 4;
const COUNTERS: &[u8] = b"GET /v1/counters HTTP/1.1\r\nHost: x\r\n\r\n";
/// Largest ratio of the times with and without clients.
const RATIO_MAX: f64 = 1.03;

/// Adds figures of the backends `packet` and `xdp`: nanoseconds per frame with and without clients, and the ratio of
/// each pair of runs.
pub(crate) fn measure(run: &Run<'_>, result: &mut BenchResult) -> Result<(), Failure> {
    for backend in ["packet", "xdp"] {
        let (mut quiet, mut busy, mut ratios, mut requests) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..run.rounds {
            // The order changes, so that a drift of the machine affects both.
            let mut times = [0.0; 2];
            for with_clients in [round % 2 == 0, round % 2 != 0] {
                let (busy_ns, answered) = measure_turn(run, backend, with_clients)?;
                times[usize::from(with_clients)] = busy_ns;
                if with_clients {
                    requests.push(answered as f64);
                }
                if run.is_interrupted() {
                    return Ok(());
                }
            }
            let [without, with] = times;
            eprintln!(
                "round {}: {backend}: {without:.0} ns/frame without clients, {with:.0} with",
                round + 1
            );
            quiet.push(without);
            busy.push(with);
            ratios.push(with / without);
        }
        let figure = |name: &str, unit: &str, samples| {
            let name = format!("api/{backend}/{name}");
            BenchFigure::new(name, unit, ImprovementDirection::Smaller, samples)
        };
        let ratio = figure("ratio", "ratio", ratios);
        let median = ratio.spread().median;
        let within = if median <= RATIO_MAX {
            "at most"
        } else {
            "MORE THAN"
        };
        result.notes.push(format!(
            "{backend}: median ratio {median:.3}, {within} {RATIO_MAX} ({} requests answered in each run)",
            requests.iter().sum::<f64>() as u64 / requests.len().max(1) as u64
        ));
        result.figures.extend([
            figure("without-clients", "ns/frame", quiet),
            figure("with-clients", "ns/frame", busy),
            ratio,
        ]);
    }
    Ok(())
}

/// Returns the nanoseconds of the switch worker per frame, and the number of answered requests.
fn measure_turn(run: &Run<'_>, backend: &str, with_clients: bool) -> Result<(f64, u64), Failure> {
    let cables = run.bed.connect_cables(mtu_for(FRAME_BYTES))?;
    let socket = run.bed.folder.path().join("api.sock");
    let switch = Switch {
        cores: &[run.bed.cores.forwarder],
        control: Some(&socket),
        ..Switch::fast(backend, "spin")
    };
    let mut running = switch.start(run.bed, &cables)?;
    let mut tester = cables.tester(&TrafficProfile::new(FRAME_BYTES))?;
    wait_until_forwarding(&mut tester, run.bed)?;
    let clients = match with_clients {
        true => Some(ApiClients::start(
            &socket,
            Duration::from_secs_f64(run.seconds + 0.5),
        )?),
        false => None,
    };
    let trial = TrialConfig {
        core: Some(run.bed.cores.tester),
        ..TrialConfig::new(SendRate::Paced(RATE_FPS), Duration::from_secs_f64(run.seconds))
    };
    let outcome = tester.run_trial(&trial).map_err(|failure| failure.to_string())?;
    let answered = clients.map_or(Ok(0), ApiClients::finish)?;
    running.end();
    let busy_ns = worker_busy_ns(run.bed)?;
    if with_clients && answered == 0 {
        return Err("the control API answered no request".to_owned());
    }
    Ok((busy_ns as f64 / outcome.arrivals.frames.max(1) as f64, answered))
}

/// A process with clients that ask for all counters, as often as the API answers.
struct ApiClients {
    child: Child,
}

impl ApiClients {
    fn start(socket: &Path, duration: Duration) -> Result<ApiClients, Failure> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let child = Command::new("nice")
            .args(["-n", "19"])
            .arg(program)
            .arg("--api-clients")
            .arg(socket)
            .args(["--seconds", &duration.as_secs_f64().to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the clients: {error}"))?;
        Ok(ApiClients { child })
    }

    /// Waits for the end of the clients and returns the number of answered requests.
    fn finish(self) -> Result<u64, Failure> {
        let output = self.child.wait_with_output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim()
            .parse()
            .map_err(|_| format!("the clients printed {text:?}"))
    }
}

/// Runs the clients of this process until the end of the duration. Returns the number of answered requests.
pub(crate) fn run_clients(socket: &Path, seconds: f64) -> u64 {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let socket: PathBuf = socket.to_owned();
            std::thread::spawn(move || run_client(&socket, end))
        })
        .collect();
    clients.into_iter().map(|client| client.join().unwrap_or(0)).sum()
}

/// Sends requests until `end`, one after the other. Returns the number of responses with the status 200.
fn run_client(socket: &Path, end: Instant) -> u64 {
    let mut answered = 0;
    while Instant::now() < end {
        let Ok(stream) = UnixStream::connect(socket) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if stream.set_read_timeout(Some(Duration::from_secs(1))).is_err() {
            continue;
        }
        let mut reader = BufReader::new(stream);
        while Instant::now() < end {
            match request(&mut reader) {
                Ok(is_answered) => answered += u64::from(is_answered),
                Err(_) => break,
            }
        }
    }
    answered
}

/// Sends a request and reads the response. Returns whether its status is 200.
fn request(stream: &mut BufReader<UnixStream>) -> std::io::Result<bool> {
    stream.get_mut().write_all(COUNTERS)?;
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line)?;
    let is_answered = line.starts_with("HTTP/1.1 200");
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    std::io::copy(&mut stream.take(length), &mut std::io::sink())?;
    Ok(is_answered)
}
