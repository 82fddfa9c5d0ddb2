//! Hosts on which jobs run, in virtual and in real time.

use xoff_dataplane::Picos;
use xoff_host::Host;
use xoff_rdma::Completion;

/// Addresses of hosts. Hosts have the same indices as in [`JobHosts::host`].
pub trait HostDirectory {
    /// Returns the IP address of the host with this index.
    fn address(&self, host: usize) -> std::net::IpAddr;
    /// Returns the MAC address to which the host `from` sends frames for the host `to`. This is the
    /// address of the destination or of a router. `None`: the host resolves the address by ARP or
    /// neighbour discovery.
    fn next_hop_mac(&self, from: usize, to: usize) -> Option<[u8; 6]>;
}

/// Access to hosts with queue pairs and to model time. With this trait, the same [`Jobs`](crate::Jobs) run in
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
