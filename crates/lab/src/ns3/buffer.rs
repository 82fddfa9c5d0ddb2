//! The buffer of the model's switches (`switch-mmu.cc` and its configuration in `third.cc`).

use super::scenario::Scenario;
use super::topology::Topology;

/// Reserve of each port, in bytes.
const RESERVE_BYTES: u64 = 4_096;
/// A group resumes so many bytes under its limit.
const RESUME_OFFSET_BYTES: u64 = 3_072;
/// The limit of a host's port is the free buffer shifted by this; faster ports have less, down to 0.
const SHIFT: u8 = 3;

/// The buffer of one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchBuffer {
    /// What is neither reserve nor headroom of a port; `None` if these take more than the buffer has. The model subtracts modulo
    /// 2^32, so that nothing is limited then.
    pub shared_bytes: Option<u64>,
    nic_rate_bps: u64,
}

/// What a port's priority groups get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortBuffer {
    pub reserve_bytes: u64,
    pub headroom_bytes: u64,
    /// The limit of a group is the free buffer divided by 2 to the power of this.
    pub shift: u8,
    pub resume_offset_bytes: u64,
}

impl SwitchBuffer {
    /// The buffer of a switch node as the model configures it.
    pub fn new(scenario: &Scenario, node: u32) -> SwitchBuffer {
        let topology = &scenario.topology;
        let buffer = SwitchBuffer {
            shared_bytes: None,
            nic_rate_bps: nic_rate_bps(topology),
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

    /// That of a port whose link has this speed and delay.
    pub fn port_profile(&self, speed_mbps: u32, delay_ns: u64) -> PortBuffer {
        let rate_bps = u64::from(speed_mbps) * 1_000_000;
        PortBuffer {
            reserve_bytes: RESERVE_BYTES,
            headroom_bytes: u64::from(headroom_bytes(rate_bps, delay_ns)),
            shift: shift(rate_bps, self.nic_rate_bps),
            resume_offset_bytes: RESUME_OFFSET_BYTES,
        }
    }
}

/// The speed of hosts is that of the first one.
fn nic_rate_bps(topology: &Topology) -> u64 {
    let first = topology
        .hosts()
        .find_map(|node| topology.nodes[node as usize].links.first());
    first.map_or(u64::MAX, |link| topology.links[*link].rate_bps())
}

/// Three times what is in flight on the link, in the order of operations of the model, modulo 2^32.
fn headroom_bytes(rate_bps: u64, delay_ns: u64) -> u32 {
    let bytes = rate_bps.wrapping_mul(delay_ns) / 8 / 1_000_000_000;
    bytes.wrapping_mul(3) as u32
}

/// One less for each halving that brings the port's speed down to that of a host.
fn shift(mut rate_bps: u64, nic_rate_bps: u64) -> u8 {
    let mut shift = SHIFT;
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
    fn headroom_and_shift_are_the_models() {
        let gbps = |n: u64| n * 1_000_000_000;
        assert_eq!(headroom_bytes(gbps(100), 1_000), 37_500);
        assert_eq!(headroom_bytes(gbps(25), 1_000), 9_375);
        assert_eq!(headroom_bytes(gbps(1), 7), 0, "cut off before it is tripled");
        assert_eq!(shift(gbps(100), gbps(100)), 3);
        assert_eq!(shift(gbps(25), gbps(100)), 3);
        assert_eq!(shift(gbps(400), gbps(100)), 1);
        assert_eq!(shift(gbps(400), gbps(25)), 0);
    }
}
