//! Requests to the host of a device, and their replies.

use crate::error::DecodeError;
use crate::header::{Header, kind, read_text};

/// Number of counters in a reply.
const COUNTERS: usize = 44;
/// Length in bytes of the settings in a reply.
const SETTINGS_BYTES: usize = 48;
/// Length of a MAC address in bytes.
const MAC_BYTES: usize = 6;

/// A request to the host of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Send frames of a class without an end (operation 1).
    StartTraffic {
        /// The class, 0 to 7.
        class: u8,
        /// Share of the link in thousandths, 0 to 1000.
        share_permille: u32,
        /// Offset of the number of a frame in `frame`. It has 8 bytes, the most significant one first, and counts the
        /// frames of the class from 0.
        sequence_offset: u32,
        /// The frame without FCS.
        frame: Vec<u8>,
    },
    /// Stop the frames of a class (operation 2).
    StopTraffic {
        /// The class, 0 to 7.
        class: u8,
    },
    /// Enable PFC for these priorities, and disable it for all others (operation 3). Bit *n* is priority *n*.
    SetPfc {
        /// The enabled priorities.
        enabled: u8,
    },
    /// Honour 802.3x PAUSE frames or not (operation 4).
    SetLinkPause {
        /// True: honour them.
        is_honoured: bool,
    },
    /// Do not read received frames of these classes (operation 5). Bit *n* is class *n*.
    SetUnread {
        /// The unread classes.
        classes: u8,
    },
    /// Set the field that determines the class of a received frame (operation 6).
    SetTrust {
        /// True: the PCP of the VLAN tag. False: the DSCP.
        trusts_pcp: bool,
    },
    /// Switch DCBX on, and accept the settings of the peer or not (operation 7).
    SetWilling {
        /// True: accept them.
        is_willing: bool,
    },
    /// Reset the device. Its settings remain, and its traffic continues (operation 8).
    ResetDevice,
    /// Read the counters (operation 9).
    ReadCounters,
    /// Read the settings (operation 10).
    ReadSettings,
}

impl HostRequest {
    /// Returns the header and the payload.
    pub(crate) fn parts(&self, time_ps: u64) -> (Header, Vec<u8>) {
        let (code, b, c) = match self {
            HostRequest::StartTraffic {
                class,
                share_permille,
                sequence_offset,
                ..
            } => (
                1,
                u64::from(*class),
                u64::from(*sequence_offset) << 32 | u64::from(*share_permille),
            ),
            HostRequest::StopTraffic { class } => (2, u64::from(*class), 0),
            HostRequest::SetPfc { enabled } => (3, u64::from(*enabled), 0),
            HostRequest::SetLinkPause { is_honoured } => (4, u64::from(*is_honoured), 0),
            HostRequest::SetUnread { classes } => (5, u64::from(*classes), 0),
            HostRequest::SetTrust { trusts_pcp } => (6, u64::from(*trusts_pcp), 0),
            HostRequest::SetWilling { is_willing } => (7, u64::from(*is_willing), 0),
            HostRequest::ResetDevice => (8, 0, 0),
            HostRequest::ReadCounters => (9, 0, 0),
            HostRequest::ReadSettings => (10, 0, 0),
        };
        let payload = match self {
            HostRequest::StartTraffic { frame, .. } => frame.clone(),
            _ => Vec::new(),
        };
        let header = Header {
            kind: kind::REQUEST,
            code,
            a: time_ps,
            b,
            c,
            ..Header::default()
        };
        (header, payload)
    }

    /// Reads a request.
    pub(crate) fn read(header: &Header, payload: &[u8]) -> Result<HostRequest, DecodeError> {
        let limited = |argument: u64, max: u64| match argument <= max {
            true => Ok(argument),
            false => Err(DecodeError::Argument {
                operation: header.code,
                argument,
                max,
            }),
        };
        let small = |max: u8| limited(header.b, u64::from(max)).map(|value| value as u8);
        Ok(match header.code {
            1 => {
                let share_permille = limited(header.c & u64::from(u32::MAX), 1_000)? as u32;
                let sequence_offset = limited(header.c >> 32, payload.len().saturating_sub(8) as u64)? as u32;
                HostRequest::StartTraffic {
                    class: small(7)?,
                    share_permille,
                    sequence_offset,
                    frame: payload.to_vec(),
                }
            }
            2 => HostRequest::StopTraffic { class: small(7)? },
            3 => HostRequest::SetPfc { enabled: small(255)? },
            4 => HostRequest::SetLinkPause {
                is_honoured: small(1)? != 0,
            },
            5 => HostRequest::SetUnread { classes: small(255)? },
            6 => HostRequest::SetTrust {
                trusts_pcp: small(1)? != 0,
            },
            7 => HostRequest::SetWilling {
                is_willing: small(1)? != 0,
            },
            8 => HostRequest::ResetDevice,
            9 => HostRequest::ReadCounters,
            10 => HostRequest::ReadSettings,
            other => return Err(DecodeError::Operation(other)),
        })
    }
}

/// The counters of a device, in the order of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CounterValues {
    pub pfc_rx: [u64; 8],
    pub pfc_tx: [u64; 8],
    pub paused_ns: [u64; 8],
    pub rx_frames: [u64; 8],
    pub rx_discards: [u64; 8],
    pub rx_unsupported_control: u64,
    pub control_frames_to_host: u64,
    pub link_resets: u64,
    pub storm_events: u64,
}

impl CounterValues {
    fn write(&self) -> Vec<u8> {
        let lists = [
            self.pfc_rx,
            self.pfc_tx,
            self.paused_ns,
            self.rx_frames,
            self.rx_discards,
        ];
        let single = [
            self.rx_unsupported_control,
            self.control_frames_to_host,
            self.link_resets,
            self.storm_events,
        ];
        let values = lists.iter().flatten().chain(&single);
        values.flat_map(|value| value.to_le_bytes()).collect()
    }

    fn read(bytes: &[u8]) -> CounterValues {
        let value = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[8 * at + index]));
        let list = |at: usize| std::array::from_fn(|index| value(at + index));
        CounterValues {
            pfc_rx: list(0),
            pfc_tx: list(8),
            paused_ns: list(16),
            rx_frames: list(24),
            rx_discards: list(32),
            rx_unsupported_control: value(40),
            control_frames_to_host: value(41),
            link_resets: value(42),
            storm_events: value(43),
        }
    }
}

/// The settings of a device, in the order of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingValues {
    /// Priorities for which PFC is in effect. Bit *n* is priority *n*.
    pub pfc: u8,
    /// Number of bytes that the device can store for a class after its XOFF.
    pub headroom_bytes: u64,
    /// Time in picoseconds after which the device stops pausing its peer. `None`: it has no such limit.
    pub storm_limit_ps: Option<u64>,
    /// Traffic class of each priority.
    pub traffic_class: [u8; 8],
    /// Share of each traffic class in percent.
    pub bandwidth_percent: [u8; 8],
    /// Number of the selection algorithm of each traffic class (IEEE 802.1Q table D-8).
    pub algorithm: [u8; 8],
}

impl SettingValues {
    fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SETTINGS_BYTES);
        for value in [
            u64::from(self.pfc),
            self.headroom_bytes,
            self.storm_limit_ps.unwrap_or(u64::MAX),
        ] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        for list in [self.traffic_class, self.bandwidth_percent, self.algorithm] {
            bytes.extend_from_slice(&list);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> SettingValues {
        let value = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let list = |at: usize| std::array::from_fn(|index| bytes[at + index]);
        SettingValues {
            pfc: bytes[0],
            headroom_bytes: value(8),
            storm_limit_ps: Some(value(16)).filter(|limit| *limit != u64::MAX),
            traffic_class: list(24),
            bandwidth_percent: list(32),
            algorithm: list(40),
        }
    }
}

/// The answer to a reset or a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Time at which the operation is done, in picoseconds.
    pub time_ps: u64,
    /// The answer.
    pub body: ReplyBody,
}

/// What a reply contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// The operation is done (form 0).
    Done,
    /// The device cannot execute the request (form 1). The text is the reason.
    Unsupported(String),
    /// The answer to a reset (form 2).
    Started {
        /// MAC address of the port.
        mac: [u8; MAC_BYTES],
        /// Name of the device.
        name: String,
    },
    /// The counters (form 3).
    Counters(Box<CounterValues>),
    /// The settings (form 4).
    Settings(SettingValues),
}

impl Reply {
    /// Returns the header and the payload.
    pub(crate) fn parts(&self) -> (Header, Vec<u8>) {
        let (code, payload) = match &self.body {
            ReplyBody::Done => (0, Vec::new()),
            ReplyBody::Unsupported(reason) => (1, reason.as_bytes().to_vec()),
            ReplyBody::Started { mac, name } => (2, [mac, name.as_bytes()].concat()),
            ReplyBody::Counters(counters) => (3, counters.write()),
            ReplyBody::Settings(settings) => (4, settings.write()),
        };
        let header = Header {
            kind: kind::REPLY,
            code,
            a: self.time_ps,
            ..Header::default()
        };
        (header, payload)
    }

    /// Reads a reply.
    pub(crate) fn read(header: &Header, payload: &[u8]) -> Result<Reply, DecodeError> {
        let length_error = |expected: usize| DecodeError::ReplyLength {
            form: header.code,
            found: payload.len(),
            expected,
        };
        let require = |expected: usize| match payload.len() == expected {
            true => Ok(payload),
            false => Err(length_error(expected)),
        };
        let body = match header.code {
            0 => ReplyBody::Done,
            1 => ReplyBody::Unsupported(read_text(payload, "reason")?),
            2 => {
                let (mac, name) = payload
                    .split_first_chunk::<MAC_BYTES>()
                    .ok_or_else(|| length_error(MAC_BYTES))?;
                ReplyBody::Started {
                    mac: *mac,
                    name: read_text(name, "name")?,
                }
            }
            3 => ReplyBody::Counters(Box::new(CounterValues::read(require(8 * COUNTERS)?))),
            4 => ReplyBody::Settings(SettingValues::read(require(SETTINGS_BYTES)?)),
            other => return Err(DecodeError::ReplyForm(other)),
        };
        Ok(Reply {
            time_ps: header.a,
            body,
        })
    }
}
