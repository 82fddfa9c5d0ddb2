//! The schemes of the switch itself, behind an enum.

mod round_robin;

use self::round_robin::RoundRobin;
use super::{Choice, Packet, PathChoice, Paths, TableUse};
use crate::config::{SchemeConfig, SchemeKind};

/// A scheme at work in one group.
#[derive(Debug)]
pub(super) enum Scheme {
    RoundRobin(RoundRobin),
    Own(Box<dyn PathChoice>),
}

impl Scheme {
    /// `None`: the group hashes, which is the router's own business.
    pub(super) fn new(config: &SchemeConfig) -> Option<Scheme> {
        Some(match &config.kind {
            SchemeKind::RoundRobin => Scheme::RoundRobin(RoundRobin::default()),
            SchemeKind::Own(own) => Scheme::Own(own.make()),
            _ => return None,
        })
    }
}

/// Statically dispatched but for schemes from outside.
macro_rules! each {
    ($scheme:expr, $it:ident => $what:expr) => {
        match $scheme {
            Scheme::RoundRobin($it) => $what,
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
