//! The jobs of a lab on hosts in real time.

use xoff_units::Picos;

use xoff_fabric::{JobHosts, Jobs, ReceivedPackets};
use xoff_host::Host;
use xoff_rdma::Completion;
use xoff_runtime::hosts::{Application, AttachedHost, HostAccess};

/// Jobs that the hosts' thread runs.
#[derive(Debug)]
pub(super) struct JobRun {
    pub(super) jobs: Jobs,
    /// Place of each host of the plan in the thread; those that are no model hosts have none.
    places: Vec<Option<usize>>,
    /// When the workload began.
    pub(super) began: Picos,
    /// When the jobs were done; until then, when they were looked at last.
    seen: Picos,
    /// Settings that have no effect.
    pub(super) ineffective: Vec<String>,
    /// What had arrived of each connection in the end.
    pub(super) arrivals: Vec<ReceivedPackets>,
}

impl JobRun {
    /// Jobs whose host with index n in the plan has `places[n]` in the thread.
    pub(super) fn new(jobs: Jobs, places: Vec<Option<usize>>, ineffective: Vec<String>) -> JobRun {
        JobRun {
            jobs,
            places,
            began: Picos::ZERO,
            seen: Picos::ZERO,
            ineffective,
            arrivals: Vec::new(),
        }
    }

    /// Model time from the start of the workload until the jobs were done.
    pub(super) fn elapsed(&self) -> Picos {
        self.seen.since(self.began)
    }

    /// Model time goes on until the flows are over, too.
    pub(super) fn last_at_least(&mut self, span: Picos) {
        self.seen = self.seen.max(self.began.saturating_add(span));
    }
}

impl Application for JobRun {
    fn start(&mut self, hosts: &mut HostAccess<'_>) {
        self.began = hosts.now();
        self.seen = self.began;
        self.jobs.start(&mut Placed {
            hosts,
            places: &self.places,
        });
    }

    fn serve(&mut self, hosts: &mut HostAccess<'_>) {
        let now = hosts.now();
        let mut hosts = Placed {
            hosts,
            places: &self.places,
        };
        let working = !self.jobs.is_finished();
        self.jobs.process_completions(&mut hosts);
        if self.jobs.next_start() <= now {
            self.jobs.post_due(&mut hosts);
        }
        if working {
            self.seen = now;
        }
    }

    fn next_start(&self) -> Picos {
        self.jobs.next_start()
    }

    fn is_finished(&self) -> bool {
        self.jobs.is_finished()
    }

    fn finish(&mut self, hosts: &mut HostAccess<'_>) {
        let place = |host: usize| self.places[host].expect("jobs are of model hosts");
        self.arrivals = self.jobs.received_packets(|host| hosts.host(place(host)));
    }
}

/// Hosts of a thread, by their numbers in the plan.
struct Placed<'a, 'b> {
    hosts: &'a mut HostAccess<'b>,
    places: &'a [Option<usize>],
}

impl Placed<'_, '_> {
    fn place(&self, host: usize) -> usize {
        self.places[host].expect("jobs are of model hosts")
    }
}

impl JobHosts for Placed<'_, '_> {
    fn now(&self) -> Picos {
        self.hosts.now()
    }

    fn host_count(&self) -> usize {
        self.places.len()
    }

    fn host(&self, host: usize) -> &Host {
        self.hosts.host(self.place(host))
    }

    fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R {
        let (now, place) = (self.hosts.now(), self.place(host));
        change(self.hosts.host_mut(place), now)
    }

    fn take_completions(&mut self, mut take: impl FnMut(usize, Completion)) {
        for (index, place) in self.places.iter().enumerate() {
            let Some(place) = *place else { continue };
            let host = self.hosts.host_mut(place);
            if host.has_completions() {
                host.completions().for_each(|completion| take(index, completion));
            }
        }
    }
}

/// Hosts before their thread runs, by their numbers in the plan: their queue pairs are made.
pub(super) struct Prepared<'a> {
    pub(super) hosts: &'a mut [AttachedHost],
    pub(super) places: &'a [Option<usize>],
}

impl Prepared<'_> {
    fn place(&self, host: usize) -> usize {
        self.places[host].expect("jobs are of model hosts")
    }
}

impl JobHosts for Prepared<'_> {
    fn now(&self) -> Picos {
        Picos::ZERO
    }

    fn host_count(&self) -> usize {
        self.places.len()
    }

    fn host(&self, host: usize) -> &Host {
        &self.hosts[self.place(host)].host
    }

    fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R {
        let place = self.place(host);
        change(&mut self.hosts[place].host, Picos::ZERO)
    }

    fn take_completions(&mut self, _: impl FnMut(usize, Completion)) {}
}
