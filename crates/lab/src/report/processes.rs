//! The ended processes of a lab: placeholder processes and commands of plain hosts, and virtual machines.

use serde::{Deserialize, Serialize};

use super::Report;
use xoff_telemetry::Taint;

/// A process of a lab that ended before the run did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Name of the node of the process. `-` if the node is unknown.
    pub node: String,
    /// The command, or the kind of the process, such as `host` or `qemu`.
    pub process: String,
    /// The end of the process, such as `exit status: 1` or `signal: 9 (SIGKILL)`.
    pub status: String,
    /// Time of the end in nanoseconds of model time since the start of the workload.
    pub ended_ns: u64,
    /// The effect of the end on the verdict.
    pub effect: ProcessEffect,
}

/// The effect of an ended process on the verdict of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessEffect {
    /// None: the process ended with status 0, or a command of its host stopped it.
    #[default]
    None,
    /// The run fails.
    Fails,
    /// The run is tainted: the process was an xoff command whose own run proves nothing.
    Taints,
}

/// Frames that the kernel of a plain host dropped instead of sending them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainHostReport {
    /// Name of the host.
    pub name: String,
    /// Frames that the interface of the host dropped because the queue of its switch port in the kernel was full.
    /// The host sent faster than the machine moves frames. The frames never reached the link of the model.
    pub tx_dropped_frames: u64,
}

impl ProcessReport {
    fn describe(&self) -> String {
        format!(
            "{}: the process `{}` ended with {}",
            self.node, self.process, self.status
        )
    }
}

impl Report {
    /// Adds the ended processes of a lab. Processes that failed become failures or taints of the run. Call this
    /// function before [`Report::judge`].
    pub fn add_processes(&mut self, processes: Vec<ProcessReport>) {
        for process in &processes {
            match process.effect {
                ProcessEffect::None => {}
                ProcessEffect::Fails => self.failures.push(process.describe()),
                ProcessEffect::Taints => self.taints.push(Taint {
                    since_ns: process.ended_ns,
                    cause: process.describe(),
                }),
            }
        }
        self.taints.sort_by_key(|taint| taint.since_ns);
        self.processes = processes;
    }
}
