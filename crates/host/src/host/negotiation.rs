//! LLDP of a host, and the settings of its NIC that it has negotiated with its peer (DCBX): PFC and ETS.

use xoff_dataplane::Picos;
use xoff_wire::dcbx::ConfigurationSource;
use xoff_wire::lldp::EtsTables;
use xoff_wire::lldp_port::{LldpPort, LldpPortSettings};

use super::Host;

impl Host {
    /// Uses the PFC configuration and the ETS recommendation of the peer if the host is willing.
    pub(super) fn apply_negotiation(&mut self, now: Picos) {
        let negotiated = self.neighbours.lldp().and_then(|port| {
            let is_willing = port.settings().dcbx.as_ref()?.pfc.is_willing;
            Some(port.operational()?.pfc_enabled).filter(|_| is_willing)
        });
        if let Some(enabled) = negotiated.filter(|enabled| *enabled != self.config.nic.pfc_honoured) {
            self.set_pfc(now, enabled);
        }
        let operational = self.neighbours.lldp().and_then(LldpPort::operational);
        let recommended = operational
            .filter(|operational| operational.ets_source == ConfigurationSource::Peer)
            .map(|operational| operational.ets);
        if recommended != self.negotiated_ets {
            self.nic.set_ets(&self.config.nic, recommended.as_ref());
            self.negotiated_ets = recommended;
        }
    }

    /// Changes the settings of LLDP. `None` turns LLDP off, without a shutdown frame. PFC remains as it is until the
    /// next negotiation, and the ETS recommendation of the peer ends.
    pub fn set_lldp(&mut self, now: Picos, settings: Option<LldpPortSettings>) {
        self.config.lldp.clone_from(&settings);
        self.neighbours.set_lldp(now, settings);
        self.apply_negotiation(now);
    }

    /// Tells the LLDP agent that the link has come up or gone down. A link that goes down ends the information of the
    /// peer, so a willing host no longer uses its configuration. The link of a new host is up.
    pub fn set_lldp_link(&mut self, now: Picos, is_up: bool) {
        self.neighbours.set_lldp_link(now, is_up);
        self.apply_negotiation(now);
    }

    /// Returns the LLDP agent. Returns `None` if the host does not use LLDP
    /// ([`HostConfig::lldp`](crate::HostConfig::lldp)).
    pub fn lldp(&self) -> Option<&LldpPort> {
        self.neighbours.lldp()
    }

    /// Returns the ETS recommendation of the peer that the NIC uses. Returns `None` if the configuration applies
    /// ([`NicConfig::ets`](crate::NicConfig::ets)).
    pub fn negotiated_ets(&self) -> Option<&EtsTables> {
        self.negotiated_ets.as_ref()
    }
}
