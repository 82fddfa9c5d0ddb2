//! The report of LLDP and DCBX: neighbours of each port, and the result of the negotiation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xoff_dataplane::ids::PRIORITIES;
use xoff_wire::dcbx::{ConfigurationSource, DcbxConfiguration, Operational};
use xoff_wire::lldp::{
    ApplicationEntry, DcbxTlvs, EtsTables, PfcConfiguration, SystemCapabilities, capability,
};
use xoff_wire::lldp_port::{LldpNeighbour, LldpPort};

/// The state of LLDP at a switch or at a host.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct LldpReport {
    /// The ports with LLDP, in the order of the configuration.
    pub ports: Vec<LldpPortReport>,
}

/// LLDP at one port. The counters count from the start of LLDP at the port.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct LldpPortReport {
    /// Name of the port, such as `Ethernet0`.
    pub port: String,
    /// Whether the port sends LLDP frames.
    pub transmits: bool,
    /// Whether the port processes received LLDP frames.
    pub receives: bool,
    /// Time to live of the sent frames in seconds.
    pub ttl_s: u16,
    /// LLDP frames sent.
    pub frames_sent: u64,
    /// LLDP frames received.
    pub frames_received: u64,
    /// Received frames that were discarded: they are not valid, or the port had 16 neighbours.
    pub frames_discarded: u64,
    /// Received frames with a malformed or contradictory TLV, or not valid as a whole.
    pub frames_with_errors: u64,
    /// TLVs that were rejected.
    pub tlvs_discarded: u64,
    /// Neighbours whose time to live has expired.
    pub ageouts: u64,
    /// The problem of the latest frame that was rejected as a whole: the TLV, the field, its value, the expected
    /// values and the clause of the standard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_problem: Option<String>,
    /// DCBX. The field is omitted if the port does not use DCBX.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dcbx: Option<DcbxReport>,
    /// The neighbours in the order of their first frames, at most 16.
    pub neighbours: Vec<LldpNeighbourReport>,
}

/// The result of the DCBX negotiation of a port.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct DcbxReport {
    /// Whether the port accepts the PFC configuration of its peer.
    pub pfc_willing: bool,
    /// Number of priorities that can have PFC at the same time.
    pub pfc_capability: u8,
    /// Priorities with PFC in operation.
    pub pfc_enabled: Vec<u8>,
    /// The end of the link whose PFC configuration is in operation: `local` or `peer`.
    pub pfc_source: String,
    /// Whether the port accepts the ETS recommendation of its peer.
    pub ets_willing: bool,
    /// The ETS configuration in operation.
    pub ets: EtsReport,
    /// The end of the link that configured `ets`: `local` or `peer`.
    pub ets_source: String,
    /// Differences between both ends that the negotiation does not remove.
    pub mismatches: Vec<String>,
}

/// The tables of an ETS configuration or recommendation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct EtsReport {
    /// Traffic class of each priority.
    pub traffic_class: [u8; PRIORITIES],
    /// Share of each traffic class in percent.
    pub bandwidth_percent: [u8; PRIORITIES],
    /// Selection algorithm of each traffic class, such as `ETS` or `strict priority`.
    pub algorithm: Vec<String>,
}

/// The DCBX TLVs of a neighbour.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct DcbxNeighbourReport {
    /// Whether the neighbour accepts the PFC configuration of this port. The value is null without a PFC TLV.
    pub pfc_willing: Option<bool>,
    /// Number of priorities that can have PFC at the same time. The value is null without a PFC TLV.
    pub pfc_capability: Option<u8>,
    /// Priorities with PFC. The value is null without a PFC TLV.
    pub pfc_enabled: Option<Vec<u8>>,
    /// Whether the neighbour accepts the ETS recommendation of this port. The value is null without an ETS TLV.
    pub ets_willing: Option<bool>,
    /// The ETS configuration in operation at the neighbour.
    pub ets: Option<EtsReport>,
    /// The ETS configuration that the neighbour recommends.
    pub ets_recommendation: Option<EtsReport>,
    /// Priorities of applications, such as `UDP or DCCP port 4791: priority 3`.
    pub applications: Vec<String>,
}

/// A neighbour of a port, as its latest LLDP frame describes it. Texts that the frame does not contain are omitted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct LldpNeighbourReport {
    /// Number of the neighbour at its port, in the order of the first frames.
    pub number: u32,
    /// Time since the first frame in nanoseconds of model time.
    pub age_ns: u64,
    /// Time to live of the latest frame in seconds.
    pub ttl_s: u16,
    /// Subtype of `chassis_id`, such as `MAC address`.
    pub chassis_id_type: String,
    /// Identifies the chassis of the neighbour.
    pub chassis_id: String,
    /// Subtype of `port_id`, such as `interface name`.
    pub port_id_type: String,
    /// Identifies the port of the neighbour.
    pub port_id: String,
    /// Description of the port of the neighbour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_description: Option<String>,
    /// Name of the neighbour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_name: Option<String>,
    /// Description of the neighbour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_description: Option<String>,
    /// Functions of the neighbour, such as `Bridge` and `Router`, and whether each is enabled.
    pub capabilities: Vec<LldpCapabilityReport>,
    /// Addresses for the management of the neighbour.
    pub management_addresses: Vec<String>,
    /// The DCBX TLVs. The field is omitted if the frame has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dcbx: Option<DcbxNeighbourReport>,
    /// Problems of the TLVs that were rejected.
    pub rejected: Vec<String>,
    /// Values that the standard tells a receiver to ignore.
    pub warnings: Vec<String>,
}

/// A function of a neighbour.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct LldpCapabilityReport {
    /// Name of the function, as lldpd prints it.
    pub name: String,
    /// Whether the function is enabled.
    pub is_enabled: bool,
}

/// The bits of the system capabilities with the names that lldpd prints.
const CAPABILITIES: [(u16, &str); 11] = [
    (capability::OTHER, "Other"),
    (capability::REPEATER, "Repeater"),
    (capability::BRIDGE, "Bridge"),
    (capability::WLAN_ACCESS_POINT, "Wlan"),
    (capability::ROUTER, "Router"),
    (capability::TELEPHONE, "Tel"),
    (capability::DOCSIS, "Docsis"),
    (capability::STATION_ONLY, "Station"),
    (capability::C_VLAN, "C-VLAN"),
    (capability::S_VLAN, "S-VLAN"),
    (capability::TPMR, "TPMR"),
];

impl LldpPortReport {
    /// Reads the state of a port. `name` is its name, and `now_ns` is the model time in nanoseconds.
    pub fn new(name: &str, port: &LldpPort, now_ns: u64) -> LldpPortReport {
        let (settings, counters) = (port.settings(), port.counters());
        let dcbx = settings.dcbx.as_ref().zip(port.operational());
        LldpPortReport {
            port: name.to_owned(),
            transmits: settings.transmits,
            receives: settings.receives,
            ttl_s: settings.ttl_s(),
            frames_sent: counters.frames_sent,
            frames_received: counters.frames_received,
            frames_discarded: counters.frames_discarded,
            frames_with_errors: counters.frames_with_errors,
            tlvs_discarded: counters.tlvs_discarded,
            ageouts: counters.ageouts,
            last_problem: port.last_problem().map(|problem| problem.to_string()),
            dcbx: dcbx.map(|(configured, operational)| DcbxReport::new(configured, operational)),
            neighbours: port
                .neighbours()
                .iter()
                .map(|neighbour| LldpNeighbourReport::new(neighbour, now_ns))
                .collect(),
        }
    }
}

impl DcbxReport {
    fn new(configured: &DcbxConfiguration, operational: &Operational) -> DcbxReport {
        let source = |source| match source {
            ConfigurationSource::Local => "local".to_owned(),
            ConfigurationSource::Peer => "peer".to_owned(),
        };
        DcbxReport {
            pfc_willing: configured.pfc.is_willing,
            pfc_capability: configured.pfc.capability,
            pfc_enabled: priorities_of(operational.pfc_enabled),
            pfc_source: source(operational.pfc_source),
            ets_willing: configured.ets.is_willing,
            ets: EtsReport::new(&operational.ets),
            ets_source: source(operational.ets_source),
            mismatches: operational.mismatches.iter().map(ToString::to_string).collect(),
        }
    }
}

impl EtsReport {
    fn new(tables: &EtsTables) -> EtsReport {
        EtsReport {
            traffic_class: tables.traffic_class,
            bandwidth_percent: tables.bandwidth_percent,
            algorithm: tables.algorithm.iter().map(ToString::to_string).collect(),
        }
    }
}

impl DcbxNeighbourReport {
    fn new(tlvs: &DcbxTlvs) -> DcbxNeighbourReport {
        let pfc = |read: fn(&PfcConfiguration) -> u8| tlvs.pfc.as_ref().map(read);
        let applications = tlvs.applications.iter().flatten();
        DcbxNeighbourReport {
            pfc_willing: tlvs.pfc.map(|pfc| pfc.is_willing),
            pfc_capability: pfc(|pfc| pfc.capability),
            pfc_enabled: pfc(|pfc| pfc.enabled).map(priorities_of),
            ets_willing: tlvs.ets_configuration.map(|ets| ets.is_willing),
            ets: tlvs.ets_configuration.map(|ets| EtsReport::new(&ets.tables)),
            ets_recommendation: tlvs.ets_recommendation.map(|ets| EtsReport::new(&ets.tables)),
            applications: applications.map(describe_application).collect(),
        }
    }
}

impl LldpNeighbourReport {
    fn new(neighbour: &LldpNeighbour, now_ns: u64) -> LldpNeighbourReport {
        let pdu = &neighbour.pdu;
        let texts =
            |problems: &[xoff_wire::lldp::TlvProblem]| problems.iter().map(ToString::to_string).collect();
        LldpNeighbourReport {
            number: neighbour.number,
            age_ns: now_ns.saturating_sub(neighbour.first_seen_ns),
            ttl_s: pdu.ttl_s,
            chassis_id_type: pdu.chassis_id.subtype.to_string(),
            chassis_id: pdu.chassis_id.to_string(),
            port_id_type: pdu.port_id.subtype.to_string(),
            port_id: pdu.port_id.to_string(),
            port_description: pdu.port_description.clone(),
            system_name: pdu.system_name.clone(),
            system_description: pdu.system_description.clone(),
            capabilities: pdu.capabilities.map(capability_reports).unwrap_or_default(),
            management_addresses: pdu
                .management_addresses
                .iter()
                .map(|management| management.address.to_string())
                .collect(),
            dcbx: (!pdu.dcbx.is_empty()).then(|| DcbxNeighbourReport::new(&pdu.dcbx)),
            rejected: texts(&neighbour.rejected),
            warnings: texts(&neighbour.warnings),
        }
    }
}

fn capability_reports(capabilities: SystemCapabilities) -> Vec<LldpCapabilityReport> {
    let supported = CAPABILITIES
        .into_iter()
        .filter(|(bit, _)| capabilities.supported & bit != 0);
    supported
        .map(|(bit, name)| LldpCapabilityReport {
            name: name.to_owned(),
            is_enabled: capabilities.enabled & bit != 0,
        })
        .collect()
}

fn describe_application(entry: &ApplicationEntry) -> String {
    let ApplicationEntry {
        priority,
        selector,
        protocol,
    } = entry;
    match selector {
        xoff_wire::lldp::ApplicationSelector::EtherType => {
            format!("{selector} {protocol:#06x}: priority {priority}")
        }
        _ => format!("{selector} {protocol}: priority {priority}"),
    }
}

/// Returns the numbers of the bits of a mask, in ascending order.
fn priorities_of(mask: u8) -> Vec<u8> {
    (0..PRIORITIES as u8).filter(|bit| mask & 1 << bit != 0).collect()
}
