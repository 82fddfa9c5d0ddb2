//! The constants of switch chips for the headroom formula.

/// Constants of a chip. SONiC gives some sizes in tenths of a KiB. These sizes are stored in tenths of a
/// byte, so that they are whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asic {
    /// Name of the chip in `XOFF_SWITCH|localhost asic`.
    pub(crate) name: &'static str,
    /// Size of a buffer cell in bytes.
    pub(crate) cell_bytes: u32,
    /// Bytes that arrive after the XOFF threshold is crossed and before the chip sends XOFF.
    pub(crate) pipeline_latency_bytes: u64,
    /// Bytes that are in flight in MAC and PHY, in tenths of a byte.
    pub(crate) mac_phy_delay_tenth_bytes: u64,
    /// Bytes that a peer still sends after it has received an XOFF frame, in tenths of a byte. The value is
    /// used only at speeds without a value in IEEE 802.3, unless `own_peer_response` is set.
    pub(crate) peer_response_tenth_bytes: u64,
    /// Whether `peer_response_tenth_bytes` replaces the values of IEEE 802.3 at every speed.
    pub(crate) own_peer_response: bool,
    /// Whether the chip consists of tiles with a delay between them.
    pub(crate) tiles: bool,
    /// Additional headroom beyond the result of the formula, in bytes.
    pub(crate) xoff_extra_bytes: u64,
}

/// Returns the constants of a chip with the usual delays of MAC, PHY and peer. `latency_kib` is the pipeline
/// latency in KiB.
const fn common_asic(name: &'static str, cell_bytes: u32, latency_kib: u64) -> Asic {
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

/// Returns the constants of a Spectrum chip that consists of tiles.
const fn tiled_asic(name: &'static str) -> Asic {
    Asic {
        tiles: true,
        ..common_asic(name, 192, 19)
    }
}

/// Returns the constants of a chip for which SONiC publishes only the cell size. The latencies are those of
/// SONiC's virtual switch. Only the dynamic buffer model uses latencies, and SONiC does not support this
/// model on these chips.
const fn asic_with_cell_size(name: &'static str, cell_bytes: u32) -> Asic {
    common_asic(name, cell_bytes, 18)
}

/// All chips. docs/chips.md lists the source of each constant.
pub(super) const ASICS: &[Asic] = &[
    common_asic("vs", 128, 18),
    common_asic("spectrum1", 96, 19),
    common_asic("spectrum2", 144, 19),
    common_asic("spectrum3", 144, 19),
    tiled_asic("spectrum4"),
    tiled_asic("spectrum5"),
    Asic {
        xoff_extra_bytes: 18 * 1_024,
        ..common_asic("spectrum6", 256, 42)
    },
    Asic {
        peer_response_tenth_bytes: 90 * 1_024,
        ..common_asic("tofino2", 176, 68)
    },
    asic_with_cell_size("td2", 208),
    asic_with_cell_size("td3", 256),
    asic_with_cell_size("td4", 318),
    asic_with_cell_size("th", 208),
    asic_with_cell_size("th2", 208),
    asic_with_cell_size("th3", 254),
    asic_with_cell_size("th4", 254),
    asic_with_cell_size("th5", 254),
    asic_with_cell_size("th6", 420),
    asic_with_cell_size("jr2", 4_096),
    asic_with_cell_size("j2c+", 4_096),
    asic_with_cell_size("q3d", 4_096),
    asic_with_cell_size("gb", 384),
    asic_with_cell_size("gr", 384),
    asic_with_cell_size("gr2", 512),
    asic_with_cell_size("p200", 512),
    asic_with_cell_size("pac", 384),
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

    /// Returns the chip with this name. Returns `None` if no chip has this name.
    pub(crate) fn named(name: &str) -> Option<Asic> {
        ASICS.iter().find(|asic| asic.name == name).copied()
    }
}
