//! The DCBX agent of the model device: receives and sends LLDP, and knows the settings in effect.

use xoff_units::Picos;
use xoff_wire::dcbx::{DcbxConfiguration, DcbxPort, Operational};
use xoff_wire::lldp::{ChassisId, Lldpdu, PortId};

/// Time to live of the LLDP frames of the device, in seconds.
const TTL_S: u16 = 120;
/// Interval of the LLDP frames of the device (IEEE 802.1AB 9.2.5.7, `msgTxInterval`).
const SEND_INTERVAL: Picos = Picos::from_millis(30_000);

/// A DCBX agent. It is off until the host of the device sets whether it is willing.
#[derive(Debug)]
pub(super) struct DcbxAgent {
    mac: [u8; 6],
    port: DcbxPort,
    is_on: bool,
    next_frame_at: Picos,
}

impl DcbxAgent {
    /// Creates an agent that is off. `pfc_enabled` is the PFC configuration of the administrator.
    pub(super) fn new(mac: [u8; 6], pfc_enabled: u8) -> DcbxAgent {
        let mut configuration = DcbxConfiguration::default();
        configuration.pfc.enabled = pfc_enabled;
        DcbxAgent {
            mac,
            port: DcbxPort::new(mac, configuration),
            is_on: false,
            next_frame_at: Picos::NEVER,
        }
    }

    /// Changes the PFC configuration of the administrator.
    pub(super) fn set_pfc(&mut self, enabled: u8) {
        let mut configuration = self.port.configuration().clone();
        configuration.pfc.enabled = enabled;
        self.port.set_configuration(configuration);
    }

    /// Switches the agent on, and sets whether it accepts the settings of the peer.
    pub(super) fn set_willing(&mut self, now: Picos, is_willing: bool) {
        let mut configuration = self.port.configuration().clone();
        configuration.pfc.is_willing = is_willing;
        configuration.ets.is_willing = is_willing;
        self.port.set_configuration(configuration);
        self.is_on = true;
        self.next_frame_at = now;
    }

    /// Processes an LLDP frame. A frame that is not valid has no effect.
    pub(super) fn receive(&mut self, now: Picos, frame: &[u8]) {
        if let Ok(received) = Lldpdu::parse(frame)
            && self.is_on
        {
            self.port.receive(now.as_nanos(), &received);
            self.next_frame_at = now;
        }
    }

    /// Removes expired neighbours. Returns the LLDP frame that is due.
    pub(super) fn advance(&mut self, now: Picos) -> Option<Vec<u8>> {
        self.port.advance(now.as_nanos());
        if now < self.next_frame_at {
            return None;
        }
        self.next_frame_at = now + SEND_INTERVAL;
        let mut pdu = Lldpdu::new(ChassisId::mac(self.mac), PortId::mac(self.mac), TTL_S);
        pdu.dcbx = self.port.tlvs_to_send();
        pdu.to_frame(self.mac).ok()
    }

    /// Returns the settings in effect.
    pub(super) fn operational(&self) -> Operational {
        self.port.operational()
    }

    /// Returns the time of the next frame or of the next expiry.
    pub(super) fn next_deadline(&self) -> Picos {
        let expiry = self.port.next_expiry_ns().map_or(Picos::NEVER, Picos::from_nanos);
        self.next_frame_at.min(expiry)
    }
}
