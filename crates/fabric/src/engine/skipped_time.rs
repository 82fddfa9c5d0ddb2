//! Time and counts that an accelerated run has skipped ([`crate::acceleration`]).

use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::{Picos, PortId};
use xoff_host::{HostResults, NicCounters};
use xoff_rdma::Counters;

use super::{Fabric, FabricCounts};

/// The skips of a run.
#[derive(Debug, Default)]
pub(super) struct SkippedTime {
    /// For each skip: its time on the clock of the fabric, and the duration of this and all earlier skips.
    skips: Vec<(Picos, Picos)>,
    /// Counts of the skipped steps.
    counts: Option<Box<FabricCounts>>,
}

/// Results that contain skipped steps. Without acceleration, they are the results of the simulated frames.
impl Fabric {
    /// Returns the time of results at `at`, a time on the clock of the fabric: with all time that was skipped before
    /// it.
    pub fn result_time(&self, at: Picos) -> Picos {
        let skips = &self.skipped.skips;
        let before = skips.partition_point(|(skipped_at, _)| *skipped_at <= at);
        let skipped = before.checked_sub(1).map_or(Picos::ZERO, |last| skips[last].1);
        at.saturating_add(skipped)
    }

    /// Returns the model time with all skipped time.
    pub fn result_now(&self) -> Picos {
        self.result_time(self.now)
    }

    /// Returns the duration of all skips.
    pub fn skipped_time(&self) -> Picos {
        self.skipped.skips.last().map_or(Picos::ZERO, |(_, sum)| *sum)
    }

    /// Returns the counters of a switch port at the current time.
    pub fn port_counters(&self, switch: usize, port: PortId) -> PortCounters {
        let mut counters = self.switch(switch).port_counters(self.now, port);
        if let Some(skipped) = &self.skipped.counts {
            counters.add(&skipped.ports[switch][port.index()]);
            let result_ps = |ps: u64| self.result_time(Picos(ps)).0;
            if counters.tx_first_ps != u64::MAX {
                counters.tx_first_ps = result_ps(counters.tx_first_ps);
                counters.tx_last_ps = result_ps(counters.tx_last_ps);
            }
        }
        counters
    }

    /// Returns the counters of the NIC of a host at the current time.
    pub fn nic_counters(&self, host: usize) -> NicCounters {
        let mut counters = self.host(host).nic_counters(self.now);
        if let Some(skipped) = &self.skipped.counts {
            counters.add(&skipped.nics[host]);
        }
        counters
    }

    /// Returns the sums of the counters of all queue pairs of a host.
    pub fn rdma_counters(&self, host: usize) -> Counters {
        let mut counters = self.host(host).rdma_counters();
        if let Some(skipped) = &self.skipped.counts {
            counters.add(&skipped.queue_pairs[host]);
        }
        counters
    }

    /// Returns all results of a host at the current time.
    pub fn host_results(&self, host: usize) -> HostResults {
        HostResults {
            nic: self.nic_counters(host),
            ..self.host(host).results(self.now)
        }
    }

    /// Returns the bytes after the headers of all packets of queue pairs that have arrived at hosts: the payload, its
    /// padding, and 4 bytes of ICRC for each packet. Retransmitted packets count each time. Frames of open-loop flows
    /// do not count.
    pub fn delivered_payload_bytes(&self) -> u64 {
        let skipped = self.skipped.counts.as_ref();
        self.simulated_payload_bytes() + skipped.map_or(0, |counts| counts.delivered_payload_bytes)
    }

    /// Restarts the utilisation of all ports without the skipped steps.
    /// [`Switch::restart_utilisation`](xoff_dataplane::Switch::restart_utilisation) restarts that of the simulated ones.
    pub fn restart_skipped_utilisation(&mut self) {
        if let Some(counts) = &mut self.skipped.counts {
            counts
                .ports
                .iter_mut()
                .flatten()
                .for_each(|port| port.tx_busy_ps = 0);
        }
    }

    /// Adds time and counts of steps that are skipped now.
    pub(crate) fn add_skip(&mut self, duration: Picos, counts: &FabricCounts) {
        let sum = self.skipped_time().saturating_add(duration);
        self.skipped.skips.push((self.now, sum));
        match &mut self.skipped.counts {
            Some(all) => all.add(counts),
            None => self.skipped.counts = Some(Box::new(counts.clone())),
        }
    }
}
