//! Operations, counters and settings in messages of the lock-step protocol.

use xoff_lockstep::{CounterValues, HostRequest, SettingValues};
use xoff_units::Picos;

use crate::device::{ClassTrust, Counters, Operation, Settings};
use crate::far_host::SettingsMessage;
use crate::traffic::find_sequence;

/// Returns the request of an operation. `frames` has a data frame of each class.
pub(crate) fn to_request(operation: Operation, frames: &[Vec<u8>]) -> HostRequest {
    match operation {
        Operation::StartTraffic {
            class,
            share_permille,
        } => {
            let frame = frames.get(usize::from(class)).cloned().unwrap_or_default();
            HostRequest::StartTraffic {
                class,
                share_permille: share_permille.min(1_000),
                sequence_offset: find_sequence(&frame).unwrap_or_default() as u32,
                frame,
            }
        }
        Operation::StopTraffic { class } => HostRequest::StopTraffic { class },
        Operation::SetPfc { enabled } => HostRequest::SetPfc { enabled },
        Operation::SetLinkPause { is_honoured } => HostRequest::SetLinkPause { is_honoured },
        Operation::SetUnread { classes } => HostRequest::SetUnread { classes },
        Operation::SetTrust(trust) => HostRequest::SetTrust {
            trusts_pcp: trust == ClassTrust::Pcp,
        },
        Operation::SetWilling { is_willing } => HostRequest::SetWilling { is_willing },
        Operation::Reset => HostRequest::ResetDevice,
    }
}

/// Returns the operation of a request. `None`: the request reads counters or settings.
pub(crate) fn to_operation(request: &HostRequest) -> Option<Operation> {
    Some(match *request {
        HostRequest::StartTraffic {
            class,
            share_permille,
            ..
        } => Operation::StartTraffic {
            class,
            share_permille,
        },
        HostRequest::StopTraffic { class } => Operation::StopTraffic { class },
        HostRequest::SetPfc { enabled } => Operation::SetPfc { enabled },
        HostRequest::SetLinkPause { is_honoured } => Operation::SetLinkPause { is_honoured },
        HostRequest::SetUnread { classes } => Operation::SetUnread { classes },
        HostRequest::SetTrust { trusts_pcp: true } => Operation::SetTrust(ClassTrust::Pcp),
        HostRequest::SetTrust { trusts_pcp: false } => Operation::SetTrust(ClassTrust::Dscp),
        HostRequest::SetWilling { is_willing } => Operation::SetWilling { is_willing },
        HostRequest::ResetDevice => Operation::Reset,
        HostRequest::ReadCounters | HostRequest::ReadSettings => return None,
    })
}

/// Returns the counters of a message.
pub(crate) fn to_counters(values: &CounterValues) -> Counters {
    Counters {
        pfc_rx: values.pfc_rx,
        pfc_tx: values.pfc_tx,
        paused_ns: values.paused_ns,
        rx_frames: values.rx_frames,
        rx_discards: values.rx_discards,
        rx_unsupported_control: values.rx_unsupported_control,
        control_frames_to_host: values.control_frames_to_host,
        link_resets: values.link_resets,
        storm_events: values.storm_events,
    }
}

/// Returns counters for a message.
pub(crate) fn from_counters(counters: &Counters) -> CounterValues {
    CounterValues {
        pfc_rx: counters.pfc_rx,
        pfc_tx: counters.pfc_tx,
        paused_ns: counters.paused_ns,
        rx_frames: counters.rx_frames,
        rx_discards: counters.rx_discards,
        rx_unsupported_control: counters.rx_unsupported_control,
        control_frames_to_host: counters.control_frames_to_host,
        link_resets: counters.link_resets,
        storm_events: counters.storm_events,
    }
}

/// Returns the settings of a message.
pub(crate) fn to_settings(values: &SettingValues) -> Settings {
    let message = SettingsMessage {
        pfc: values.pfc,
        headroom_bytes: values.headroom_bytes,
        storm_limit_ns: None,
        traffic_class: values.traffic_class,
        bandwidth_percent: values.bandwidth_percent,
        algorithm: values.algorithm,
    };
    Settings {
        storm_limit: values.storm_limit_ps.map(Picos),
        ..Settings::from(message)
    }
}

/// Returns settings for a message.
pub(crate) fn from_settings(settings: &Settings) -> SettingValues {
    let message = SettingsMessage::from(settings);
    SettingValues {
        pfc: message.pfc,
        headroom_bytes: message.headroom_bytes,
        storm_limit_ps: settings.storm_limit.map(|limit| limit.0),
        traffic_class: message.traffic_class,
        bandwidth_percent: message.bandwidth_percent,
        algorithm: message.algorithm,
    }
}
