//! Measures how much CPU time the rest of the machine takes during a bench: programs that do not belong to
//! the bench, and the other virtual machines of the same hypervisor.

use std::fs;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};

use xoff_telemetry::{CpuStealMeter, Environment};

/// First words of the taint message about a frequency governor other than `performance`. Such a governor can
/// change a single result. It does not affect a comparison of two programs that run in turns.
pub const GOVERNOR_TAINT_PREFIX: &str = "the frequency governor is";

/// Limits of the CPU time that programs outside the bench, and other virtual machines, may take. If a run
/// exceeds a limit, the run is marked as tainted: its results can be wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaintLimits {
    /// Steal in percent: the share of CPU time that the hypervisor gave to other virtual machines.
    pub steal_percent: f64,
    /// CPU time of programs outside the bench, in percent of one CPU.
    pub others_percent: f64,
}

impl Default for TaintLimits {
    fn default() -> TaintLimits {
        TaintLimits {
            steal_percent: 1.0,
            others_percent: 25.0,
        }
    }
}

/// Measures the CPU time that other programs and other virtual machines take, since [`MachineMeter::start`].
#[derive(Debug)]
pub struct MachineMeter {
    steal: CpuStealMeter,
    began: Instant,
    busy_seconds: Option<f64>,
    own_seconds: f64,
}

impl MachineMeter {
    /// Starts to measure the CPU time of other programs and other virtual machines.
    pub fn start() -> MachineMeter {
        MachineMeter {
            steal: CpuStealMeter::start(),
            began: Instant::now(),
            busy_seconds: busy_cpu_seconds(),
            own_seconds: own_cpu_seconds(),
        }
    }

    /// Returns a description of the machine, and one taint for each exceeded limit. A CPU frequency governor
    /// other than `performance` also adds a taint. CPU time of a child process counts as CPU time of the
    /// bench, after the bench has waited for the process.
    pub fn finish(&self, limits: &TaintLimits) -> (Environment, Vec<String>) {
        self.finish_with(limits, self.steal.percent())
    }

    /// Works like [`MachineMeter::finish`], but the caller passes the steal: the share of CPU time, in
    /// percent, that the hypervisor gave to other virtual machines. `None` means that the steal is unknown.
    pub fn finish_with(
        &self,
        limits: &TaintLimits,
        steal_percent: Option<f64>,
    ) -> (Environment, Vec<String>) {
        let mut environment = Environment::read();
        environment.steal_percent = steal_percent;
        let mut tainted = Vec::new();
        if let Some(steal) = environment
            .steal_percent
            .filter(|&steal| steal > limits.steal_percent)
        {
            tainted.push(format!(
                "the hypervisor gave {steal:.1} % of the CPUs to others (limit {} %)",
                limits.steal_percent
            ));
        }
        if let Some(others) = self
            .other_programs_cpu_percent()
            .filter(|&others| others > limits.others_percent)
        {
            tainted.push(format!(
                "other programs took {others:.0} % of a CPU (limit {} %)",
                limits.others_percent
            ));
        }
        if let Some(governor) = environment
            .governor
            .as_deref()
            .filter(|&name| name != "performance")
        {
            tainted.push(format!(
                "{GOVERNOR_TAINT_PREFIX} `{governor}` (`cpupower frequency-set -g performance`)"
            ));
        }
        (environment, tainted)
    }

    /// Returns the CPU time of programs outside the bench, in percent of one CPU. Returns `None` if
    /// `/proc/stat` cannot be read.
    fn other_programs_cpu_percent(&self) -> Option<f64> {
        let busy = busy_cpu_seconds()? - self.busy_seconds?;
        let others = busy - (own_cpu_seconds() - self.own_seconds);
        Some((others * 100.0 / self.began.elapsed().as_secs_f64()).max(0.0))
    }
}

/// Returns the CPU time of this process and its ended children, in seconds.
fn own_cpu_seconds() -> f64 {
    let of = |who| {
        getrusage(who).map_or(0.0, |usage| {
            let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
            seconds(usage.user_time()) + seconds(usage.system_time())
        })
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

/// Returns the CPU time of all programs of the machine in seconds: user, nice and system of proc_stat(5).
/// Interrupt time is not included, because the kernel forwards frames of the bench in interrupts. Returns
/// `None` if `/proc/stat` cannot be read.
fn busy_cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let columns = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = columns
        .split_whitespace()
        .take(3)
        .map(|word| word.parse::<u64>().ok())
        .sum::<Option<u64>>()?;
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(ticks as f64 / per_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_limits_taint_every_run() {
        let never = TaintLimits {
            steal_percent: -1.0,
            others_percent: -1.0,
        };
        // CPU time is counted in ticks of 10 ms, so there is no share before the first tick.
        let meter = MachineMeter::start();
        while meter.steal.percent().is_none() {
            std::hint::spin_loop();
        }
        let (environment, tainted) = meter.finish(&never);
        assert!(environment.kernel.is_some());
        assert!(
            tainted.iter().any(|why| why.contains("hypervisor")),
            "{tainted:?}"
        );
        assert!(
            tainted.iter().any(|why| why.contains("other programs")),
            "{tainted:?}"
        );
    }
}
