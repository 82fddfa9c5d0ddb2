//! What runs on the hosts of a thread beside their flows.

use std::fmt;

use xoff_units::Picos;

use super::attachment::Attachment;
use xoff_host::Host;

/// A program on the hosts of a thread: posts work requests, takes completions. It is called in the thread, between what the
/// hosts have received and what they send, and must be short.
pub trait Application: fmt::Debug + Send + 'static {
    /// The workload begins.
    fn start(&mut self, hosts: &mut HostsAt<'_>);

    /// Hosts may have received something, or [`Application::next_start`] has come. Called from the start on.
    fn serve(&mut self, hosts: &mut HostsAt<'_>);

    /// When it has something to do by time alone; [`Picos::NEVER`]: not before something arrives.
    fn next_start(&self) -> Picos;

    /// Whether it has nothing to do any more.
    fn is_finished(&self) -> bool;

    /// The thread ends: what is to be read of the hosts is read now.
    fn finish(&mut self, hosts: &mut HostsAt<'_>);
}

/// Nothing runs.
impl Application for () {
    fn start(&mut self, _: &mut HostsAt<'_>) {}
    fn serve(&mut self, _: &mut HostsAt<'_>) {}
    fn next_start(&self) -> Picos {
        Picos::NEVER
    }
    fn is_finished(&self) -> bool {
        true
    }
    fn finish(&mut self, _: &mut HostsAt<'_>) {}
}

/// The hosts of a thread at a moment.
#[derive(Debug)]
pub struct HostsAt<'a> {
    pub(super) now: Picos,
    pub(super) attachments: &'a mut [Attachment],
}

impl HostsAt<'_> {
    /// Model time.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// How many hosts there are.
    pub fn count(&self) -> usize {
        self.attachments.len()
    }

    /// A host, by its place among those that the thread was given.
    ///
    /// # Panics
    /// If there is none there.
    pub fn host(&self, place: usize) -> &Host {
        &self.attachments[place].host
    }

    /// As [`HostsAt::host`], to be changed: what it then may send leaves in the same turn of the thread.
    ///
    /// # Panics
    /// As [`HostsAt::host`].
    pub fn host_mut(&mut self, place: usize) -> &mut Host {
        &mut self.attachments[place].host
    }
}
