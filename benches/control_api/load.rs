//! The load of a run: all kinds of clients one after the other, and `xoff show` once a second.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use xoff_control::{Client, ControlAddress};

use crate::{Failure, clients};

/// Name of the lab of the test bed.
const LAB: &str = "soak";
/// Longest wait for the start of the lab.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two `xoff show`.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// What the clients saw.
#[derive(Debug, Default)]
pub(crate) struct LoadResult {
    /// Longest time of `xoff show`.
    pub(crate) show_max: Duration,
    /// Number of `xoff show` that failed.
    pub(crate) failed_shows: u32,
    /// Number of changes per second that took effect, of the kind `changes`.
    pub(crate) changes_per_second: f64,
    /// Number of changes that got the status 429.
    pub(crate) refused_changes: u64,
}

/// Runs all kinds of clients against the lab, each for `time`.
pub(crate) fn run_clients(time: Duration) -> Result<LoadResult, Failure> {
    let owner = nix::unistd::geteuid().as_raw();
    let socket = xoff_lab::lab_socket_address(owner, LAB).map_err(|error| error.to_string())?;
    let address = ControlAddress::Lab { socket, owner };
    let start = Instant::now();
    while generation(&address).is_none() {
        if start.elapsed() > START_TIMEOUT {
            return Err("the lab does not answer".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let is_done = AtomicBool::new(false);
    let name = format!("xoff.lab.{owner}.{LAB}");
    std::thread::scope(|scope| {
        let shows = scope.spawn(|| show_until(&is_done));
        let result = clients::KINDS
            .iter()
            .try_fold(LoadResult::default(), |result, kind| {
                run_kind(kind, &name, &address, time).map(|(rate, refused)| match *kind {
                    "changes" => LoadResult {
                        changes_per_second: rate,
                        refused_changes: refused,
                        ..result
                    },
                    _ => result,
                })
            });
        is_done.store(true, Ordering::Relaxed);
        let (show_max, failed_shows) = shows.join().map_err(|_| "the thread of xoff show died")?;
        Ok(LoadResult {
            show_max,
            failed_shows,
            ..result?
        })
    })
}

/// Runs the clients of a kind. Returns the changes per second and the number of refused changes.
fn run_kind(kind: &str, name: &str, address: &ControlAddress, time: Duration) -> Result<(f64, u64), Failure> {
    let before = generation(address);
    let clients = clients::start(kind, name, time)?;
    let output = clients.wait_with_output().map_err(|error| error.to_string())?;
    let refused = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .unwrap_or(0);
    let (Some(before), Some(after)) = (before, generation(address)) else {
        return Err(format!("the lab does not answer after the clients {kind}"));
    };
    Ok(((after - before) as f64 / time.as_secs_f64(), refused))
}

/// Returns the generation of the configuration. `None` if the lab does not answer.
fn generation(address: &ControlAddress) -> Option<u64> {
    let reply = Client::connect(address)
        .ok()?
        .patch_config(&serde_json::json!({}), true, false);
    Some(reply.ok()?.generation)
}

/// Runs `xoff show counters` once a second. Returns the longest time and the number of failures.
fn show_until(is_done: &AtomicBool) -> (Duration, u32) {
    let (mut longest, mut failures) = (Duration::ZERO, 0);
    while !is_done.load(Ordering::Relaxed) {
        let start = Instant::now();
        let status = Command::new(env!("CARGO_BIN_EXE_xoff"))
            .args(["show", "counters", "--lab", LAB])
            .stdout(Stdio::null())
            .status();
        longest = longest.max(start.elapsed());
        failures += u32::from(!status.is_ok_and(|status| status.success()));
        std::thread::sleep(SHOW_INTERVAL);
    }
    (longest, failures)
}
