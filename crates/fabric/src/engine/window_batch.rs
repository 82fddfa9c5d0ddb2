//! Batches of windows that the threads of a run process without the calling thread.
//!
//! In a batch, completions act only on their own hosts, and nobody observes events. A shard then needs only the frames
//! that other shards have sent in the window before. They arrive at the switches that are linked to other shards. So
//! each shard first processes its other partitions, which are all hosts and the inner switches. Then it waits until all
//! shards have finished the window before, and processes the switches that are linked to other shards. A shard with
//! less work in one window thus does not wait if it has more in the next one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;

use xoff_dataplane::Picos;

use super::Fabric;
use super::handler_access::{HandlerAccess, lock_spinning};
use super::layout::Layout;
use super::mail::MailedFrame;
use super::shard::Shard;
use super::spinning::spin_until;
use super::window::{BATCH_WINDOWS_MAX, HostWindow, PhaseResult, Window, WindowBatch};

/// What the shards exchange during a batch.
#[derive(Debug, Default)]
pub(super) struct BatchExchange {
    progress: Vec<ShardProgress>,
    /// Frames from one shard to another. The frames of odd windows have a list of their own, because a shard can
    /// finish a window before another shard has taken the frames of the window before. The index is
    /// `(from * shards + to) * 2 + window % 2`.
    mail: Vec<Mutex<Vec<MailedFrame>>>,
    /// Number of windows that the shards may process.
    allowed: AtomicU64,
    /// Whether no further window is allowed.
    has_ended: Mutex<bool>,
    /// Whether a thread has panicked.
    is_aborted: AtomicBool,
    /// Number of checks before a waiting thread lets other threads run.
    spins: u32,
}

/// Number of windows that a shard has finished, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ShardProgress(AtomicU64);

impl BatchExchange {
    /// Creates the exchange of a number of shards. See [`spin_until`] for `spins`.
    pub(super) fn new(shards: usize, spins: u32) -> BatchExchange {
        BatchExchange {
            spins,
            progress: (0..shards).map(|_| ShardProgress::default()).collect(),
            mail: (0..shards * shards * 2).map(|_| Mutex::default()).collect(),
            ..BatchExchange::default()
        }
    }

    /// Returns the number of checks before a waiting thread lets other threads run.
    pub(super) fn spins(&self) -> u32 {
        self.spins
    }

    /// Prepares the exchange for a batch, while no shard processes one.
    pub(super) fn begin_batch(&self) {
        for progress in &self.progress {
            progress.0.store(0, Ordering::Relaxed);
        }
        self.allowed.store(1, Ordering::Relaxed);
        *lock_spinning(&self.has_ended) = false;
    }

    /// Returns whether a window may be processed. The answer is the same for all shards. `are_completions_local`
    /// returns whether all completions of the window act on their own hosts.
    fn may_begin(&self, window: u64, are_completions_local: impl FnOnce() -> bool) -> bool {
        if window < self.allowed.load(Ordering::Acquire) {
            return true;
        }
        let mut has_ended = lock_spinning(&self.has_ended);
        if window < self.allowed.load(Ordering::Relaxed) {
            return true;
        }
        if *has_ended || !are_completions_local() {
            *has_ended = true;
            return false;
        }
        self.allowed.store(window + 1, Ordering::Release);
        true
    }

    /// Allows no further window.
    fn end(&self) {
        *lock_spinning(&self.has_ended) = true;
    }

    /// Waits until all shards have finished a number of windows. Returns false if a thread has panicked.
    fn wait_for_all(&self, windows: u64) -> bool {
        self.progress.iter().all(|progress| {
            spin_until(self.spins, || {
                if progress.0.load(Ordering::Acquire) >= windows {
                    Some(true)
                } else {
                    self.is_aborted.load(Ordering::Relaxed).then_some(false)
                }
            })
        })
    }

    /// Marks a window as finished. The frames for other shards must be in the lists.
    fn finish_window(&self, shard: u32, window: u64) {
        self.progress[shard as usize]
            .0
            .store(window + 1, Ordering::Release);
    }

    fn mail(&self, from: usize, to: usize, window: u64) -> MutexGuard<'_, Vec<MailedFrame>> {
        let shards = self.progress.len();
        lock_spinning(&self.mail[(from * shards + to) * 2 + (window % 2) as usize])
    }
}

/// Makes all other shards end a batch if the thread panics.
struct AbortGuard<'a>(&'a BatchExchange);

impl Drop for AbortGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.is_aborted.store(true, Ordering::Relaxed);
        }
    }
}

impl Shard {
    /// Processes a batch of windows.
    pub(super) fn run_batch(
        &mut self,
        batch: WindowBatch,
        (layout, handler): (&Layout, &mut HandlerAccess<'_, '_>),
        exchange: &BatchExchange,
    ) -> PhaseResult {
        let _abort = AbortGuard(exchange);
        let mut result = PhaseResult::NOTHING;
        for number in 0..batch.windows {
            let Some(window) = batch.window(number) else { break };
            // Other shards can still be in the previous window, and have finished the windows before it. A message that
            // is not posted yet is therefore posted in the previous window or later. It does not arrive in this window,
            // because two links are longer than two windows.
            if !exchange.may_begin(number, || self.completions_are_local(window, layout, handler)) {
                break;
            }
            self.prepare(window);
            let (hosts, inner) = (self.due_host_groups(), self.due_inner_partitions());
            let mut of_window = self.run_hosts_of_batch(hosts, window, (layout, handler));
            let mut run = |shard: &mut Shard, positions| {
                let hosts = HostWindow::WithLocalCompletions;
                shard.run_partitions(positions, window, hosts, (layout, handler))
            };
            of_window = of_window.and(run(self, hosts..inner));
            if !exchange.wait_for_all(number) {
                break;
            }
            if number > 0 {
                self.take_mail_of_batch(exchange, number - 1);
                self.add_due_switches(inner, window);
            }
            let outer = inner..self.due_partitions.len();
            of_window = of_window.and(run(self, outer));
            if !self.due_partitions.is_empty() {
                of_window.windows_with_events = 1 << number;
            }
            self.put_mail_of_batch(exchange, number);
            exchange.finish_window(self.number, number);
            if of_window.is_stuck {
                exchange.end();
            }
            result = result.and(of_window);
        }
        result
    }

    /// Processes the first `hosts` prepared partitions, which are groups of hosts.
    ///
    /// Threads use the handler one after the other. So a shard first processes its hosts up to their completions, and
    /// then locks the handler once for many hosts. After that, the hosts with remaining events continue.
    fn run_hosts_of_batch(
        &mut self,
        hosts: usize,
        window: Window,
        (layout, handler): (&Layout, &mut HandlerAccess<'_, '_>),
    ) -> PhaseResult {
        let completions = HostWindow::WithDelayedCompletions;
        let mut result = self.run_partitions(0..hosts, window, completions, (layout, handler));
        let prepared = std::mem::take(&mut self.due_partitions);
        loop {
            self.handle_delayed_completions(layout, handler);
            // The rest of the events of a stuck host would never end.
            if result.is_stuck {
                break;
            }
            let mut continued = std::mem::take(&mut self.added_partitions);
            self.take_due_partitions(window, &mut continued);
            let count = continued.len();
            self.due_partitions = continued;
            debug_assert_eq!(self.due_host_groups(), count);
            result = result.and(self.run_partitions(0..count, window, completions, (layout, handler)));
            self.added_partitions = std::mem::take(&mut self.due_partitions);
            if count == 0 {
                break;
            }
        }
        self.due_partitions = prepared;
        result
    }

    /// Returns whether all completions of a window act on their own hosts, as far as this shard can know.
    fn completions_are_local(
        &self,
        window: Window,
        layout: &Layout,
        handler: &mut HandlerAccess<'_, '_>,
    ) -> bool {
        let mut misses_messages = |host: usize, messages| {
            let position = layout.hosts[host];
            let is_known = position.shard == self.number;
            is_known.then(|| self.misses_messages(position.local as usize, messages, window.limit))
        };
        handler.with(|handler| handler.completions_are_local(self.number as usize, &mut misses_messages))
    }

    /// Takes the frames that other shards have sent in a window of the batch.
    fn take_mail_of_batch(&mut self, exchange: &BatchExchange, window: u64) {
        for from in 0..exchange.progress.len() {
            if from != self.number as usize {
                let mut frames = exchange.mail(from, self.number as usize, window);
                self.receive_mail(frames.drain(..));
            }
        }
    }

    /// Puts the frames for other shards into the lists of a window of the batch.
    fn put_mail_of_batch(&mut self, exchange: &BatchExchange, window: u64) {
        for (to, outbox) in self.outboxes.iter_mut().enumerate() {
            if !outbox.frames.is_empty() {
                let mut frames = exchange.mail(self.number as usize, to, window);
                debug_assert!(frames.is_empty());
                std::mem::swap(&mut *frames, &mut outbox.frames);
                outbox.first = Picos::NEVER;
            }
        }
    }
}

/// Passes the frames that the last windows of a batch have sent to the receiving shards.
pub(super) fn deliver_mail_of_batch(shards: &mut [Shard], exchange: &BatchExchange) {
    for from in 0..shards.len() {
        for (to, shard) in shards.iter_mut().enumerate() {
            for window in 0..2 {
                let mut frames = exchange.mail(from, to, window);
                let first = frames.iter().map(|frame| frame.at).min();
                shard.first_mail = shard.first_mail.min(first.unwrap_or(Picos::NEVER));
                shard.inboxes[from].append(&mut frames);
            }
        }
    }
}

impl Fabric {
    /// Returns the largest number of windows that the threads may process before the limits of the run are checked
    /// again. The limit of events is exact, so the windows must have fewer events than are left.
    pub(super) fn batch_windows(&self) -> u64 {
        if self.hosts_linked || self.frame_memory_bytes() > self.frame_memory_max_bytes / 2 {
            return 1;
        }
        let left = self.events_max.saturating_sub(self.events());
        (left / self.events_per_window_max.max(1)).min(BATCH_WINDOWS_MAX)
    }
}
