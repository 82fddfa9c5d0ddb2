//! The constants of switch chips for the headroom formula.

/// Constants of a chip. SONiC gives some sizes in tenths of a KiB, so these sizes are in tenths of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asic {
    /// Name of the chip in `XOFF_SWITCH|localhost asic`.
    pub(crate) name: &'static str,
    /// Size of a buffer cell in bytes.
    pub(crate) cell_bytes: u32,
    /// Bytes that pass the chip between crossing the XOFF threshold and sending XOFF.
    pub(crate) pipeline_latency_bytes: u64,
    /// Bytes that are in flight in MAC and PHY, in tenths of a byte.
    pub(crate) mac_phy_delay_tenth_bytes: u64,
    /// Bytes that a peer sends before it reacts, in tenths of a byte. Used at speeds without a value in
    /// IEEE 802.3.
    pub(crate) peer_response_tenth_bytes: u64,
    /// Whether `peer_response_tenth_bytes` replaces the values of IEEE 802.3 at every speed.
    pub(crate) own_peer_response: bool,
    /// Whether the chip consists of tiles with a delay between them.
    pub(crate) tiles: bool,
    /// Additional headroom beyond the result of the formula, in bytes.
    pub(crate) xoff_extra_bytes: u64,
}

/// A chip with the common MAC, PHY and peer delays. The pipeline latency is in KiB.
const fn asic(name: &'static str, cell_bytes: u32, latency_kib: u64) -> Asic {
    Asic {
        name,
        cell_bytes,
        pipeline_latency_bytes: latency_kib * 1_024,
        // 0.8 KiB and 3.8 KiB are the same for all chips.
        mac_phy_delay_tenth_bytes: 8 * 1_024,
        peer_response_tenth_bytes: 38 * 1_024,
        own_peer_response: false,
        tiles: false,
        xoff_extra_bytes: 0,
    }
}

/// A tiled Spectrum chip.
const fn tiled(name: &'static str) -> Asic {
    Asic {
        tiles: true,
        ..asic(name, 192, 19)
    }
}

/// A chip of which SONiC publishes only the cell size. Its latencies are those of SONiC's virtual switch.
/// Only the dynamic buffer model uses these latencies, and SONiC does not support this model on these
/// chips.
const fn cells_only(name: &'static str, cell_bytes: u32) -> Asic {
    asic(name, cell_bytes, 18)
}

/// All chips. docs/chips.md lists the source of each constant.
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

/// The names of all chips, in the order of [`ASICS`].
pub(crate) const ASIC_NAMES: &[&str] = &NAMES;

impl Asic {
    /// Returns SONiC's virtual switch.
    pub(crate) fn virtual_switch() -> Asic {
        ASICS[0]
    }

    /// Returns the chip of this name.
    pub(crate) fn named(name: &str) -> Option<Asic> {
        ASICS.iter().find(|asic| asic.name == name).copied()
    }
}
