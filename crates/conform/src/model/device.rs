//! The model device: a model host of xoff behind a link in virtual time.

use xoff_host::{FlowRate, Host, HostConfig, HostConfigError, ReceiveBuffer};
use xoff_units::{LinkTiming, Picos};
use xoff_wire::lldp;
use xoff_wire::parse::parse;
use xoff_wire::{ETHERTYPE_MAC_CONTROL, MacControl, PRIORITIES};

use super::dcbx_agent::DcbxAgent;
use crate::device::{Counters, DeviceUnderTest, Operation, Settings, Unsupported};
use crate::link_frame::LinkFrame;
use crate::traffic::{INSTRUMENT_MAC, MODEL_MAC, flow_of_class, traffic_host};

/// Size of the receive buffer in bytes.
const BUFFER_BYTES: u32 = 1 << 20;
/// Fill level of a class in percent of the buffer at which the device sends XOFF.
const XOFF_PERCENT: u32 = 12;
/// Fill level of a paused class in percent of the buffer at which the device sends XON.
const XON_PERCENT: u32 = 6;
/// Number of longest pauses after which the device stops pausing its peer.
const STORM_LIMIT_PAUSES: u64 = 8;

/// Returns the configuration of the receive buffer of the model device.
fn receive_buffer(link: &LinkTiming) -> ReceiveBuffer {
    ReceiveBuffer::at_link_speed(BUFFER_BYTES, XOFF_PERCENT, XON_PERCENT, link)
}

/// A model host that honours and sends PFC. PFC of all priorities is enabled at the start, and no traffic runs.
///
/// If the host does not read for a long time, the device stops sending PFC (storm prevention).
#[derive(Debug)]
pub struct ModelDevice {
    host: Host,
    dcbx: DcbxAgent,
    link: LinkTiming,
    buffer: Vec<u8>,
    /// Start of the current time in which the device pauses its peer. [`Picos::NEVER`]: it does not.
    pausing_since: Picos,
    storm_limit: Picos,
    /// True while storm prevention removes PFC frames.
    is_storm: bool,
    storm_events: u64,
    /// Number of PFC frames that storm prevention has removed, by priority.
    removed_pfc: [u64; PRIORITIES],
    link_resets: u64,
}

impl ModelDevice {
    /// Creates the device on a link.
    ///
    /// # Errors
    /// The speed of the link is not 1 to 1 600 000 Mb/s.
    pub fn new(link: LinkTiming) -> Result<ModelDevice, HostConfigError> {
        ModelDevice::with_changes(link, |_| ())
    }

    /// Creates the device with a changed configuration of its host.
    pub(super) fn with_changes(
        link: LinkTiming,
        change: impl FnOnce(&mut HostConfig),
    ) -> Result<ModelDevice, HostConfigError> {
        let mut config = traffic_host("model host", MODEL_MAC, INSTRUMENT_MAC, link);
        config.nic.receive_buffer = Some(receive_buffer(&link));
        change(&mut config);
        let host = Host::new(&config)?;
        Ok(ModelDevice {
            buffer: vec![0; host.frame_len_max()],
            dcbx: DcbxAgent::new(config.mac, config.nic.pfc_honoured),
            host,
            link,
            pausing_since: Picos::NEVER,
            storm_limit: Picos(link.pause_duration(u16::MAX).0 * STORM_LIMIT_PAUSES),
            is_storm: false,
            storm_events: 0,
            removed_pfc: [0; PRIORITIES],
            link_resets: 0,
        })
    }

    /// Advances DCBX, and applies the PFC settings in effect.
    fn advance_dcbx(&mut self, now: Picos) {
        if self.dcbx.next_deadline() > now {
            return;
        }
        if let Some(frame) = self.dcbx.advance(now) {
            // A full queue drops the frame. The next frame follows after the interval.
            let _ = self.host.send_frame(now, &frame);
            self.buffer.resize(self.host.frame_len_max(), 0);
        }
        self.apply_dcbx(now);
    }

    fn apply_dcbx(&mut self, now: Picos) {
        let enabled = self.dcbx.operational().pfc_enabled;
        if enabled != self.host.config().nic.pfc_honoured {
            self.host.set_pfc(now, enabled);
        }
    }

    /// Returns whether storm prevention permits a frame to leave at `now`.
    fn passes_storm_prevention(&mut self, now: Picos, frame: &[u8]) -> bool {
        let Ok(MacControl::Pfc(pfc)) = MacControl::parse(frame) else {
            return true;
        };
        if !pfc.is_xoff() {
            self.pausing_since = Picos::NEVER;
            self.is_storm = false;
            return true;
        }
        if self.pausing_since == Picos::NEVER {
            self.pausing_since = now;
        }
        let end = self.pausing_since.saturating_add(self.storm_limit);
        if now < end {
            return true;
        }
        self.storm_events += u64::from(!self.is_storm);
        self.is_storm = true;
        for (class, removed) in self.removed_pfc.iter_mut().enumerate() {
            *removed += u64::from(pfc.enable >> class & 1);
        }
        false
    }
}

impl DeviceUnderTest for ModelDevice {
    fn name(&self) -> String {
        self.host.name().to_owned()
    }

    fn mac(&self) -> [u8; 6] {
        self.host.config().mac
    }

    fn receive(&mut self, now: Picos, frame: LinkFrame) {
        // The MAC drops frames with a wrong FCS and frames that are too short.
        if frame.defect.is_some() {
            return;
        }
        if frame.bytes.get(12..14) == Some(&lldp::ETHERTYPE.to_be_bytes()) {
            self.dcbx.receive(now, &frame.bytes);
            self.apply_dcbx(now);
            return;
        }
        self.host
            .receive(now, now.as_nanos(), &frame.bytes, &parse(&frame.bytes));
    }

    fn transmit(&mut self, now: Picos) -> Option<LinkFrame> {
        self.advance_dcbx(now);
        loop {
            let frame_len = self.host.transmit(now, now.as_nanos(), &mut self.buffer)?;
            let frame = &self.buffer[..frame_len];
            let is_control = frame[12..14] == ETHERTYPE_MAC_CONTROL.to_be_bytes();
            let frame = frame.to_vec();
            if !is_control || self.passes_storm_prevention(now, &frame) {
                return Some(LinkFrame::new(frame));
            }
        }
    }

    fn next_deadline(&self) -> Picos {
        self.host.next_deadline().min(self.dcbx.next_deadline())
    }

    fn operate(&mut self, now: Picos, operation: Operation) -> Result<(), Unsupported> {
        match operation {
            Operation::StartTraffic {
                class,
                share_permille,
            } => {
                let flow = flow_of_class(class, false);
                let rate = FlowRate::LinkShare((share_permille * 1_000).clamp(1, 1_000_000));
                let is_started = self.host.set_flow_rate(flow, rate) && self.host.start_flow(now, flow);
                return match is_started {
                    true => Ok(()),
                    false => Err(Unsupported(format!("the device has no class {class}"))),
                };
            }
            Operation::StopTraffic { class } => {
                let _ = self.host.stop_flow(flow_of_class(class, false));
            }
            Operation::SetPfc { enabled } => {
                self.dcbx.set_pfc(enabled);
                self.apply_dcbx(now);
            }
            Operation::SetWilling { is_willing } => self.dcbx.set_willing(now, is_willing),
            Operation::SetLinkPause { is_honoured } => self.host.set_pause_honoured(now, is_honoured),
            Operation::SetUnread { classes } => self.host.set_unread_classes(now, classes),
            Operation::SetTrust(trust) => self.host.set_class_trust(trust),
            Operation::Reset => {
                self.link_resets += 1;
                self.pausing_since = Picos::NEVER;
                return self
                    .host
                    .reset(now)
                    .map_err(|error| Unsupported(error.to_string()));
            }
        }
        Ok(())
    }

    fn counters(&self, now: Picos) -> Result<Counters, Unsupported> {
        let results = self.host.results(now);
        let mut rx_frames = [0; PRIORITIES];
        for flow in &results.received {
            if let Some(count) = rx_frames.get_mut(flow.flow as usize) {
                *count += flow.received_frames;
            }
        }
        let nic = &results.nic;
        Ok(Counters {
            pfc_rx: nic.pfc_rx,
            pfc_tx: std::array::from_fn(|class| nic.pfc_tx[class].saturating_sub(self.removed_pfc[class])),
            paused_ns: nic.paused_ns,
            rx_frames,
            rx_discards: nic.rx_dropped_frames,
            rx_unsupported_control: results.totals.malformed_control_frames,
            // The NIC of a model host consumes all MAC control frames.
            control_frames_to_host: 0,
            link_resets: self.link_resets,
            storm_events: self.storm_events,
        })
    }

    fn settings(&self, _: Picos) -> Result<Settings, Unsupported> {
        let config = &self.host.config().nic;
        let headroom = receive_buffer(&self.link);
        Ok(Settings {
            pfc: config.pfc_honoured,
            headroom_bytes: u64::from(headroom.buffer_bytes - headroom.xoff_bytes),
            storm_limit: Some(self.storm_limit),
            ets: self.dcbx.operational().ets,
        })
    }
}
