//! Executes independent runs in parallel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, unbounded};

use xoff_telemetry::failure::Failure;

/// Wall time between two checks for an interrupt.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The result of [`run_in_parallel`].
#[derive(Debug)]
pub enum ParallelRunsResult<T> {
    /// The results of all runs, in the order of the runs.
    Done(Vec<T>),
    /// `stop` became true. The value is the number of finished runs.
    Interrupted(usize),
}

/// Calls `work` with each number from 0 to `count` - 1 and returns the results in this order. The calls run
/// in `threads` threads, at least 1. `progress` receives the number of finished runs after each run, and at least
/// every 50 ms. If `stop` becomes true, the function returns soon. The threads of unfinished runs then continue until
/// the process ends.
///
/// # Errors
/// Returns the failure of a run. If several runs fail, this is the run with the lowest number. After a
/// failure, no further runs start. Also returns a failure if a thread cannot be started.
pub fn run_in_parallel<T: Send + 'static>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T, Failure> + Send + Sync + 'static,
    stop: &AtomicBool,
    mut progress: impl FnMut(usize),
) -> Result<ParallelRunsResult<T>, Failure> {
    let (next, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (results, received) = unbounded();
    let work = Arc::new(work);
    for number in 0..threads.clamp(1, count.max(1)) {
        let (next, failed, results) = (Arc::clone(&next), Arc::clone(&failed), results.clone());
        let work = Arc::clone(&work);
        let body = move || {
            // Runs start in the order of their numbers. All runs before a failed run have therefore started,
            // and their results arrive.
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
                    .fix("use fewer threads: --jobs 1")
            })?;
    }
    drop(results);
    let mut done: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut failure: Option<(usize, Failure)> = None;
    let mut finished = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(ParallelRunsResult::Interrupted(finished));
        }
        match received.recv_timeout(INTERRUPT_POLL_INTERVAL) {
            Ok((run, Ok(figures))) => done[run] = Some(figures),
            Ok((run, Err(error))) => {
                if failure.as_ref().is_none_or(|(earliest, _)| run < *earliest) {
                    failure = Some((run, error));
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                progress(finished);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        finished += 1;
        progress(finished);
    }
    if let Some((_, failure)) = failure {
        return Err(failure);
    }
    let all: Option<Vec<T>> = done.into_iter().collect();
    all.map(ParallelRunsResult::Done)
        .ok_or_else(|| Failure::environment("a run ended without a result"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_runs() {
        let work = |run: usize| {
            // The first runs take the most time.
            thread::sleep(Duration::from_millis(20_u64.saturating_sub(5 * run as u64)));
            Ok(run)
        };
        let ParallelRunsResult::Done(done) =
            run_in_parallel(9, 4, work, &AtomicBool::new(false), |_| {}).unwrap()
        else {
            panic!("not done");
        };
        assert_eq!(done, (0..9).collect::<Vec<usize>>());
    }

    #[test]
    fn the_failure_of_the_lowest_run_is_returned() {
        let work = |run: usize| match run {
            3 => {
                thread::sleep(Duration::from_millis(30));
                Err(Failure::configuration("three"))
            }
            4 => Err(Failure::configuration("four")),
            _ => Ok(run),
        };
        let failure = run_in_parallel(1_000, 4, work, &AtomicBool::new(false), |_| {}).unwrap_err();
        assert_eq!(failure.what, "three");
    }

    #[test]
    fn an_interrupt_does_not_wait_for_runs_in_progress() {
        let work = |run: usize| {
            thread::sleep(Duration::from_secs(if run == 0 { 0 } else { 60 }));
            Ok(run)
        };
        let stop = AtomicBool::new(false);
        let begun = std::time::Instant::now();
        let pooled =
            run_in_parallel(3, 2, work, &stop, |done| stop.store(done > 0, Ordering::Relaxed)).unwrap();
        assert!(matches!(pooled, ParallelRunsResult::Interrupted(1)), "{pooled:?}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
