//! Description of unfinished jobs and of their outstanding messages.

use std::fmt::Write;

use xoff_units::{Picos, count_noun};

use super::super::job_context::Connection;
use super::super::messages::{InFlightMessage, TransferTag};
use super::{JobRunner, Workload};

/// Largest number of outstanding messages of a job in [`Workload::pending_description`].
const MESSAGES_SHOWN: usize = 5;

/// The outstanding messages of a job.
#[derive(Clone, Default)]
struct OutstandingMessages<'a> {
    count: u64,
    /// The messages that were posted first, sorted by [`posting_order`]. At most [`MESSAGES_SHOWN`].
    first: Vec<&'a InFlightMessage>,
}

impl<'a> OutstandingMessages<'a> {
    fn add(&mut self, message: &'a InFlightMessage) {
        self.count += 1;
        let key = posting_order(message);
        let index = self.first.partition_point(|other| posting_order(other) <= key);
        if index < MESSAGES_SHOWN {
            self.first.truncate(MESSAGES_SHOWN - 1);
            self.first.insert(index, message);
        }
    }
}

/// Returns the key by which the messages of a job are sorted. The slot of a message is not part of the key, because
/// slots depend on the interleaving of the threads of a run.
fn posting_order(message: &InFlightMessage) -> (Picos, u32, TransferTag) {
    (message.posted, message.connection, message.tag)
}

impl Workload {
    /// Describes why a run has not ended. The text has a line for each unfinished job, followed by the (up to five)
    /// outstanding messages that the job posted first. Times count from the start of the workload. The text is empty
    /// if no job is unfinished. `host_name` returns the name of a host from its index in the host list of the driver.
    pub fn pending_description<'a>(&self, host_name: impl Fn(u32) -> &'a str) -> String {
        let mut outstanding = vec![OutstandingMessages::default(); self.jobs.len()];
        for message in self.queues.messages.iter() {
            outstanding[message.job as usize].add(message);
        }
        let mut text = String::new();
        for (job, messages) in self.jobs.iter().zip(&outstanding) {
            if messages.count == 0 && (job.stopped || job.is_over()) {
                continue;
            }
            let progress = match &job.runner {
                JobRunner::List(list) => list.progress(),
                JobRunner::Bulk(bulk) => bulk.progress(),
            };
            let count = count_noun(messages.count, "message");
            let _ = writeln!(text, "job `{}`: {progress}; {count} outstanding", job.spec.name);
            for message in &messages.first {
                let Connection { src, dst, .. } = self.connections[message.connection as usize];
                let missing = match message.unreceived {
                    0 => "not acknowledged",
                    _ => "not received",
                };
                let _ = writeln!(
                    text,
                    "  {} to {}: {}, posted {} ns after the start of the workload, {missing}",
                    host_name(src),
                    host_name(dst),
                    count_noun(message.bytes, "byte"),
                    message.posted.since(self.start).as_nanos()
                );
            }
        }
        text
    }
}
