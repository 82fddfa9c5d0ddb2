//! Threads that process the shards of a fabric during a run.
//!
//! A thread owns its shard only during a phase of a window. The calling thread sends the shard to it and takes it back,
//! so no data is shared. It processes the first shard itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::completions::CompletionHandler;
use super::handler_access::HandlerAccess;
use super::layout::Layout;
use super::shard::Shard;
use super::spinning::spin_until;
use super::window::{PhaseResult, WindowPhase};
use super::window_batch::{BatchExchange, deliver_mail_of_batch};

/// A function that each thread of a run calls at its start, with its number from 0. Used to pin the thread to a core.
pub(super) type ThreadStart = Arc<dyn Fn(usize) + Send + Sync>;

/// Number of checks before a waiting thread lets other threads run.
const SPINS: u32 = 2_000;

/// States of a [`Handover`].
const IDLE: u32 = 0;
const SENT: u32 = 1;
const DONE: u32 = 2;
const ENDED: u32 = 3;

/// Passes a shard to a thread and back.
#[derive(Debug, Default)]
struct Handover {
    /// One of the states above. The thread ends with `ENDED`.
    state: AtomicU32,
    work: Mutex<Option<Work>>,
}

#[derive(Debug)]
struct Work {
    shard: Shard,
    phase: WindowPhase,
    result: Option<PhaseResult>,
}

impl Handover {
    /// Waits until the state is one of two values, and returns it.
    fn wait_for(&self, wanted: [u32; 2], spins: u32) -> u32 {
        spin_until(spins, || {
            let state = self.state.load(Ordering::Acquire);
            wanted.contains(&state).then_some(state)
        })
    }

    /// Sends a shard to the thread.
    fn send_work(&self, work: Work) {
        self.put_work(work);
        self.state.store(SENT, Ordering::Release);
    }

    /// Returns a shard from the thread. Returns false if the run has ended in the meantime.
    fn return_work(&self, work: Work) -> bool {
        self.put_work(work);
        self.state
            .compare_exchange(SENT, DONE, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    fn put_work(&self, work: Work) {
        if let Ok(mut slot) = self.work.lock() {
            *slot = Some(work);
        }
    }

    fn take_work(&self) -> Option<Work> {
        self.work.lock().ok()?.take()
    }
}

/// Sets the state `ENDED` when its thread ends, also after a panic.
struct EndGuard<'a>(&'a Handover);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.state.store(ENDED, Ordering::Release);
    }
}

/// The threads of a run. Without threads, the calling thread processes all shards.
pub(super) struct Workers<'a> {
    handovers: &'a [Handover],
    exchange: &'a BatchExchange,
}

impl Workers<'_> {
    /// Processes a phase in all shards, each in its thread.
    ///
    /// # Panics
    /// Panics if a thread has panicked.
    pub(super) fn run_phase(
        &self,
        shards: &mut Vec<Shard>,
        phase: WindowPhase,
        layout: &Layout,
        handler: &mut HandlerAccess<'_, '_>,
    ) -> PhaseResult {
        if let WindowPhase::Batch(_) = phase {
            self.exchange.begin_batch();
        }
        let count = self.handovers.len();
        for (handover, shard) in self.handovers.iter().zip(shards.drain(shards.len() - count..)) {
            let work = Work {
                shard,
                phase,
                result: None,
            };
            handover.send_work(work);
        }
        let mut result = shards[0].run_phase(phase, (layout, handler), self.exchange);
        for handover in self.handovers {
            handover.wait_for([DONE, ENDED], self.exchange.spins());
            let work = handover.take_work().filter(|work| work.result.is_some());
            let Some(Work {
                shard,
                result: Some(of_shard),
                ..
            }) = work
            else {
                panic!("a thread of the run has panicked");
            };
            handover.state.store(IDLE, Ordering::Relaxed);
            shards.push(shard);
            result = result.and(of_shard);
        }
        if let WindowPhase::Batch(_) = phase {
            deliver_mail_of_batch(shards, self.exchange);
        }
        result
    }
}

/// Calls `run` while one thread for each shard except the first is waiting for work.
pub(super) fn with_workers<R>(
    shard_count: usize,
    thread_start: Option<&ThreadStart>,
    layout: &Layout,
    handler: &mut dyn CompletionHandler,
    run: impl FnOnce(&Workers<'_>, HandlerAccess<'_, '_>) -> R,
) -> R {
    let handovers: Vec<Handover> = (1..shard_count).map(|_| Handover::default()).collect();
    if handovers.is_empty() {
        let workers = Workers {
            handovers: &handovers,
            exchange: &BatchExchange::new(shard_count, 0),
        };
        return run(&workers, HandlerAccess::Exclusive(handler));
    }
    // A thread that waits for a core must not keep this core busy.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let spins = if shard_count <= cores { SPINS } else { 0 };
    let exchange = BatchExchange::new(shard_count, spins);
    let handler = Mutex::new(handler);
    thread::scope(|scope| {
        // If the calling thread panics, the threads still end.
        let _ends: Vec<EndGuard<'_>> = handovers.iter().map(EndGuard).collect();
        if let Some(start) = thread_start {
            start(0);
        }
        for (index, handover) in handovers.iter().enumerate() {
            let (handler, exchange) = (&handler, &exchange);
            scope.spawn(move || {
                if let Some(start) = thread_start {
                    start(index + 1);
                }
                process_work(handover, (layout, HandlerAccess::Shared(handler)), exchange);
            });
        }
        let workers = Workers {
            handovers: &handovers,
            exchange: &exchange,
        };
        run(&workers, HandlerAccess::Shared(&handler))
    })
}

/// Processes the work of a thread until the run ends.
fn process_work(
    handover: &Handover,
    (layout, mut handler): (&Layout, HandlerAccess<'_, '_>),
    exchange: &BatchExchange,
) {
    let _end = EndGuard(handover);
    while handover.wait_for([SENT, ENDED], exchange.spins()) == SENT {
        let Some(mut work) = handover.take_work() else {
            return;
        };
        work.result = Some(work.shard.run_phase(work.phase, (layout, &mut handler), exchange));
        if !handover.return_work(work) {
            return;
        }
    }
}
