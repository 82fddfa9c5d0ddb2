//! Messages between the instrument and the far host, on which the device is. Each message is one line of JSON.

use serde::{Deserialize, Serialize};
use xoff_units::Picos;
use xoff_wire::PRIORITIES;
use xoff_wire::lldp::{EtsTables, SelectionAlgorithm};

use crate::device::{Counters, Operation, Settings};

/// A request to the far host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FarHostRequest {
    /// Stop all traffic, and bring the device to its initial state.
    Start {
        /// Speed of the link in Mb/s.
        speed_mbps: u32,
        /// Name of a mutant of the model device. `None`: the device without a defect.
        mutant: Option<String>,
        /// A data frame of each class in hexadecimal digits. The source address is that of the device. Empty for the
        /// model device, which builds its frames itself.
        frames: Vec<String>,
        /// Offset of the number of a data frame in the frame. It has 8 bytes, the most significant one first.
        sequence_offset: usize,
    },
    /// Change the device.
    Operate(Operation),
    /// Read the counters.
    ReadCounters,
    /// Read the settings.
    ReadSettings,
    /// Report delays and losses since [`FarHostRequest::Start`].
    ReadDisturbance,
}

/// The answer of the far host to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FarHostReply {
    /// The device is ready.
    Started {
        /// Name of the device.
        name: String,
        /// MAC address of its port.
        mac: [u8; 6],
    },
    /// The operation is done.
    Done,
    /// The device cannot execute the request. The text is the reason.
    Unsupported(String),
    /// The counters.
    Counters(Box<Counters>),
    /// The settings.
    Settings(SettingsMessage),
    /// Delays and losses of the far host.
    Disturbance {
        /// Delays of frames and wake-ups: the time since the end of the delay, and its length, in nanoseconds.
        delays_ns: Vec<[u64; 2]>,
        /// Number of frames that the far host lost before the device received them, or after it sent them.
        lost_frames: u64,
    },
}

/// [`Settings`] in a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SettingsMessage {
    /// Priorities for which PFC is in effect.
    pub pfc: u8,
    /// Number of bytes that the device can store for a class after its XOFF.
    pub headroom_bytes: u64,
    /// Time in nanoseconds after which the device stops pausing its peer. `None`: it has no such limit.
    pub storm_limit_ns: Option<u64>,
    /// Traffic class of each priority.
    pub traffic_class: [u8; PRIORITIES],
    /// Share of each traffic class in percent.
    pub bandwidth_percent: [u8; PRIORITIES],
    /// Number of the selection algorithm of each traffic class (IEEE 802.1Q table D-8).
    pub algorithm: [u8; PRIORITIES],
}

impl From<&Settings> for SettingsMessage {
    fn from(settings: &Settings) -> SettingsMessage {
        SettingsMessage {
            pfc: settings.pfc,
            headroom_bytes: settings.headroom_bytes,
            storm_limit_ns: settings.storm_limit.map(Picos::as_nanos),
            traffic_class: settings.ets.traffic_class,
            bandwidth_percent: settings.ets.bandwidth_percent,
            algorithm: settings.ets.algorithm.map(SelectionAlgorithm::number),
        }
    }
}

impl From<SettingsMessage> for Settings {
    fn from(message: SettingsMessage) -> Settings {
        Settings {
            pfc: message.pfc,
            headroom_bytes: message.headroom_bytes,
            storm_limit: message.storm_limit_ns.map(Picos::from_nanos),
            ets: EtsTables {
                traffic_class: message.traffic_class,
                bandwidth_percent: message.bandwidth_percent,
                algorithm: message.algorithm.map(|number| match number {
                    1 => SelectionAlgorithm::CreditBasedShaper,
                    2 => SelectionAlgorithm::Ets,
                    255 => SelectionAlgorithm::VendorSpecific,
                    _ => SelectionAlgorithm::StrictPriority,
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ClassTrust;

    #[test]
    fn messages_are_lines_of_json() {
        let requests = [
            FarHostRequest::Operate(Operation::StartTraffic {
                class: 3,
                share_permille: 50,
            }),
            FarHostRequest::Operate(Operation::SetTrust(ClassTrust::Pcp)),
            FarHostRequest::Operate(Operation::Reset),
            FarHostRequest::ReadCounters,
        ];
        let lines = requests
            .clone()
            .map(|request| serde_json::to_string(&request).expect("JSON"));
        assert_eq!(
            lines,
            [
                r#"{"operate":{"start_traffic":{"class":3,"share_permille":50}}}"#,
                r#"{"operate":{"set_trust":"pcp"}}"#,
                r#"{"operate":"reset"}"#,
                r#""read_counters""#,
            ]
        );
        for (line, request) in lines.iter().zip(requests) {
            assert_eq!(
                serde_json::from_str::<FarHostRequest>(line).expect("a request"),
                request
            );
        }
    }

    #[test]
    fn settings_survive_a_message() {
        let settings = Settings {
            pfc: 0x18,
            headroom_bytes: 900_000,
            storm_limit: Some(Picos::from_millis(268)),
            ets: EtsTables {
                algorithm: [
                    SelectionAlgorithm::Ets,
                    SelectionAlgorithm::VendorSpecific,
                    SelectionAlgorithm::CreditBasedShaper,
                    SelectionAlgorithm::StrictPriority,
                    SelectionAlgorithm::Ets,
                    SelectionAlgorithm::Ets,
                    SelectionAlgorithm::Ets,
                    SelectionAlgorithm::Ets,
                ],
                ..EtsTables::default()
            },
        };
        assert_eq!(Settings::from(SettingsMessage::from(&settings)), settings);
    }
}
