//! Tests of the cores on which the worker threads run, as reported by the kernel.

use std::collections::BTreeMap;
use std::fs;

use libtest_mimic::{Completion, Failed};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;
use xoff_runtime::workers::pin::{CoreBinding, CorePinning, bind_to_core};
use xoff_telemetry::allowed_cpus;

use crate::support::{CompletionTest, KernelFeatures, check, check_equal};
use crate::switch_process::SwitchProcess;

pub(crate) const TESTS: &[CompletionTest] = &[
    (
        "workers_run_on_their_pinned_cores",
        KernelFeatures::Netns,
        check_pinned_workers,
    ),
    (
        "more_workers_than_cores_are_not_pinned_and_this_is_reported",
        KernelFeatures::Netns,
        check_unpinned_workers,
    ),
    (
        "a_thread_is_released_while_its_core_is_busy",
        KernelFeatures::Netns,
        check_release_of_crowded_core,
    ),
];

fn check_release_of_crowded_core() -> Result<Completion, Failed> {
    let allowed = allowed_cpus();
    let [core, _, ..] = allowed[..] else {
        return Ok(Completion::ignored_with("it takes two cores"));
    };
    if CoreBinding::new(&CorePinning::List(vec![core]), Some(core), &allowed).is_some() {
        return Err("a thread whose core the user chose is never released".into());
    }
    // The thread belongs to this test and ends with it.
    bind_to_core(Some(core))?;
    let mut binding = CoreBinding::new(&CorePinning::Auto, Some(core), &allowed).ok_or("no binding")?;
    for (is_crowded, expected) in [
        (false, &[core][..]),
        (true, &allowed),
        (true, &allowed),
        (false, &[core]),
    ] {
        binding.update(is_crowded);
        check_equal(
            allowed_cpus().as_slice(),
            expected,
            "the allowed cores of the thread",
        )?;
    }
    Ok(Completion::Completed)
}

fn check_pinned_workers() -> Result<Completion, Failed> {
    let [first, second, ..] = allowed_cpus()[..] else {
        return Ok(Completion::ignored_with("it takes two cores"));
    };
    // The later core comes first, because a switch that ignored the given order would otherwise pass.
    let pin = format!("{second},{first}");
    let mut switch_process = SwitchProcess::start(&json!({}), 2, &["--pin", &pin, "--workers", "2"])?;
    let cores = allowed_cores_by_thread(switch_process.pid())?;
    check_equal(
        cores.get("xoff-switch"),
        Some(&second.to_string()),
        "the switch's worker",
    )?;
    check_equal(cores.get("xoff-io0"), Some(&first.to_string()), "the I/O worker")?;
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}

fn check_unpinned_workers() -> Result<Completion, Failed> {
    let Some(&core) = allowed_cpus().first() else {
        return Ok(Completion::ignored_with(
            "the kernel does not say which cores are allowed",
        ));
    };
    // The thread belongs to this test. The switch inherits its permitted cores.
    let mut only = CpuSet::new();
    only.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &only)?;
    let mut switch_process = SwitchProcess::start(&json!({}), 2, &["--workers", "2"])?;
    let words = switch_process.stderr()?;
    check(words.contains("not pinned: 2 threads"), || words.clone())?;
    let cores = allowed_cores_by_thread(switch_process.pid())?;
    for thread in ["xoff-switch", "xoff-io0"] {
        check_equal(cores.get(thread), Some(&core.to_string()), thread)?;
    }
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}

/// Returns the `Cpus_allowed_list` of each thread by its name.
fn allowed_cores_by_thread(pid: Pid) -> Result<BTreeMap<String, String>, Failed> {
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
