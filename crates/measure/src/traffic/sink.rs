//! Counts what an interface receives, and looks at samples.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::frames::{filter, sample_of};
use xoff_ports::tester::{FrameListener, FrameSender};

/// What arrived between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Frames of the generator.
    pub frames: u64,
    /// Frames of others: ARP, pauses, bridges' own.
    pub strangers: u64,
    /// Samples that found no room in the sink's socket.
    pub unseen: u64,
}

/// The far end of a trial.
#[derive(Debug)]
pub(super) struct Sink {
    device: String,
    statistics: File,
    text: Vec<u8>,
    listener: FrameListener,
    pub(super) sender: FrameSender,
    before: u64,
    arrivals: Arrivals,
    /// Number and time of each sample, in the order of arrival.
    samples: Vec<(usize, u64)>,
}

impl Sink {
    /// On a device of the calling thread's namespace.
    pub(super) fn open(device: &str) -> io::Result<Sink> {
        let mut sink = Sink {
            device: device.to_owned(),
            statistics: File::open("/proc/thread-self/net/dev")?,
            text: vec![0; 64 * 1024],
            listener: FrameListener::open(device, &filter())?,
            sender: FrameSender::open(device)?,
            before: 0,
            arrivals: Arrivals::default(),
            samples: Vec::new(),
        };
        sink.before = sink.received()?;
        Ok(sink)
    }

    /// Frames that the interface has received, ever.
    pub(super) fn received(&mut self) -> io::Result<u64> {
        let mut len = 0;
        loop {
            match self.statistics.read_at(&mut self.text[len..], len as u64)? {
                0 => break,
                more => len += more,
            }
            if len == self.text.len() {
                self.text.resize(2 * len, 0);
            }
        }
        let text = String::from_utf8_lossy(&self.text[..len]);
        received_of(&text, &self.device).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Forgets everything up to now.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        self.listener.receive(|_| {});
        self.listener.take_lost();
        self.before = self.received()?;
        self.arrivals = Arrivals::default();
        self.samples.clear();
        Ok(())
    }

    /// Takes what its socket has heard.
    pub(super) fn collect(&mut self) {
        let (arrivals, samples) = (&mut self.arrivals, &mut self.samples);
        self.listener.receive(|heard| match sample_of(heard.bytes) {
            Some(number) => samples.push((number, heard.at_ns)),
            None => arrivals.strangers += 1,
        });
        arrivals.unseen += self.listener.take_lost();
    }

    /// What has arrived since the reset, and the samples.
    pub(super) fn arrivals(&mut self) -> io::Result<(Arrivals, &[(usize, u64)])> {
        self.collect();
        let received = self.received()? - self.before;
        self.arrivals.frames = received.saturating_sub(self.arrivals.strangers);
        Ok((self.arrivals.clone(), &self.samples))
    }
}

/// The column `packets` of `Receive` in `/proc/net/dev`.
fn received_of(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_the_right_device_is_read() {
        let text = " face |bytes packets\n  s1: 10 7 0 0\n s11:3 9 0 0\n";
        assert_eq!(received_of(text, "s1"), Some(7));
        assert_eq!(received_of(text, "s11"), Some(9));
        assert_eq!(received_of(text, "s"), None);
    }
}
