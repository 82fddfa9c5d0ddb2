//! The headroom calculator: from speed, cable, MTU and chip to the sizes of a lossless buffer profile.
//!
//! The formula is that of SONiC's dynamic buffer model (`cfgmgr/buffer_headroom_mellanox.lua` of sonic-swss, also used
//! for its virtual switch). Headroom must hold what still arrives after XOFF was sent: a frame that is being sent on
//! each side, what is on the cable in both directions, what the peer sends until it reacts, all in cells that are not
//! filled by small frames.
//!
//! Everything is computed exactly, in integers over one denominator, and rounded up to 1 KiB where SONiC rounds. So the
//! same values come out on every machine.

mod asic;

pub(crate) use asic::{ASIC_NAMES, Asic};

/// Sizes are rounded up to a multiple of this.
const STEP_BYTES: u128 = 1_024;
/// Smallest Ethernet frame.
const FRAME_MIN_BYTES: u128 = 64;
/// Added where a reduced share of small packets leaves a private headroom too far below the worst case.
const COMPENSATION_BYTES: u128 = 2 * 1_024;

/// What the formula is asked about: a port, its cable, its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Speed in Mb/s.
    pub(crate) speed_mbps: u32,
    /// Length of the cable in metres.
    pub(crate) cable_m: u64,
    /// `PORT.mtu` in bytes.
    pub(crate) mtu_bytes: u32,
    /// Lanes of the port; eight of them double the latency of the chip.
    pub(crate) lanes: usize,
    /// Delay of a gearbox between chip and cable, in the unit of SONiC's `PERIPHERAL_TABLE` (ns); 0: none.
    pub(crate) gearbox_delay_ns: u64,
    /// `LOSSLESS_TRAFFIC_PATTERN.mtu`, at least 1.
    pub(crate) lossless_mtu_bytes: u32,
    /// `LOSSLESS_TRAFFIC_PATTERN.small_packet_percentage`, 0 to 100.
    pub(crate) small_packet_percent: u32,
    /// Headroom is taken from a shared headroom pool.
    pub(crate) shared_pool: bool,
}

/// Sizes of a lossless profile, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headroom {
    pub(crate) xon_bytes: u64,
    pub(crate) xoff_bytes: u64,
    pub(crate) size_bytes: u64,
}

/// Denominator of all lengths in the formula: the least common multiple of 792 (cable), 4096 (gearbox), 10 (constants
/// given in tenths) and 200 (tiles).
const DENOMINATOR: u128 = 10_137_600;

/// Pause quanta that a peer may take to react, by speed in Mb/s (IEEE 802.3, 31B.3.7).
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

/// The sizes of the lossless profile for a link of a chip.
pub(crate) fn headroom(asic: &Asic, link: &Link) -> Headroom {
    let lossless_mtu = u128::from(link.lossless_mtu_bytes.max(1));
    let percent = u128::from(link.small_packet_percent.min(100));
    // A small packet wastes this many times its own length in cells, rounded up.
    let blow_up = worst_case_factor(asic.cell_bytes);
    let delay = propagation(asic, link);
    // Small packets make up 6400 / mix of the bytes: occupancy is 1 + 6400 / mix x (factor - 1).
    let mix = percent * FRAME_MIN_BYTES + (100 - percent) * lossless_mtu;
    let occupied = delay * (mix + 100 * FRAME_MIN_BYTES * (blow_up - 1));
    let xoff = round_up(lossless_mtu * DENOMINATOR * mix + occupied, DENOMINATOR * mix);
    let mut xoff = xoff + u128::from(asic.xoff_extra_bytes);
    if !link.shared_pool && percent != 100 {
        let worst = round_up(lossless_mtu * DENOMINATOR + delay * blow_up, DENOMINATOR);
        if xoff + COMPENSATION_BYTES < worst {
            xoff += COMPENSATION_BYTES;
        }
    }
    let eight_lanes = link.lanes == 8;
    let latency = u128::from(asic.pipeline_latency_bytes) * if eight_lanes { 2 } else { 1 };
    let xon = round_up(latency, 1);
    let second_frame = if eight_lanes {
        u128::from(link.mtu_bytes)
    } else {
        0
    };
    let size = if link.shared_pool {
        xon
    } else {
        round_up(xoff + xon + second_frame, 1)
    };
    let bytes = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
    Headroom {
        xon_bytes: bytes(xon),
        xoff_bytes: bytes(xoff),
        size_bytes: bytes(size),
    }
}

/// Bytes that arrive after XOFF was decided, if all cells were full, times [`DENOMINATOR`].
fn propagation(asic: &Asic, link: &Link) -> u128 {
    let speed = u128::from(link.speed_mbps);
    // Both ways at 198 000 km/s: 2 m x Mb/s x 1e9 / 198e6 / 8000 bytes.
    let cable = u128::from(link.cable_m) * speed * (DENOMINATOR / 792);
    // Counted twice: Mb/s x delay / 8192 bytes each.
    let gearbox = u128::from(link.gearbox_delay_ns) * speed * (DENOMINATOR / 4_096);
    let quanta = REACTION_QUANTA
        .iter()
        .find(|(mbps, _)| *mbps == link.speed_mbps && !asic.own_peer_response);
    let peer_tenths = match quanta {
        Some((_, quanta)) => quanta * 64 * 10,
        None => u128::from(asic.peer_response_tenth_bytes),
    };
    let constants = (u128::from(asic.mac_phy_delay_tenth_bytes) + peer_tenths) * (DENOMINATOR / 10);
    // 120 ns for a tile: Gb/s x 120 / 8 bytes.
    let tile = if asic.tiles {
        speed * 3 * (DENOMINATOR / 200)
    } else {
        0
    };
    u128::from(link.mtu_bytes) * DENOMINATOR + cable + gearbox + constants + tile
}

/// How many times its length the worst packet takes in cells: the smallest one in a large cell, one byte more than a
/// cell in a small one.
fn worst_case_factor(cell_bytes: u32) -> u128 {
    let cell = u128::from(cell_bytes.max(1));
    if cell > 2 * FRAME_MIN_BYTES {
        cell.div_ceil(FRAME_MIN_BYTES)
    } else {
        (2 * cell).div_ceil(1 + cell)
    }
}

/// `dividend / divisor`, rounded up to the next [`STEP_BYTES`].
fn round_up(dividend: u128, divisor: u128) -> u128 {
    dividend.div_ceil(divisor * STEP_BYTES) * STEP_BYTES
}

#[cfg(test)]
mod tests;
