//! The chip whose constants a configuration uses.

use super::context::Context;
use super::{LOCALHOST, SWITCH, dynamic};
use crate::chip::chip_of;
use crate::headroom::Asic;

/// The buffer cell of a switch whose chip is not known, in bytes.
const CELL_BYTES: u64 = 256;

/// The chip that `XOFF_SWITCH|localhost asic` names, or else that of `platform` and `hwsku`.
pub(super) fn known(context: &Context<'_>) -> Option<Asic> {
    let explicit = context.text(SWITCH, LOCALHOST, "asic").and_then(Asic::named);
    let metadata = |field| context.text("DEVICE_METADATA", LOCALHOST, field).unwrap_or("");
    explicit.or_else(|| chip_of(metadata("platform"), metadata("hwsku")))
}

/// The constants that headroom is computed with: those of the chip, or of SONiC's virtual switch if it is not known,
/// each overridden by its field of `XOFF_SWITCH`.
pub(super) fn constants(context: &Context<'_>) -> Asic {
    let own = |field: &str| context.number(SWITCH, LOCALHOST, field);
    let known = known(context).unwrap_or_else(Asic::virtual_switch);
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

/// The buffer cell where `cell_size` is not written: the chip's, if it is known or headroom is computed for it.
pub(super) fn cell_bytes(context: &Context<'_>) -> u64 {
    match dynamic::is_on(context.db) || known(context).is_some() {
        true => u64::from(constants(context).cell_bytes),
        false => CELL_BYTES,
    }
}

/// Names the constants that follow from the platform.
pub(super) fn note_constants(context: &mut Context<'_>) {
    if context.text(SWITCH, LOCALHOST, "asic").is_some() {
        return;
    }
    let Some(chip) = known(context) else { return };
    let used = constants(context);
    let cell = context
        .number(SWITCH, LOCALHOST, "cell_size")
        .unwrap_or_else(|| cell_bytes(context));
    let mut text = format!(
        "platform and hwsku are those of chip {}: cell_size {cell}",
        chip.name
    );
    if dynamic::is_on(context.db) {
        text.push_str(&format!(
            ", pipeline latency {}, MAC and PHY delay {}, peer response {} bytes",
            used.pipeline_latency_bytes,
            tenths(used.mac_phy_delay_tenth_bytes),
            match used.own_peer_response {
                true => tenths(used.peer_response_tenth_bytes),
                false => "by speed, else ".to_owned() + &tenths(used.peer_response_tenth_bytes),
            },
        ));
    }
    text.push_str(" (docs/chips.md; fields of XOFF_SWITCH override them)");
    context.warn_entry("DEVICE_METADATA", LOCALHOST, text);
}

fn tenths(value: u64) -> String {
    match value % 10 {
        0 => (value / 10).to_string(),
        tenth => format!("{}.{tenth}", value / 10),
    }
}
