//! The switch chip of a SONiC device.
//!
//! SONiC's configuration does not contain the cell size and the latencies of the chip. This module finds the
//! chip by the field `platform` of `DEVICE_METADATA|localhost`. If several chips use the same platform name,
//! the field `hwsku` decides. `docs/chips.md` lists the source of every constant. The fields of the table
//! `XOFF_SWITCH` override the constants of the chip.

mod platforms;

use self::platforms::{HWSKUS, PLATFORMS};
use super::headroom::Asic;

/// Returns the chip of a platform. If the platform name is unknown or is used for several chips, returns the
/// chip of the SKU. Returns `None` if the SKU is also unknown.
pub(crate) fn find_chip(platform: &str, hwsku: &str) -> Option<Asic> {
    let find = |table: &[(&str, &'static str)], key: &str| {
        let index = table.binary_search_by(|(name, _)| (*name).cmp(key)).ok()?;
        Asic::named(table[index].1)
    };
    find(PLATFORMS, platform).or_else(|| find(HWSKUS, hwsku))
}

impl Asic {
    /// Returns whether SONiC's buffer manager removes the lossless buffers of ports that are down.
    ///
    /// The function `BufferMgr::doSpeedUpdateTask` of sonic-swss removes these buffers on Mellanox and
    /// Barefoot chips.
    pub(crate) fn reclaims_buffer_of_down_ports(&self) -> bool {
        self.name.starts_with("spectrum") || self.name.starts_with("tofino")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_name_known_chips() {
        for table in [PLATFORMS, HWSKUS] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0));
            for (device, chip) in table {
                assert!(Asic::named(chip).is_some(), "{device}: {chip}");
            }
        }
    }

    #[test]
    fn chip_is_found_by_platform_and_then_by_hwsku() {
        let name = |platform, hwsku| find_chip(platform, hwsku).map(|chip| (chip.name, chip.cell_bytes));
        assert_eq!(
            name("x86_64-mlnx_msn2700-r0", "ACS-MSN2700"),
            Some(("spectrum1", 96))
        );
        assert_eq!(name("x86_64-arista_7060_cx32s", "any"), Some(("th", 208)));
        assert_eq!(
            name("x86_64-8122_64eh_o-r0", "Cisco-8122-O64"),
            Some(("gr2", 512))
        );
        assert_eq!(name("", "my-sku"), None);
    }

    /// Users look up chips in docs/chips.md, so each chip needs a row with its cell size.
    #[test]
    fn every_chip_is_documented() {
        let documented = include_str!("../../../../docs/chips.md");
        for name in crate::headroom::ASIC_NAMES {
            let asic = Asic::named(name).expect("a known chip");
            let row = format!("| `{name}` | {} |", asic.cell_bytes);
            assert!(documented.contains(&row), "docs/chips.md has no row {row}");
        }
    }
}
