//! Which cores the workers run on, as the kernel says.

use std::collections::BTreeMap;
use std::fs;

use libtest_mimic::{Completion, Failed};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;
use xoff_runtime::workers::pin::{CoreBinding, CorePinning, bind_to_core};
use xoff_telemetry::allowed_cpus;

use crate::bench::Bench;
use crate::support::{Needs, Reporting, check, same};

pub(crate) const TESTS: &[Reporting] = &[
    ("workers_run_where_they_are_pinned", Needs::Netns, pinned),
    (
        "more_workers_than_cores_are_not_pinned_and_that_is_said",
        Needs::Netns,
        not_pinned,
    ),
    (
        "a_thread_is_released_while_its_core_is_crowded",
        Needs::Netns,
        released_while_crowded,
    ),
];

fn released_while_crowded() -> Result<Completion, Failed> {
    let allowed = allowed_cpus();
    let [core, _, ..] = allowed[..] else {
        return Ok(Completion::ignored_with("it takes two cores"));
    };
    if CoreBinding::new(&CorePinning::List(vec![core]), Some(core), &allowed).is_some() {
        return Err("a thread whose core the user chose is never released".into());
    }
    // This thread ends with the test.
    bind_to_core(Some(core))?;
    let mut binding = CoreBinding::new(&CorePinning::Auto, Some(core), &allowed).ok_or("no binding")?;
    for (is_crowded, expected) in [
        (false, &[core][..]),
        (true, &allowed),
        (true, &allowed),
        (false, &[core]),
    ] {
        binding.update(is_crowded);
        same(
            allowed_cpus().as_slice(),
            expected,
            "the allowed cores of the thread",
        )?;
    }
    Ok(Completion::Completed)
}

fn pinned() -> Result<Completion, Failed> {
    let [first, second, ..] = allowed_cpus()[..] else {
        return Ok(Completion::ignored_with("it takes two cores"));
    };
    // The later core first: a switch that took the cores in its own order would be found out.
    let pin = format!("{second},{first}");
    let mut bench = Bench::start(&json!({}), 2, &["--pin", &pin, "--workers", "2"])?;
    let cores = cores(bench.pid())?;
    same(
        cores.get("xoff-switch"),
        Some(&second.to_string()),
        "the switch's worker",
    )?;
    same(cores.get("xoff-io0"), Some(&first.to_string()), "the I/O worker")?;
    bench.end(Signal::SIGTERM)?.in_order()?;
    Ok(Completion::Completed)
}

fn not_pinned() -> Result<Completion, Failed> {
    let Some(&core) = allowed_cpus().first() else {
        return Ok(Completion::ignored_with(
            "the kernel does not say which cores are allowed",
        ));
    };
    // This thread ends with the test; the switch inherits what it may.
    let mut only = CpuSet::new();
    only.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &only)?;
    let mut bench = Bench::start(&json!({}), 2, &["--workers", "2"])?;
    let words = bench.stderr()?;
    check(words.contains("not pinned: 2 threads"), || words.clone())?;
    let cores = cores(bench.pid())?;
    for thread in ["xoff-switch", "xoff-io0"] {
        same(cores.get(thread), Some(&core.to_string()), thread)?;
    }
    bench.end(Signal::SIGTERM)?.in_order()?;
    Ok(Completion::Completed)
}

/// `Cpus_allowed_list` of each thread, by its name.
fn cores(pid: Pid) -> Result<BTreeMap<String, String>, Failed> {
    let mut cores = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value
                .map(|value| value.trim().to_owned())
                .ok_or_else(|| format!("no {name} in {status}"))
        };
        cores.insert(field("Name:")?, field("Cpus_allowed_list:")?);
    }
    Ok(cores)
}
