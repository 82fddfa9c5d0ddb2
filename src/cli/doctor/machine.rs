//! Checks of privileges, cores, clocks and socket buffers. No finding of these checks prevents a lab.
//! However, after some findings it is likely that a run in real time is tainted, which means that its result
//! proves nothing.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Check;
use xoff_telemetry::{CpuStealMeter, Environment, allowed_cpus, format_nanos};

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
/// The default reaction budget: the longest time for which the machine may stall xoff. A longer stall taints
/// a run, so its result proves nothing.
const REACTION_BUDGET: Duration = Duration::from_millis(20);
/// Smallest size in bytes of a socket buffer for a burst of jumbo frames. Backends without a packet ring need
/// such a buffer.
const RMEM_MIN: u64 = 4 << 20;

/// Runs all checks of the machine.
pub(super) fn check_machine() -> Vec<Check> {
    let environment = Environment::read();
    let mut checks = vec![
        check_capabilities(&read_trimmed("/proc/self/status")),
        check_receive_buffers(&read_trimmed("/proc/sys/net/core/rmem_max")),
        check_cores(
            allowed_cpus().len(),
            std::thread::available_parallelism().map_or(1, usize::from),
        ),
        check_governor(environment.governor.as_deref()),
        check_clocksource(
            environment.clocksource.as_deref(),
            &read_trimmed("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
        ),
    ];
    checks.extend(measure_stalls());
    checks.push(check_timer_slack());
    checks
}

fn read_trimmed(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Checks the capabilities `CAP_NET_ADMIN` and `CAP_NET_RAW`. `switch run` and `host run` need both to use
/// network devices of this machine. Labs need neither.
fn check_capabilities(process_status: &str) -> Check {
    let effective = process_status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
        .unwrap_or(0);
    let missing: Vec<&str> = [(CAP_NET_ADMIN, "CAP_NET_ADMIN"), (CAP_NET_RAW, "CAP_NET_RAW")]
        .into_iter()
        .filter(|(bit, _)| effective & (1 << bit) == 0)
        .map(|(_, name)| name)
        .collect();
    if missing.is_empty() {
        return Check::ok(
            "privileges",
            "CAP_NET_ADMIN and CAP_NET_RAW: `switch run` works on any device",
        );
    }
    Check::warning(
        "privileges",
        format!(
            "no {}: labs run in user namespaces, but `switch run` cannot use this machine's devices",
            missing.join(" and ")
        ),
        "run as root, or: setcap cap_net_admin,cap_net_raw+ep $(command -v xoff)",
    )
}

fn check_receive_buffers(rmem_max: &str) -> Check {
    match rmem_max.parse::<u64>() {
        Ok(bytes) if bytes >= RMEM_MIN => Check::ok("socket buffers", format!("rmem_max {bytes} bytes")),
        Ok(bytes) => Check::warning(
            "socket buffers",
            format!("rmem_max {bytes} bytes: the pnet backend may lose bursts (packet rings are exempt)"),
            format!("sysctl -w net.core.rmem_max={RMEM_MIN} (as root)"),
        ),
        Err(_) => Check::ok("socket buffers", "limit unknown"),
    }
}

fn check_cores(allowed: usize, usable: usize) -> Check {
    match allowed {
        0 | 1 => Check::warning(
            "cores",
            "one: switch and hosts share it, so stalls are likely",
            "give it more cores (taskset, cgroup), or run labs with --dilate 10",
        ),
        _ if usable < allowed => Check::warning(
            "cores",
            format!("{allowed}, but a cgroup limits this process to the time of {usable}"),
            "raise the CPU limit of the container, or run labs with --dilate 10",
        ),
        _ => Check::ok("cores", format!("{allowed}")),
    }
}

fn check_governor(governor: Option<&str>) -> Check {
    match governor {
        None => Check::ok("CPU governor", "none here (usual in a VM)"),
        Some("performance") => Check::ok("CPU governor", "performance"),
        Some(other) => Check::warning(
            "CPU governor",
            format!("{other}: cores are slow when work arrives"),
            "cpupower frequency-set -g performance (as root)",
        ),
    }
}

/// Checks whether a program can read the clock without a system call.
fn check_clocksource(current: Option<&str>, available: &str) -> Check {
    let fast = |name: &str| {
        matches!(
            name,
            "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "riscv_clocksource"
        )
    };
    match current {
        Some(name) if fast(name) => Check::ok("clock source", name),
        Some(name) => {
            let better = available.split_whitespace().find(|name| fast(name));
            let fix = better.map_or_else(
                || "no better source is available; runs need more CPU time".to_owned(),
                |better| format!("echo {better} > /sys/devices/system/clocksource/clocksource0/current_clocksource (as root)"),
            );
            Check::warning(
                "clock source",
                format!("{name}: every reading is a system call"),
                fix,
            )
        }
        None => Check::ok("clock source", "unknown"),
    }
}

/// Sleeps in steps of 1 ms for 0.3 s. Measures the longest wake-up delay and the steal time, which is CPU
/// time that the hypervisor gave to other virtual machines.
fn measure_stalls() -> [Check; 2] {
    const STEP: Duration = Duration::from_millis(1);
    let (meter, begin) = (CpuStealMeter::start(), Instant::now());
    let mut worst = Duration::ZERO;
    while begin.elapsed() < Duration::from_millis(300) {
        let before = Instant::now();
        std::thread::sleep(STEP);
        worst = worst.max(before.elapsed().saturating_sub(STEP));
    }
    [check_stall(worst), check_steal(meter.percent())]
}

fn check_stall(worst: Duration) -> Check {
    let found = format!("longest {} in 0.3 s", format_nanos(worst.as_nanos() as u64));
    if worst < REACTION_BUDGET / 2 {
        return Check::ok("stalls", found);
    }
    Check::warning(
        "stalls",
        format!(
            "{found}; a run is tainted by one of {}",
            format_nanos(REACTION_BUDGET.as_nanos() as u64)
        ),
        "stop other work on this machine, or run labs with --dilate 10",
    )
}

fn check_steal(percent: Option<f64>) -> Check {
    match percent {
        Some(percent) if percent >= 1.0 => Check::warning(
            "steal",
            format!("{percent:.1} % of CPU time goes to other guests"),
            "use a machine with dedicated cores, or run labs with --dilate 10",
        ),
        Some(percent) => Check::ok("steal", format!("{percent:.1} %")),
        None => Check::ok("steal", "unknown"),
    }
}

fn check_timer_slack() -> Check {
    match nix::sys::prctl::get_timerslack() {
        Ok(slack) => Check::ok("timer slack", format!("{slack} ns for new threads")),
        Err(_) => Check::ok("timer slack", "unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn missing_capabilities_are_named() {
        assert_eq!(
            check_capabilities("CapEff:\t000001ffffffffff\n").status,
            Status::Ok
        );
        let check = check_capabilities("CapEff:\t0000000000001000\n");
        assert!(check.found.starts_with("no CAP_NET_RAW:"), "{}", check.found);
        assert!(
            check_capabilities("")
                .found
                .contains("CAP_NET_ADMIN and CAP_NET_RAW")
        );
    }

    #[test]
    fn every_warning_has_a_fix_and_no_ok_has() {
        let checks = [
            check_receive_buffers("212992"),
            check_receive_buffers("4194304"),
            check_receive_buffers("?"),
            check_cores(1, 1),
            check_cores(4, 2),
            check_cores(4, 4),
            check_governor(None),
            check_governor(Some("powersave")),
            check_clocksource(Some("hpet"), "tsc hpet"),
            check_clocksource(Some("tsc"), ""),
            check_stall(Duration::from_millis(15)),
            check_stall(Duration::from_micros(60)),
            check_steal(Some(3.0)),
            check_steal(None),
        ];
        for check in checks {
            assert_eq!(check.status == Status::Ok, check.fix.is_none(), "{check:?}");
        }
        assert!(
            check_clocksource(Some("hpet"), "tsc hpet")
                .fix
                .unwrap()
                .starts_with("echo tsc")
        );
    }
}
