//! In-band telemetry: what the links on a packet's way say of themselves (HPCC, SIGCOMM 2019, section 3).

use xoff_dataplane::Picos;

/// Hops that one packet remembers; of a longer way, the first ones.
pub const HOPS_MAX: usize = 5;

/// What one switch port wrote as the packet left by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopTelemetry {
    /// When.
    pub at: Picos,
    /// Bytes the port has sent since its start, this packet's included.
    pub tx_bytes: u64,
    /// Bytes that remain in the packet's queue.
    pub queue_bytes: u64,
    /// The port's speed in Mb/s.
    pub speed_mbps: u32,
}

/// The hops of one packet, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    hops: [HopTelemetry; HOPS_MAX],
    len: u8,
}

impl Telemetry {
    /// Adds a hop; one too many is left out.
    pub fn push(&mut self, hop: HopTelemetry) {
        if let Some(place) = self.hops.get_mut(usize::from(self.len)) {
            *place = hop;
            self.len += 1;
        }
    }

    /// The hops so far.
    pub fn hops(&self) -> &[HopTelemetry] {
        &self.hops[..usize::from(self.len)]
    }
}
