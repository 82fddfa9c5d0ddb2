//! Built-in load-balancing schemes, and an enum that dispatches to them.

pub(super) mod cluster;
mod drill;
mod fixed;
mod flowlet;
mod per_packet;
mod round_robin;

use self::cluster::ClusterScheme;
use self::drill::DrillScheme;
use self::fixed::FixedScheme;
use self::flowlet::FlowletScheme;
use self::per_packet::PerPacketScheme;
use self::round_robin::RoundRobinScheme;
use super::{FlowTableUse, MemberChoice, Packet, PathChoice, Paths};
use crate::balance::config::{SchemeConfig, SchemeKind};
use xoff_units::Picos;

/// The scheme of one group.
#[derive(Debug)]
pub(super) enum Scheme {
    RoundRobin(RoundRobinScheme),
    Cluster(ClusterScheme),
    Flowlet(FlowletScheme),
    PerPacket(PerPacketScheme),
    Fixed(FixedScheme),
    Drill(DrillScheme),
    Own(Box<dyn PathChoice>),
}

impl Scheme {
    /// Creates a scheme. Returns `None` for a hash, which the router computes.
    pub(super) fn new(config: &SchemeConfig) -> Option<Scheme> {
        Some(match &config.kind {
            SchemeKind::RoundRobin => Scheme::RoundRobin(RoundRobinScheme::default()),
            &SchemeKind::Cluster { flows_max, idle } => Scheme::Cluster(ClusterScheme::new(flows_max, idle)),
            // Without an idle time each packet is a flowlet, and no flow table is necessary.
            &SchemeKind::Flowlet {
                idle: Picos::ZERO,
                pick,
                ..
            } => Scheme::PerPacket(PerPacketScheme::new(config, pick)),
            &SchemeKind::Flowlet {
                idle,
                pick,
                rebalance,
            } => Scheme::Flowlet(FlowletScheme::new(config, idle, pick, rebalance)),
            &SchemeKind::PerPacket { pick } => Scheme::PerPacket(PerPacketScheme::new(config, pick)),
            &SchemeKind::Fixed { pick } => Scheme::Fixed(FixedScheme::new(config, pick)),
            &SchemeKind::Drill { samples, memory } => Scheme::Drill(DrillScheme::new(samples, memory)),
            SchemeKind::Custom(own) => Scheme::Own(own.create()),
            _ => return None,
        })
    }

    /// Returns the scheme as a cluster scheme. Only cluster schemes accept announcements.
    pub(super) fn cluster(&self) -> Option<&ClusterScheme> {
        match self {
            Scheme::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }

    /// Returns the mutable version of [`Scheme::cluster`].
    pub(super) fn cluster_mut(&mut self) -> Option<&mut ClusterScheme> {
        match self {
            Scheme::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }

    /// Returns true if the scheme compares primary and alternate members by quality.
    pub(super) fn compares_quality(&self) -> bool {
        match self {
            Scheme::Flowlet(scheme) => scheme.compares_quality(),
            Scheme::PerPacket(scheme) => scheme.compares_quality(),
            Scheme::Fixed(scheme) => scheme.compares_quality(),
            Scheme::RoundRobin(_) | Scheme::Drill(_) | Scheme::Cluster(_) => false,
            Scheme::Own(_) => true,
        }
    }
}

/// Static dispatch for built-in schemes. Only schemes from outside xoff need a virtual call.
macro_rules! dispatch {
    ($scheme:expr, $it:ident => $what:expr) => {
        match $scheme {
            Scheme::RoundRobin($it) => $what,
            Scheme::Cluster($it) => $what,
            Scheme::Flowlet($it) => $what,
            Scheme::PerPacket($it) => $what,
            Scheme::Fixed($it) => $what,
            Scheme::Drill($it) => $what,
            Scheme::Own($it) => $what,
        }
    };
}

impl PathChoice for Scheme {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        dispatch!(self, scheme => scheme.choose(packet, paths))
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        dispatch!(self, scheme => scheme.members_changed(renumbered, paths));
    }

    fn flow_table_use(&self) -> Option<FlowTableUse> {
        dispatch!(self, scheme => scheme.flow_table_use())
    }
}
