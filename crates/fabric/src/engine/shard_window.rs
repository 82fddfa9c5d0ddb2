//! Processing of a time window in one shard, partition by partition.

use std::ops::Range;

use xoff_dataplane::route::RouteHint;
use xoff_dataplane::{FrameHandle, Picos, prefetch};
use xoff_rdma::CompletionKind;

use super::SIMULTANEOUS_EVENTS_MAX;
use super::completions::{AccessibleShards, CompletionHandler, FabricHosts};
use super::handler_access::HandlerAccess;
use super::layout::Layout;
use super::prefetching::FetchedHosts;
use super::shard::{Shard, is_arrival, partition_of_event};
use super::window::{HostWindow, PhaseResult, Window, WindowPhase};
use super::window_batch::BatchExchange;
use crate::event_queue::{Event, time_of_key};
use crate::observation::EventRecords;
use crate::plan::LinkEnd;

/// Number of destinations whose routes are cached while a window is opened.
const CACHED_ROUTES: usize = 64;

/// From this number of hosts with delayed completions on, a shard handles the completions if no other thread uses
/// the [`CompletionHandler`].
const COMPLETING_HOSTS_MIN: usize = 32;
/// From this number of hosts with delayed completions on, a shard waits until no other thread uses the
/// [`CompletionHandler`].
const COMPLETING_HOSTS_MAX: usize = 256;

impl Shard {
    /// Does a part of the work for a window.
    pub(super) fn run_phase(
        &mut self,
        phase: WindowPhase,
        (layout, handler): (&Layout, &mut HandlerAccess<'_, '_>),
        exchange: &BatchExchange,
    ) -> PhaseResult {
        match phase {
            WindowPhase::Prepare(window) => {
                self.prepare(window);
                PhaseResult::NOTHING
            }
            WindowPhase::PrepareAndCheck(window) => {
                self.prepare(window);
                PhaseResult {
                    has_no_completion: self.has_no_completion_before(window.limit),
                    ..PhaseResult::NOTHING
                }
            }
            WindowPhase::HostsAndSwitches(window, hosts) => {
                let due = 0..self.due_partitions.len();
                self.run_partitions(due, window, hosts, (layout, handler))
            }
            WindowPhase::WholeWindow(window, hosts) => {
                self.prepare(window);
                let due = 0..self.due_partitions.len();
                self.run_partitions(due, window, hosts, (layout, handler))
            }
            WindowPhase::Switches(window) => {
                let switches = self.due_host_groups()..self.due_partitions.len();
                self.run_partitions(switches, window, HostWindow::Joint, (layout, handler))
            }
            WindowPhase::Batch(batch) => self.run_batch(batch, (layout, handler), exchange),
        }
    }

    /// Finds the partitions that have events in the window, including the frames from other shards.
    pub(super) fn prepare(&mut self, window: Window) {
        // Frames that leave for another partition from now on arrive after the end of the interval.
        self.pending.begin_windows(window.begin);
        if self.outboxes.len() > 1 {
            self.store.changes.close_before(window.begin);
            self.take_mail();
        }
        let mut due = std::mem::take(&mut self.due_partitions);
        self.take_due_partitions(window, &mut due);
        self.due_partitions = due;
    }

    /// Takes the partitions that have events in the window into `due`, in ascending order.
    pub(super) fn take_due_partitions(&mut self, window: Window, due: &mut Vec<u32>) {
        let pending = &mut self.pending;
        pending.take_partitions_before(window.interval_end, due);
        due.retain(|partition| pending.keep_if_due(*partition, window.limit));
    }

    /// Adds the switches that have received frames from other shards since the window was prepared. The first `inner`
    /// prepared partitions receive no such frames.
    pub(super) fn add_due_switches(&mut self, inner: usize, window: Window) {
        let mut added = std::mem::take(&mut self.added_partitions);
        self.take_due_partitions(window, &mut added);
        if !added.is_empty() {
            let mut due = std::mem::take(&mut self.due_partitions);
            due.extend_from_slice(&added);
            due[inner..].sort_unstable();
            due.dedup();
            self.due_partitions = due;
        }
        self.added_partitions = added;
    }

    /// Returns the number of partitions with events in the window that receive no frames from other shards.
    pub(super) fn due_inner_partitions(&self) -> usize {
        let inner = self.partitions.switch_partition(self.inner_switches as usize);
        self.due_partitions
            .partition_point(|partition| (*partition as usize) < inner)
    }

    /// Returns the number of groups of hosts among the partitions with events in the window.
    pub(super) fn due_host_groups(&self) -> usize {
        let groups = self.partitions.host_group_count();
        self.due_partitions
            .partition_point(|partition| (*partition as usize) < groups)
    }

    /// Processes the events of the prepared partitions at some positions.
    pub(super) fn run_partitions(
        &mut self,
        positions: Range<usize>,
        window: Window,
        hosts: HostWindow,
        (layout, handler): (&Layout, &mut HandlerAccess<'_, '_>),
    ) -> PhaseResult {
        let mut result = PhaseResult::NOTHING;
        let due = std::mem::take(&mut self.due_partitions);
        let mut records = std::mem::take(&mut self.records);
        let exceeds_caches = self.exceeds_caches();
        let mut fetched = FetchedHosts::default();
        for position in positions {
            let partition = &due[position];
            if exceeds_caches {
                self.prefetch_partitions(&due[position..], window.limit, position, &mut fetched);
            }
            // After the end of the run, the window is shorter than when it was prepared.
            if !self.pending.keep_if_due(*partition, window.limit) {
                continue;
            }
            records.begin_partition();
            let (latest, is_stuck) =
                self.run_partition((*partition, hosts), window, (layout, handler), &mut records);
            result.latest = result.latest.max(latest);
            result.is_stuck |= is_stuck;
            if self.completing_hosts.len() >= COMPLETING_HOSTS_MIN {
                self.try_handle_delayed_completions(layout, handler);
            }
        }
        self.due_partitions = due;
        self.records = records;
        result
    }

    /// Processes the events of a partition in a window, or only those until a host has received a message
    /// ([`HostWindow::WithDelayedCompletions`]). Returns the time of the last event, and whether model time does not
    /// advance any more.
    fn run_partition(
        &mut self,
        (partition, hosts): (u32, HostWindow),
        window: Window,
        (layout, handler): (&Layout, &mut HandlerAccess<'_, '_>),
        records: &mut EventRecords,
    ) -> (Picos, bool) {
        let partition = partition as usize;
        self.open_window(partition..partition + 1, &[partition as u32], window);
        let is_observed = !self.observed.is_none();
        let (mut at, mut simultaneous_events, mut is_stuck) = (Picos::ZERO, 0, false);
        while let Some((event, route_hint)) = self.pending.take_event() {
            simultaneous_events = if event.at > at { 0 } else { simultaneous_events + 1 };
            if simultaneous_events > SIMULTANEOUS_EVENTS_MAX {
                is_stuck = true;
                break;
            }
            at = event.at;
            self.set_time(at);
            if is_observed {
                records.begin_event(event.key());
            }
            if self.process_event(event, route_hint, records) {
                if hosts == HostWindow::WithDelayedCompletions {
                    if self.has_received_message(partition) {
                        break;
                    }
                    continue;
                }
                debug_assert_eq!(
                    hosts,
                    HostWindow::WithLocalCompletions,
                    "{event:?} has completed something"
                );
                let mut hosts = FabricHosts {
                    layout,
                    shards: AccessibleShards::One(self),
                    now: at,
                    observer: records,
                };
                handler.with(|handler| handler.handle_local_completions(&mut hosts));
            }
        }
        self.close_window();
        (at, is_stuck)
    }

    /// Returns whether a host of a group has received a message now.
    fn has_received_message(&self, group: usize) -> bool {
        let hosts = &self.hosts[self.partitions.hosts_in_group(group, self.hosts.len())];
        hosts.iter().any(|node| {
            let completions = node.host.pending_completions().rev();
            let mut latest = completions.take_while(|completion| completion.at == self.now);
            latest.any(|completion| matches!(completion.kind, CompletionKind::Received { .. }))
        })
    }

    /// Handles the completions of all listed hosts ([`HostWindow::WithDelayedCompletions`]).
    pub(super) fn handle_delayed_completions(
        &mut self,
        layout: &Layout,
        handler: &mut HandlerAccess<'_, '_>,
    ) {
        while !self.completing_hosts.is_empty() {
            handler.with(|handler| self.handle_completions_of_listed_hosts(layout, handler));
        }
    }

    /// As [`Shard::handle_delayed_completions`], unless another thread uses the handler and few hosts are listed.
    #[inline(never)]
    fn try_handle_delayed_completions(&mut self, layout: &Layout, handler: &mut HandlerAccess<'_, '_>) {
        if self.completing_hosts.len() >= COMPLETING_HOSTS_MAX {
            return self.handle_delayed_completions(layout, handler);
        }
        handler.try_with(|handler| self.handle_completions_of_listed_hosts(layout, handler));
    }

    /// Lets the handler act on the completions of each listed host, at the time of its latest completion.
    fn handle_completions_of_listed_hosts(&mut self, layout: &Layout, handler: &mut dyn CompletionHandler) {
        let mut listed = std::mem::take(&mut self.completing_hosts);
        let mut listed_again = Vec::new();
        for host in listed.drain(..) {
            let latest = self.hosts[host as usize].host.pending_completions().next_back();
            let now = latest.map_or(self.now, |completion| completion.at);
            self.set_time(now);
            self.completing_hosts.push(host);
            handler.handle_local_completions(&mut FabricHosts {
                layout,
                shards: AccessibleShards::One(self),
                now,
                observer: &mut (),
            });
            listed_again.append(&mut self.completing_hosts);
        }
        listed.append(&mut listed_again);
        self.completing_hosts = listed;
    }

    /// Opens a window of the partitions `open`: all hosts, or one partition. `filled` contains the partitions that have
    /// events in the window.
    fn open_window(&mut self, open: Range<usize>, filled: &[u32], window: Window) {
        let is_host_group = open.start < self.partitions.host_group_count();
        let store = &self.store;
        let exceeds_caches = self.exceeds_caches();
        let fetch_frame = |event| {
            // In a large fabric, the frames were fetched some partitions ago.
            if !exceeds_caches && is_arrival(event) {
                store.prefetch(FrameHandle(event.payload()), is_host_group);
            }
        };
        let switch = match is_host_group {
            true => None,
            false => self.switches.get(open.start - self.partitions.host_group_count()),
        };
        let directions = &self.directions;
        // A window contains many frames to few destinations.
        let mut cached = [(0, RouteHint::NONE); CACHED_ROUTES];
        let route_hint = |event| {
            let arrival = switch.filter(|_| is_arrival(event));
            let (Some(node), Some(to)) = (arrival, store.destination(FrameHandle(event.payload()))) else {
                return RouteHint::NONE;
            };
            let slot = &mut cached[route_cache_slot(to)];
            if slot.0 != to || slot.1 == RouteHint::NONE {
                *slot = (to, node.switch.lookup_route_hint(to));
                if exceeds_caches {
                    let flow_hash = store.flow_hash(FrameHandle(event.payload()));
                    let port = node.switch.prefetch_egress_port(slot.1, to, flow_hash);
                    let direction = port.and_then(|port| node.directions.get(port.index()));
                    if let Some(direction) = direction.and_then(|index| directions.get(*index as usize)) {
                        prefetch(direction);
                    }
                }
            }
            slot.1
        };
        self.pending.open_window(
            (open, filled),
            window.begin,
            window.limit,
            fetch_frame,
            route_hint,
        );
    }

    /// Opens a window of all hosts of the shard, to process their events in one order. The window must be prepared.
    pub(super) fn open_joint_window(&mut self, window: Window) {
        let due = std::mem::take(&mut self.due_partitions);
        let hosts =
            due.partition_point(|partition| (*partition as usize) < self.partitions.host_group_count());
        self.open_window(0..self.partitions.host_group_count(), &due[..hosts], window);
        self.due_partitions = due;
    }

    /// Closes the window. Events that were not processed remain pending.
    pub(super) fn close_window(&mut self) {
        let (partitions, receivers) = (self.partitions, &self.receivers);
        self.pending
            .close_window(|event| partition_of_event(partitions, receivers, event));
    }

    /// Returns whether no event before `limit` can cause a completion at a host. All frames that arrive
    /// before `limit` are already pending, because they left at least one link delay ago. An acknowledgement
    /// in this window therefore belongs to a packet that was sent before the window.
    fn has_no_completion_before(&self, limit: u128) -> bool {
        let until = time_of_key(limit);
        let causes_no_completion = |event: Event| {
            !is_arrival(event) || self.store.completes_no_message(FrameHandle(event.payload()))
        };
        let host_groups = &self.due_partitions[..self.due_host_groups()];
        host_groups.iter().all(|group| {
            let group = *group as usize;
            let hosts = &self.hosts[self.partitions.hosts_in_group(group, self.hosts.len())];
            let has_queue_pairs = hosts.iter().any(|node| !node.host.endpoint().is_empty());
            !has_queue_pairs
                || hosts
                    .iter()
                    .all(|node| node.host.completes_no_message_before(until))
                    && self.pending.all_before(group, limit, causes_no_completion)
        })
    }

    /// Returns whether a host certainly receives fewer than `messages` messages before `limit`. All frames that arrive
    /// before `limit` are already pending, and only last packets complete messages. If a queue pair stores packets
    /// behind a gap, any packet can complete messages, and the result is `false`.
    pub(super) fn misses_messages(&self, host: usize, messages: u64, limit: u128) -> bool {
        if !self.hosts[host].host.endpoint().receives_messages_in_order() {
            return false;
        }
        let mut last_packets = 0;
        let to = LinkEnd::Host(host as u32);
        self.pending
            .all_before(self.partitions.host_partition(host), limit, |event| {
                let may_complete = is_arrival(event)
                    && self.receivers[event.rank() as usize].to == to
                    && !self.store.completes_no_message(FrameHandle(event.payload()));
                last_packets += u64::from(may_complete);
                last_packets < messages
            })
    }
}

/// Returns the cache slot of a destination address. The address is multiplied by the golden ratio, so
/// neighbouring addresses have different slots.
#[inline]
fn route_cache_slot(destination: u32) -> usize {
    (destination.wrapping_mul(0x9e37_79b9) >> (u32::BITS - CACHED_ROUTES.ilog2())) as usize % CACHED_ROUTES
}
