//! The PFC configuration TLV (IEEE 802.1Q-2018 D.2.10).

use super::problem::{TlvName, TlvProblem};
use crate::PRIORITIES;

pub(super) const SUBTYPE: u8 = 0x0b;
const WILLING: u8 = 0x80;
const MACSEC_BYPASS: u8 = 0x40;
const RESERVED: u8 = 0x30;
const CAPABILITY: u8 = 0x0f;
const PFC: TlvName = TlvName {
    name: "PFC configuration",
    clause: "IEEE 802.1Q-2018 D.2.10",
};

/// The PFC configuration of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfiguration {
    /// Whether the port accepts the configuration of its peer.
    pub is_willing: bool,
    /// Whether the port can bypass MACsec processing while MACsec is disabled (MBC bit). The negotiation ignores
    /// this field.
    pub can_bypass_macsec: bool,
    /// Number of priorities that can have PFC at the same time, 0 to 8.
    pub capability: u8,
    /// Priorities with PFC. Bit *n* is priority *n*.
    pub enabled: u8,
}

impl PfcConfiguration {
    pub(super) fn parse(
        information: &[u8],
        warnings: &mut Vec<TlvProblem>,
    ) -> Result<PfcConfiguration, TlvProblem> {
        let &[flags, enabled] = information else {
            return Err(PFC.problem("length in bytes", information.len() + 4, "6"));
        };
        let pfc = PfcConfiguration {
            is_willing: flags & WILLING != 0,
            can_bypass_macsec: flags & MACSEC_BYPASS != 0,
            capability: flags & CAPABILITY,
            enabled,
        };
        pfc.check()?;
        if flags & RESERVED != 0 {
            warnings.push(PFC.problem(
                "value of the reserved bits",
                usize::from(flags & RESERVED) >> 4,
                "0",
            ));
        }
        Ok(pfc)
    }

    pub(super) fn check(self) -> Result<(), TlvProblem> {
        if usize::from(self.capability) > PRIORITIES {
            return Err(PFC.problem("PFC capability", usize::from(self.capability), "0 to 8"));
        }
        if self.enabled.count_ones() > u32::from(self.capability) {
            let enabled = self.enabled.count_ones() as usize;
            return Err(PFC.problem(
                "number of enabled priorities",
                enabled,
                "at most the PFC capability of the TLV",
            ));
        }
        Ok(())
    }

    pub(super) fn to_bytes(self) -> [u8; 2] {
        let mut flags = self.capability & CAPABILITY;
        if self.is_willing {
            flags |= WILLING;
        }
        if self.can_bypass_macsec {
            flags |= MACSEC_BYPASS;
        }
        [flags, self.enabled]
    }
}
