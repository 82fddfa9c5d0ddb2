//! The settings of a port that it has negotiated with its peer (DCBX): PFC and ETS.

use super::Switch;
use crate::config::PfcConfig;
use crate::frame::FrameStore;
use crate::ids::PortId;
use crate::outputs::Outputs;
use xoff_units::Picos;
use xoff_wire::lldp::EtsTables;

impl Switch {
    /// Enables PFC of a port for the priorities that the negotiation with the peer has selected (DCBX). Bit *n* is
    /// priority *n*. `None` enables PFC for the priorities of the configuration. New configurations of the switch keep
    /// the negotiated priorities.
    ///
    /// Priorities without PFC no longer pause the port. Priorities with PFC signal the XOFF of their priority groups.
    pub fn set_negotiated_pfc<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        priorities: Option<u8>,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        self.ports[port.index()].set_negotiated_pfc(priorities);
        self.update_pauses(now, port, outputs);
        self.try_transmit(now, port, store, outputs);
    }

    /// Lets a port select its frames by the traffic classes that the negotiation with the peer has selected (DCBX).
    /// `None` restores the schedulers of the configuration. New configurations of the switch keep the negotiated
    /// classes.
    ///
    /// Frames stay in their queues. A queue belongs to the traffic class of its priorities
    /// ([`PfcConfig::priority_to_queue`]), and several queues can belong to one class. The shapers of queues still
    /// apply.
    pub fn set_negotiated_ets(&mut self, port: PortId, tables: Option<EtsTables>) {
        self.ports[port.index()].set_negotiated_ets(tables);
    }
}

/// Settings in operation, for use between two calls.
impl Switch {
    /// Returns the flow control of a port in operation: the configuration, with the negotiated priorities
    /// ([`Switch::set_negotiated_pfc`]).
    pub fn flow_control(&self, port: PortId) -> &PfcConfig {
        &self.ports[port.index()].pfc
    }

    /// Returns the traffic classes that the port has negotiated ([`Switch::set_negotiated_ets`]). Returns `None` if the
    /// schedulers of the configuration apply.
    pub fn negotiated_ets(&self, port: PortId) -> Option<&EtsTables> {
        self.ports[port.index()].negotiated_ets()
    }
}
