//! A record of received MAC control frames, for those who test flow control.

use std::collections::VecDeque;

use crate::ids::PortId;
use xoff_units::Picos;

/// Most records kept; the oldest go first.
pub const CONTROL_RECORDS_MAX: usize = 256;
/// Octets of a frame kept: all of a PFC frame.
pub const CONTROL_RECORD_BYTES: usize = 60;

/// A MAC control frame as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlRecord {
    /// When, in model time.
    pub at: Picos,
    /// Where.
    pub port: PortId,
    /// Its length without FCS; longer than `bytes` where cut off.
    pub frame_len: usize,
    /// Its first octets.
    pub bytes: [u8; CONTROL_RECORD_BYTES],
}

/// The latest MAC control frames of ports whose recording is on.
#[derive(Debug)]
pub(super) struct ControlLog {
    recorded: Vec<bool>,
    records: VecDeque<ControlRecord>,
}

impl ControlLog {
    pub(super) fn new(ports: usize) -> ControlLog {
        ControlLog {
            recorded: vec![false; ports],
            records: VecDeque::with_capacity(CONTROL_RECORDS_MAX),
        }
    }

    pub(super) fn set(&mut self, port: PortId, on: bool) {
        self.recorded[port.index()] = on;
    }

    pub(super) fn record(&mut self, at: Picos, port: PortId, frame: &[u8]) {
        if !self.recorded[port.index()] {
            return;
        }
        if self.records.len() == CONTROL_RECORDS_MAX {
            self.records.pop_front();
        }
        let mut bytes = [0; CONTROL_RECORD_BYTES];
        let kept = frame.len().min(bytes.len());
        bytes[..kept].copy_from_slice(&frame[..kept]);
        self.records.push_back(ControlRecord {
            at,
            port,
            frame_len: frame.len(),
            bytes,
        });
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &ControlRecord> {
        self.records.iter()
    }
}
