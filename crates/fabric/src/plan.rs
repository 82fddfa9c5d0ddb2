//! Plan of a fabric: the switches, the hosts and their links.

use std::sync::Arc;

use xoff_dataplane::config::SwitchConfig;
use xoff_units::Picos;

use xoff_host::HostConfig;

/// A plan of switches, hosts and links. The positions in these lists are the indices that
/// [`Fabric`](crate::Fabric) uses. The positions also determine the order of simultaneous events, so the same
/// plan gives the same run.
#[derive(Clone, Debug, Default)]
pub struct FabricPlan {
    /// Configurations of the switches, at most 32 768. A switch has at most 16 383 ports.
    pub switches: Vec<Arc<SwitchConfig>>,
    /// Configurations of the hosts, at most 16 777 216.
    pub hosts: Vec<HostConfig>,
    /// The links of the fabric, at most 536 870 912. Each switch port and each host is an end of at most
    /// one link.
    pub links: Vec<LinkPlan>,
}

/// A bidirectional link. In each direction, the link has the speed and framing of the sending port or NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// Name of the link in recordings and messages, such as `leaf1:Ethernet0--spine1:Ethernet4`.
    pub name: String,
    /// The two ends of the link.
    pub ends: [LinkEnd; 2],
    /// Propagation delay in each direction.
    pub delay: Picos,
}

/// One end of a link: a switch port or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkEnd {
    /// A port of a switch.
    Switch {
        /// Index in [`FabricPlan::switches`].
        switch: u32,
        /// Index in [`SwitchConfig::ports`].
        port: u16,
    },
    /// A host, by its index in [`FabricPlan::hosts`].
    Host(u32),
}

/// Reason why [`Fabric::new`](crate::Fabric::new) rejected a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An end of a link names a switch, port or host that the plan does not have.
    #[error("link {link}: there is no {end:?}")]
    NoSuchEnd {
        /// Name of the link.
        link: String,
        /// The end that does not exist.
        end: LinkEnd,
    },
    /// A port or host is the end of two links.
    #[error("link {link}: {end:?} has a link already")]
    EndInUse {
        /// Name of the second link in the plan.
        link: String,
        /// The end with two links.
        end: LinkEnd,
    },
    /// The plan has too many elements of one kind (see [`FabricPlan`]).
    #[error("the fabric has {count} {what}; at most {max} are possible")]
    TooMany {
        /// Kind of the elements: `switches`, `hosts`, `links` or `ports at one switch`.
        what: &'static str,
        /// Number of elements in the plan.
        count: usize,
        /// Largest possible number.
        max: usize,
    },
    /// The configuration of a host is invalid.
    #[error(transparent)]
    Host(#[from] xoff_host::HostConfigError),
}
