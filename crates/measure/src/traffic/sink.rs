//! The sink: counts the frames that an interface receives and records samples.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::frames::{sample_filter, sample_number};
use xoff_ports::tester::{FrameListener, FrameSender};

/// Frames that arrived at the sink since the start of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Frames of the generator: the frame counter of the interface minus `other_frames`.
    pub frames: u64,
    /// Number of frames that do not come from the generator, such as ARP frames, pause frames and frames of
    /// bridge protocols.
    pub other_frames: u64,
    /// Number of frames that were lost because the socket of the sink was full. Most of these frames are
    /// samples (frames with a measured latency).
    pub lost_frames: u64,
}

/// The receiving interface of a trial.
#[derive(Debug)]
pub(super) struct ReceivingInterface {
    device: String,
    statistics: File,
    text: Vec<u8>,
    listener: FrameListener,
    pub(super) sender: FrameSender,
    received_before: u64,
    arrivals: Arrivals,
    /// Number and arrival time of each sample, in the order of arrival.
    samples: Vec<(usize, u64)>,
}

impl ReceivingInterface {
    /// Opens the interface `device` in the network namespace of the calling thread.
    pub(super) fn open(device: &str) -> io::Result<ReceivingInterface> {
        let mut sink = ReceivingInterface {
            device: device.to_owned(),
            statistics: File::open("/proc/thread-self/net/dev")?,
            text: vec![0; 64 * 1024],
            listener: FrameListener::open(device, &sample_filter())?,
            sender: FrameSender::open(device)?,
            received_before: 0,
            arrivals: Arrivals::default(),
            samples: Vec::new(),
        };
        sink.received_before = sink.received_frames()?;
        Ok(sink)
    }

    /// Returns the number of frames that the interface has received so far.
    pub(super) fn received_frames(&mut self) -> io::Result<u64> {
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
        parse_received_packets(&text, &self.device).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Discards all arrivals up to now.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        self.listener.receive(|_| {});
        self.listener.take_lost_frames();
        self.received_before = self.received_frames()?;
        self.arrivals = Arrivals::default();
        self.samples.clear();
        Ok(())
    }

    /// Reads the frames of the socket and records the samples.
    pub(super) fn read_socket(&mut self) {
        let (arrivals, samples) = (&mut self.arrivals, &mut self.samples);
        self.listener.receive(|frame| match sample_number(frame.bytes) {
            Some(number) => samples.push((number, frame.captured_ns)),
            None => arrivals.other_frames += 1,
        });
        arrivals.lost_frames += self.listener.take_lost_frames();
    }

    /// Returns the arrivals since the last reset, with number and time of each sample.
    pub(super) fn arrivals(&mut self) -> io::Result<(Arrivals, &[(usize, u64)])> {
        self.read_socket();
        let received = self.received_frames()? - self.received_before;
        self.arrivals.frames = received.saturating_sub(self.arrivals.other_frames);
        Ok((self.arrivals.clone(), &self.samples))
    }
}

/// Returns the packets in the `Receive` columns of an interface in `/proc/net/dev`.
fn parse_received_packets(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_the_named_device_is_read() {
        let text = " face |bytes packets\n  s1: 10 7 0 0\n s11:3 9 0 0\n";
        assert_eq!(parse_received_packets(text, "s1"), Some(7));
        assert_eq!(parse_received_packets(text, "s11"), Some(9));
        assert_eq!(parse_received_packets(text, "s"), None);
    }
}
