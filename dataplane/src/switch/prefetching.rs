//! Fetches memory before it is used. A caller with many switches calls these methods some events before an event.

use xoff_units::prefetch;

use super::{Switch, timers};
use crate::ids::{PortId, TimerId};
use crate::route::RouteHint;

impl Switch {
    /// Fetches the memory that nearly every frame uses, without waiting for it.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.ports);
        prefetch(&self.mmu);
        prefetch(&self.frames);
        prefetch(&self.router);
        prefetch(&self.balance);
    }

    /// Fetches the memory of a port that receives a frame, without waiting for it. Reads the memory that
    /// [`Switch::prefetch`] has fetched.
    #[inline]
    pub fn prefetch_ingress_port(&self, port: PortId) {
        if let Some(state) = self.ports.get(port.index()) {
            state.prefetch_ingress();
            self.mmu.prefetch_group(port);
        }
    }

    /// Fetches the memory of the port to which a packet with this route, destination and flow hash leaves, without
    /// waiting for it. Returns the port. Returns `None` if the route has no next hop.
    ///
    /// A load-balancing scheme can select another port, and an address that is not resolved has none. Both cost only
    /// the fetched memory.
    #[inline]
    pub fn prefetch_egress_port(&self, route: RouteHint, destination: u32, flow_hash: u32) -> Option<PortId> {
        let port = PortId(self.router.cached_port(route.leaf()?, destination, flow_hash)?);
        self.ports.get(port.index())?.prefetch_egress();
        self.mmu.prefetch_queue(port);
        Some(port)
    }

    /// Fetches the memory of a port whose timer expires, without waiting for it, as
    /// [`Switch::prefetch_ingress_port`] does.
    #[inline]
    pub fn prefetch_port_of_timer(&self, timer: TimerId) {
        if let Some(port) = timers::port_of_transmit_timer(timer).and_then(|port| self.ports.get(port)) {
            port.prefetch_egress();
        }
    }
}
