//! The machine during a bench: what it is, and what others took of it.

use std::fs;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};

use xoff_telemetry::{Environment, StealMeter};

/// How the taint of a frequency governor begins: one that disturbs a figure, not a comparison in turns.
pub const GOVERNOR: &str = "the frequency governor is";

/// What a figure that is gated on may not hang on. Beyond these the run is tainted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Share of all CPU time that a hypervisor gave to others, in percent.
    pub steal_percent: f64,
    /// Processor time of programs that are not part of the bench, in percent of one CPU.
    pub others_percent: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steal_percent: 1.0,
            others_percent: 25.0,
        }
    }
}

/// Watches the machine from its start on.
#[derive(Debug)]
pub struct Meter {
    steal: StealMeter,
    began: Instant,
    busy: Option<f64>,
    own: f64,
}

impl Meter {
    /// Starts.
    pub fn start() -> Meter {
        Meter {
            steal: StealMeter::start(),
            began: Instant::now(),
            busy: busy_seconds(),
            own: own_seconds(),
        }
    }

    /// The machine, and why figures measured since the start may not be gated on. Programs that the bench has started count as its
    /// own once they have ended and been waited for.
    pub fn finish(&self, limits: &Limits) -> (Environment, Vec<String>) {
        self.finish_with(limits, self.steal.percent())
    }

    /// As [`Meter::finish`], where what the hypervisor gave to others was measured of the times that count alone.
    pub fn finish_with(&self, limits: &Limits, steal_percent: Option<f64>) -> (Environment, Vec<String>) {
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
            .others_percent()
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
                "{GOVERNOR} `{governor}` (`cpupower frequency-set -g performance`)"
            ));
        }
        (environment, tainted)
    }

    /// What programs outside the bench took, in percent of one CPU.
    fn others_percent(&self) -> Option<f64> {
        let busy = busy_seconds()? - self.busy?;
        let others = busy - (own_seconds() - self.own);
        Some((others * 100.0 / self.began.elapsed().as_secs_f64()).max(0.0))
    }
}

/// Processor time of this process and of its children that have ended, in seconds.
fn own_seconds() -> f64 {
    let of = |who| {
        getrusage(who).map_or(0.0, |usage| {
            let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
            seconds(usage.user_time()) + seconds(usage.system_time())
        })
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

/// Time that all CPUs of the machine spent in programs, in seconds: user, nice and system of proc_stat(5). Interrupts are left out, since frames
/// are forwarded in them on the bench's behalf.
fn busy_seconds() -> Option<f64> {
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
    fn nothing_is_within_limits_of_less_than_nothing() {
        let never = Limits {
            steal_percent: -1.0,
            others_percent: -1.0,
        };
        // A tick is 10 ms: only then is there a share of anything.
        let meter = Meter::start();
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
