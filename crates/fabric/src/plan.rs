//! Plan of a fabric: switches, hosts and links.

use xoff_dataplane::config::SwitchConfig;
use xoff_units::Picos;

use xoff_host::HostConfig;

/// A plan of switches, hosts and links. Their indices in these lists determine the order of simultaneous
/// events, so the same plan gives the same run.
#[derive(Clone, Debug, Default)]
pub struct FabricPlan {
    /// Configurations of the switches, at most 32 768.
    pub switches: Vec<SwitchConfig>,
    /// Configurations of the hosts.
    pub hosts: Vec<HostConfig>,
    /// The links of the fabric. Each switch port and each host is an end of at most one link.
    pub links: Vec<LinkPlan>,
}

/// A bidirectional link. Each direction has the speed and framing of the sending port or NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// Name in recordings and messages, such as `leaf1:Ethernet0--spine1:Ethernet4`.
    pub name: String,
    /// Both ends of the link.
    pub ends: [LinkEnd; 2],
    /// Propagation delay.
    pub delay: Picos,
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkEnd {
    /// Port of a switch.
    Switch {
        /// Index of the switch.
        switch: u32,
        /// Index of the port.
        port: u16,
    },
    /// Index of a host.
    Host(u32),
}

/// Error in a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An end of a link does not exist.
    #[error("link {link}: there is no {end:?}")]
    NoSuchEnd {
        /// Name of the link.
        link: String,
        /// End that does not exist.
        end: LinkEnd,
    },
    /// A port or host has two links.
    #[error("link {link}: {end:?} has a link already")]
    EndInUse {
        /// Name of the second link.
        link: String,
        /// End with two links.
        end: LinkEnd,
    },
    /// The plan has too many elements of one kind.
    #[error("the fabric has {count} {what}; at most {max} are possible")]
    TooMany {
        /// Kind of the elements: switches, hosts or links.
        what: &'static str,
        /// Number of elements.
        count: usize,
        /// Maximum number.
        max: usize,
    },
    /// The configuration of a host is invalid.
    #[error(transparent)]
    Host(#[from] xoff_host::HostConfigError),
}
