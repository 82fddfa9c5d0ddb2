//! Configuration of the LLDP agent.

use xoff_wire::lldp_port::LldpPortSettings;

/// Configuration of the LLDP agent behind the CPU port. The switch itself only passes LLDP frames to the CPU
/// ([`Switch::set_protocols_attached`](crate::Switch::set_protocols_attached)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LldpConfig {
    /// Settings of each port, in the order of [`SwitchConfig::ports`](crate::config::SwitchConfig::ports). `None`: the
    /// port neither sends nor receives LLDP frames.
    pub ports: Vec<Option<LldpPortSettings>>,
}
