//! The PFC watchdog: the watched queues, the detection and restoration times, and the actions.

use xoff_dataplane::config::{
    PfcConfig, PortConfig, PortWatchdog, WatchdogAction, WatchdogConfig, WatchdogRule,
};
use xoff_dataplane::ids::PRIORITIES;
use xoff_units::Picos;

use super::LOCALHOST;
use super::context::ResolveContext;
use crate::problem::Problem;
use crate::schema::{self, GLOBAL};

const TABLE: &str = "PFC_WD";
const QOS_MAP_TABLE: &str = "PORT_QOS_MAP";
const POLL_MS_DEFAULT: u64 = 100;

/// Default in ms for the poll interval, the detection time and the restoration time, if SONiC's
/// `default_pfcwd_status` is `enable`. The default is multiplied by the number of groups of 32 ports.
const DEFAULT_MS: u64 = 200;
const PORTS_PER_DEFAULT_MS: usize = 32;
const POLL_MAX_MS: u64 = 1_000;
const DETECTION_MAX_MS: u64 = 5_000;

/// Sets the watchdogs of all ports, and returns the watchdog settings of the switch. The flow control of the
/// ports must already be resolved.
pub(super) fn resolve_watchdog(context: &mut ResolveContext<'_>, ports: &mut [PortConfig]) -> WatchdogConfig {
    let by_default = match context.text("DEVICE_METADATA", LOCALHOST, "default_pfcwd_status") {
        Some("enable") => Some(default_time_ms(ports.len())),
        _ => None,
    };
    let written = context.number(TABLE, GLOBAL, "POLL_INTERVAL");
    let poll_ms = written.unwrap_or_else(|| by_default.map_or(POLL_MS_DEFAULT, |ms| ms.min(POLL_MAX_MS)));
    for port in ports {
        let is_written = context.db.entry(TABLE, &port.name).is_some();
        let times = match by_default {
            _ if is_written => configured_times_ms(context, &port.name, poll_ms),
            // As in SONiC, the default does not apply to ports without PFC.
            Some(ms) if port.pfc.enabled != 0 => {
                let detection = ms.min(DETECTION_MAX_MS).max(poll_ms);
                Some((detection, Some(ms.max(poll_ms))))
            }
            _ => None,
        };
        port.watchdog = times.map(|times| create_port_watchdog(context, port, times));
    }
    WatchdogConfig {
        poll: Picos::from_millis(poll_ms),
        big_red_switch: context.text(TABLE, GLOBAL, "BIG_RED_SWITCH") == Some("enable"),
        rule: match context.text("XOFF_PFC_WD", GLOBAL, "rule") {
            Some("nvidia") => WatchdogRule::Nvidia,
            Some("vs") => WatchdogRule::Vs,
            _ => WatchdogRule::Broadcom,
        },
    }
}

/// Returns the default time in ms for a switch with this number of ports.
fn default_time_ms(ports: usize) -> u64 {
    DEFAULT_MS * (ports.saturating_sub(1) / PORTS_PER_DEFAULT_MS + 1) as u64
}

/// Returns the detection time and the restoration time of a port in ms. The restoration time can be missing.
/// Returns `None` if the detection time is missing.
fn configured_times_ms(
    context: &mut ResolveContext<'_>,
    port: &str,
    poll_ms: u64,
) -> Option<(u64, Option<u64>)> {
    let mut time = |field: &str| {
        let ms = context.number(TABLE, port, field)?;
        if ms < poll_ms {
            let why = format!("the watchdog polls queues every {poll_ms} ms (PFC_WD|GLOBAL POLL_INTERVAL)");
            let fix = format!("use at least {poll_ms}, or a shorter POLL_INTERVAL");
            let problem = Problem::at_field(TABLE, port, field, why);
            context.report_entry_contradiction(problem.with_value(ms.to_string()).with_fix(fix));
        }
        Some(ms)
    };
    let restoration = time("restoration_time");
    Some((time("detection_time")?, restoration))
}

/// Creates the watchdog of a port from the detection time and the restoration time in ms.
fn create_port_watchdog(
    context: &mut ResolveContext<'_>,
    port: &PortConfig,
    (detection_ms, restoration_ms): (u64, Option<u64>),
) -> PortWatchdog {
    PortWatchdog {
        queues: watched_queues(context, &port.name, &port.pfc),
        action: match context.text(TABLE, &port.name, "action") {
            Some("forward") => WatchdogAction::Forward,
            Some("alert") => WatchdogAction::Alert,
            _ => WatchdogAction::Drop,
        },
        detection: Picos::from_millis(detection_ms),
        restoration: restoration_ms.map(Picos::from_millis),
        history: context.text(TABLE, &port.name, "pfc_stat_history") == Some("enable"),
    }
}

/// Returns a bit mask of the queues to which the priorities in `pfcwd_sw_enable` are mapped.
fn watched_queues(context: &mut ResolveContext<'_>, name: &str, pfc: &PfcConfig) -> u8 {
    let watched = context
        .text(QOS_MAP_TABLE, name, "pfcwd_sw_enable")
        .and_then(schema::parse_priorities)
        .unwrap_or(0);
    if watched == 0 {
        let why = "the watchdog watches no queue: PORT_QOS_MAP pfcwd_sw_enable names no priority; copy the value of \
                   pfc_enable";
        context.warn_port(name, why);
    }
    // With asymmetric PFC, a port honours pauses of all priorities.
    let honoured = if pfc.asymmetric { u8::MAX } else { pfc.enabled };
    let mut queues = 0;
    for priority in (0..PRIORITIES).filter(|n| watched & (1 << n) != 0) {
        if honoured & (1 << priority) == 0 {
            let why = format!(
                "pfcwd_sw_enable has priority {priority}, but pfc_enable does not: the port ignores its \
                 pauses, so the watchdog detects no storm"
            );
            context.warn_port(name, why);
        }
        queues |= 1 << pfc.priority_to_queue[priority];
    }
    queues
}
