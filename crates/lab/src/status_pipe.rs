//! Sends status messages from the switch process of a lab to the command line. Each message is a line of JSON
//! in a pipe.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

/// The write end of the status pipe, in the switch process.
#[derive(Clone, Debug)]
pub struct StatusPipe(Arc<Mutex<File>>);

/// A status message.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StatusMessage {
    /// All switches forward and all hosts are ready.
    Ready,
    /// Elapsed and total time of the workload.
    Progress { done_ns: u64, total_ns: u64 },
    /// A text for standard output.
    Print { text: String },
}

impl StatusPipe {
    pub(super) fn new(file: File) -> StatusPipe {
        StatusPipe(Arc::new(Mutex::new(file)))
    }

    /// Reports that all switches forward frames and all hosts are ready. The command `lab up` ends when it
    /// receives this message.
    pub fn report_ready(&self) {
        self.send(&StatusMessage::Ready);
    }

    /// Reports elapsed and total time of the workload, in nanoseconds of model time.
    pub fn report_progress(&self, done_ns: u64, total_ns: u64) {
        self.send(&StatusMessage::Progress { done_ns, total_ns });
    }

    /// Prints a text on the standard output of the command line. The command line redraws its progress bar
    /// after the text.
    pub fn print(&self, text: &str) {
        self.send(&StatusMessage::Print {
            text: text.to_owned(),
        });
    }

    fn send(&self, status: &StatusMessage) {
        let Ok(mut line) = serde_json::to_vec(status) else {
            return;
        };
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // The command line of `lab up` has ended, so a failed write is expected.
        let _ = file.write_all(&line);
    }
}

/// The read end of the status pipe, in the command line. The pipe reaches its end when the last process of
/// the lab ends.
#[derive(Debug)]
pub(super) struct StatusReader(BufReader<File>);

impl StatusReader {
    pub(super) fn new(file: File) -> StatusReader {
        StatusReader(BufReader::new(file))
    }

    pub(super) fn file(&self) -> &File {
        self.0.get_ref()
    }

    /// Whether the buffer may have a complete line that `poll` does not report.
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
