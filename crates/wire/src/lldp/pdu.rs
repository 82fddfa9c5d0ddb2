//! The contents of an LLDP frame, and its writer.

use super::application::{self, ApplicationEntry};
use super::basic::{ManagementAddress, SystemCapabilities};
use super::ets::{self, EtsConfiguration, EtsRecommendation};
use super::identifier::{CHASSIS, ChassisId, PORT, PortId};
use super::pfc::{self, PfcConfiguration};
use super::problem::{TlvName, TlvProblem};
use super::tlv::{RawTlv, kind, pad_frame, push_tlv, start_frame};
use super::{OUI_IEEE_8021, TLV_LEN_MAX};

/// Longest description or system name in bytes.
pub(super) const TEXT_LEN_MAX: usize = 255;

pub(super) const PORT_DESCRIPTION: TlvName = TlvName {
    name: "port description",
    clause: "IEEE 802.1AB 8.5.5",
};
pub(super) const SYSTEM_NAME: TlvName = TlvName {
    name: "system name",
    clause: "IEEE 802.1AB 8.5.6",
};
pub(super) const SYSTEM_DESCRIPTION: TlvName = TlvName {
    name: "system description",
    clause: "IEEE 802.1AB 8.5.7",
};

/// The DCBX TLVs of a port (IEEE 802.1Q clause 38).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DcbxTlvs {
    /// The ETS configuration in operation.
    pub ets_configuration: Option<EtsConfiguration>,
    /// The ETS configuration that the port recommends to its peer.
    pub ets_recommendation: Option<EtsRecommendation>,
    /// The PFC configuration in operation.
    pub pfc: Option<PfcConfiguration>,
    /// Priorities of applications. `None` if the frame does not contain the TLV.
    pub applications: Option<Vec<ApplicationEntry>>,
}

impl DcbxTlvs {
    /// Returns whether none of the TLVs is present.
    pub fn is_empty(&self) -> bool {
        *self == DcbxTlvs::default()
    }
}

/// The contents of an LLDP frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lldpdu {
    /// Identifies the chassis of the sender.
    pub chassis_id: ChassisId,
    /// Identifies the port of the sender.
    pub port_id: PortId,
    /// Time in seconds for which a receiver keeps the information. The value 0 tells receivers to delete it.
    pub ttl_s: u16,
    /// Description of the port, at most 255 bytes.
    pub port_description: Option<String>,
    /// Name of the system, at most 255 bytes.
    pub system_name: Option<String>,
    /// Description of the system, at most 255 bytes.
    pub system_description: Option<String>,
    /// Functions of the system.
    pub capabilities: Option<SystemCapabilities>,
    /// Management addresses of the system.
    pub management_addresses: Vec<ManagementAddress>,
    /// The DCBX TLVs.
    pub dcbx: DcbxTlvs,
    /// All other TLVs: reserved types and other organisationally specific TLVs.
    pub others: Vec<RawTlv>,
}

impl Lldpdu {
    /// Returns an LLDPDU with the mandatory TLVs only. `ttl_s` is the time to live in seconds.
    pub fn new(chassis_id: ChassisId, port_id: PortId, ttl_s: u16) -> Lldpdu {
        Lldpdu {
            chassis_id,
            port_id,
            ttl_s,
            port_description: None,
            system_name: None,
            system_description: None,
            capabilities: None,
            management_addresses: Vec::new(),
            dcbx: DcbxTlvs::default(),
            others: Vec::new(),
        }
    }

    /// Returns whether the sender stops sending (shutdown LLDPDU, IEEE 802.1AB 9.1.2.2).
    pub fn is_shutdown(&self) -> bool {
        self.ttl_s == 0
    }

    /// Writes the frame with all TLVs, the end TLV and padding, without FCS. `source` is the MAC address of the
    /// sending port. A shutdown LLDPDU contains the mandatory TLVs only.
    ///
    /// # Errors
    ///
    /// Returns the first field that is out of range or contradicts another field. [`write_tlvs`](super::write_tlvs)
    /// writes frames without a check.
    pub fn to_frame(&self, source: [u8; 6]) -> Result<Vec<u8>, TlvProblem> {
        let mut frame = start_frame(source);
        check_identifier(CHASSIS, &self.chassis_id.value)?;
        let subtype = self.chassis_id.subtype.number();
        push_tlv(
            &mut frame,
            kind::CHASSIS_ID,
            &[&[subtype], &self.chassis_id.value],
        );
        check_identifier(PORT, &self.port_id.value)?;
        let subtype = self.port_id.subtype.number();
        push_tlv(&mut frame, kind::PORT_ID, &[&[subtype], &self.port_id.value]);
        push_tlv(&mut frame, kind::TIME_TO_LIVE, &[&self.ttl_s.to_be_bytes()]);
        if !self.is_shutdown() {
            self.push_basic(&mut frame)?;
            push_dcbx(&mut frame, &self.dcbx)?;
            for tlv in &self.others {
                check_other(tlv)?;
                push_tlv(&mut frame, tlv.kind, &[&tlv.value]);
            }
        }
        push_tlv(&mut frame, kind::END, &[]);
        pad_frame(&mut frame);
        Ok(frame)
    }

    fn push_basic(&self, frame: &mut Vec<u8>) -> Result<(), TlvProblem> {
        let texts = [
            (PORT_DESCRIPTION, kind::PORT_DESCRIPTION, &self.port_description),
            (SYSTEM_NAME, kind::SYSTEM_NAME, &self.system_name),
            (
                SYSTEM_DESCRIPTION,
                kind::SYSTEM_DESCRIPTION,
                &self.system_description,
            ),
        ];
        for (name, kind, text) in texts {
            if let Some(text) = text {
                if text.len() > TEXT_LEN_MAX {
                    return Err(name.problem("length in bytes", text.len(), "0 to 255"));
                }
                push_tlv(frame, kind, &[text.as_bytes()]);
            }
        }
        if let Some(capabilities) = self.capabilities {
            capabilities.check()?;
            push_tlv(frame, kind::SYSTEM_CAPABILITIES, &[&capabilities.to_bytes()]);
        }
        for address in &self.management_addresses {
            push_tlv(frame, kind::MANAGEMENT_ADDRESS, &[&address.to_bytes()?]);
        }
        Ok(())
    }
}

fn check_identifier(name: TlvName, value: &[u8]) -> Result<(), TlvProblem> {
    if (1..=255).contains(&value.len()) {
        return Ok(());
    }
    Err(name.problem("length in bytes", value.len() + 1, "2 to 256"))
}

/// Checks a TLV of [`Lldpdu::others`]. Types 0 to 8 and the DCBX TLVs have their own fields.
fn check_other(tlv: &RawTlv) -> Result<(), TlvProblem> {
    const OTHER: TlvName = TlvName {
        name: "other TLV",
        clause: "IEEE 802.1AB 8.4 and 8.6",
    };
    if !(9..=127).contains(&tlv.kind) {
        return Err(OTHER.problem("type", usize::from(tlv.kind), "9 to 127"));
    }
    if tlv.value.len() > TLV_LEN_MAX {
        return Err(OTHER.problem("length in bytes", tlv.value.len(), "0 to 511"));
    }
    if tlv.kind == kind::ORGANISATION {
        match tlv.as_organisation() {
            None => return Err(OTHER.problem("length in bytes", tlv.value.len(), "at least 4")),
            Some((OUI_IEEE_8021, subtype, _)) if is_dcbx_subtype(subtype) => {
                return Err(OTHER.problem("subtype", usize::from(subtype), "not a DCBX TLV"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Returns whether a TLV of IEEE 802.1 with this subtype is a DCBX TLV.
fn is_dcbx_subtype(subtype: u8) -> bool {
    let subtypes = [
        ets::CONFIGURATION_SUBTYPE,
        ets::RECOMMENDATION_SUBTYPE,
        pfc::SUBTYPE,
        application::SUBTYPE,
    ];
    subtypes.contains(&subtype)
}

fn push_dcbx(frame: &mut Vec<u8>, dcbx: &DcbxTlvs) -> Result<(), TlvProblem> {
    let mut push = |subtype: u8, information: &[u8]| {
        push_tlv(
            frame,
            kind::ORGANISATION,
            &[&OUI_IEEE_8021, &[subtype], information],
        );
    };
    if let Some(configuration) = dcbx.ets_configuration {
        configuration.check()?;
        push(ets::CONFIGURATION_SUBTYPE, &configuration.to_bytes());
    }
    if let Some(recommendation) = dcbx.ets_recommendation {
        recommendation.check()?;
        push(ets::RECOMMENDATION_SUBTYPE, &recommendation.to_bytes());
    }
    if let Some(configuration) = dcbx.pfc {
        configuration.check()?;
        push(pfc::SUBTYPE, &configuration.to_bytes());
    }
    if let Some(entries) = &dcbx.applications {
        application::check(entries)?;
        push(application::SUBTYPE, &application::to_bytes(entries));
    }
    Ok(())
}
