//! What the formula has to know of a chip.

/// Constants of a chip. Sizes that SONiC gives in decimal fractions of a KiB are in tenths of a byte here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asic {
    /// As in `XOFF_SWITCH|localhost asic`.
    pub(crate) name: &'static str,
    /// Buffer cell in bytes.
    pub(crate) cell_bytes: u32,
    /// What passes the chip between crossing a threshold and sending XOFF, in bytes.
    pub(crate) pipeline_latency_bytes: u64,
    /// What is on its way in MAC and PHY, in tenths of a byte.
    pub(crate) mac_phy_delay_tenth_bytes: u64,
    /// What a peer sends until it reacts, at speeds the standard has no value for, in tenths of a byte.
    pub(crate) peer_response_tenth_bytes: u64,
    /// That is so at every speed.
    pub(crate) own_peer_response: bool,
    /// The chip is built of tiles, with a delay between them.
    pub(crate) tiles: bool,
    /// Headroom beyond the formula, in bytes.
    pub(crate) xoff_extra_bytes: u64,
}

const fn asic(name: &'static str, cell_bytes: u32, latency_kib: u64) -> Asic {
    Asic {
        name,
        cell_bytes,
        pipeline_latency_bytes: latency_kib * 1_024,
        // 0.8 KiB and 3.8 KiB, on all of them.
        mac_phy_delay_tenth_bytes: 8 * 1_024,
        peer_response_tenth_bytes: 38 * 1_024,
        own_peer_response: false,
        tiles: false,
        xoff_extra_bytes: 0,
    }
}

const fn tiled(name: &'static str) -> Asic {
    Asic {
        tiles: true,
        ..asic(name, 192, 19)
    }
}

/// SONiC's virtual switch, then Nvidia Spectrum by generation (`platform/mellanox/asic_table.j2` of sonic-buildimage).
pub(super) const ASICS: &[Asic] = &[
    asic("vs", 128, 18),
    asic("spectrum1", 96, 19),
    asic("spectrum2", 144, 19),
    asic("spectrum3", 144, 19),
    tiled("spectrum4"),
    tiled("spectrum5"),
    Asic {
        xoff_extra_bytes: 18 * 1_024,
        ..asic("spectrum6", 256, 42)
    },
];

/// The names of all chips.
pub(crate) const ASIC_NAMES: &[&str] = &[
    ASICS[0].name,
    ASICS[1].name,
    ASICS[2].name,
    ASICS[3].name,
    ASICS[4].name,
    ASICS[5].name,
    ASICS[6].name,
];

impl Asic {
    /// SONiC's virtual switch.
    pub(crate) fn virtual_switch() -> Asic {
        ASICS[0]
    }

    /// The chip of this name.
    pub(crate) fn named(name: &str) -> Option<Asic> {
        ASICS.iter().find(|asic| asic.name == name).copied()
    }
}
