//! The operational configuration of a port, from its own configuration and the TLVs of its peer.

use super::mismatch::Mismatch;
use crate::PRIORITIES;
use crate::lldp::{
    ApplicationEntry, DcbxTlvs, EtsConfiguration, EtsRecommendation, EtsTables, PfcConfiguration,
    SelectionAlgorithm,
};

/// The configuration of a port by its administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DcbxConfiguration {
    /// PFC with the willing bit and the capability.
    pub pfc: PfcConfiguration,
    /// ETS with the willing bit and the capability.
    pub ets: EtsConfiguration,
    /// Queue of each priority, 0 to 7. Priorities with one queue cannot have different traffic classes, so the port
    /// does not adopt such a recommendation.
    pub queue_of_priority: [u8; PRIORITIES],
    /// Configuration that the port recommends to its peer. `None`: the port sends no recommendation.
    pub ets_recommendation: Option<EtsTables>,
    /// Priorities of applications. The port sends no TLV if the list is empty.
    pub applications: Vec<ApplicationEntry>,
}

impl Default for DcbxConfiguration {
    /// No PFC, strict priority with one class and one queue for each priority, not willing, no recommendation.
    fn default() -> DcbxConfiguration {
        DcbxConfiguration {
            pfc: PfcConfiguration {
                is_willing: false,
                can_bypass_macsec: false,
                capability: 8,
                enabled: 0,
            },
            ets: EtsConfiguration {
                is_willing: false,
                supports_credit_based_shaper: false,
                capability: 8,
                tables: EtsTables::default(),
            },
            queue_of_priority: [0, 1, 2, 3, 4, 5, 6, 7],
            ets_recommendation: None,
            applications: Vec::new(),
        }
    }
}

/// The end of the link whose configuration a port uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigurationSource {
    /// The configuration of this port.
    Local,
    /// The configuration or the recommendation of the peer.
    Peer,
}

/// The configuration that a port uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operational {
    /// Priorities with PFC. Bit *n* is priority *n*.
    pub pfc_enabled: u8,
    /// End of the link that configured `pfc_enabled`.
    pub pfc_source: ConfigurationSource,
    /// Traffic classes, bandwidth and algorithms.
    pub ets: EtsTables,
    /// End of the link that configured `ets`.
    pub ets_source: ConfigurationSource,
    /// Differences between both ends.
    pub mismatches: Vec<Mismatch>,
}

/// The MAC address and the TLVs of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer<'a> {
    pub(super) mac: [u8; 6],
    pub(super) tlvs: &'a DcbxTlvs,
}

impl Operational {
    /// Returns the configuration of a port without a peer.
    pub(super) fn local(configuration: &DcbxConfiguration) -> Operational {
        Operational {
            pfc_enabled: configuration.pfc.enabled,
            pfc_source: ConfigurationSource::Local,
            ets: configuration.ets.tables,
            ets_source: ConfigurationSource::Local,
            mismatches: Vec::new(),
        }
    }

    /// Returns the configuration of a port with one peer.
    pub(super) fn with_peer(mac: [u8; 6], local: &DcbxConfiguration, peer: Peer<'_>) -> Operational {
        let mut operational = Operational::local(local);
        if let Some(pfc) = peer.tlvs.pfc {
            operational.resolve_pfc(mac, local.pfc, peer.mac, pfc);
        }
        operational.resolve_ets(
            local,
            peer.tlvs.ets_configuration.as_ref(),
            peer.tlvs.ets_recommendation,
        );
        if let Some(entries) = &peer.tlvs.applications {
            operational.compare_applications(&local.applications, entries);
        }
        operational
    }

    /// The symmetric state machine of PFC (38.4.2).
    fn resolve_pfc(
        &mut self,
        mac: [u8; 6],
        local: PfcConfiguration,
        peer_mac: [u8; 6],
        peer: PfcConfiguration,
    ) {
        let local_adopts = local.is_willing && (!peer.is_willing || mac > peer_mac);
        let peer_adopts = peer.is_willing && (!local.is_willing || mac < peer_mac);
        if local_adopts {
            if peer.enabled.count_ones() <= u32::from(local.capability) {
                self.pfc_enabled = peer.enabled;
                self.pfc_source = ConfigurationSource::Peer;
            } else {
                self.mismatches.push(Mismatch::PfcCapability {
                    is_local: true,
                    capability: local.capability,
                    wanted: peer.enabled,
                });
            }
        } else if peer_adopts {
            if local.enabled.count_ones() > u32::from(peer.capability) {
                self.mismatches.push(Mismatch::PfcCapability {
                    is_local: false,
                    capability: peer.capability,
                    wanted: local.enabled,
                });
            }
        } else if local.is_willing {
            self.mismatches.push(Mismatch::SameMacAddress);
        } else if local.enabled != peer.enabled {
            self.mismatches.push(Mismatch::PfcPriorities {
                local: local.enabled,
                peer: peer.enabled,
            });
        }
    }

    /// The asymmetric state machine of ETS (38.4.1).
    fn resolve_ets(
        &mut self,
        local: &DcbxConfiguration,
        peer: Option<&EtsConfiguration>,
        recommendation: Option<EtsRecommendation>,
    ) {
        if let Some(EtsRecommendation { tables }) = recommendation.filter(|_| local.ets.is_willing) {
            match refuse_recommendation(local, &tables) {
                Some(mismatch) => self.mismatches.push(mismatch),
                None => {
                    self.ets = tables;
                    self.ets_source = ConfigurationSource::Peer;
                }
            }
        }
        let Some(peer) = peer else {
            return;
        };
        let own_recommendation = local.ets_recommendation.filter(|_| peer.is_willing);
        // Until its next frame, a willing peer announces the configuration before it adopted the recommendation.
        match own_recommendation {
            Some(tables) => self.mismatches.extend(refuse_tables(false, peer, &tables)),
            None if self.ets_source == ConfigurationSource::Local => self.compare_ets(&peer.tables),
            None => {}
        }
    }

    fn compare_ets(&mut self, peer: &EtsTables) {
        for at in 0..PRIORITIES {
            let priority = at as u8;
            let (local_class, peer_class) = (self.ets.traffic_class[at], peer.traffic_class[at]);
            let (local_at, peer_at) = (usize::from(local_class & 7), usize::from(peer_class & 7));
            let (local_algorithm, peer_algorithm) = (self.ets.algorithm[local_at], peer.algorithm[peer_at]);
            let (local_share, peer_share) = (
                self.ets.bandwidth_percent[local_at],
                peer.bandwidth_percent[peer_at],
            );
            if local_class != peer_class {
                self.mismatches.push(Mismatch::TrafficClass {
                    priority,
                    local: local_class,
                    peer: peer_class,
                });
            }
            if local_algorithm != peer_algorithm {
                self.mismatches.push(Mismatch::Algorithm {
                    priority,
                    local: local_algorithm,
                    peer: peer_algorithm,
                });
            } else if local_algorithm == SelectionAlgorithm::Ets && local_share != peer_share {
                self.mismatches.push(Mismatch::Bandwidth {
                    priority,
                    local: local_share,
                    peer: peer_share,
                });
            }
        }
    }

    fn compare_applications(&mut self, local: &[ApplicationEntry], peer: &[ApplicationEntry]) {
        for entry in local {
            let other = peer
                .iter()
                .find(|other| (other.selector, other.protocol) == (entry.selector, entry.protocol));
            if let Some(other) = other.filter(|other| other.priority != entry.priority) {
                self.mismatches.push(Mismatch::Application {
                    selector: entry.selector,
                    protocol: entry.protocol,
                    local: entry.priority,
                    peer: other.priority,
                });
            }
        }
    }
}

/// Returns the reason why a port cannot adopt a recommendation.
fn refuse_recommendation(local: &DcbxConfiguration, tables: &EtsTables) -> Option<Mismatch> {
    refuse_tables(true, &local.ets, tables).or_else(|| find_split_queue(&local.queue_of_priority, tables))
}

/// Returns the reason why an end of the link does not support traffic classes. `is_local` is true for this port.
fn refuse_tables(is_local: bool, end: &EtsConfiguration, tables: &EtsTables) -> Option<Mismatch> {
    let wanted = tables.traffic_classes();
    if wanted > end.capability {
        return Some(Mismatch::EtsCapability {
            is_local,
            capability: end.capability,
            wanted,
        });
    }
    let is_supported = |algorithm| match algorithm {
        SelectionAlgorithm::StrictPriority | SelectionAlgorithm::Ets => true,
        SelectionAlgorithm::CreditBasedShaper => end.supports_credit_based_shaper,
        // No TLV states which algorithm of which vendor is meant.
        SelectionAlgorithm::VendorSpecific => false,
    };
    let mut algorithms = tables.algorithm.into_iter();
    algorithms
        .find(|&algorithm| !is_supported(algorithm) && tables.uses(algorithm))
        .map(|algorithm| Mismatch::EtsAlgorithm { is_local, algorithm })
}

/// Returns two priorities with one queue and different traffic classes.
fn find_split_queue(queue_of_priority: &[u8; PRIORITIES], tables: &EtsTables) -> Option<Mismatch> {
    let class = &tables.traffic_class;
    let mut pairs =
        (0..PRIORITIES).flat_map(|first| (first + 1..PRIORITIES).map(move |second| (first, second)));
    let (first, second) = pairs.find(|&(first, second)| {
        queue_of_priority[first] == queue_of_priority[second] && class[first] != class[second]
    })?;
    Some(Mismatch::EtsQueue {
        queue: queue_of_priority[first],
        priorities: [first as u8, second as u8],
    })
}
