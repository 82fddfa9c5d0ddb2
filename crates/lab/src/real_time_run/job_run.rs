//! Runs the jobs of a lab on the thread of the model hosts in real time.

use xoff_units::Picos;

use xoff_fabric::{JobHosts, Jobs, ReceivedPackets};
use xoff_host::Host;
use xoff_rdma::Completion;
use xoff_runtime::hosts::{Application, AttachedHost, HostAccess};

/// The jobs of a lab on the thread of the model hosts.
#[derive(Debug)]
pub(super) struct JobRun {
    pub(super) jobs: Jobs,
    /// For each host of the plan, its index in the thread of the model hosts. `None` for other kinds
    /// of hosts.
    positions: Vec<Option<usize>>,
    /// Model time at the start of the workload.
    pub(super) workload_start: Picos,
    /// Model time at which the jobs ended. While jobs are running, this is the time of the last poll.
    jobs_end: Picos,
    /// Warnings about congestion controls that get no signal.
    pub(super) signal_warnings: Vec<String>,
    /// Received packets of each connection at the end of the run.
    pub(super) received: Vec<ReceivedPackets>,
}

impl JobRun {
    /// Creates the run. Host n of the plan has index `positions[n]` in the thread of the model hosts.
    pub(super) fn new(jobs: Jobs, positions: Vec<Option<usize>>, signal_warnings: Vec<String>) -> JobRun {
        JobRun {
            jobs,
            positions,
            workload_start: Picos::ZERO,
            jobs_end: Picos::ZERO,
            signal_warnings,
            received: Vec::new(),
        }
    }

    /// Returns the model time between the start of the workload and the end of the jobs.
    pub(super) fn elapsed(&self) -> Picos {
        self.jobs_end.since(self.workload_start)
    }

    /// Sets [`JobRun::elapsed`] to at least `span`, the duration of the open-loop flows.
    pub(super) fn extend_to_flows_end(&mut self, span: Picos) {
        self.jobs_end = self.jobs_end.max(self.workload_start.saturating_add(span));
    }
}

impl Application for JobRun {
    fn start(&mut self, hosts: &mut HostAccess<'_>) {
        self.workload_start = hosts.now();
        self.jobs_end = self.workload_start;
        self.jobs.start(&mut RunningJobHosts {
            hosts,
            positions: &self.positions,
        });
    }

    fn serve(&mut self, hosts: &mut HostAccess<'_>) {
        let now = hosts.now();
        let mut hosts = RunningJobHosts {
            hosts,
            positions: &self.positions,
        };
        let was_running = !self.jobs.is_finished();
        self.jobs.process_completions(&mut hosts);
        if self.jobs.next_start() <= now {
            self.jobs.post_due(&mut hosts);
        }
        if was_running {
            self.jobs_end = now;
        }
    }

    fn next_start(&self) -> Picos {
        self.jobs.next_start()
    }

    fn is_finished(&self) -> bool {
        self.jobs.is_finished()
    }

    fn finish(&mut self, hosts: &mut HostAccess<'_>) {
        let position = |host: usize| self.positions[host].expect("jobs are of model hosts");
        self.received = self.jobs.received_packets(|host| hosts.host(position(host)));
    }
}

/// The hosts of the running thread. The methods take the index of a host in the plan.
struct RunningJobHosts<'a, 'b> {
    hosts: &'a mut HostAccess<'b>,
    positions: &'a [Option<usize>],
}

impl RunningJobHosts<'_, '_> {
    fn position(&self, host: usize) -> usize {
        self.positions[host].expect("jobs are of model hosts")
    }
}

impl JobHosts for RunningJobHosts<'_, '_> {
    fn now(&self) -> Picos {
        self.hosts.now()
    }

    fn host_count(&self) -> usize {
        self.positions.len()
    }

    fn host(&self, host: usize) -> &Host {
        self.hosts.host(self.position(host))
    }

    fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R {
        let (now, position) = (self.hosts.now(), self.position(host));
        change(self.hosts.host_mut(position), now)
    }

    fn take_completions(&mut self, mut take: impl FnMut(usize, Completion)) {
        for (index, position) in self.positions.iter().enumerate() {
            let Some(position) = *position else { continue };
            let host = self.hosts.host_mut(position);
            if host.has_completions() {
                host.completions().for_each(|completion| take(index, completion));
            }
        }
    }
}

/// The hosts before their thread starts. Jobs create queue pairs on these hosts. The methods take the index
/// of a host in the plan.
pub(super) struct HostsBeforeStart<'a> {
    pub(super) hosts: &'a mut [AttachedHost],
    pub(super) positions: &'a [Option<usize>],
}

impl HostsBeforeStart<'_> {
    fn position(&self, host: usize) -> usize {
        self.positions[host].expect("jobs are of model hosts")
    }
}

impl JobHosts for HostsBeforeStart<'_> {
    fn now(&self) -> Picos {
        Picos::ZERO
    }

    fn host_count(&self) -> usize {
        self.positions.len()
    }

    fn host(&self, host: usize) -> &Host {
        &self.hosts[self.position(host)].host
    }

    fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R {
        let position = self.position(host);
        change(&mut self.hosts[position].host, Picos::ZERO)
    }

    fn take_completions(&mut self, _: impl FnMut(usize, Completion)) {}
}
