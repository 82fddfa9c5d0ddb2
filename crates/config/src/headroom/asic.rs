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
    /// `peer_response_tenth_bytes` counts at every speed.
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

/// A chip of which SONiC has the cell size alone. Its latencies are those of SONiC's virtual switch; only the dynamic
/// buffer model uses them, and SONiC has no such model for these chips.
const fn cells_only(name: &'static str, cell_bytes: u32) -> Asic {
    asic(name, cell_bytes, 18)
}

/// The chips; docs/chips.md has the source of each constant.
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
    Asic {
        peer_response_tenth_bytes: 90 * 1_024,
        ..asic("tofino2", 176, 68)
    },
    cells_only("td2", 208),
    cells_only("td3", 256),
    cells_only("td4", 318),
    cells_only("th", 208),
    cells_only("th2", 208),
    cells_only("th3", 254),
    cells_only("th4", 254),
    cells_only("th5", 254),
    cells_only("th6", 420),
    cells_only("jr2", 4_096),
    cells_only("j2c+", 4_096),
    cells_only("q3d", 4_096),
    cells_only("gb", 384),
    cells_only("gr", 384),
    cells_only("gr2", 512),
    cells_only("p200", 512),
    cells_only("pac", 384),
];

const NAMES: [&str; ASICS.len()] = {
    let mut names = [""; ASICS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ASICS[index].name;
        index += 1;
    }
    names
};

/// The names of all chips.
pub(crate) const ASIC_NAMES: &[&str] = &NAMES;

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
