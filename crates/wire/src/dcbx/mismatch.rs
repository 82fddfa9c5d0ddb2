//! Differences between the configurations of both ends.

use core::fmt;

use crate::lldp::{ApplicationSelector, SelectionAlgorithm};

/// A difference between both ends of a link that the negotiation does not remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// Neither end is willing, and the ends have PFC on different priorities.
    PfcPriorities {
        /// Priorities with PFC at this port. Bit *n* is priority *n*.
        local: u8,
        /// Priorities with PFC at the peer.
        peer: u8,
    },
    /// An end should adopt a PFC configuration with more priorities than it supports.
    PfcCapability {
        /// True if this port is the end that cannot adopt the configuration.
        is_local: bool,
        /// Number of priorities that the end supports at the same time.
        capability: u8,
        /// Priorities of the configuration. Bit *n* is priority *n*.
        wanted: u8,
    },
    /// Both ends are willing and have the same MAC address, so no end has the lower address (38.4.2).
    SameMacAddress,
    /// A priority has different traffic classes at both ends, and no end adopts the table of the other.
    TrafficClass {
        /// Number of the priority.
        priority: u8,
        /// Traffic class at this port.
        local: u8,
        /// Traffic class at the peer.
        peer: u8,
    },
    /// The traffic class of a priority has different algorithms at both ends.
    Algorithm {
        /// Number of the priority.
        priority: u8,
        /// Algorithm at this port.
        local: SelectionAlgorithm,
        /// Algorithm at the peer.
        peer: SelectionAlgorithm,
    },
    /// The ETS class of a priority has different shares of the bandwidth at both ends.
    Bandwidth {
        /// Number of the priority.
        priority: u8,
        /// Share at this port in percent.
        local: u8,
        /// Share at the peer in percent.
        peer: u8,
    },
    /// A willing end should adopt a recommendation with more traffic classes than it supports.
    EtsCapability {
        /// True if this port is the end that cannot adopt the recommendation.
        is_local: bool,
        /// Number of traffic classes that the end supports.
        capability: u8,
        /// Number of traffic classes of the recommendation.
        wanted: u8,
    },
    /// A willing end should adopt a recommendation with an algorithm that it does not support.
    EtsAlgorithm {
        /// True if this port is the end that cannot adopt the recommendation.
        is_local: bool,
        /// Algorithm of the recommendation.
        algorithm: SelectionAlgorithm,
    },
    /// The recommendation of the peer has different traffic classes for two priorities that have one queue at this
    /// port.
    EtsQueue {
        /// Number of the queue.
        queue: u8,
        /// The two lowest such priorities.
        priorities: [u8; 2],
    },
    /// An application has different priorities at both ends.
    Application {
        /// Meaning of `protocol`.
        selector: ApplicationSelector,
        /// Ethertype, port number or DSCP.
        protocol: u16,
        /// Priority at this port.
        local: u8,
        /// Priority at the peer.
        peer: u8,
    },
    /// The port has this number of neighbours with DCBX. DCBX needs a link with exactly two ends.
    SeveralNeighbours(usize),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Mismatch::PfcPriorities { local, peer } => {
                write!(
                    f,
                    "PFC: this port has PFC on {}, the peer on {}; ",
                    Set(local),
                    Set(peer)
                )?;
                f.write_str("neither port is willing")
            }
            Mismatch::PfcCapability {
                is_local,
                capability,
                wanted,
            } => {
                let (adopter, owner) = adopter_and_owner(is_local);
                let wanted = Set(wanted);
                write!(
                    f,
                    "PFC: {owner} has PFC on {wanted}, and {adopter} has the capability {capability}"
                )
            }
            Mismatch::SameMacAddress => {
                f.write_str("PFC: both ports are willing and have the same MAC address")
            }
            Mismatch::TrafficClass {
                priority,
                local,
                peer,
            } => {
                write!(
                    f,
                    "ETS: priority {priority} has traffic class {local} at this port, {peer} at the peer"
                )
            }
            Mismatch::Algorithm {
                priority,
                local,
                peer,
            } => write!(
                f,
                "ETS: the class of priority {priority} has {local} at this port, {peer} at the peer"
            ),
            Mismatch::Bandwidth {
                priority,
                local,
                peer,
            } => {
                write!(
                    f,
                    "ETS: the class of priority {priority} has {local} % at this port, {peer} % at the peer"
                )
            }
            Mismatch::EtsCapability {
                is_local,
                capability,
                wanted,
            } => {
                let (adopter, owner) = adopter_and_owner(is_local);
                let highest = wanted.saturating_sub(1);
                write!(
                    f,
                    "ETS: {owner} recommends traffic classes 0 to {highest}, and {adopter} has the capability {capability}"
                )
            }
            Mismatch::EtsAlgorithm { is_local, algorithm } => {
                let (adopter, owner) = adopter_and_owner(is_local);
                write!(
                    f,
                    "ETS: {owner} recommends {algorithm}, which {adopter} does not support"
                )
            }
            Mismatch::EtsQueue {
                queue,
                priorities: [first, second],
            } => write!(
                f,
                "ETS: the peer recommends different traffic classes for priorities {first} and {second}, and this port has \
                 both in queue {queue}"
            ),
            Mismatch::Application {
                selector,
                protocol,
                local,
                peer,
            } => write!(
                f,
                "{selector} {protocol} has priority {local} at this port, {peer} at the peer"
            ),
            Mismatch::SeveralNeighbours(neighbours) => {
                write!(
                    f,
                    "number of neighbours with DCBX is {neighbours}, expected 1; the local configuration is used"
                )
            }
        }
    }
}

/// Returns the names of the end that cannot adopt a configuration, and of the end that owns this configuration.
fn adopter_and_owner(is_local: bool) -> (&'static str, &'static str) {
    match is_local {
        true => ("this port", "the peer"),
        false => ("the peer", "this port"),
    }
}

/// Displays a set of priorities, such as `3 4`.
struct Set(u8);

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("no priority");
        }
        let mut separator = "priority ";
        for priority in (0..8).filter(|priority| self.0 & 1 << priority != 0) {
            write!(f, "{separator}{priority}")?;
            separator = " ";
        }
        Ok(())
    }
}
