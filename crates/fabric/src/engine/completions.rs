//! What happens after the completion of a request at a host: the interface between the event loop and the jobs.

use std::fmt;
use std::ops::ControlFlow;

use xoff_dataplane::Picos;
use xoff_host::Host;
use xoff_rdma::Completion;
#[cfg(doc)]
use xoff_rdma::CompletionKind;
pub use xoff_workload::CompletionScope;

use super::layout::Layout;
use super::shard::{HostNode, Shard};
use crate::job_hosts::JobHosts;
use crate::observer::Observer;

/// Handles the completions of hosts during [`Fabric::run_with`](super::Fabric::run_with), and acts on hosts at times of
/// its own.
pub trait CompletionHandler: Send {
    /// Returns the effect of completions until a message that is posted from now on can arrive. This is longer than the
    /// next two windows, because such a message crosses two links.
    fn scope(&self) -> CompletionScope;

    /// Returns whether no step of a job ends in the next window. Called only with
    /// [`CompletionScope::CompletingHostUntilStepEnds`]. `misses_messages` returns whether a host certainly receives
    /// fewer than a number of messages in the window, or `None` if the caller does not know the host. One such host for
    /// each job is enough. `false` means that the end is possible. `caller` is a small number of the caller, because
    /// callers know different hosts.
    fn no_step_ends(
        &mut self,
        caller: usize,
        misses_messages: &mut dyn FnMut(usize, u64) -> Option<bool>,
    ) -> bool;

    /// Returns whether each completion of the next window acts only on the host at which it occurs. See
    /// [`CompletionHandler::no_step_ends`] for the arguments.
    fn completions_are_local(
        &mut self,
        caller: usize,
        misses_messages: &mut dyn FnMut(usize, u64) -> Option<bool>,
    ) -> bool {
        match self.scope() {
            CompletionScope::AllHosts => false,
            CompletionScope::CompletingHost => true,
            CompletionScope::CompletingHostUntilStepEnds => self.no_step_ends(caller, misses_messages),
        }
    }

    /// Takes the completions ([`JobHosts::take_completions`]) and acts on them. Called in windows in which completions
    /// act only on the host at which they occur. `hosts` contains the hosts of one shard. Several threads call this
    /// method, one after the other and in any order of their hosts, so the result must not depend on this order.
    ///
    /// Only the completion of a received message ([`CompletionKind::Received`]) may change the host. Other completions
    /// are possibly taken later in the window, after the next events of the host.
    fn handle_local_completions(&mut self, hosts: &mut FabricHosts<'_>);

    /// Takes the completions and acts on any host. Called after each event with a completion, in the order of time.
    /// With `Break`, the run ends after this event.
    fn handle_completions(&mut self, hosts: &mut FabricHosts<'_>) -> ControlFlow<()>;

    /// Returns the time of the next call of [`CompletionHandler::act`], or [`Picos::NEVER`].
    fn next_action(&self) -> Picos {
        Picos::NEVER
    }

    /// Acts on any host. Called at the time of [`CompletionHandler::next_action`], after all events of this time. Later
    /// calls of `next_action` must return a later time.
    fn act(&mut self, hosts: &mut FabricHosts<'_>) {
        let _ = hosts;
    }
}

/// Handles no completion: the run ends at each completion.
impl CompletionHandler for () {
    fn scope(&self) -> CompletionScope {
        CompletionScope::AllHosts
    }

    fn no_step_ends(
        &mut self,
        _caller: usize,
        _misses_messages: &mut dyn FnMut(usize, u64) -> Option<bool>,
    ) -> bool {
        false
    }

    fn handle_local_completions(&mut self, _hosts: &mut FabricHosts<'_>) {}

    fn handle_completions(&mut self, _hosts: &mut FabricHosts<'_>) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// Hosts of a fabric on which a [`CompletionHandler`] acts at the current model time.
pub struct FabricHosts<'a> {
    pub(super) layout: &'a Layout,
    pub(super) shards: AccessibleShards<'a>,
    pub(super) now: Picos,
    pub(super) observer: &'a mut dyn Observer,
}

impl fmt::Debug for FabricHosts<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FabricHosts")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// The shards whose hosts are accessible.
pub(super) enum AccessibleShards<'a> {
    One(&'a mut Shard),
    All(&'a mut [Shard]),
}

impl AccessibleShards<'_> {
    /// Returns a shard.
    ///
    /// # Panics
    /// Panics if the shard is not accessible.
    fn shard(&mut self, number: u32) -> &mut Shard {
        match self {
            AccessibleShards::One(shard) => {
                assert_eq!(shard.number, number, "the shard belongs to another thread");
                shard
            }
            AccessibleShards::All(shards) => &mut shards[number as usize],
        }
    }
}

impl JobHosts for FabricHosts<'_> {
    fn now(&self) -> Picos {
        self.now
    }

    fn host_count(&self) -> usize {
        self.layout.hosts.len()
    }

    fn host(&self, host: usize) -> &Host {
        let position = self.layout.hosts[host];
        let shard = match &self.shards {
            AccessibleShards::One(shard) => {
                assert_eq!(
                    shard.number, position.shard,
                    "the shard belongs to another thread"
                );
                shard
            }
            AccessibleShards::All(shards) => &shards[position.shard as usize],
        };
        &shard.hosts[position.local as usize].host
    }

    fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R {
        let position = self.layout.hosts[host];
        let shard = self.shards.shard(position.shard);
        shard.set_time(self.now);
        shard.change_host(position.local as usize, self.observer, change)
    }

    fn take_completions(&mut self, mut take: impl FnMut(usize, Completion)) {
        let observer = &mut *self.observer;
        let is_observed = match &self.shards {
            AccessibleShards::One(shard) => shard.observed.completions,
            AccessibleShards::All(shards) => shards[0].observed.completions,
        };
        let take = |host: usize, completion: Completion| {
            if is_observed {
                observer.request_completed(host, &completion);
            }
            take(host, completion);
        };
        match &mut self.shards {
            AccessibleShards::One(shard) => shard.take_completions(take),
            AccessibleShards::All(shards) => take_completions(shards, take),
        }
    }
}

/// Calls `take` for each completion of the hosts in some shards. Completions are ordered by the index of the host in
/// the plan. The completions of one host are ordered by time.
pub(super) fn take_completions(shards: &mut [Shard], mut take: impl FnMut(usize, Completion)) {
    let mut listed = (0..shards.len()).filter(|shard| !shards[*shard].completing_hosts.is_empty());
    match (listed.next(), listed.next()) {
        (None, _) => {}
        (Some(shard), None) => shards[shard].take_completions(take),
        (Some(_), Some(_)) => {
            let mut completing: Vec<(u32, usize, u32)> = Vec::new();
            for (index, shard) in shards.iter_mut().enumerate() {
                let hosts = &shard.hosts;
                let listed = shard.completing_hosts.drain(..);
                completing.extend(listed.map(|local| (hosts[local as usize].number, index, local)));
            }
            completing.sort_unstable();
            for (_, shard, local) in completing {
                shards[shard].hosts[local as usize].take_completions(&mut take);
            }
        }
    }
}

impl Shard {
    /// Calls `take` for each completion of the hosts of the shard, ordered by host and time. The hosts of a shard have
    /// the order of the plan.
    fn take_completions(&mut self, mut take: impl FnMut(usize, Completion)) {
        self.completing_hosts.sort_unstable();
        for local in self.completing_hosts.drain(..) {
            self.hosts[local as usize].take_completions(&mut take);
        }
    }
}

impl HostNode {
    fn take_completions(&mut self, take: &mut impl FnMut(usize, Completion)) {
        self.is_completing = false;
        let number = self.number as usize;
        self.host
            .completions()
            .for_each(|completion| take(number, completion));
    }
}
