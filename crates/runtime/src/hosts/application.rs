//! The interface of a program that runs on model hosts. For example, the jobs of a lab are such a program.

use std::fmt;

use xoff_units::Picos;

use super::attachment::AttachedHostState;
use xoff_host::Host;

/// A program on the model hosts of a thread. The program posts work requests and processes completions. In
/// each turn, the thread first receives frames, then calls the application, and then sends frames. Each call
/// must be short.
pub trait Application: fmt::Debug + Send + 'static {
    /// Starts the workload. Called once, when the hosts start to send.
    fn start(&mut self, hosts: &mut HostAccess<'_>);

    /// Processes completions and posts work requests. Called when a host has completions, and at the time
    /// that [`Application::next_start`] returns.
    fn serve(&mut self, hosts: &mut HostAccess<'_>);

    /// Returns the next model time at which the application has work. [`Picos::NEVER`] means that the
    /// application only waits for completions.
    fn next_start(&self) -> Picos;

    /// Returns whether the application has no more work, now and later.
    fn is_finished(&self) -> bool;

    /// Reads the last results of the hosts. Called once, before the thread ends.
    fn finish(&mut self, hosts: &mut HostAccess<'_>);
}

/// The application of hosts that only send their flows. It does nothing.
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

/// The access of an application to the hosts of its thread, at one model time.
#[derive(Debug)]
pub struct HostAccess<'a> {
    pub(super) now: Picos,
    pub(super) attachments: &'a mut [AttachedHostState],
}

impl HostAccess<'_> {
    /// Returns the present model time.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Returns the number of hosts of the thread.
    pub fn host_count(&self) -> usize {
        self.attachments.len()
    }

    /// Returns the host at `index`, which is less than [`HostAccess::host_count`]. The hosts have the order
    /// in which the thread received them.
    ///
    /// # Panics
    /// Panics if no host has this index.
    pub fn host(&self, index: usize) -> &Host {
        &self.attachments[index].host
    }

    /// Returns the host at `index` for changes. If the host can send frames after the change, they are sent
    /// in the same turn.
    ///
    /// # Panics
    /// Panics if no host has this index.
    pub fn host_mut(&mut self, index: usize) -> &mut Host {
        &mut self.attachments[index].host
    }
}
