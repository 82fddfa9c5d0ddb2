//! The values of the names of expressions in a running lab.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

use super::super::expr::{CounterOwner, CounterReference, Occurrence, UnknownName, ValueSource};
use super::super::virtual_run::VirtualLab;
use super::counter_values;
use super::events::EventRecorder;
use super::script_names::ScriptNames;
use xoff_workload::WorkloadResults;

/// The values of counters at the last `clear: counters` step. Conditions see the increase since this step.
#[derive(Clone, Debug, Default)]
pub(super) struct CounterBaseline(HashMap<(CounterOwner, &'static str), f64>);

impl CounterBaseline {
    /// Reads the current values of the clearable counters in a script.
    pub(super) fn new(lab: &VirtualLab, names: &ScriptNames) -> CounterBaseline {
        let results = OnceCell::new();
        let read = |reference: &CounterReference| {
            let value = counter_values::counter_value(lab, names, &results, reference)?;
            Some(((reference.owner.clone(), reference.counter), value))
        };
        CounterBaseline(names.clearable_counters.iter().filter_map(read).collect())
    }
}

/// The largest number of values that the conditions of a script read. A pattern such as `flow.*` can stand for
/// thousands of values, and a `wait` can evaluate its condition 10 000 times.
pub(super) const VALUES_READ_MAX: u64 = 1_000_000;

/// The values of all names of a lab at the current model time.
#[derive(Debug)]
pub(super) struct LabValues<'a> {
    pub(super) lab: &'a VirtualLab,
    pub(super) names: &'a ScriptNames,
    pub(super) events: &'a EventRecorder,
    pub(super) baseline: &'a CounterBaseline,
    /// The results of jobs, computed at their first use.
    pub(super) results: OnceCell<WorkloadResults>,
    /// The number of values that the script has read. Beyond [`VALUES_READ_MAX`], all values are missing.
    pub(super) values_read: &'a Cell<u64>,
}

impl LabValues<'_> {
    fn is_limit_exceeded(&self) -> bool {
        self.values_read.get() > VALUES_READ_MAX
    }
}

impl ValueSource for LabValues<'_> {
    fn value(&self, path: &str) -> Result<Option<f64>, UnknownName> {
        self.values_read.set(self.values_read.get() + 1);
        if self.is_limit_exceeded() {
            return Ok(None);
        }
        let reference = self.names.directory.find_counter(path)?;
        let arrivals = match reference.owner {
            CounterOwner::Host(host) => self
                .events
                .arrivals_of_host(host)
                .and_then(|arrivals| arrivals.counter_value(reference.counter)),
            CounterOwner::Arrivals(host, dscp) => {
                let arrivals = self
                    .events
                    .arrivals_of_host(host)
                    .and_then(|all| all.of_dscp(dscp));
                return Ok(arrivals.and_then(|arrived| arrived.counter_value(reference.counter)));
            }
            _ => None,
        };
        // The recorder of events sets these counters to zero at `clear: counters`, so they need no baseline.
        if arrivals.is_some() {
            return Ok(arrivals);
        }
        let Some(value) = counter_values::counter_value(self.lab, self.names, &self.results, &reference)
        else {
            return Ok(None);
        };
        let CounterReference {
            owner,
            counter,
            divisor,
        } = reference;
        let baseline = self.baseline.0.get(&(owner, counter)).copied();
        // `lost_frames` also counts frames in flight. It decreases when frames arrive that were in flight at
        // the `clear` step.
        let value = baseline.map_or(value, |baseline| (value - baseline).max(0.0));
        Ok(Some(value / divisor))
    }

    fn matching_names(&self, pattern: &str) -> Result<Vec<String>, UnknownName> {
        match self.is_limit_exceeded() {
            true => Ok(Vec::new()),
            false => self.names.directory.matching_names(pattern),
        }
    }

    fn event_time_ps(&self, path: &str, occurrence: Occurrence) -> Result<Option<f64>, UnknownName> {
        let reference = self.names.directory.find_event(path)?;
        let owner = match reference.owner {
            CounterOwner::Port(switch, port) => match self.names.port_id(switch, port) {
                Some(port) => CounterOwner::Port(switch, port.index()),
                None => return Ok(None),
            },
            other => other,
        };
        let at = self.events.event_time(reference.event, &owner, occurrence);
        Ok(at.map(|at| at.since(self.lab.workload_start).0 as f64))
    }
}
