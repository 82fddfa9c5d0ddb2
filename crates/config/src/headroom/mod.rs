//! The headroom calculator. It computes the sizes of a lossless buffer profile from speed, cable length, MTU
//! and chip.
//!
//! The formula is that of SONiC's dynamic buffer model (`cfgmgr/buffer_headroom_mellanox.lua` of sonic-swss).
//! SONiC uses the same formula for its virtual switch. Headroom holds the data that arrives after the switch
//! has decided to send XOFF:
//!
//! - one frame in transmission on each side,
//! - the data on the cable in both directions,
//! - the data that the peer sends before it reacts.
//!
//! Small frames do not fill their cells. The formula therefore multiplies the sum by a factor for partly
//! filled cells.
//!
//! All calculations use integers with a common denominator, so the results are identical on all machines.
//! This module rounds up to 1 KiB at the same steps of the calculation as SONiC.

mod asic;

pub(crate) use asic::{ASIC_NAMES, Asic};

/// Sizes are rounded up to a multiple of this number of bytes.
const STEP_BYTES: u128 = 1_024;
/// Length of the smallest Ethernet frame with its FCS.
const FRAME_MIN_BYTES: u128 = 64;
/// Number of bytes that are added to private headroom (without a shared headroom pool) if the computed
/// headroom is far below the worst case. This happens if the share of small packets is low.
const COMPENSATION_BYTES: u128 = 2 * 1_024;

/// The inputs of the formula: a port, its cable and its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkParameters {
    /// Speed in Mb/s.
    pub(crate) speed_mbps: u32,
    /// Length of the cable in metres.
    pub(crate) cable_m: u64,
    /// `PORT.mtu` in bytes.
    pub(crate) mtu_bytes: u32,
    /// Number of lanes of the port. Eight lanes double the latency of the chip.
    pub(crate) lanes: usize,
    /// Delay of a gearbox between chip and cable in ns, as in SONiC's `PERIPHERAL_TABLE`. 0 means no gearbox.
    pub(crate) gearbox_delay_ns: u64,
    /// `LOSSLESS_TRAFFIC_PATTERN.mtu`, at least 1.
    pub(crate) lossless_mtu_bytes: u32,
    /// `LOSSLESS_TRAFFIC_PATTERN.small_packet_percentage`, 0 to 100.
    pub(crate) small_packet_percent: u32,
    /// Whether the headroom comes from a shared headroom pool.
    pub(crate) uses_shared_pool: bool,
}

/// The sizes of a lossless buffer profile, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadroomSizes {
    /// XON threshold.
    pub(crate) xon_bytes: u64,
    /// The headroom in bytes.
    pub(crate) xoff_bytes: u64,
    /// Reserved space. Without a shared headroom pool, the reserved space includes the headroom.
    pub(crate) size_bytes: u64,
}

/// Common denominator of all lengths in the formula: the least common multiple of 792 (cable), 4096
/// (gearbox), 10 (tenths of a byte) and 200 (tiles).
const DENOMINATOR: u128 = 10_137_600;

/// Largest response time of a peer in pause quanta, by speed in Mb/s (IEEE 802.3, 31B.3.7).
const REACTION_QUANTA: &[(u32, u128)] = &[
    (100, 1),
    (1_000, 2),
    (10_000, 67),
    (25_000, 80),
    (40_000, 118),
    (50_000, 147),
    (100_000, 394),
    (200_000, 453),
    (400_000, 905),
    (800_000, 905),
];

/// Computes the sizes of the lossless profile for a link of a chip.
pub(crate) fn compute_headroom(asic: &Asic, link: &LinkParameters) -> HeadroomSizes {
    let lossless_mtu = u128::from(link.lossless_mtu_bytes.max(1));
    let percent = u128::from(link.small_packet_percent.min(100));
    // In the worst case, the cells of a packet have this multiple of the length of the packet.
    let cell_factor = worst_case_cell_factor(asic.cell_bytes);
    let delay = scaled_response_bytes(asic, link);
    // Small packets are 6400 / mix of all bytes, so the occupancy is 1 + 6400 / mix x (factor - 1).
    let mix = percent * FRAME_MIN_BYTES + (100 - percent) * lossless_mtu;
    let occupied = delay * (mix + 100 * FRAME_MIN_BYTES * (cell_factor - 1));
    let xoff = round_up_to_step(lossless_mtu * DENOMINATOR * mix + occupied, DENOMINATOR * mix);
    let mut xoff = xoff + u128::from(asic.xoff_extra_bytes);
    if !link.uses_shared_pool && percent != 100 {
        let worst = round_up_to_step(lossless_mtu * DENOMINATOR + delay * cell_factor, DENOMINATOR);
        if xoff + COMPENSATION_BYTES < worst {
            xoff += COMPENSATION_BYTES;
        }
    }
    let eight_lanes = link.lanes == 8;
    let latency = u128::from(asic.pipeline_latency_bytes) * if eight_lanes { 2 } else { 1 };
    let xon = round_up_to_step(latency, 1);
    let second_frame = if eight_lanes {
        u128::from(link.mtu_bytes)
    } else {
        0
    };
    let size = if link.uses_shared_pool {
        xon
    } else {
        round_up_to_step(xoff + xon + second_frame, 1)
    };
    let bytes = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
    HeadroomSizes {
        xon_bytes: bytes(xon),
        xoff_bytes: bytes(xoff),
        size_bytes: bytes(size),
    }
}

/// Returns the number of bytes that arrive after the decision to send XOFF, multiplied by [`DENOMINATOR`].
/// Empty space in cells is not included.
fn scaled_response_bytes(asic: &Asic, link: &LinkParameters) -> u128 {
    let speed = u128::from(link.speed_mbps);
    // Both directions at 198 000 km/s: 2 m x Mb/s x 1e9 / 198e6 / 8000 bytes.
    let cable = u128::from(link.cable_m) * speed * (DENOMINATOR / 792);
    // The gearbox delay counts twice, with Mb/s x delay / 8192 bytes each.
    let gearbox = u128::from(link.gearbox_delay_ns) * speed * (DENOMINATOR / 4_096);
    let quanta = REACTION_QUANTA
        .iter()
        .find(|(mbps, _)| *mbps == link.speed_mbps && !asic.own_peer_response);
    let peer_tenths = match quanta {
        Some((_, quanta)) => quanta * 64 * 10,
        None => u128::from(asic.peer_response_tenth_bytes),
    };
    let constants = (u128::from(asic.mac_phy_delay_tenth_bytes) + peer_tenths) * (DENOMINATOR / 10);
    // The delay of a tile is 120 ns: Gb/s x 120 / 8 bytes.
    let tile = if asic.tiles {
        speed * 3 * (DENOMINATOR / 200)
    } else {
        0
    };
    u128::from(link.mtu_bytes) * DENOMINATOR + cable + gearbox + constants + tile
}

/// Returns the largest ratio between the cell space of a packet and the length of the packet, rounded up.
///
/// With large cells, the worst case is the smallest packet. With small cells, the worst case is a packet that
/// is one byte longer than a cell.
fn worst_case_cell_factor(cell_bytes: u32) -> u128 {
    let cell = u128::from(cell_bytes.max(1));
    if cell > 2 * FRAME_MIN_BYTES {
        cell.div_ceil(FRAME_MIN_BYTES)
    } else {
        (2 * cell).div_ceil(1 + cell)
    }
}

/// Returns `dividend / divisor`, rounded up to the next multiple of [`STEP_BYTES`].
fn round_up_to_step(dividend: u128, divisor: u128) -> u128 {
    dividend.div_ceil(divisor * STEP_BYTES) * STEP_BYTES
}

#[cfg(test)]
mod tests;
