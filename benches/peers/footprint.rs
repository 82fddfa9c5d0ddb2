//! What a switch takes before its first frame: time from the start of the program until it forwards, and memory, by number of ports.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use xoff::bench::result::{BenchResult, Better, Figure};
use xoff::config::preset;
use xoff::net::{add_veth, delete_link};
use xoff_dataplane::Picos;

use crate::bed::up;
use crate::{Failure, Run};

const PORTS: [usize; 3] = [2, 8, 32];
/// A speed that veths of small machines carry. Buffers, and with them the memory that frames may take, follow from it.
const SPEED_MBPS: u32 = 1_000;
/// What the host may stall (the default of `switch run`).
const REACTION_BUDGET: Picos = Picos::from_micros(20_000);
const MTU: u32 = 9_100;
/// After that the memory is read: the first look at everything is over.
const SETTLED: Duration = Duration::from_millis(500);

/// Figures for each backend that this machine allows.
pub(crate) fn measure(run: &Run<'_>, result: &mut BenchResult) -> Result<(), Failure> {
    for backend in ["packet", "xdp"] {
        for ports in PORTS {
            let cables = Cables::plug(ports)?;
            let config = configuration(run.bed.folder.path(), ports)?;
            let mut samples: [Vec<f64>; 4] = Default::default();
            for round in 0..run.rounds {
                match start(&config, &cables, backend) {
                    Ok(taken) => {
                        eprintln!("round {}: {backend}, {ports} ports: {taken:?}", round + 1);
                        let values = [taken.start_ms, taken.end_ms, taken.own_mib, taken.shared_mib];
                        for (samples, value) in samples.iter_mut().zip(values) {
                            samples.push(value);
                        }
                    }
                    Err(why) => {
                        result
                            .notes
                            .push(format!("{backend}, {ports} ports: skipped: {why}"));
                        break;
                    }
                }
                if run.is_interrupted() {
                    return Ok(());
                }
            }
            let figures = [("start", "ms"), ("end", "ms"), ("own", "MiB"), ("shared", "MiB")];
            for ((name, unit), samples) in figures.into_iter().zip(samples) {
                if !samples.is_empty() {
                    let name = format!("footprint/{backend}/{ports}-ports/{name}");
                    result
                        .figures
                        .push(Figure::new(name, unit, Better::Smaller, samples));
                }
            }
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Taken {
    /// From before the program is started to the line that says that it forwards.
    start_ms: f64,
    /// From SIGINT to its end.
    end_ms: f64,
    /// Heaps and stacks (`RssAnon`).
    own_mib: f64,
    /// Memory for frames that has been touched (`RssShmem`): AF_XDP touches all that frames may take at the start. Rings of packet
    /// sockets are the kernel's memory, and in neither.
    shared_mib: f64,
}

fn start(config: &Path, cables: &Cables, backend: &str) -> Result<Taken, Failure> {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_xoff"), "switch", "run"])
        .args(["--workers", "1", "--config"])
        .arg(config);
    for n in 0..cables.0 {
        let (port, device) = (port_name(n), Cables::device(n));
        command.args(["--port", &format!("{port}={device},backend={backend}")]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let began = Instant::now();
    let mut switch = command
        .spawn()
        .map(Started)
        .map_err(|error| format!("cannot start xoff: {error}"))?;
    let said = switch.first_line();
    let start_ms = began.elapsed().as_secs_f64() * 1e3;
    if !said.starts_with("ready:") {
        return Err(format!("it does not start: {}", switch.complaint()));
    }
    std::thread::sleep(SETTLED);
    let [own_mib, shared_mib] = ["RssAnon:", "RssShmem:"].map(|name| switch.memory_mib(name));
    let ending = Instant::now();
    switch.end();
    Ok(Taken {
        start_ms,
        end_ms: ending.elapsed().as_secs_f64() * 1e3,
        own_mib,
        shared_mib,
    })
}

/// A switch that runs, until it is dropped.
struct Started(Child);

impl Started {
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        if let Some(output) = self.0.stdout.take() {
            let mut output = BufReader::new(output);
            let _ = output.read_line(&mut line);
            // What follows is nobody's, but its pipe has to stay open and be emptied.
            std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        }
        line
    }

    /// What it has said against its start; it has ended.
    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut output) = self.0.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut output, &mut text);
        }
        let last = text.lines().last();
        last.unwrap_or("it says nothing").to_owned()
    }

    /// A field of `/proc/PID/status`.
    fn memory_mib(&self, name: &str) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line
            .and_then(|line| line.split_whitespace().next())
            .and_then(|word| word.parse::<f64>().ok());
        kib.unwrap_or(f64::NAN) / 1024.0
    }

    fn end(&mut self) {
        // A program that has ended already is no error.
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGINT);
        let _ = self.0.wait();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end();
    }
}

/// So many cables with both ends here, until they are dropped.
struct Cables(usize);

impl Cables {
    fn plug(count: usize) -> Result<Cables, Failure> {
        let cables = Cables(count);
        for n in 0..count {
            let [near, far] = [Cables::device(n), format!("q{n}")];
            add_veth(&near, &far, None, MTU).map_err(|error| error.to_string())?;
            up(&near)?;
            up(&far)?;
        }
        Ok(cables)
    }

    fn device(n: usize) -> String {
        format!("p{n}")
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        for n in 0..self.0 {
            // One that was never made is no loss.
            let _ = delete_link(&Cables::device(n));
        }
    }
}

fn port_name(n: usize) -> String {
    format!("Ethernet{}", 4 * n)
}

fn configuration(folder: &Path, ports: usize) -> Result<std::path::PathBuf, Failure> {
    let ports: Vec<(String, u32)> = (0..ports).map(|n| (port_name(n), SPEED_MBPS)).collect();
    let text = preset("roce-lossless", &ports, REACTION_BUDGET)
        .map_err(|error| error.to_string())?
        .to_json();
    let path = folder.join("footprint.json");
    std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}
