//! Counters of a whole fabric, for the estimate of counts during skipped steps.

use xoff_dataplane::PortId;
use xoff_dataplane::counters::PortCounters;
use xoff_host::NicCounters;
use xoff_rdma::Counters;

use super::Fabric;

/// Counters of all ports and hosts of a fabric.
#[derive(Clone, Debug, Default)]
pub(crate) struct FabricCounts {
    /// Counters of the ports, by switch and port.
    pub(crate) ports: Vec<Vec<PortCounters>>,
    /// Counters of the NICs, by host.
    pub(crate) nics: Vec<NicCounters>,
    /// Sums over the queue pairs of a host, by host.
    pub(crate) queue_pairs: Vec<Counters>,
    /// Bytes as in [`Fabric::delivered_payload_bytes`].
    pub(crate) delivered_payload_bytes: u64,
}

impl FabricCounts {
    /// Reads the counters of the simulated frames.
    pub(crate) fn read(fabric: &Fabric) -> FabricCounts {
        let now = fabric.now();
        let ports_of = |switch: usize| {
            let switch = fabric.switch(switch);
            let ports = 0..switch.port_count() as u16;
            ports
                .map(|port| switch.port_counters(now, PortId(port)))
                .collect()
        };
        let hosts = || (0..fabric.host_count()).map(|host| fabric.host(host));
        FabricCounts {
            ports: (0..fabric.switch_count()).map(ports_of).collect(),
            nics: hosts().map(|host| host.nic_counters(now)).collect(),
            queue_pairs: hosts().map(|host| host.rdma_counters()).collect(),
            delivered_payload_bytes: fabric.simulated_payload_bytes(),
        }
    }

    /// Returns the counts since `earlier`, multiplied by `times` and rounded.
    #[must_use]
    pub(crate) fn repeated_since(&self, earlier: &FabricCounts, times: f64) -> FabricCounts {
        let ports = self.ports.iter().zip(&earlier.ports).map(|(ports, earlier)| {
            let ports = ports.iter().zip(earlier);
            ports
                .map(|(port, earlier)| port.repeated_since(earlier, times))
                .collect()
        });
        let nics = self.nics.iter().zip(&earlier.nics);
        let queue_pairs = self.queue_pairs.iter().zip(&earlier.queue_pairs);
        let payload_bytes = self.delivered_payload_bytes - earlier.delivered_payload_bytes;
        FabricCounts {
            ports: ports.collect(),
            nics: nics
                .map(|(nic, earlier)| nic.repeated_since(earlier, times))
                .collect(),
            queue_pairs: queue_pairs
                .map(|(sums, earlier)| sums.repeated_since(earlier, times))
                .collect(),
            delivered_payload_bytes: (payload_bytes as f64 * times).round() as u64,
        }
    }

    /// Adds all counts of `other`. Both must belong to the same fabric.
    pub(crate) fn add(&mut self, other: &FabricCounts) {
        for (ports, others) in self.ports.iter_mut().zip(&other.ports) {
            ports
                .iter_mut()
                .zip(others)
                .for_each(|(port, other)| port.add(other));
        }
        let nics = self.nics.iter_mut().zip(&other.nics);
        nics.for_each(|(nic, other)| nic.add(other));
        let queue_pairs = self.queue_pairs.iter_mut().zip(&other.queue_pairs);
        queue_pairs.for_each(|(sums, other)| sums.add(other));
        self.delivered_payload_bytes += other.delivered_payload_bytes;
    }

    /// Returns the number of pauses that began, and the number of frames that were marked, at all ports and hosts.
    pub(crate) fn congestion_events(&self) -> CongestionEvents {
        let mut events = CongestionEvents::default();
        for port in self.ports.iter().flatten() {
            events.marks += port.ecn_marked;
            events.pauses += port.pfc_on2off_rx.iter().sum::<u64>();
            events.drops += port.dropped_frames();
        }
        for nic in &self.nics {
            events.pauses += nic.pfc_on2off_rx.iter().sum::<u64>();
        }
        for sums in &self.queue_pairs {
            events.drops += sums.retransmitted_packets + sums.local_ack_timeout_err;
        }
        events
    }
}

/// Signs of congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CongestionEvents {
    /// Frames that switches marked CE.
    pub(crate) marks: u64,
    /// Pauses that stopped a running priority.
    pub(crate) pauses: u64,
    /// Dropped frames, retransmitted packets and timeouts.
    pub(crate) drops: u64,
}

impl CongestionEvents {
    /// Returns the events since `earlier`.
    pub(crate) fn since(&self, earlier: &CongestionEvents) -> CongestionEvents {
        CongestionEvents {
            marks: self.marks - earlier.marks,
            pauses: self.pauses - earlier.pauses,
            drops: self.drops - earlier.drops,
        }
    }
}
