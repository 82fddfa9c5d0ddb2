//! Measures the start of a switch by number of ports: the time from the start of the program until it
//! forwards, and the memory.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use xoff_config::build_preset;
use xoff_measure::result::{BenchFigure, BenchResult, ImprovementDirection};
use xoff_ports::net::{add_veth, delete_link};

use crate::bed::{TestBed, set_link_up};
use crate::child::Program;
use crate::forwarders::REACTION_BUDGET;
use crate::{Failure, Run};

const PORTS: [usize; 3] = [2, 8, 32];
/// A speed that veths of small machines carry. Buffers, and therefore the memory for frames, depend on it.
const SPEED_MBPS: u32 = 1_000;
const MTU: u32 = 9_100;
/// Time after the start at which memory is read, when the initial page faults are over.
const SETTLED: Duration = Duration::from_millis(500);

/// Adds the figures of each port backend that this machine supports.
pub(crate) fn measure(run: &Run<'_>, result: &mut BenchResult) -> Result<(), Failure> {
    for backend in ["packet", "xdp"] {
        for ports in PORTS {
            let cables = Cables::connect_cables(ports)?;
            let config = configuration(run.bed.folder.path(), ports)?;
            let mut samples: [Vec<f64>; 4] = Default::default();
            for round in 0..run.rounds {
                match start(run.bed, &config, &cables, backend) {
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
                    result.figures.push(BenchFigure::new(
                        name,
                        unit,
                        ImprovementDirection::Smaller,
                        samples,
                    ));
                }
            }
        }
    }
    Ok(())
}

#[derive(Debug)]
struct StartFootprint {
    /// Time from the start of the program to its `ready` line.
    start_ms: f64,
    /// Time from SIGINT to the end of the program.
    end_ms: f64,
    /// Heaps and stacks (`RssAnon`).
    own_mib: f64,
    /// Memory for frames that has been touched (`RssShmem`): AF_XDP touches all that frames may take at the
    /// start. Rings of packet sockets are the kernel's memory, and in neither.
    shared_mib: f64,
}

fn start(bed: &TestBed, config: &Path, cables: &Cables, backend: &str) -> Result<StartFootprint, Failure> {
    let change = |command: &mut Command| {
        command
            .args(["switch", "run", "--workers", "1", "--config"])
            .arg(config);
        for n in 0..cables.0 {
            let (port, device) = (port_name(n), Cables::device(n));
            command.args(["--port", &format!("{port}={device},backend={backend}")]);
        }
    };
    let output = bed.folder.path().join("xoff.txt");
    let began = Instant::now();
    let mut switch = Program::start(env!("CARGO_BIN_EXE_xoff"), change, &output, bed.cores)?;
    switch.wait_for("ready:")?;
    let start_ms = began.elapsed().as_secs_f64() * 1e3;
    std::thread::sleep(SETTLED);
    let memory_mib = |name| {
        let kib = switch
            .memory_kib(name)
            .ok_or("it has ended, or /proc does not tell its memory")?;
        Ok::<f64, Failure>(kib as f64 / 1024.0)
    };
    let (own_mib, shared_mib) = (memory_mib("RssAnon:")?, memory_mib("RssShmem:")?);
    let ending = Instant::now();
    switch.end();
    Ok(StartFootprint {
        start_ms,
        end_ms: ending.elapsed().as_secs_f64() * 1e3,
        own_mib,
        shared_mib,
    })
}

/// A number of cables with both ends in this namespace. Dropping the value removes them.
struct Cables(usize);

impl Cables {
    fn connect_cables(count: usize) -> Result<Cables, Failure> {
        let cables = Cables(count);
        for n in 0..count {
            let [near, far] = [Cables::device(n), format!("q{n}")];
            add_veth(&near, &far, None, MTU).map_err(|error| error.to_string())?;
            set_link_up(&near)?;
            set_link_up(&far)?;
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
            // A missing cable is no error.
            let _ = delete_link(&Cables::device(n));
        }
    }
}

fn port_name(n: usize) -> String {
    format!("Ethernet{}", 4 * n)
}

fn configuration(folder: &Path, ports: usize) -> Result<std::path::PathBuf, Failure> {
    let ports: Vec<(String, u32)> = (0..ports).map(|n| (port_name(n), SPEED_MBPS)).collect();
    let text = build_preset("roce-lossless", &ports, REACTION_BUDGET)
        .map_err(|error| error.to_string())?
        .to_json();
    let path = folder.join("footprint.json");
    std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}
