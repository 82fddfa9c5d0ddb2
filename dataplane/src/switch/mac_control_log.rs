//! A record of received MAC control frames, for tests of flow control.

use std::collections::VecDeque;

use crate::ids::PortId;
use xoff_units::Picos;

/// Largest number of records. A new record replaces the oldest one.
pub const CONTROL_RECORDS_MAX: usize = 256;
/// Number of recorded bytes of a frame. A PFC frame fits completely.
pub const CONTROL_RECORD_BYTES: usize = 60;

/// A received MAC control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlRecord {
    /// Model time of the arrival.
    pub at: Picos,
    /// Ingress port.
    pub port: PortId,
    /// Length in bytes without FCS. Longer than `bytes` if the frame was truncated.
    pub frame_len: usize,
    /// The first bytes of the frame.
    pub bytes: [u8; CONTROL_RECORD_BYTES],
}

/// The latest MAC control frames of the ports whose recording is on.
#[derive(Debug)]
pub(super) struct ControlLog {
    is_recorded: Vec<bool>,
    records: VecDeque<ControlRecord>,
}

impl ControlLog {
    pub(super) fn new(ports: usize) -> ControlLog {
        ControlLog {
            is_recorded: vec![false; ports],
            records: VecDeque::with_capacity(CONTROL_RECORDS_MAX),
        }
    }

    pub(super) fn set_recording(&mut self, port: PortId, enabled: bool) {
        self.is_recorded[port.index()] = enabled;
    }

    pub(super) fn record(&mut self, at: Picos, port: PortId, frame: &[u8]) {
        if !self.is_recorded[port.index()] {
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
