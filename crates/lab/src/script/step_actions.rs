//! The actions of steps on a running lab.

use xoff_dataplane::{Picos, PortId, QueueId};

use super::super::plan::{ActionPlan, EgressBlockPlan, LinkDirectionPlan, WorkloadTarget};
use super::events::EventKind;
use super::repeated_frames::{ScriptFrame, build_pause_frame};
use super::run::ScriptRun;
use super::values::CounterBaseline;
use xoff_fabric::{LinkEnd, ObservedFabric};
use xoff_host::{Host, SendFrameError};
use xoff_telemetry::failure::Failure;

impl ScriptRun {
    /// Performs the action of a step on the lab. Does nothing for steps that wait or check conditions.
    ///
    /// # Errors
    /// Returns an error if the step has an invalid configuration or frame.
    pub(super) fn perform_action(&mut self, action: &ActionPlan, source: &str) -> Result<(), Failure> {
        self.lab.simulation.restart_acceleration();
        match action {
            ActionPlan::Send(send) => {
                let id = self.lab.plan.workload.flows.len() + self.send_count;
                self.send_count += 1;
                let started = self.change_host(send.flow.from, |host, now| host.start_flow(now, id as u32));
                check_exists(started, source, "flow", &send.flow.name)?;
            }
            ActionPlan::Start(targets) => {
                for target in targets {
                    self.start_target(*target, source)?;
                }
            }
            ActionPlan::Stop(targets) => {
                for target in targets {
                    self.stop_target(*target, source)?;
                }
            }
            ActionPlan::Block(block) => self.set_egress_enabled(block, false),
            ActionPlan::Unblock(block) => self.set_egress_enabled(block, true),
            ActionPlan::Pause(pause) => {
                self.send_frame(pause.host, &ScriptFrame::Control(build_pause_frame(pause)))
                    .map_err(|failure| add_source(failure, source))?;
                self.repeated_frames
                    .add_pause(self.lab.simulation.fabric.now(), pause);
            }
            ActionPlan::Inject(inject) => {
                self.send_frame(inject.host, &ScriptFrame::Bytes(inject.frame.clone()))
                    .map_err(|failure| add_source(failure, source))?;
                let fabric = &self.lab.simulation.fabric;
                let link = fabric.host(inject.host).link();
                let frame_time = link.duration(link.wire_len(link.mac_len(inject.frame.len() as u32)));
                self.repeated_frames
                    .add_injected_frames(fabric.now(), inject, frame_time);
            }
            ActionPlan::Link { link, up } => self.set_link_state(*link, *up),
            ActionPlan::Fault(fault) => {
                for end in self.sending_ends(fault.direction) {
                    let added = self.lab.simulation.fabric.add_fault(end, fault.to_fabric_fault());
                    let link = &self.lab.plan.links[fault.direction.link].name;
                    check_exists(added, source, "link", link)?;
                }
            }
            ActionPlan::Heal(direction) => {
                for end in self.sending_ends(*direction) {
                    self.lab.simulation.fabric.clear_faults(end);
                }
            }
            ActionPlan::Configure { switch, layers } => self
                .lab
                .add_switch_layers(*switch, layers, &mut self.events)
                .map_err(|failure| add_source(failure, source))?,
            ActionPlan::ClearWatermarkCommand => self.change_all_switches(|switch| switch.clear_watermarks()),
            ActionPlan::ClearCounters => {
                self.change_all_switches(|switch| switch.restart_utilisation());
                self.lab.simulation.fabric.restart_skipped_utilisation();
                self.events.clear();
                self.baseline = CounterBaseline::new(&self.lab, &self.names);
            }
            // `ScriptRun::run_step` handles these steps.
            ActionPlan::Wait { .. } | ActionPlan::WaitUntil { .. } | ActionPlan::Expect(_) => {}
        }
        Ok(())
    }

    /// Skips the action of a step. A skipped `send` still uses a flow number.
    pub(super) fn skip_action(&mut self, action: &ActionPlan) {
        self.send_count += usize::from(matches!(action, ActionPlan::Send(_)));
    }

    /// Changes a host and handles the events that follow.
    pub(super) fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R {
        let fabric = &mut self.lab.simulation.fabric;
        fabric.change_host(host, &mut self.events, change)
    }

    /// Sends a frame from a host. If the transmit queue of the host is full, the frame is dropped, and
    /// `nic_tx_dropped_frames` counts it.
    ///
    /// # Errors
    /// Returns an error if the length of the frame is invalid.
    pub(super) fn send_frame(&mut self, host: usize, frame: &ScriptFrame) -> Result<(), Failure> {
        let sent = self.change_host(host, |host, now| match frame {
            ScriptFrame::Control(control) => host.send_mac_control(now, *control),
            ScriptFrame::Bytes(bytes) => host.send_frame(now, bytes),
        });
        match sent {
            Ok(()) | Err(SendFrameError::QueueFull) => Ok(()),
            Err(refused) => Err(Failure::configuration(refused.to_string())
                .at(format!("host {}", self.lab.plan.hosts[host].name))),
        }
    }

    fn change_all_switches(&mut self, change: impl Fn(&mut xoff_dataplane::Switch)) {
        let fabric = &mut self.lab.simulation.fabric;
        for switch in 0..fabric.switch_count() {
            fabric.change_switch(switch, &mut self.events, |switch, _, _, _| change(switch));
        }
    }

    fn start_target(&mut self, target: WorkloadTarget, source: &str) -> Result<(), Failure> {
        match target {
            WorkloadTarget::Job(job) => {
                let simulation = &mut self.lab.simulation;
                simulation
                    .jobs
                    .start_job(job, &mut ObservedFabric(&mut simulation.fabric, &mut self.events));
                Ok(())
            }
            WorkloadTarget::Flow(flow) => {
                let host = self.lab.plan.workload.flows[flow].from;
                let started = self.change_host(host, |host, now| host.start_flow(now, flow as u32));
                check_exists(started, source, "flow", &self.lab.plan.workload.flows[flow].name)
            }
        }
    }

    fn stop_target(&mut self, target: WorkloadTarget, source: &str) -> Result<(), Failure> {
        match target {
            WorkloadTarget::Job(job) => {
                self.lab.simulation.jobs.stop_job(job);
                Ok(())
            }
            WorkloadTarget::Flow(flow) => {
                let host = self.lab.plan.workload.flows[flow].from;
                let stopped = self.change_host(host, |host, _| host.stop_flow(flow as u32));
                check_exists(stopped, source, "flow", &self.lab.plan.workload.flows[flow].name)
            }
        }
    }

    fn set_egress_enabled(&mut self, block: &EgressBlockPlan, is_enabled: bool) {
        let ports = &self.lab.fabric_plan.switches[block.switch].ports;
        let Some(port) = ports.iter().position(|port| port.name == block.port) else {
            return;
        };
        let port = PortId(port as u16);
        let fabric = &mut self.lab.simulation.fabric;
        fabric.change_switch(
            block.switch,
            &mut self.events,
            |switch, now, store, outputs| match block.queue {
                None => switch.set_tx_enabled(now, port, is_enabled, store, outputs),
                Some(queue) => {
                    switch.set_queue_enabled(now, QueueId::new(port, queue), is_enabled, store, outputs);
                }
            },
        );
    }

    /// Sets a link up or down. If the link goes down, frames on the link and in the queues at its ends are
    /// lost. The observer does not see this loss, so this function itself records `drop` events.
    fn set_link_state(&mut self, link: usize, up: bool) {
        let ends = self.lab.fabric_plan.links[link].ends;
        let dropped_before = self.dropped_frames(ends);
        let lost_before = self.lab.simulation.fabric.lost_frames(link);
        let fabric = &mut self.lab.simulation.fabric;
        fabric.set_link(link, up, &mut self.events);
        let now = fabric.now();
        let has_lost_frames = fabric.lost_frames(link) > lost_before;
        let dropped_after = self.dropped_frames(ends);
        for (n, end) in ends.into_iter().enumerate() {
            if dropped_after[n] > dropped_before[n] || (has_lost_frames && n == 0) {
                self.events.record(EventKind::Drop, now, end);
            }
        }
    }

    /// Returns the number of frames dropped at the switch ports of a link.
    fn dropped_frames(&self, ends: [LinkEnd; 2]) -> [u64; 2] {
        let fabric = &self.lab.simulation.fabric;
        ends.map(|end| match end {
            LinkEnd::Host(_) => 0,
            LinkEnd::Switch { switch, port } => fabric
                .switch(switch as usize)
                .port_counters(fabric.now(), PortId(port))
                .dropped_frames(),
        })
    }

    /// Returns the ends of a link that send in the given directions.
    fn sending_ends(&self, direction: LinkDirectionPlan) -> Vec<LinkEnd> {
        let [near, far] = self.lab.fabric_plan.links[direction.link].ends;
        let mut ends = Vec::new();
        if direction.from_switch {
            ends.push(near);
        }
        if direction.from_far {
            ends.push(far);
        }
        ends
    }
}

/// Returns an error if the flow or link in a step does not exist in the running lab.
fn check_exists(exists: bool, source: &str, kind: &str, name: &str) -> Result<(), Failure> {
    match exists {
        true => Ok(()),
        false => Err(
            Failure::configuration(format!("the running lab has no {kind} \"{name}\""))
                .at(source)
                .fix("`xoff lab check FILE` checks the names in all steps"),
        ),
    }
}

/// Adds the position of a step to a failure.
fn add_source(failure: Failure, source: &str) -> Failure {
    let place = match &failure.location {
        Some(place) => format!("{source}, {place}"),
        None => source.to_owned(),
    };
    failure.at(place)
}
