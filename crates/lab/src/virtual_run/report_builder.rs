//! The report of a run in virtual time.

use super::super::model_hosts::flow_reports;
use super::super::{evidence, jobs};
use super::virtual_lab::VirtualLab;
use crate::report::{
    AccelerationReport, DeadlockReport, HostReport, JobAccelerationReport, LinkBalanceReport, Report,
    VirtualRunReport,
};
use xoff_fabric::{Fabric, LastingDeadlock};
use xoff_telemetry::{self, Environment, RunThreads};
use xoff_workload::{StepUnit, WorkloadResults};

fn deadlock_report(fabric: &Fabric, lasting: &LastingDeadlock) -> DeadlockReport {
    DeadlockReport {
        since_ns: fabric.result_time(lasting.since).as_nanos(),
        until_ns: lasting.until.map(|at| fabric.result_time(at).as_nanos()),
        ports: lasting.deadlock.ports.clone(),
        queue: lasting.deadlock.queue,
    }
}

fn run_threads(fabric: &Fabric) -> RunThreads {
    let (windows, joint_windows) = fabric.windows();
    RunThreads {
        count: fabric.thread_count(),
        events: fabric.events_of_threads(),
        windows,
        joint_windows,
    }
}

fn step_unit_name(unit: StepUnit) -> String {
    let name = match unit {
        StepUnit::RingStep => "ring_step",
        StepUnit::Iteration => "iteration",
    };
    name.to_owned()
}

impl VirtualLab {
    /// Returns the report of the run up to the current model time. If the run ended early, the caller adds
    /// the reason to the failures of the report.
    pub fn report(&self) -> Report {
        let fabric = &self.simulation.fabric;
        let hosts: Vec<_> = (0..fabric.host_count())
            .map(|host| fabric.host_results(host))
            .collect();
        let flows = flow_reports(&self.plan, &hosts.iter().collect::<Vec<_>>());
        let switches = (0..fabric.switch_count()).map(|switch| fabric.snapshot(switch).into_report());
        let mut report = crate::report::build_report(
            Environment {
                threads: Some(run_threads(fabric)),
                ..Environment::read()
            },
            self.options.seed,
            switches.collect(),
            flows,
            Vec::new(),
        );
        let host_report = |(index, results): (usize, &xoff_host::HostResults)| {
            HostReport::new(&results.name, &fabric.rdma_counters(index), &results.nic)
        };
        report.warnings.extend_from_slice(&self.signal_warnings);
        for host in 0..fabric.host_count() {
            report.add_queue_pair_counters(&fabric.rdma_counters(host));
        }
        for (index, results) in hosts.iter().enumerate() {
            report.add_receiver(results, self.plan.expects_lossless(index));
        }
        let links = self.link_reports();
        let jobs = &self.simulation.jobs;
        report.virtual_time = Some(VirtualRunReport {
            balance: LinkBalanceReport::of_links(&links),
            links,
            reordered: jobs::reordered_connections(
                &self.plan,
                jobs,
                &jobs.received_packets(|host| fabric.host(host)),
            ),
            model_time_ns: self.elapsed().as_nanos(),
            events: fabric.events(),
            frame_hops: fabric.frame_hops(),
            frames_under_way_max: fabric.frames_in_flight_max() as u64,
            link_lost_frames: (0..self.plan.links.len())
                .map(|link| fabric.lost_frames(link))
                .sum(),
            deadlocks: self
                .simulation
                .deadlocks()
                .iter()
                .map(|lasting| deadlock_report(fabric, lasting))
                .collect(),
            hosts: hosts.iter().enumerate().map(host_report).collect(),
            acceleration: self.acceleration_report(),
        });
        report.jobs = Some(self.job_results()).filter(|results| !results.jobs.is_empty());
        evidence::judge(&mut report, &self.plan, &self.fabric_plan);
        report
    }

    /// Returns what the run has skipped. Returns `None` without `--accelerate`.
    fn acceleration_report(&self) -> Option<AccelerationReport> {
        let summary = self.simulation.acceleration()?;
        let workload = self.simulation.jobs.workload();
        let jobs = summary
            .jobs
            .iter()
            .enumerate()
            .map(|(index, job)| JobAccelerationReport {
                job: workload.job_name(index).to_owned(),
                unit: workload.step_unit(index).map(step_unit_name),
                skipped_steps: job.skipped_steps,
                simulated_steps: workload.simulated_steps(index),
                step_time_error: job.step_time_error,
            });
        let rejected = summary.rejected_windows.iter();
        Some(AccelerationReport {
            skipped_time_ns: summary.skipped_time.as_nanos(),
            skips: summary.skips,
            jobs: jobs.collect(),
            rejected_windows: rejected
                .map(|(reason, count)| ((*reason).to_owned(), *count))
                .collect(),
        })
    }

    /// Returns the results of all jobs up to the current model time, in the order of the lab file.
    pub fn job_results(&self) -> WorkloadResults {
        jobs::workload_results(&self.simulation.jobs, self.workload_start)
    }
}
