//! The NIC of a model host.

use serde::{Deserialize, Serialize};

/// The options of the NIC of a model host. `None` means the default of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicPlan {
    /// The time from the arrival of a pause frame until the NIC stops sending, in nanoseconds of model time.
    pub response_ns: Option<u64>,
    /// The size of the receive buffer in bytes, at least 1. A host with this option reads frames at
    /// `drain_bps` instead of the link speed. Both fields are set, or neither.
    pub buffer_bytes: Option<u32>,
    /// The rate at which the host reads its receive buffer, in bits per second of model time, 10 Mb/s to
    /// 1.6 Tb/s.
    pub drain_bps: Option<u64>,
    /// The priorities for which the NIC honours PFC: bit *n* is priority *n*. With 0, the NIC honours 802.3x
    /// PAUSE frames instead. With `None`, the NIC honours PFC of all priorities. If its switch port has no
    /// PFC, the NIC honours 802.3x PAUSE frames, too.
    pub pfc_honoured: Option<u8>,
    /// LLDP and DCBX of the host. `None`: the host does not use LLDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dcbx: Option<DcbxPlan>,
    /// The traffic classes of the NIC. `None`: the priorities share the link equally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ets: Option<EtsPlan>,
}

/// The DCBX settings of a model host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DcbxPlan {
    /// Whether the host uses the PFC configuration of its switch port.
    pub pfc_willing: bool,
    /// The number of priorities that can have PFC at the same time, 0 to 8.
    pub pfc_capability: u8,
    /// Whether the host uses the ETS recommendation of its switch port.
    pub ets_willing: bool,
    /// The number of traffic classes that the host supports, 1 to 8.
    pub ets_capability: u8,
    /// Whether the host recommends its ETS configuration to its switch port.
    pub ets_recommendation: bool,
}

/// The traffic classes of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtsPlan {
    /// The traffic class of each priority, 0 to 7.
    pub traffic_class: [u8; 8],
    /// The share of each traffic class in percent. `None`: strict priority. The shares have the sum 100.
    pub shares: [Option<u8>; 8],
}

impl EtsPlan {
    /// Returns the number of traffic classes: the highest class plus one.
    pub fn traffic_classes(&self) -> u8 {
        self.traffic_class.iter().max().map_or(0, |class| class + 1)
    }
}
