//! Independent runs over the cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, unbounded};

use xoff_telemetry::failure::Failure;

/// How often an interrupt is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// What came of the runs.
#[derive(Debug)]
pub enum Pooled<T> {
    /// All of them, in their order.
    Done(Vec<T>),
    /// They were interrupted after so many.
    Interrupted(usize),
}

/// Does `work` for 0 to `count` - 1 in so many threads, and hands back the results in that order. `progress` hears how many
/// are done. Threads that are busy when `stop` becomes true are left behind: the process is about to end.
///
/// # Errors
/// The failure of the earliest run that has one, whichever of several fails first.
pub fn run_all<T: Send + 'static>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T, Failure> + Send + Sync + 'static,
    stop: &AtomicBool,
    mut progress: impl FnMut(usize),
) -> Result<Pooled<T>, Failure> {
    let (next, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (results, received) = unbounded();
    let work = Arc::new(work);
    for number in 0..threads.clamp(1, count.max(1)) {
        let (next, failed, results) = (Arc::clone(&next), Arc::clone(&failed), results.clone());
        let work = Arc::clone(&work);
        let body = move || {
            // Runs are begun in their order, so all before a failed one have been begun, and will be heard of.
            while !failed.load(Ordering::Relaxed) {
                let run = next.fetch_add(1, Ordering::Relaxed);
                if run >= count {
                    break;
                }
                let result = work(run);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                if results.send((run, result)).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new()
            .name(format!("xoff-run-{number}"))
            .spawn(body)
            .map_err(|error| {
                Failure::environment("cannot start a thread")
                    .because(error)
                    .fix("use fewer: --jobs 1")
            })?;
    }
    drop(results);
    let mut done: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut failure: Option<(usize, Failure)> = None;
    let mut heard = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(Pooled::Interrupted(heard));
        }
        match received.recv_timeout(LOOK) {
            Ok((run, Ok(figures))) => done[run] = Some(figures),
            Ok((run, Err(error))) => {
                if failure.as_ref().is_none_or(|(earliest, _)| run < *earliest) {
                    failure = Some((run, error));
                }
            }
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        heard += 1;
        progress(heard);
    }
    if let Some((_, failure)) = failure {
        return Err(failure);
    }
    let all: Option<Vec<T>> = done.into_iter().collect();
    all.map(Pooled::Done)
        .ok_or_else(|| Failure::environment("a run ended without a result"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whoever_ends_first() {
        let work = |run: usize| {
            // The first ones take longest.
            thread::sleep(Duration::from_millis(20_u64.saturating_sub(5 * run as u64)));
            Ok(run)
        };
        let Pooled::Done(done) = run_all(9, 4, work, &AtomicBool::new(false), |_| {}).unwrap() else {
            panic!("not done");
        };
        assert_eq!(done, (0..9).collect::<Vec<usize>>());
    }

    #[test]
    fn the_earliest_failure_is_told() {
        let work = |run: usize| match run {
            3 => {
                thread::sleep(Duration::from_millis(30));
                Err(Failure::configuration("three"))
            }
            4 => Err(Failure::configuration("four")),
            _ => Ok(run),
        };
        let failure = run_all(1_000, 4, work, &AtomicBool::new(false), |_| {}).unwrap_err();
        assert_eq!(failure.what, "three");
    }

    #[test]
    fn an_interrupt_does_not_wait_for_runs() {
        let work = |run: usize| {
            thread::sleep(Duration::from_secs(if run == 0 { 0 } else { 60 }));
            Ok(run)
        };
        let stop = AtomicBool::new(false);
        let begun = std::time::Instant::now();
        let pooled = run_all(3, 2, work, &stop, |_| stop.store(true, Ordering::Relaxed)).unwrap();
        assert!(matches!(pooled, Pooled::Interrupted(1)), "{pooled:?}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
