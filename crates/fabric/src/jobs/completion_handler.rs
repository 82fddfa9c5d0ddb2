//! Jobs act on the completions of hosts during a run in virtual time.

use std::ops::ControlFlow;

use xoff_dataplane::Picos;

use super::Jobs;
use crate::engine::{CompletionHandler, CompletionScope, FabricHosts};

impl CompletionHandler for Jobs {
    fn scope(&self) -> CompletionScope {
        self.workload.completion_scope()
    }

    fn no_step_ends(
        &mut self,
        caller: usize,
        misses_messages: &mut dyn FnMut(usize, u64) -> Option<bool>,
    ) -> bool {
        self.workload
            .no_step_ends(caller, |host, messages| misses_messages(host as usize, messages))
    }

    fn handle_local_completions(&mut self, hosts: &mut FabricHosts<'_>) {
        self.process_completions(hosts);
    }

    /// Ends the run if no message is left, or if paths of a job that has ended must be withdrawn.
    fn handle_completions(&mut self, hosts: &mut FabricHosts<'_>) -> ControlFlow<()> {
        self.process_completions(hosts);
        let withdraws_flows = self.announced.keys().any(|job| self.workload.is_over(*job));
        match withdraws_flows || self.workload.is_finished() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn next_action(&self) -> Picos {
        self.next_start()
    }

    fn act(&mut self, hosts: &mut FabricHosts<'_>) {
        self.post_due(hosts);
    }
}
