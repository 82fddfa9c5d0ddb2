//! Scheduling, shaping and WRED of queues, and the shapers of ports.

use xoff_dataplane::config::{PortConfig, SchedulingMode, ShaperConfig, WredProfile};

use super::context::ResolveContext;
use crate::merge::parse_range_key;
use crate::problem::Problem;

const SCHEDULER_TABLE: &str = "SCHEDULER";
const WRED_TABLE: &str = "WRED_PROFILE";

/// Smallest default burst of a shaper in bytes: a frame of the largest MTU with headers, tags and FCS.
const DEFAULT_BURST_BYTES_MIN: u64 = 9_216 + 26;

/// Sets the schedulers, shapers and WRED profiles of all ports.
pub(super) fn resolve_queues(context: &mut ResolveContext<'_>, ports: &mut [PortConfig]) {
    let db = context.db;
    for (name, _) in db.entries(SCHEDULER_TABLE) {
        check_scheduler(context, name);
    }
    for (name, _) in db.entries(WRED_TABLE) {
        check_wred(context, name);
    }
    for (key, _) in db.entries("QUEUE") {
        let Some((port, first, last)) = parse_range_key(key) else {
            continue;
        };
        let Some(port) = context.port_index(port) else {
            continue;
        };
        let scheduler = context
            .text("QUEUE", key, "scheduler")
            .filter(|name| db.entry(SCHEDULER_TABLE, name).is_some());
        let wred = context
            .text("QUEUE", key, "wred_profile")
            .and_then(|name| resolve_wred(context, name));
        for queue in &mut ports[port].queues[usize::from(first)..=usize::from(last)] {
            if let Some(name) = scheduler {
                queue.schedule = resolve_schedule(context, name);
                queue.shaper = resolve_shaper(context, name);
            }
            queue.wred = wred;
        }
    }
    for port in ports {
        if let Some(name) = context.text("PORT_QOS_MAP", &port.name, "scheduler") {
            port.shaper = resolve_shaper(context, name);
        }
    }
}

/// Resolves the scheduling of an entry of `SCHEDULER`. The default is DWRR with weight 1.
fn resolve_schedule(context: &ResolveContext<'_>, name: &str) -> SchedulingMode {
    match context.text(SCHEDULER_TABLE, name, "type") {
        Some("STRICT") => SchedulingMode::Strict,
        _ => SchedulingMode::Dwrr {
            weight: context
                .number(SCHEDULER_TABLE, name, "weight")
                .unwrap_or(1)
                .clamp(1, 100) as u8,
        },
    }
}

/// Resolves the shaper of an entry of `SCHEDULER`. Returns `None` if the entry has no peak rate in bytes per
/// second (`pir`).
fn resolve_shaper(context: &ResolveContext<'_>, name: &str) -> Option<ShaperConfig> {
    let rate = context
        .number(SCHEDULER_TABLE, name, "pir")
        .filter(|rate| *rate > 0)?;
    if context.text(SCHEDULER_TABLE, name, "meter_type") == Some("packets") {
        return None;
    }
    // The default burst is one millisecond of the rate, similar to the default buckets of switch chips.
    let default = (rate / 1_000)
        .max(DEFAULT_BURST_BYTES_MIN)
        .min(u64::from(u32::MAX));
    let burst = context
        .number(SCHEDULER_TABLE, name, "pbs")
        .filter(|burst| *burst > 0)
        .unwrap_or(default);
    Some(ShaperConfig {
        bytes_per_second: rate,
        burst_bytes: burst as u32,
    })
}

/// Checks an entry of `SCHEDULER`, and warns about fields without an effect.
fn check_scheduler(context: &mut ResolveContext<'_>, name: &str) {
    let (pir, cir) = (
        context.number(SCHEDULER_TABLE, name, "pir"),
        context.number(SCHEDULER_TABLE, name, "cir"),
    );
    let positive = |rate: Option<u64>| rate.is_some_and(|rate| rate > 0);
    match context.text(SCHEDULER_TABLE, name, "type") {
        Some("DWRR" | "STRICT") => {}
        _ => context.warn_entry(
            SCHEDULER_TABLE,
            name,
            "WRR works as DWRR: weights count bytes, not frames",
        ),
    }
    if context.number(SCHEDULER_TABLE, name, "weight") == Some(0) {
        context.warn_entry(SCHEDULER_TABLE, name, "weight 0 works as 1");
    }
    if positive(cir) {
        context.warn_entry(
            SCHEDULER_TABLE,
            name,
            "cir has no effect: no rate is guaranteed, and only pir limits the rate",
        );
        if let (Some(pir), Some(cir)) = (pir, cir)
            && pir > 0
            && pir < cir
        {
            let why = format!("the peak rate is below the committed rate, expected at least cir {cir}");
            context.report_error_within_entry(
                Problem::at_field(SCHEDULER_TABLE, name, "pir", why).with_value(pir.to_string()),
            );
        }
    }
    if positive(pir) && context.text(SCHEDULER_TABLE, name, "meter_type") == Some("packets") {
        context.warn_entry(
            SCHEDULER_TABLE,
            name,
            "pir has no effect: rates in packets per second are not implemented",
        );
    }
}

/// Returns two values: whether ECN marking is enabled for green frames, and whether early drops are enabled
/// for green frames.
fn wred_modes(context: &ResolveContext<'_>, name: &str) -> (bool, bool) {
    let ecn = context
        .text(WRED_TABLE, name, "ecn")
        .is_some_and(|mode| mode == "ecn_all" || mode.contains("green"));
    (
        ecn,
        context.text(WRED_TABLE, name, "wred_green_enable") == Some("true"),
    )
}

/// Resolves an entry of `WRED_PROFILE`. Returns `None` if ECN marking and early drops are both disabled, or
/// if a threshold is missing.
fn resolve_wred(context: &ResolveContext<'_>, name: &str) -> Option<WredProfile> {
    let (ecn, drop) = wred_modes(context, name);
    if !ecn && !drop {
        return None;
    }
    let min_bytes = context.bytes(WRED_TABLE, name, "green_min_threshold")?;
    let max_bytes = context.bytes(WRED_TABLE, name, "green_max_threshold")?;
    let percent = context
        .number(WRED_TABLE, name, "green_drop_probability")
        .unwrap_or(100)
        .min(100);
    Some(WredProfile {
        min_bytes,
        max_bytes,
        max_probability: (percent << 32) / 100,
        ecn,
        drop,
    })
}

/// Checks the thresholds of an entry of `WRED_PROFILE`.
fn check_wred(context: &mut ResolveContext<'_>, name: &str) {
    let (min, max) = (
        context.bytes(WRED_TABLE, name, "green_min_threshold"),
        context.bytes(WRED_TABLE, name, "green_max_threshold"),
    );
    if let (Some(min), Some(max)) = (min, max)
        && max < min
    {
        let why = format!("the maximum is below the minimum, expected at least green_min_threshold {min}");
        context.report_error_within_entry(
            Problem::at_field(WRED_TABLE, name, "green_max_threshold", why).with_value(max.to_string()),
        );
    }
    let (ecn, drop) = wred_modes(context, name);
    if ecn || drop {
        for (field, value) in [("green_min_threshold", min), ("green_max_threshold", max)] {
            if value.is_none() {
                let why = "the field is missing, and marking or dropping of green frames is on";
                context.report_error_within_entry(Problem::at_field(WRED_TABLE, name, field, why));
            }
        }
    } else if max.is_some() {
        let why = "no effect: neither ecn nor wred_green_enable is on";
        context.warn_entry(WRED_TABLE, name, why);
    }
}
