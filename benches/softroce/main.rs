//! Comparison of Soft-RoCE traffic through xoff and through a Linux bridge, in turns with the same guests,
//! taps and programs.
//!
//!     testbeds/softroce/build && cargo bench --bench softroce
//!
//! The bench passes if no frame was dropped, no RDMA stack counted a gap, and xoff carries at least 0.9 of
//! the rate of the bridge.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

mod forwarders;
mod guest;
mod measure;
mod results;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use nix::sched::CloneFlags;
use xoff_ports::net;
use xoff_testing::{BenchOutcome, finish_bench};

use forwarders::{Forwarder, Taps};
use guest::{Guest, Image};
use measure::{PROGRAMS, Program, ProgramResult, TurnResult};
use results::Results;

/// Number of attempts of a turn without a result. A program that hangs still counts as a failure, as do drops
/// and gaps in any turn.
const TRIES: u32 = 3;

/// The reason why the bench failed.
pub(crate) type Failure = String;

/// RoCEv2 between two QEMU guests, through xoff and through a Linux bridge.
#[derive(Debug, Parser)]
#[command(name = "softroce")]
struct Arguments {
    /// Number of rounds; each round measures both forwarders once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// MTUs of the guests' interfaces.
    #[arg(long, value_delimiter = ',', default_value = "1500,4200")]
    mtus: Vec<u32>,
    /// Programs to run; by default all.
    #[arg(long, value_delimiter = ',', value_parser = ["ib_send_bw", "ib_write_bw", "ib_read_bw", "rping"])]
    programs: Vec<String>,
    /// Number of messages of 64 KiB that each perftest program sends. With the default, the median of five
    /// rounds varies by a few percent.
    #[arg(long, default_value_t = 4000)]
    messages: u32,
    /// Smallest permitted ratio of the median rates of xoff and of the bridge.
    #[arg(long, default_value_t = 0.9)]
    ratio: f64,
    /// Kernel of the guests.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/out/softroce/vmlinuz"))]
    kernel: PathBuf,
    /// Initramfs of the guests.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/out/softroce/initramfs.cpio"))]
    initrd: PathBuf,
    /// QEMU program, as a path or a name.
    #[arg(long, default_value = "qemu-system-x86_64")]
    qemu: PathBuf,
    /// File for the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Further arguments for `xoff switch run`, such as `--xoff=--workers --xoff=2`.
    #[arg(long, allow_hyphen_values = true)]
    xoff: Vec<String>,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("softroce: skipped: it takes minutes; run it with `cargo bench --bench softroce`");
        return ExitCode::SUCCESS;
    }
    let outcome = run(&arguments).map(BenchOutcome::from);
    finish_bench(outcome, &mut std::io::stdout(), &mut std::io::stderr())
}

impl Arguments {
    fn runs(&self, program: Program) -> bool {
        self.programs.is_empty() || self.programs.iter().any(|name| name == program.name())
    }
}

fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let image = Image::find(&arguments.qemu, &arguments.kernel, &arguments.initrd)?;
    for (tool, package) in [("ip", "iproute2"), ("setpriv", "util-linux")] {
        guest::find_program(tool).ok_or_else(|| format!("{tool} is missing; `apt-get install {package}`"))?;
    }
    // All devices are in a namespace that ends with this process.
    let entered = if nix::unistd::geteuid().is_root() {
        nix::sched::unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| errno.to_string())
    } else {
        net::enter_user_namespace(CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string())
    };
    entered.map_err(|why| format!("cannot make a network namespace: {why}; `xoff doctor` says more"))?;
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let mut bed = TestBed::boot(&image, folder.path())?;
    let mut results = Results::default();
    for &mtu in &arguments.mtus {
        bed.set_mtu(mtu)?;
        for round in 0..arguments.rounds {
            for program in PROGRAMS.into_iter().filter(|program| arguments.runs(*program)) {
                // The two forwarders run one after the other, and each is first in every other round, so that
                // a drift of the machine affects both.
                let order = match round % 2 {
                    0 => [Forwarder::Bridge, Forwarder::Xoff],
                    _ => [Forwarder::Xoff, Forwarder::Bridge],
                };
                for forwarder in order {
                    let turn = BenchTurn {
                        arguments,
                        mtu,
                        program,
                        forwarder,
                    };
                    turn.run_until_result(&mut bed, round, &mut results)?;
                }
            }
        }
    }
    print!("{}", results.table(arguments.ratio));
    if let Some(path) = &arguments.json {
        std::fs::write(path, results.json(arguments.ratio).to_string())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(results.passes(arguments.ratio))
}

/// Both guests, ready for commands, and their taps.
struct TestBed<'a> {
    image: &'a Image,
    folder: &'a Path,
    /// Server and client.
    guests: [Guest; 2],
    taps: Taps,
}

impl<'a> TestBed<'a> {
    fn boot(image: &'a Image, folder: &'a Path) -> Result<TestBed<'a>, Failure> {
        eprintln!("guests boot");
        let mut guests = [Guest::start(image, folder, 1)?, Guest::start(image, folder, 2)?];
        let taps = Taps::prepare()?;
        for guest in &mut guests {
            guest.wait_until_ready()?;
        }
        Ok(TestBed {
            image,
            folder,
            guests,
            taps,
        })
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), Failure> {
        self.guests.iter_mut().try_for_each(|guest| guest.set_mtu(mtu))
    }

    /// Replaces guests whose network hangs.
    fn reboot_guests(&mut self, mtu: u32) -> Result<(), Failure> {
        self.guests.iter_mut().for_each(Guest::end);
        *self = TestBed::boot(self.image, self.folder)?;
        self.set_mtu(mtu)
    }
}

/// One program through one forwarder.
struct BenchTurn<'a> {
    arguments: &'a Arguments,
    mtu: u32,
    program: Program,
    forwarder: Forwarder,
}

impl BenchTurn<'_> {
    fn run_until_result(
        &self,
        bed: &mut TestBed<'_>,
        round: u32,
        results: &mut Results,
    ) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let (outcome, measured) = self.run_once(bed)?;
            eprintln!("round {} {measured}", round + 1);
            results.add(measured);
            match outcome {
                ProgramResult::Rate(_) => return Ok(()),
                ProgramResult::NoClock => {}
                ProgramResult::Hung => bed.reboot_guests(self.mtu)?,
            }
        }
        let (program, forwarder) = (self.program.name(), self.forwarder.name());
        Err(format!(
            "{program} gave no result {TRIES} times in a row through {forwarder}"
        ))
    }

    fn run_once(&self, bed: &mut TestBed<'_>) -> Result<(ProgramResult, TurnResult), Failure> {
        let attached = self
            .forwarder
            .attach(bed.folder, self.mtu, &self.arguments.xoff)?;
        let ([server, client], taps) = (&mut bed.guests, &bed.taps);
        client.wait_for_peer()?;
        let taps_before = taps.dropped()?;
        let stacks_before = [server.counters()?, client.counters()?];
        let (began, cpu_before) = (Instant::now(), attached.cpu_time());
        let outcome = self
            .program
            .run(server, client, self.mtu, self.arguments.messages)?;
        let cores = (attached.cpu_time() - cpu_before).as_secs_f64() / began.elapsed().as_secs_f64();
        let mut measured = TurnResult::new(self.program, self.forwarder, self.mtu, outcome.rate());
        for (guest, before) in [&mut *server, &mut *client].into_iter().zip(stacks_before) {
            measured.add_counters(guest.name(), &before, &guest.counters()?);
        }
        measured.cores = outcome.rate().map(|_| cores);
        match outcome {
            ProgramResult::Rate(_) => {}
            ProgramResult::NoClock => measured
                .remarks
                .push("could not measure its guest's clock; taken again".to_owned()),
            ProgramResult::Hung => measured
                .problems
                .push("stood still; the guests were started anew".to_owned()),
        }
        let dropped = taps.dropped()? - taps_before;
        if dropped > 0 {
            measured
                .problems
                .push(format!("the taps dropped {dropped} frames"));
        }
        measured.problems.extend(attached.detach()?);
        Ok((outcome, measured))
    }
}
