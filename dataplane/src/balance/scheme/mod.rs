//! The schemes of the switch itself, behind an enum.

pub(super) mod cluster;
mod drill;
mod fixed;
mod flowlet;
mod per_packet;
mod round_robin;

use self::cluster::Cluster;
use self::drill::Drill;
use self::fixed::Fixed;
use self::flowlet::Flowlet;
use self::per_packet::PerPacket;
use self::round_robin::RoundRobin;
use super::{Choice, Packet, PathChoice, Paths, TableUse};
use crate::config::{SchemeConfig, SchemeKind};
use xoff_units::Picos;

/// A scheme at work in one group.
#[derive(Debug)]
pub(super) enum Scheme {
    RoundRobin(RoundRobin),
    Cluster(Cluster),
    Flowlet(Flowlet),
    PerPacket(PerPacket),
    Fixed(Fixed),
    Drill(Drill),
    Own(Box<dyn PathChoice>),
}

impl Scheme {
    /// `None`: the group hashes, which is the router's own business.
    pub(super) fn new(config: &SchemeConfig) -> Option<Scheme> {
        Some(match &config.kind {
            SchemeKind::RoundRobin => Scheme::RoundRobin(RoundRobin::default()),
            &SchemeKind::Cluster { flows_max, idle } => Scheme::Cluster(Cluster::new(flows_max, idle)),
            // A flowlet is a packet then: there is nothing to remember.
            &SchemeKind::Flowlet {
                idle: Picos::ZERO,
                pick,
                ..
            } => Scheme::PerPacket(PerPacket::new(config, pick)),
            &SchemeKind::Flowlet {
                idle,
                pick,
                rebalance,
            } => Scheme::Flowlet(Flowlet::new(config, idle, pick, rebalance)),
            &SchemeKind::PerPacket { pick } => Scheme::PerPacket(PerPacket::new(config, pick)),
            &SchemeKind::Fixed { pick } => Scheme::Fixed(Fixed::new(config, pick)),
            &SchemeKind::Drill { samples, memory } => Scheme::Drill(Drill::new(samples, memory)),
            SchemeKind::Own(own) => Scheme::Own(own.make()),
            _ => return None,
        })
    }

    /// It as the scheme that announcements are for.
    pub(super) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Scheme::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }

    /// As [`Scheme::cluster`].
    pub(super) fn cluster_mut(&mut self) -> Option<&mut Cluster> {
        match self {
            Scheme::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }

    /// Whether it weighs primary members against alternate ones.
    pub(super) fn compares(&self) -> bool {
        match self {
            Scheme::Flowlet(scheme) => scheme.compares(),
            Scheme::PerPacket(scheme) => scheme.compares(),
            Scheme::Fixed(scheme) => scheme.compares(),
            Scheme::RoundRobin(_) | Scheme::Drill(_) | Scheme::Cluster(_) => false,
            Scheme::Own(_) => true,
        }
    }
}

/// Statically dispatched but for schemes from outside.
macro_rules! each {
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
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> Choice {
        each!(self, scheme => scheme.choose(packet, paths))
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        each!(self, scheme => scheme.members_changed(renumbered, paths));
    }

    fn table(&self) -> Option<TableUse> {
        each!(self, scheme => scheme.table())
    }
}
