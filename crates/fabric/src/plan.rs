//! What a fabric is made of.

use xoff_dataplane::config::SwitchConfig;
use xoff_units::Picos;

use xoff_host::HostConfig;

/// A fabric: switches, hosts, and the links between them. Indices are places in these lists; they make the order of
/// simultaneous events, so the same plan gives the same run.
#[derive(Clone, Debug, Default)]
pub struct FabricPlan {
    /// The switches, at most 32 768.
    pub switches: Vec<SwitchConfig>,
    /// The hosts.
    pub hosts: Vec<HostConfig>,
    /// The links. Each port of a switch and each host is at one end of at most one.
    pub links: Vec<LinkPlan>,
}

/// A link: two wires, one each way. The speed and framing of a wire are those of the port or NIC that sends into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// What it is called in recordings and messages: `leaf1:Ethernet0--spine1:Ethernet4`.
    pub name: String,
    /// Its ends.
    pub ends: [End; 2],
    /// How long a bit is under way.
    pub delay: Picos,
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A port of a switch.
    Switch {
        /// Index of the switch.
        switch: u32,
        /// Index of the port.
        port: u16,
    },
    /// A host.
    Host(u32),
}

/// A plan that makes no fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An end of a link that is not there.
    #[error("link {link}: there is no {end:?}")]
    NoSuchEnd {
        /// Name of the link.
        link: String,
        /// The end.
        end: End,
    },
    /// An end with two links.
    #[error("link {link}: {end:?} has a link already")]
    EndInUse {
        /// Name of the second link.
        link: String,
        /// The end.
        end: End,
    },
    /// More than there are numbers for.
    #[error("the fabric has {count} {what}; at most {max} are possible")]
    TooMany {
        /// Switches, hosts or links.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A host that cannot be.
    #[error(transparent)]
    Host(#[from] xoff_host::HostConfigError),
}
