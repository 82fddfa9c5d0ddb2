//! A sender that honours PFC, as a NIC does. Its classes share the link, and a frame in flight completes.

use xoff_dataplane::pfc::PauseReceiver;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::{MacControl, Pfc};

/// A flow of frames of one class. Bytes 42 to 45 of each frame carry its number, from 0.
#[derive(Debug)]
pub struct Flow {
    pub priority: u8,
    pub frame: Vec<u8>,
    /// Interval between frames. Zero: line rate.
    pub interval: Picos,
    /// No frame starts after this time.
    pub until: Picos,
    pub sent: u32,
    next_frame_at: Picos,
}

impl Flow {
    pub fn new(priority: u8, frame: Vec<u8>, interval: Picos, until: Picos) -> Flow {
        Flow {
            priority,
            frame,
            interval,
            until,
            sent: 0,
            next_frame_at: Picos::ZERO,
        }
    }
}

/// Returns the number of a frame of a [`Flow`].
pub fn frame_number(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[42], frame[43], frame[44], frame[45]])
}

#[derive(Debug)]
pub struct Sender {
    link: LinkTiming,
    flows: Vec<Flow>,
    pause: PauseReceiver,
    link_free_at: Picos,
    next_flow: usize,
    /// Number of received PFC frames of each priority.
    pub received_pfc_counts: [u64; 8],
    /// Received frames that are not PFC frames.
    pub received_frames: Vec<Vec<u8>>,
}

impl Sender {
    pub fn new(link: LinkTiming, flows: Vec<Flow>) -> Sender {
        Sender {
            link,
            flows,
            pause: PauseReceiver::new(),
            link_free_at: Picos::ZERO,
            next_flow: 0,
            received_pfc_counts: [0; 8],
            received_frames: Vec::new(),
        }
    }

    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    pub fn receive(&mut self, now: Picos, frame: &[u8]) {
        match MacControl::parse(frame) {
            Ok(MacControl::Pfc(Pfc { enable, quanta })) => {
                self.pause.receive(now, enable, &quanta, 0xff, &self.link);
                for n in (0..8).filter(|n| enable & 1 << n != 0) {
                    self.received_pfc_counts[n] += 1;
                }
            }
            _ => self.received_frames.push(frame.to_vec()),
        }
    }

    /// Returns the next frame and its arrival time at the other end, if a frame starts now, and the time of
    /// the next call.
    pub fn start_next_frame(&mut self, now: Picos) -> (Option<(Picos, Vec<u8>)>, Picos) {
        self.pause.expire(now);
        if self.link_free_at > now {
            // The event that made the link busy has scheduled a call for its end.
            return (None, Picos::NEVER);
        }
        let flows = self.flows.len();
        for n in (0..flows).map(|n| (self.next_flow + n) % flows) {
            let flow = &mut self.flows[n];
            let paused = self.pause.paused_priorities() & 1 << flow.priority != 0;
            if paused || flow.next_frame_at > now || now > flow.until {
                continue;
            }
            let mut bytes = flow.frame.clone();
            bytes[42..46].copy_from_slice(&flow.sent.to_be_bytes());
            flow.sent += 1;
            // A class that was paused does not catch up.
            flow.next_frame_at = flow
                .next_frame_at
                .max(Picos(now.0.saturating_sub(flow.interval.0)))
                + flow.interval;
            self.next_flow = (n + 1) % flows;
            let wire_len = self.link.wire_len(self.link.mac_len(bytes.len() as u32));
            self.link_free_at = now + self.link.duration(wire_len);
            return (Some((self.link_free_at, bytes)), self.link_free_at);
        }
        (None, self.next_start_time(now))
    }

    fn next_start_time(&self, now: Picos) -> Picos {
        let flow = |flow: &Flow| match flow.next_frame_at {
            at if at > now && at <= flow.until => at,
            _ => Picos::NEVER,
        };
        let flows = self.flows.iter().map(flow).min().unwrap_or(Picos::NEVER);
        flows.min(self.pause.next_change())
    }
}
