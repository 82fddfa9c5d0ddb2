//! The chip of the switch and its constants.

use super::context::ResolveContext;
use super::{LOCALHOST, SWITCH, buffer_model};
use crate::chip::find_chip;
use crate::headroom::Asic;

/// Size in bytes of a buffer cell if the chip is unknown.
const UNKNOWN_CHIP_CELL_BYTES: u64 = 256;

/// Returns the chip of `XOFF_SWITCH|localhost asic`. If this field is missing, returns the chip of `platform`
/// and `hwsku` in `DEVICE_METADATA`. Returns `None` if the chip is not known.
pub(super) fn find_configured_chip(context: &ResolveContext<'_>) -> Option<Asic> {
    let explicit = context.text(SWITCH, LOCALHOST, "asic").and_then(Asic::named);
    let metadata = |field| context.text("DEVICE_METADATA", LOCALHOST, field).unwrap_or("");
    explicit.or_else(|| find_chip(metadata("platform"), metadata("hwsku")))
}

/// Returns the chip constants for computed headroom. If the chip is not known, the constants are those of
/// SONiC's virtual switch. The fields of `XOFF_SWITCH` override single constants.
pub(super) fn chip_constants(context: &ResolveContext<'_>) -> Asic {
    let own = |field: &str| context.number(SWITCH, LOCALHOST, field);
    let known = find_configured_chip(context).unwrap_or_else(Asic::virtual_switch);
    Asic {
        cell_bytes: own("asic_cell_size").map_or(known.cell_bytes, |bytes| bytes as u32),
        pipeline_latency_bytes: own("asic_pipeline_latency").unwrap_or(known.pipeline_latency_bytes),
        mac_phy_delay_tenth_bytes: own("asic_mac_phy_delay")
            .map_or(known.mac_phy_delay_tenth_bytes, |bytes| 10 * bytes),
        peer_response_tenth_bytes: own("asic_peer_response_time")
            .map_or(known.peer_response_tenth_bytes, |bytes| 10 * bytes),
        own_peer_response: known.own_peer_response || own("asic_peer_response_time").is_some(),
        ..known
    }
}

/// Returns the default of `cell_size` in bytes. If the chip is known or the dynamic buffer model is selected,
/// this is the cell size of [`chip_constants`]. Otherwise, this is 256.
pub(super) fn default_cell_bytes(context: &ResolveContext<'_>) -> u64 {
    match buffer_model::is_dynamic_model_selected(context.db) || find_configured_chip(context).is_some() {
        true => u64::from(chip_constants(context).cell_bytes),
        false => UNKNOWN_CHIP_CELL_BYTES,
    }
}

/// Adds a note about the chip constants that follow from `platform` and `hwsku`.
pub(super) fn note_chip_constants(context: &mut ResolveContext<'_>) {
    if context.text(SWITCH, LOCALHOST, "asic").is_some() {
        return;
    }
    let Some(chip) = find_configured_chip(context) else {
        return;
    };
    let used = chip_constants(context);
    let cell = context
        .number(SWITCH, LOCALHOST, "cell_size")
        .unwrap_or_else(|| default_cell_bytes(context));
    let mut text = format!(
        "platform and hwsku are those of chip {}: cell_size {cell}",
        chip.name
    );
    if buffer_model::is_dynamic_model_selected(context.db) {
        text.push_str(&format!(
            ", pipeline latency {}, MAC and PHY delay {}, peer response {} bytes",
            used.pipeline_latency_bytes,
            format_tenths(used.mac_phy_delay_tenth_bytes),
            match used.own_peer_response {
                true => format_tenths(used.peer_response_tenth_bytes),
                false => "by speed, else ".to_owned() + &format_tenths(used.peer_response_tenth_bytes),
            },
        ));
    }
    text.push_str(" (docs/chips.md; fields of XOFF_SWITCH override them)");
    context.warn_entry("DEVICE_METADATA", LOCALHOST, text);
}

/// Formats tenths of a byte as bytes.
fn format_tenths(value: u64) -> String {
    match value % 10 {
        0 => (value / 10).to_string(),
        tenth => format!("{}.{tenth}", value / 10),
    }
}
