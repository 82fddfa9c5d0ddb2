//! The interface of a program that runs on model hosts, such as the jobs of a lab.

use std::fmt;

use xoff_units::Picos;

use super::attachment::AttachedHostState;
use xoff_host::Host;

/// A program on the model hosts of a thread. It posts work requests and processes completions. In each turn,
/// the thread calls the application after the hosts have received frames and before they send. Each call must
/// be short.
pub trait Application: fmt::Debug + Send + 'static {
    /// Starts the workload.
    fn start(&mut self, hosts: &mut HostAccess<'_>);

    /// Processes completions and posts work requests. Called when hosts have received frames, and at the time
    /// of [`Application::next_start`].
    fn serve(&mut self, hosts: &mut HostAccess<'_>);

    /// Returns the next model time at which the application has work. [`Picos::NEVER`] means that the
    /// application only waits for frames.
    fn next_start(&self) -> Picos;

    /// Returns whether the application has no more work.
    fn is_finished(&self) -> bool;

    /// Reads the last results of the hosts before the thread ends.
    fn finish(&mut self, hosts: &mut HostAccess<'_>);
}

/// The application of hosts that only send their flows.
impl Application for () {
    fn start(&mut self, _: &mut HostAccess<'_>) {}
    fn serve(&mut self, _: &mut HostAccess<'_>) {}
    fn next_start(&self) -> Picos {
        Picos::NEVER
    }
    fn is_finished(&self) -> bool {
        true
    }
    fn finish(&mut self, _: &mut HostAccess<'_>) {}
}

/// Access of an application to the hosts of its thread at one model time.
#[derive(Debug)]
pub struct HostAccess<'a> {
    pub(super) now: Picos,
    pub(super) attachments: &'a mut [AttachedHostState],
}

impl HostAccess<'_> {
    /// Returns the model time.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Returns the number of hosts.
    pub fn host_count(&self) -> usize {
        self.attachments.len()
    }

    /// Returns the host with an index of the list that the thread was given.
    ///
    /// # Panics
    /// Panics if no host has this index.
    pub fn host(&self, index: usize) -> &Host {
        &self.attachments[index].host
    }

    /// Returns mutable access to a host. If the change allows the host to send frames, they are sent in the
    /// same turn.
    ///
    /// # Panics
    /// As [`HostAccess::host`].
    pub fn host_mut(&mut self, index: usize) -> &mut Host {
        &mut self.attachments[index].host
    }
}
