//! The reader of LLDP frames.

use super::OUI_IEEE_8021;
use super::application::{self, ApplicationEntry};
use super::basic::{CAPABILITIES, ManagementAddress, SystemCapabilities};
use super::ets::{self, EtsConfiguration, EtsRecommendation};
use super::identifier::{
    CHASSIS, ChassisId, ChassisIdSubtype, PORT, PortId, PortIdSubtype, split_identifier,
};
use super::pdu::{Lldpdu, PORT_DESCRIPTION, SYSTEM_DESCRIPTION, SYSTEM_NAME, TEXT_LEN_MAX};
use super::pfc::{self, PfcConfiguration};
use super::problem::{TlvName, TlvProblem};
use super::tlv::{RawTlv, TlvReader, kind, split_organisation};
use crate::{read_array, read_be16};

const TIME_TO_LIVE: TlvName = TlvName {
    name: "time to live",
    clause: "IEEE 802.1AB 8.5.4",
};
const END: TlvName = TlvName {
    name: "end of LLDPDU",
    clause: "IEEE 802.1AB 8.5.1",
};
const ORGANISATION: TlvName = TlvName {
    name: "organisationally specific TLV",
    clause: "IEEE 802.1AB 8.6",
};
/// Order and number of the mandatory TLVs.
const CLAUSE_MANDATORY: &str = "IEEE 802.1AB 8.2 and 9.2.7.7.1";
const CLAUSE_DUPLICATES: &str = "IEEE 802.1Q-2018 D.2: one TLV of each DCBX subtype in an LLDPDU";

/// A received LLDPDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedLldpdu {
    /// Source address of the frame: the MAC address of the sending port.
    pub source: [u8; 6],
    /// The valid TLVs.
    pub pdu: Lldpdu,
    /// Problems of the optional TLVs that are malformed or contradictory. `pdu` does not contain these TLVs.
    pub rejected: Vec<TlvProblem>,
    /// Values that the standard tells a receiver to ignore.
    pub warnings: Vec<TlvProblem>,
}

impl Lldpdu {
    /// Reads an LLDP frame without FCS. The frame must have no VLAN tag.
    ///
    /// A frame without an end TLV is valid if it ends after a TLV. Bytes after the end TLV are ignored. All TLVs
    /// after the mandatory TLVs of a shutdown LLDPDU are ignored.
    ///
    /// If the same DCBX TLV occurs more than once, all copies are rejected. For other TLVs the first copy is used.
    ///
    /// # Errors
    ///
    /// The frame is not valid as a whole (IEEE 802.1AB 9.2.7.7.1): wrong addresses, a missing, malformed or
    /// repeated mandatory TLV, or a TLV that ends behind the end of the frame.
    pub fn parse(frame: &[u8]) -> Result<ReceivedLldpdu, TlvProblem> {
        let mut tlvs = TlvReader::of_frame(frame)?;
        let mut warnings = Vec::new();
        let (subtype, value) = split_identifier(CHASSIS, mandatory(&mut tlvs, CHASSIS, 0)?)?;
        let subtype = ChassisIdSubtype::from_number(subtype);
        let chassis_id = ChassisId { subtype, value };
        chassis_id.warn(&mut warnings);
        let (subtype, value) = split_identifier(PORT, mandatory(&mut tlvs, PORT, 1)?)?;
        let subtype = PortIdSubtype::from_number(subtype);
        let port_id = PortId { subtype, value };
        port_id.warn(&mut warnings);
        let ttl = mandatory(&mut tlvs, TIME_TO_LIVE, 2)?;
        if ttl.len() < 2 {
            return Err(TIME_TO_LIVE.problem("length in bytes", ttl.len(), "2"));
        }
        if ttl.len() > 2 {
            warnings.push(TIME_TO_LIVE.problem("length in bytes", ttl.len(), "2"));
        }
        let mut reader = OptionalTlvs {
            received: ReceivedLldpdu {
                source: read_array(frame, 6..12),
                pdu: Lldpdu::new(chassis_id, port_id, read_be16(ttl, 0..2)),
                rejected: Vec::new(),
                warnings,
            },
            dcbx_copies: [0; 4],
        };
        if !reader.received.pdu.is_shutdown() {
            reader.read_all(&mut tlvs)?;
        }
        Ok(reader.received)
    }
}

/// Returns the value of a mandatory TLV. `index` is its place in the frame, 0 to 2. The type is `index` + 1.
fn mandatory<'a>(tlvs: &mut TlvReader<'a>, name: TlvName, index: u8) -> Result<&'a [u8], TlvProblem> {
    let name = TlvName {
        clause: CLAUSE_MANDATORY,
        ..name
    };
    const EXPECTED: [&str; 3] = ["1 (chassis ID)", "2 (port ID)", "3 (time to live)"];
    const FIELD: [&str; 3] = [
        "type of the first TLV",
        "type of the second TLV",
        "type of the third TLV",
    ];
    let at = usize::from(index);
    match tlvs.next_tlv()? {
        Some((kind, value)) if kind == index + 1 => Ok(value),
        Some((kind, _)) => Err(name.problem(FIELD[at], usize::from(kind), EXPECTED[at])),
        None => Err(name.problem("number of TLVs in the frame", at, "at least 3")),
    }
}

/// Reads the TLVs after the mandatory TLVs.
struct OptionalTlvs {
    received: ReceivedLldpdu,
    /// Number of TLVs of each DCBX subtype, malformed TLVs included.
    dcbx_copies: [u32; 4],
}

/// The DCBX TLVs, in the order of their subtypes.
const DCBX: [(u8, &str); 4] = [
    (ets::CONFIGURATION_SUBTYPE, "ETS configuration"),
    (ets::RECOMMENDATION_SUBTYPE, "ETS recommendation"),
    (pfc::SUBTYPE, "PFC configuration"),
    (application::SUBTYPE, "application priority"),
];

impl OptionalTlvs {
    fn read_all(&mut self, tlvs: &mut TlvReader<'_>) -> Result<(), TlvProblem> {
        loop {
            let Some((kind, value)) = tlvs.next_tlv()? else {
                let problem = END.problem("number of end TLVs", 0, "1");
                self.received.warnings.push(problem);
                break;
            };
            match kind {
                kind::END => {
                    if !value.is_empty() {
                        let problem = END.problem("length in bytes", value.len(), "0");
                        self.received.rejected.push(problem);
                    }
                    let padding = tlvs.rest().iter().filter(|&&byte| byte != 0).count();
                    if padding > 0 {
                        let field = "number of non-zero bytes after the TLV";
                        self.received.warnings.push(END.problem(field, padding, "0"));
                    }
                    break;
                }
                kind::CHASSIS_ID | kind::PORT_ID | kind::TIME_TO_LIVE => {
                    return Err(repeated_mandatory(kind));
                }
                _ => {
                    if let Err(problem) = self.read(kind, value) {
                        self.received.rejected.push(problem);
                    }
                }
            }
        }
        self.reject_dcbx_copies();
        Ok(())
    }

    fn read(&mut self, kind: u8, value: &[u8]) -> Result<(), TlvProblem> {
        let ReceivedLldpdu { pdu, warnings, .. } = &mut self.received;
        match kind {
            kind::PORT_DESCRIPTION => read_text(PORT_DESCRIPTION, value, &mut pdu.port_description, warnings),
            kind::SYSTEM_NAME => read_text(SYSTEM_NAME, value, &mut pdu.system_name, warnings),
            kind::SYSTEM_DESCRIPTION => {
                read_text(SYSTEM_DESCRIPTION, value, &mut pdu.system_description, warnings)
            }
            kind::SYSTEM_CAPABILITIES => {
                refuse_copy(CAPABILITIES, pdu.capabilities.is_some())?;
                pdu.capabilities = Some(SystemCapabilities::parse(value, warnings)?);
                Ok(())
            }
            kind::MANAGEMENT_ADDRESS => {
                let address = ManagementAddress::parse(value, warnings)?;
                pdu.management_addresses.push(address);
                Ok(())
            }
            kind::ORGANISATION => self.read_organisation(value),
            _ => {
                let value = value.to_vec();
                pdu.others.push(RawTlv { kind, value });
                Ok(())
            }
        }
    }

    fn read_organisation(&mut self, value: &[u8]) -> Result<(), TlvProblem> {
        let Some((oui, subtype, information)) = split_organisation(value) else {
            return Err(ORGANISATION.problem("length in bytes", value.len(), "4 to 511"));
        };
        let ReceivedLldpdu { pdu, warnings, .. } = &mut self.received;
        let index = DCBX.iter().position(|(known, _)| *known == subtype);
        let Some(index) = index.filter(|_| oui == OUI_IEEE_8021) else {
            pdu.others.push(RawTlv::organisation(oui, subtype, information));
            return Ok(());
        };
        self.dcbx_copies[index] += 1;
        let dcbx = &mut pdu.dcbx;
        match subtype {
            ets::CONFIGURATION_SUBTYPE => {
                dcbx.ets_configuration = Some(EtsConfiguration::parse(information, warnings)?);
            }
            ets::RECOMMENDATION_SUBTYPE => {
                dcbx.ets_recommendation = Some(EtsRecommendation::parse(information, warnings)?);
            }
            pfc::SUBTYPE => dcbx.pfc = Some(PfcConfiguration::parse(information, warnings)?),
            _ => {
                let entries: Vec<ApplicationEntry> = application::parse(information, warnings)?;
                dcbx.applications = Some(entries);
            }
        }
        Ok(())
    }

    /// Removes each DCBX TLV that occurs more than once.
    fn reject_dcbx_copies(&mut self) {
        for ((subtype, name), copies) in DCBX.into_iter().zip(self.dcbx_copies) {
            if copies < 2 {
                continue;
            }
            let clause = CLAUSE_DUPLICATES;
            let problem = TlvName { name, clause }.problem("number of TLVs", copies as usize, "1");
            self.received.rejected.push(problem);
            let dcbx = &mut self.received.pdu.dcbx;
            match subtype {
                ets::CONFIGURATION_SUBTYPE => dcbx.ets_configuration = None,
                ets::RECOMMENDATION_SUBTYPE => dcbx.ets_recommendation = None,
                pfc::SUBTYPE => dcbx.pfc = None,
                _ => dcbx.applications = None,
            }
        }
    }
}

/// Returns the problem of a second mandatory TLV of the given type.
fn repeated_mandatory(kind: u8) -> TlvProblem {
    let name = match kind {
        kind::CHASSIS_ID => "chassis ID",
        kind::PORT_ID => "port ID",
        _ => "time to live",
    };
    let clause = CLAUSE_MANDATORY;
    TlvName { name, clause }.problem("number of TLVs", 2, "1")
}

fn refuse_copy(name: TlvName, is_present: bool) -> Result<(), TlvProblem> {
    if is_present {
        return Err(name.problem("number of TLVs", 2, "at most 1"));
    }
    Ok(())
}

/// Reads a text into its field. Bytes that are not UTF-8 are replaced.
fn read_text(
    name: TlvName,
    value: &[u8],
    text: &mut Option<String>,
    warnings: &mut Vec<TlvProblem>,
) -> Result<(), TlvProblem> {
    if value.len() > TEXT_LEN_MAX {
        return Err(name.problem("length in bytes", value.len(), "0 to 255"));
    }
    refuse_copy(name, text.is_some())?;
    *text = Some(match core::str::from_utf8(value) {
        Ok(valid) => valid.to_owned(),
        Err(error) => {
            let field = "offset of the first byte that is not UTF-8";
            warnings.push(name.problem(field, error.valid_up_to(), "UTF-8 text"));
            value
                .iter()
                .map(|&byte| if byte.is_ascii() { char::from(byte) } else { '?' })
                .collect()
        }
    });
    Ok(())
}
