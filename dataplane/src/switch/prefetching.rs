//! Fetches memory before it is used. A caller with many switches calls these methods some events before an event.

use xoff_units::prefetch;

use super::{Switch, timers};
use crate::ids::{PortId, TimerId};

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

    /// Fetches the memory of a port that receives and sends frames, without waiting for it. Reads the memory that
    /// [`Switch::prefetch`] has fetched.
    #[inline]
    pub fn prefetch_port(&self, port: PortId) {
        if let Some(state) = self.ports.get(port.index()) {
            state.prefetch();
            self.mmu.prefetch(port);
        }
    }

    /// Fetches the memory of a port whose timer expires, without waiting for it, as
    /// [`Switch::prefetch_port`] does.
    #[inline]
    pub fn prefetch_port_of_timer(&self, timer: TimerId) {
        if let Some(port) = timers::port_of_transmit_timer(timer).and_then(|port| self.ports.get(port)) {
            port.prefetch();
        }
    }
}
