//! What the switch tells the command line while a lab runs: lines of JSON through a pipe.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

/// The switch's end.
#[derive(Clone, Debug)]
pub struct StatusPipe(Arc<Mutex<File>>);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Status {
    /// The switch forwards.
    Ready,
    /// The workload has come so far.
    Progress { done_ns: u64, total_ns: u64 },
    /// To be printed on standard output.
    Print { text: String },
}

impl StatusPipe {
    pub(super) fn new(file: File) -> StatusPipe {
        StatusPipe(Arc::new(Mutex::new(file)))
    }

    /// The switch forwards, and the hosts are there. `lab up` is done with this.
    pub fn ready(&self) {
        self.send(&Status::Ready);
    }

    /// How far the workload has come, both in nanoseconds of model time.
    pub fn progress(&self, done_ns: u64, total_ns: u64) {
        self.send(&Status::Progress { done_ns, total_ns });
    }

    /// Prints `text` on the standard output of the command, clear of the progress bar.
    pub fn print(&self, text: &str) {
        self.send(&Status::Print {
            text: text.to_owned(),
        });
    }

    fn send(&self, status: &Status) {
        let Ok(mut line) = serde_json::to_vec(status) else {
            return;
        };
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // After `lab up` nobody listens any more, and that is as it should be.
        let _ = file.write_all(&line);
    }
}

/// The command line's end. Ends when the last process of the lab has gone.
#[derive(Debug)]
pub(super) struct StatusReader(BufReader<File>);

impl StatusReader {
    pub(super) fn new(file: File) -> StatusReader {
        StatusReader(BufReader::new(file))
    }

    pub(super) fn file(&self) -> &File {
        self.0.get_ref()
    }

    /// Whether a whole line may be waiting in memory, where no `poll` sees it.
    pub(super) fn has_buffered(&self) -> bool {
        !self.0.buffer().is_empty()
    }

    /// The next message; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Status> {
        /// No message is longer; a broken one must not fill memory.
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
