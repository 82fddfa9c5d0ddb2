//! One run with two threads in virtual time, compared with two runs with one thread at the same time.
//!
//!     cargo bench --bench scale -- --threads
//!     cargo bench --bench scale -- --threads --labs rail-16 --rounds 5
//!
//! Both programs with one thread use the same caches and the same memory as the two threads, so the ratio states how
//! much the threads lose by waiting for each other and by exchanging frames. It needs two CPUs without other work. A
//! time includes the start of the fabric, which one thread does.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use core_affinity::CoreId;
use xoff_testing::repository_root;

/// A lab of testbeds/scale, possibly with other bytes of its job, and the smallest ratio.
struct ThreadLab {
    name: &'static str,
    file: &'static str,
    /// Text of the lab file, and its replacement.
    change: Option<[&'static str; 2]>,
    /// Model time at which the run ends.
    until: Option<&'static str>,
    limit: f64,
}

const LABS: [ThreadLab; 4] = [
    ThreadLab {
        name: "fat-tree-k8",
        file: "fat-tree-k8",
        change: None,
        until: None,
        limit: 0.85,
    },
    // 256 KiB in each step.
    ThreadLab {
        name: "rail-1024-ring",
        file: "rail-1024-ring",
        change: None,
        until: Some("3ms"),
        limit: 0.85,
    },
    ThreadLab {
        name: "rail-1024-ring-1m",
        file: "rail-1024-ring",
        change: Some(["bytes: 256M", "bytes: 1M"]),
        until: None,
        limit: 0.7,
    },
    ThreadLab {
        name: "rail-16",
        file: "rail-16",
        change: None,
        until: Some("20ms"),
        limit: 0.7,
    },
];

/// Runs the labs and prints the ratios. Returns whether all medians are within their limits.
pub(crate) fn run(program: &Path, rounds: u32, labs: &[String]) -> Result<bool, String> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let [first, second, ..] = cores[..] else {
        return Err("two CPUs are needed, and this process may use only one".to_owned());
    };
    let unknown = labs.iter().find(|name| LABS.iter().all(|lab| lab.name != **name));
    if let Some(name) = unknown {
        let names = LABS.map(|lab| lab.name).join(", ");
        return Err(format!("no lab `{name}`; the labs are {names}"));
    }
    let mut all_within = true;
    for lab in &LABS {
        if !labs.is_empty() && !labs.iter().any(|name| name == lab.name) {
            continue;
        }
        let mut ratios = Vec::new();
        for _ in 0..rounds {
            ratios.push(measure(program, lab, [first, second])?);
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        let is_within = median >= lab.limit;
        all_within &= is_within;
        println!(
            "{:<20} {median:.2} ({:.2} to {:.2}), at least {}{}",
            lab.name,
            ratios[0],
            ratios[ratios.len() - 1],
            lab.limit,
            if is_within { "" } else { "  <- too low" }
        );
    }
    Ok(all_within)
}

/// Returns the rate of a run with two threads, divided by the sum of the rates of two runs with one thread.
fn measure(program: &Path, lab: &ThreadLab, cores: [CoreId; 2]) -> Result<f64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("lab.xoff.yml");
    let original = repository_root()
        .join("testbeds/scale")
        .join(format!("{}.xoff.yml", lab.file));
    let describe = |error| format!("{}: {error}", original.display());
    let mut text = std::fs::read_to_string(&original).map_err(describe)?;
    if let Some([from, to]) = lab.change {
        if !text.contains(from) {
            return Err(format!("{}: `{from}` not found", original.display()));
        }
        text = text.replace(from, to);
    }
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let single = |core| run_lab(program, &file, lab.until, 1, Some(core));
    let times = thread::scope(|scope| {
        let runs = cores.map(|core| scope.spawn(move || single(core)));
        runs.map(|run| {
            run.join()
                .unwrap_or_else(|_| Err("a run has panicked".to_owned()))
        })
    });
    let mut rates = 0.0;
    for time in times {
        rates += 1.0 / time?;
    }
    let with_two_threads_s = run_lab(program, &file, lab.until, 2, None)?;
    Ok(1.0 / with_two_threads_s / rates)
}

/// Runs a lab and returns its time in seconds. If `core` is given, the run uses only this core.
fn run_lab(
    program: &Path,
    lab: &Path,
    until: Option<&str>,
    threads: usize,
    core: Option<CoreId>,
) -> Result<f64, String> {
    // The program inherits the core of this thread.
    if let Some(core) = core
        && !core_affinity::set_for_current(core)
    {
        return Err(format!("cannot use CPU {}", core.id));
    }
    let mut command = Command::new(program);
    command.args(["lab", "run", "--virtual"]).arg(lab);
    command.args(["--threads", &threads.to_string()]);
    if let Some(until) = until {
        command.args(["--until", until]);
    }
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    // A run until some time ends before its jobs.
    if !status.success() && (until.is_none() || status.code() != Some(1)) {
        return Err(format!("{}: {status}", lab.display()));
    }
    Ok(start.elapsed().as_secs_f64())
}
