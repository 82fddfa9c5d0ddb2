//! PFC and 802.3x pauses of each port: lossless priorities, pause time and refresh interval.

use xoff_dataplane::config::{GlobalPause, PauseModel, PfcConfig, PortConfig};
use xoff_dataplane::pfc::response_quanta_max;
use xoff_dataplane::{LinkTiming, Picos};

use super::classes::read_map;
use super::context::ResolveContext;
use super::{LOCALHOST, SWITCH};
use crate::schema;

const QOS_MAP_TABLE: &str = "PORT_QOS_MAP";
/// Number of bytes for which a PFC frame occupies the link, with preamble and gap.
const PFC_FRAME_WIRE_BYTES: u32 = 84;

/// Sets the flow control of all ports.
pub(super) fn resolve_flow_control(context: &mut ResolveContext<'_>, ports: &mut [PortConfig]) {
    for field in [
        "dot1p_to_tc_map",
        "tc_to_queue_map",
        "tc_to_pg_map",
        "pfc_to_queue_map",
        "pfc_to_pg_map",
        "tc_to_dscp_map",
        "scheduler",
        "pfc_enable",
        "pfcwd_sw_enable",
    ] {
        if context.text(QOS_MAP_TABLE, "global", field).is_some() {
            let why = format!("{field} has no effect: only dscp_to_tc_map is bound to the whole switch");
            context.warn_entry(QOS_MAP_TABLE, "global", why);
        }
    }
    for port in ports {
        port.pfc = resolve_pfc(context, port);
    }
}

/// Resolves the flow control of a port.
fn resolve_pfc(context: &mut ResolveContext<'_>, port: &PortConfig) -> PfcConfig {
    let name = &port.name;
    let enabled = context
        .text(QOS_MAP_TABLE, name, "pfc_enable")
        .and_then(schema::parse_priorities)
        .unwrap_or(0);
    let own = |field: &str| {
        context
            .number("XOFF_PORT", name, field)
            .or_else(|| context.number(SWITCH, LOCALHOST, field))
    };
    let pause_quanta = own("pause_quanta").unwrap_or(u64::from(u16::MAX)) as u16;
    let written = own("pause_refresh").map(Picos::from_nanos);
    let identity = |n: usize| n as u8;
    let pfc = PfcConfig {
        enabled,
        asymmetric: context.text("PORT", name, "pfc_asym") == Some("on"),
        pause_quanta,
        refresh: Picos::NEVER,
        priority_to_queue: read_map(
            context,
            "MAP_PFC_PRIORITY_TO_QUEUE",
            context.text(QOS_MAP_TABLE, name, "pfc_to_queue_map"),
            identity,
        ),
        priority_to_pg: read_map(
            context,
            "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
            context.text(QOS_MAP_TABLE, name, "pfc_to_pg_map"),
            identity,
        ),
        pauses: PauseModel::Timed,
        response_quanta: resolve_response_quanta(context, name, port.link.speed_mbps),
        global: resolve_global_pause(context, name, enabled),
    };
    let refresh = resolve_refresh_interval(context, name, &port.link, pause_quanta, written, enabled != 0);
    PfcConfig { refresh, ..pfc }
}

/// Returns `PORT.pause_response_quanta`: the time from the arrival of a pause to its effect, in quanta. The
/// default is 0, and `standard` means the limit of IEEE 802.3 for the speed.
fn resolve_response_quanta(context: &ResolveContext<'_>, name: &str, speed_mbps: u32) -> u16 {
    let written = context.text("PORT", name, "pause_response_quanta");
    match (written, context.number("PORT", name, "pause_response_quanta")) {
        (Some("standard"), _) => response_quanta_max(speed_mbps),
        (_, Some(quanta)) => u16::try_from(quanta).unwrap_or(u16::MAX),
        _ => 0,
    }
}

/// Resolves the use of 802.3x pauses. If PFC is enabled on any priority, the port does not use 802.3x pauses,
/// and a warning reports a configured mode.
fn resolve_global_pause(context: &mut ResolveContext<'_>, name: &str, pfc_enabled: u8) -> GlobalPause {
    let written = context.text("XOFF_PORT", name, "flow_control");
    if let Some(mode) = written.filter(|mode| *mode != "off" && pfc_enabled != 0) {
        let text = format!(
            "flow_control {mode:?} has no effect: pfc_enable has a priority, which disables 802.3x pauses"
        );
        context.warn_entry("XOFF_PORT", name, text);
    }
    let mode = written.unwrap_or("rx");
    GlobalPause {
        honoured: matches!(mode, "rx" | "both"),
        generated: matches!(mode, "tx" | "both"),
    }
}

/// The start of the proposal in notes about pauses that end too early.
const DILATION_PROPOSAL: &str = "slow model time down with `xoff switch run --dilate";

/// Returns whether a note of a configuration proposes a slower model time (`--dilate`), because a pause of a port is
/// shorter than the longest permitted stall of the machine.
pub fn proposes_dilation(note: &str) -> bool {
    note.contains(DILATION_PROPOSAL)
}

/// Describes a pause in virtual time that ends before the next XOFF frame can have an effect. `response` is the longest
/// response of a neighbour to a pause.
fn describe_short_pause(name: &str, link: &LinkTiming, quanta: u16, response: Picos) -> String {
    let quantum = link.pause_duration(1).0.max(1);
    let needed = response.0 / quantum + 1;
    let fix = match u16::try_from(needed) {
        Ok(needed) => {
            format!("set pause_quanta of XOFF_PORT|{name} to at least {needed}, or lower PORT speed")
        }
        Err(_) => "lower PORT speed, or shorten the links".to_owned(),
    };
    format!(
        "a pause of {quanta} quanta at {} Mb/s lasts {}, and a neighbour needs up to {} to honour a pause: senders may \
         resume before a repeated XOFF takes effect; {fix}",
        link.speed_mbps,
        format_micros(link.pause_duration(quanta)),
        format_micros(response)
    )
}

/// Returns the time between two XOFF frames: the configured time, or half the pause time. The default is
/// shorter if the pause could expire at the sender while the machine stalls xoff. In all cases, the time is
/// long enough for two PFC frames.
fn resolve_refresh_interval(
    context: &mut ResolveContext<'_>,
    name: &str,
    link: &LinkTiming,
    quanta: u16,
    written: Option<Picos>,
    is_enabled: bool,
) -> Picos {
    let pause = link.pause_duration(quanta);
    let budget = if context.is_attached(name) {
        context.options.reaction_budget
    } else {
        Picos::ZERO
    };
    let latest = pause.since(budget);
    let half = Picos(pause.0 / 2);
    let chosen = match written {
        Some(written) => written,
        None if latest == Picos::ZERO => half,
        None => half.min(latest),
    };
    if is_enabled && latest == Picos::ZERO && context.options.is_virtual {
        context.warn_port(name, describe_short_pause(name, link, quanta, budget));
    } else if is_enabled && latest == Picos::ZERO {
        let dilate = budget.0 / pause.0.max(1) + 1;
        context.warn_port(
            name,
            format!(
                "a pause of {quanta} quanta at {} Mb/s lasts {}, and the reaction budget is {}: a stall within the \
                 budget lets senders resume before XOFF is repeated; {DILATION_PROPOSAL} {dilate}` or `xoff lab \
                 run --dilate {dilate}` (times the dilation now), or lower PORT speed",
                link.speed_mbps,
                format_micros(pause),
                format_micros(budget)
            ),
        );
    } else if is_enabled && chosen > latest {
        let text = format!(
            "pause_refresh {} is longer than the pause of {} less the reaction budget of {}, {}: senders may resume \
             before XOFF is repeated",
            format_micros(chosen),
            format_micros(pause),
            format_micros(budget),
            format_micros(latest)
        );
        context.warn_port(name, text);
    }
    // With a shorter interval, XOFF frames could occupy the whole link.
    let floor = Picos(link.duration(2 * PFC_FRAME_WIRE_BYTES).0.max(1));
    if is_enabled && chosen < floor {
        let text = format!(
            "XOFF would be repeated every {}, which exceeds the capacity of the link; every {} is used instead",
            format_micros(chosen),
            format_micros(floor)
        );
        context.warn_port(name, text);
    }
    chosen.max(floor)
}

/// Formats a time span in microseconds with up to three decimals.
pub(super) fn format_micros(span: Picos) -> String {
    let micros = span.0 as f64 / 1e6;
    let text = format!("{micros:.3}");
    format!("{} us", text.trim_end_matches('0').trim_end_matches('.'))
}
