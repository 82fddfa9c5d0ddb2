//! Computes the buffer settings of switches in the HPCC model of ns-3 (`switch-mmu.cc` and `third.cc`).

use super::scenario::Scenario;
use super::topology::Topology;

/// Reserved bytes of each port, for each of its priority groups.
const RESERVE_BYTES: u64 = 4_096;
/// Difference in bytes between the shared limit of a priority group and its XON threshold, which is lower.
const RESUME_OFFSET_BYTES: u64 = 3_072;
/// Shift of a port to a host. With shift 3, the shared limit is the free buffer divided by 2^3. Faster ports
/// have smaller shifts.
const HOST_PORT_SHIFT: u8 = 3;

/// The buffer of one switch of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchBuffer {
    /// Bytes of the buffer that are neither reserved nor headroom. `None` if reserved space and headroom
    /// together exceed the buffer. In this case, a subtraction in the model overflows (modulo 2^32), and its
    /// limits have no effect.
    pub shared_bytes: Option<u64>,
    nic_rate_bps: u64,
}

/// The buffer settings that all priority groups of a port have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortBuffer {
    /// Reserved bytes of a priority group.
    pub reserve_bytes: u64,
    /// Headroom of a priority group in bytes: three times the bytes in flight in one direction of the link
    /// (speed times delay), modulo 2^32 as in the model.
    pub headroom_bytes: u64,
    /// The shared limit of a priority group is the free buffer divided by 2^shift. The shift is 0 to 3.
    pub shift: u8,
    /// Difference in bytes between the shared limit and the XON threshold, which is lower.
    pub resume_offset_bytes: u64,
}

impl SwitchBuffer {
    /// Returns the buffer settings of the switch `node`, an index of [`Topology::nodes`].
    pub fn new(scenario: &Scenario, node: u32) -> SwitchBuffer {
        let topology = &scenario.topology;
        let buffer = SwitchBuffer {
            shared_bytes: None,
            nic_rate_bps: first_host_rate_bps(topology),
        };
        let links = topology.nodes[node as usize].links.iter();
        let set_aside: u64 = links
            .map(|link| {
                let link = &topology.links[*link];
                let port = buffer.port_profile(link.speed_mbps, link.delay_ns);
                port.reserve_bytes + port.headroom_bytes
            })
            .sum();
        SwitchBuffer {
            shared_bytes: u64::from(scenario.parameters.buffer_bytes).checked_sub(set_aside),
            ..buffer
        }
    }

    /// Returns the buffer settings of a port with this link speed and link delay.
    pub fn port_profile(&self, speed_mbps: u32, delay_ns: u64) -> PortBuffer {
        let rate_bps = u64::from(speed_mbps) * 1_000_000;
        PortBuffer {
            reserve_bytes: RESERVE_BYTES,
            headroom_bytes: u64::from(headroom_bytes(rate_bps, delay_ns)),
            shift: buffer_threshold_shift(rate_bps, self.nic_rate_bps),
            resume_offset_bytes: RESUME_OFFSET_BYTES,
        }
    }
}

/// Returns the link speed of the first host in bits per second. The model assumes that all hosts have
/// this speed.
fn first_host_rate_bps(topology: &Topology) -> u64 {
    let first = topology
        .hosts()
        .find_map(|node| topology.nodes[node as usize].links.first());
    first.map_or(u64::MAX, |link| topology.links[*link].rate_bps())
}

/// Returns the headroom in bytes: three times the bytes in flight in one direction of the link.
///
/// The model has the same order of operations and the same arithmetic modulo 2^32.
fn headroom_bytes(rate_bps: u64, delay_ns: u64) -> u32 {
    let bytes = rate_bps.wrapping_mul(delay_ns) / 8 / 1_000_000_000;
    bytes.wrapping_mul(3) as u32
}

/// Returns the shift of a port. If the port is 2^n times as fast as a host link, the shift is
/// [`HOST_PORT_SHIFT`] - n, at least 0.
fn buffer_threshold_shift(mut rate_bps: u64, nic_rate_bps: u64) -> u8 {
    let mut shift = HOST_PORT_SHIFT;
    while rate_bps > nic_rate_bps && shift > 0 {
        shift -= 1;
        rate_bps /= 2;
    }
    shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_and_shift_equal_those_of_the_model() {
        let gbps = |n: u64| n * 1_000_000_000;
        assert_eq!(headroom_bytes(gbps(100), 1_000), 37_500);
        assert_eq!(headroom_bytes(gbps(25), 1_000), 9_375);
        assert_eq!(
            headroom_bytes(gbps(1), 7),
            0,
            "rounded down before the multiplication by 3"
        );
        assert_eq!(buffer_threshold_shift(gbps(100), gbps(100)), 3);
        assert_eq!(buffer_threshold_shift(gbps(25), gbps(100)), 3);
        assert_eq!(buffer_threshold_shift(gbps(400), gbps(100)), 1);
        assert_eq!(buffer_threshold_shift(gbps(400), gbps(25)), 0);
    }
}
