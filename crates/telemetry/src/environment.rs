//! The machine of a run: kernel, CPU, and stolen time. Stolen time is the CPU time that the hypervisor used
//! for other virtual machines.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The machine of a run. A value that cannot be read is null in JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq)]
pub struct Environment {
    /// Version of xoff.
    pub xoff_version: String,
    /// Kernel release, as printed by `uname -r`.
    pub kernel: Option<String>,
    /// Model name of the first CPU in `/proc/cpuinfo`. On ARM, the implementer and the part number.
    pub cpu_model: Option<String>,
    /// Number of CPUs that the process may use. The value is 0 if the kernel does not provide the number.
    pub cores: usize,
    /// Frequency governor of the first usable CPU. The value is null if the machine has no frequency
    /// governor, as is usual for virtual machines.
    pub governor: Option<String>,
    /// Clock source of the kernel, such as `tsc` or `kvm-clock`.
    pub clocksource: Option<String>,
    /// Stolen time during the run, in percent of the time of all CPUs. Stolen time is the CPU time that the
    /// hypervisor used for other virtual machines. The value is null if the time was not measured. A high
    /// value alone does not make the results invalid. A stall of xoff that it causes does.
    pub steal_percent: Option<f64>,
    /// The use of the control API during the run. The field is omitted if the run had no control API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_api: Option<ControlApiReport>,
    /// The threads of a run in virtual time. The field is omitted for other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<RunThreads>,
}

/// The threads of a run in virtual time. They do not change any result.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct RunThreads {
    /// Number of threads.
    pub count: usize,
    /// Number of events that each thread has processed.
    pub events: Vec<u64>,
    /// Number of time windows. 0: all events were processed in one order.
    pub windows: u64,
    /// Number of windows in which one thread processed the events of all hosts.
    pub joint_windows: u64,
}

/// The use of the control API of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct ControlApiReport {
    /// CPU time of the threads of the control API, in nanoseconds.
    pub cpu_ns: u64,
    /// Number of answered requests.
    pub requests: u64,
    /// Number of requests that were refused with the status 429, because the client sent too many requests.
    pub refused: u64,
    /// Number of accepted connections.
    pub connections: u64,
    /// Number of failures to accept a connection, for example because no file descriptor was free.
    pub accept_errors: u64,
}

impl Environment {
    /// Reads the properties of this machine. `steal_percent`, `control_api` and `threads` are `None`.
    pub fn read() -> Environment {
        let allowed = allowed_cpus();
        let first = allowed.first().copied().unwrap_or(0);
        Environment {
            xoff_version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: read_trimmed_file("/proc/sys/kernel/osrelease"),
            cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: allowed.len(),
            governor: read_trimmed_file(format!(
                "/sys/devices/system/cpu/cpu{first}/cpufreq/scaling_governor"
            )),
            clocksource: read_trimmed_file(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            steal_percent: None,
            control_api: None,
            threads: None,
        }
    }
}

/// Returns the numbers of the CPUs on which this thread may run, in ascending order. The list is empty if the
/// kernel does not provide the numbers.
pub fn allowed_cpus() -> Vec<usize> {
    let Ok(mask) = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)) else {
        return Vec::new();
    };
    (0..nix::sched::CpuSet::count())
        .filter(|&cpu| mask.is_set(cpu).unwrap_or(false))
        .collect()
}

/// Measures stolen time: the CPU time that the hypervisor used for other virtual machines. A measurement
/// covers the wall time since [`CpuStealMeter::start`].
#[derive(Clone, Copy, Debug)]
pub struct CpuStealMeter {
    start: Option<CpuTicks>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTicks {
    all: u64,
    steal: u64,
}

/// All CPU ticks and the stolen CPU ticks of one or several spans of time, summed over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStealTicks {
    all: u64,
    steal: u64,
}

impl CpuStealTicks {
    fn between(start: CpuTicks, end: CpuTicks) -> CpuStealTicks {
        match end.all.checked_sub(start.all) {
            Some(all) => CpuStealTicks {
                all,
                steal: end.steal.saturating_sub(start.steal),
            },
            None => CpuStealTicks::default(),
        }
    }

    /// Adds the ticks of another span.
    #[must_use]
    pub fn plus(self, other: CpuStealTicks) -> CpuStealTicks {
        CpuStealTicks {
            all: self.all + other.all,
            steal: self.steal + other.steal,
        }
    }

    /// Returns the stolen time in percent of the time of all CPUs. Returns `None` if no tick has passed.
    pub fn percent(self) -> Option<f64> {
        (self.all > 0).then(|| self.steal as f64 * 100.0 / self.all as f64)
    }
}

impl CpuStealMeter {
    /// Starts a measurement.
    pub fn start() -> CpuStealMeter {
        CpuStealMeter {
            start: CpuTicks::now(),
        }
    }

    /// Returns the stolen time since the start, in percent of the time of all CPUs. Returns `None` if
    /// `/proc/stat` is not readable or no tick has passed.
    pub fn percent(&self) -> Option<f64> {
        self.ticks_since_start().percent()
    }

    /// Returns the ticks since the start. The result is zero if `/proc/stat` is not readable.
    pub fn ticks_since_start(&self) -> CpuStealTicks {
        let (Some(start), Some(end)) = (self.start, CpuTicks::now()) else {
            return CpuStealTicks::default();
        };
        CpuStealTicks::between(start, end)
    }
}

impl CpuTicks {
    fn now() -> Option<CpuTicks> {
        CpuTicks::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the line `cpu` in the text of `/proc/stat`, which has the sums over all CPUs. The columns are
    /// user, nice, system, idle, iowait, irq, softirq and steal (see proc_stat(5)). The function ignores the
    /// guest columns after `steal`, because `user` and `nice` already include guest time.
    fn parse(stat: &str) -> Option<CpuTicks> {
        let columns = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = columns
            .split_whitespace()
            .take(8)
            .map_while(|word| word.parse().ok())
            .collect();
        Some(CpuTicks {
            all: ticks.iter().sum(),
            steal: *ticks.get(7)?,
        })
    }
}

/// Returns the model name from the text of `/proc/cpuinfo`. The text of an ARM machine has no model name. In
/// this case, the result contains the implementer and the part number.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    field("model name").or_else(|| {
        Some(format!(
            "implementer {} part {}",
            field("CPU implementer")?,
            field("CPU part")?
        ))
    })
}

fn read_trimmed_file(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_column_of_the_cpu_line() {
        let start = CpuTicks::parse("cpu  100 0 100 700 0 0 0 100 50 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n").unwrap();
        assert_eq!(
            start,
            CpuTicks {
                all: 1000,
                steal: 100
            }
        );
        let end = CpuTicks {
            all: 2000,
            steal: 150,
        };
        let passed = CpuStealTicks::between(start, end);
        assert_eq!(passed.percent(), Some(5.0));
        assert_eq!(passed.plus(passed).percent(), Some(5.0));
        assert_eq!(
            CpuStealTicks::between(end, end).percent(),
            None,
            "no tick has passed"
        );
        assert_eq!(
            CpuStealTicks::between(end, start).percent(),
            None,
            "the counters were reset"
        );
        assert_eq!(CpuTicks::parse("cpu  1 2 3"), None);
        assert_eq!(CpuTicks::parse("intr 5"), None);
    }

    #[test]
    fn cpu_model_is_read_on_x86_and_arm() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2.6GHz\n").unwrap(),
            "Some CPU @ 2.6GHz"
        );
        assert_eq!(
            cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n").unwrap(),
            "implementer 0x41 part 0xd40"
        );
        assert_eq!(cpu_model("garbage"), None);
    }

    #[test]
    fn environment_of_this_machine_is_read() {
        let environment = Environment::read();
        assert!(environment.cores >= 1);
        assert!(environment.kernel.is_some());
    }
}
