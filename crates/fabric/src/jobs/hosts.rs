//! The hosts on which jobs run, in virtual and in real time.

use std::fmt;

use xoff_dataplane::Picos;
use xoff_host::Host;
use xoff_rdma::Completion;

use crate::engine::Fabric;
use crate::observer::Observer;

/// Addresses of hosts. Hosts have the same indices as in [`JobHosts::host`].
pub trait HostDirectory {
    /// Returns the IP address of the host with this index.
    fn address(&self, host: usize) -> std::net::IpAddr;
    /// Returns the MAC address to which the host `from` sends frames for the host `to`. This is the
    /// address of the destination or of a router. `None`: the host resolves the address by ARP or
    /// neighbour discovery.
    fn next_hop_mac(&self, from: usize, to: usize) -> Option<[u8; 6]>;
}

/// Access to hosts with queue pairs and to model time. With this trait, the same [`Jobs`](super::Jobs) run in
/// virtual time and in real time. Each `host` is an index below [`JobHosts::host_count`].
pub trait JobHosts {
    /// Returns the model time.
    fn now(&self) -> Picos;
    /// Returns the number of hosts.
    fn host_count(&self) -> usize;
    /// Returns the host with this index.
    fn host(&self, host: usize) -> &Host;
    /// Changes a host at the current model time: calls `change` with the host and the time. Afterwards the
    /// host sends the packets that it may send now. Returns the result of `change`.
    fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R;
    /// Calls `take` with the host index and the completion, for each completion since the previous call of
    /// this method. Completions are ordered by host index. The completions of one host are ordered by time.
    fn take_completions(&mut self, take: impl FnMut(usize, Completion));
}

/// A fabric and the observer that receives its events. Implements [`JobHosts`] in virtual time.
pub struct ObservedFabric<'a>(pub &'a mut Fabric, pub &'a mut dyn Observer);

impl fmt::Debug for ObservedFabric<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("ObservedFabric")
            .field(self.0)
            .finish_non_exhaustive()
    }
}

impl JobHosts for ObservedFabric<'_> {
    fn now(&self) -> Picos {
        self.0.now()
    }

    fn host_count(&self) -> usize {
        self.0.host_count()
    }

    fn host(&self, host: usize) -> &Host {
        self.0.host(host)
    }

    fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R {
        self.0.change_host(host, self.1, change)
    }

    fn take_completions(&mut self, mut take: impl FnMut(usize, Completion)) {
        let observer = &mut *self.1;
        self.0.take_completions(|host, completion| {
            observer.request_completed(host, &completion);
            take(host, completion);
        });
    }
}
