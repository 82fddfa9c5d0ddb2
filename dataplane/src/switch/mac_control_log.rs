//! A record of received MAC control frames, for tests of flow control.

use std::collections::VecDeque;

use crate::ids::PortId;
use xoff_units::Picos;

/// Largest number of recorded MAC control frames. A new record then replaces the oldest one.
pub const CONTROL_RECORDS_MAX: usize = 256;
/// Number of recorded bytes of a MAC control frame, without FCS. A PFC frame fits completely.
pub const CONTROL_RECORD_BYTES: usize = 60;

/// The record of a received MAC control frame
/// ([`Switch::mac_control_records`](super::Switch::mac_control_records)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlRecord {
    /// Model time of the arrival.
    pub at: Picos,
    /// Ingress port.
    pub port: PortId,
    /// Length of the frame in bytes, without FCS. If it is above [`CONTROL_RECORD_BYTES`], `bytes` contains
    /// only the first part of the frame.
    pub frame_len: usize,
    /// The first bytes of the frame, beginning with the destination address. Bytes after the end of the frame
    /// are zero.
    pub bytes: [u8; CONTROL_RECORD_BYTES],
}

/// The latest MAC control frames, from the ports whose recording is on.
#[derive(Debug)]
pub(super) struct ControlLog {
    is_recorded: Vec<bool>,
    records: VecDeque<ControlRecord>,
}

impl ControlLog {
    pub(super) fn new(ports: usize) -> ControlLog {
        ControlLog {
            is_recorded: vec![false; ports],
            records: VecDeque::new(),
        }
    }

    pub(super) fn set_recording(&mut self, port: PortId, enabled: bool) {
        self.is_recorded[port.index()] = enabled;
        if enabled {
            self.records.reserve(CONTROL_RECORDS_MAX - self.records.len());
        }
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
