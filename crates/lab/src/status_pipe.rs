//! Sends status messages from the switch process of a lab to the command line, as lines of JSON in a pipe.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

/// The write end of the status pipe, in the switch process. If the command line has ended, its methods
/// do nothing.
#[derive(Clone, Debug)]
pub struct StatusPipe(Arc<Mutex<File>>);

/// A status message.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StatusMessage {
    /// All switches forward frames and all hosts are ready.
    Ready,
    /// Elapsed and total time of the workload, in nanoseconds of model time.
    Progress { done_ns: u64, total_ns: u64 },
    /// A text for the standard output of the command line.
    Print { text: String },
    /// The result of the run, as a table or as JSON.
    Result { text: String },
}

impl StatusPipe {
    pub(super) fn new(file: File) -> StatusPipe {
        StatusPipe(Arc::new(Mutex::new(file)))
    }

    /// Reports that all switches forward frames and all hosts are ready. The command `lab up` ends after
    /// this message.
    pub fn report_ready(&self) {
        self.send(&StatusMessage::Ready);
    }

    /// Reports the elapsed and the total time of the workload, in nanoseconds of model time, for the
    /// progress bar.
    pub fn report_progress(&self, done_ns: u64, total_ns: u64) {
        self.send(&StatusMessage::Progress { done_ns, total_ns });
    }

    /// Prints a text on the standard output of the command line, above its progress bar.
    pub fn print(&self, text: &str) {
        self.send(&StatusMessage::Print {
            text: text.to_owned(),
        });
    }

    /// Prints the result of the run on the standard output of the command line.
    pub fn print_result(&self, text: &str) {
        self.send(&StatusMessage::Result {
            text: text.to_owned(),
        });
    }

    fn send(&self, status: &StatusMessage) {
        let Ok(mut line) = serde_json::to_vec(status) else {
            return;
        };
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A failed write is not an error, because the command line of `lab up` has already ended.
        let _ = file.write_all(&line);
    }
}

/// The read end of the status pipe, in the command line. The pipe ends with the last process of the lab.
#[derive(Debug)]
pub(super) struct StatusReader(BufReader<File>);

impl StatusReader {
    pub(super) fn new(file: File) -> StatusReader {
        StatusReader(BufReader::new(file))
    }

    pub(super) fn file(&self) -> &File {
        self.0.get_ref()
    }

    /// Returns whether the buffer contains data. `poll` does not report such data.
    pub(super) fn has_buffered(&self) -> bool {
        !self.0.buffer().is_empty()
    }

    /// Returns the next message. Returns `None` at the end of the pipe.
    pub(super) fn read_message(&mut self) -> Option<StatusMessage> {
        /// Largest length of a message in bytes. Without this limit, an invalid message could
        /// fill the memory.
        const LINE_MAX: u64 = 1 << 24;
        loop {
            let mut line = String::new();
            let read = self.0.by_ref().take(LINE_MAX).read_line(&mut line);
            match read {
                Ok(0) | Err(_) => return None,
                Ok(_) => {
                    if let Ok(status) = serde_json::from_str(&line) {
                        return Some(status);
                    }
                }
            }
        }
    }
}
