//! The hosts of a fabric between two runs, as hosts on which jobs run.

use std::fmt;

use xoff_dataplane::Picos;
use xoff_host::Host;
use xoff_rdma::Completion;

use crate::engine::Fabric;
use crate::job_hosts::JobHosts;
use crate::observer::Observer;

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
