//! What steps do to a lab.

use xoff_dataplane::{Picos, PortId, QueueId};

use super::super::plan::{ActionPlan, BlockPlan, DirectionPlan, TargetPlan};
use super::events::EventKind;
use super::run::Script;
use super::storms;
use super::values::Base;
use xoff_fabric::{LinkEnd, ObservedFabric};
use xoff_host::{Host, SendFrameError};
use xoff_telemetry::failure::Failure;

impl Script {
    /// Does what a step says, but for waiting and expecting.
    ///
    /// # Errors
    /// A configuration that cannot be.
    pub(super) fn act(&mut self, action: &ActionPlan, source: &str) -> Result<(), Failure> {
        match action {
            ActionPlan::Send(send) => {
                let id = self.lab.plan.workload.flows.len() + self.sends;
                self.sends += 1;
                let started = self.change_host(send.flow.from, |host, now| host.start_flow(now, id as u32));
                in_place(started, source, "flow", &send.flow.name)?;
            }
            ActionPlan::Start(targets) => {
                for target in targets {
                    self.start(*target, source)?;
                }
            }
            ActionPlan::Stop(targets) => {
                for target in targets {
                    self.stop(*target, source)?;
                }
            }
            ActionPlan::Block(block) => self.set_enabled(block, false),
            ActionPlan::Unblock(block) => self.set_enabled(block, true),
            ActionPlan::Pause(pause) => {
                self.send_frame(pause.host, &storms::Frame::Control(storms::frame(pause)))
                    .map_err(|failure| in_step(failure, source))?;
                self.storms.begin(self.lab.simulation.fabric.now(), pause);
            }
            ActionPlan::Inject(inject) => {
                self.send_frame(inject.host, &storms::Frame::Bytes(inject.frame.clone()))
                    .map_err(|failure| in_step(failure, source))?;
                let fabric = &self.lab.simulation.fabric;
                let link = fabric.host(inject.host).link();
                let own_time = link.duration(link.wire_len(link.mac_len(inject.frame.len() as u32)));
                self.storms.follow(fabric.now(), inject, own_time);
            }
            ActionPlan::Link { link, up } => self.set_link(*link, *up),
            ActionPlan::Fault(fault) => {
                for end in self.ends(fault.direction) {
                    let added = self.lab.simulation.fabric.add_fault(end, fault.fault());
                    let link = &self.lab.plan.links[fault.direction.link].name;
                    in_place(added, source, "link", link)?;
                }
            }
            ActionPlan::Heal(direction) => {
                for end in self.ends(*direction) {
                    self.lab.simulation.fabric.clear_faults(end);
                }
            }
            ActionPlan::Configure { switch, layers } => self
                .lab
                .add_switch_layers(*switch, layers, &mut self.events)
                .map_err(|failure| in_step(failure, source))?,
            ActionPlan::ClearWatermarks => self.each_switch(|switch| switch.clear_watermarks()),
            ActionPlan::ClearCounters => {
                self.each_switch(|switch| switch.restart_utilisation());
                self.events.clear();
                self.base = Base::new(&self.lab, &self.names);
            }
            // They are about time, not about the lab.
            ActionPlan::Wait { .. } | ActionPlan::WaitUntil { .. } | ActionPlan::Expect(_) => {}
        }
        Ok(())
    }

    /// A step that does not happen: sends have their numbers all the same.
    pub(super) fn pass_over(&mut self, action: &ActionPlan) {
        self.sends += usize::from(matches!(action, ActionPlan::Send(_)));
    }

    pub(super) fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R {
        let fabric = &mut self.lab.simulation.fabric;
        fabric.change_host(host, &mut self.events, change)
    }

    /// A host sends a frame. A frame that finds too many others waiting for the link is not sent; the host's
    /// `nic_tx_dropped_frames` counts it.
    ///
    /// # Errors
    /// A frame of a length that no link carries.
    pub(super) fn send_frame(&mut self, host: usize, frame: &storms::Frame) -> Result<(), Failure> {
        let sent = self.change_host(host, |host, now| match frame {
            storms::Frame::Control(control) => host.send_mac_control(now, *control),
            storms::Frame::Bytes(bytes) => host.send_frame(now, bytes),
        });
        match sent {
            Ok(()) | Err(SendFrameError::QueueFull) => Ok(()),
            Err(refused) => Err(Failure::configuration(refused.to_string())
                .at(format!("host {}", self.lab.plan.hosts[host].name))),
        }
    }

    fn each_switch(&mut self, change: impl Fn(&mut xoff_dataplane::Switch)) {
        let fabric = &mut self.lab.simulation.fabric;
        for switch in 0..fabric.switch_count() {
            fabric.change_switch(switch, &mut self.events, |switch, _, _, _| change(switch));
        }
    }

    fn start(&mut self, target: TargetPlan, source: &str) -> Result<(), Failure> {
        match target {
            TargetPlan::Job(job) => {
                let simulation = &mut self.lab.simulation;
                simulation
                    .jobs
                    .start_job(job, &mut ObservedFabric(&mut simulation.fabric, &mut self.events));
                Ok(())
            }
            TargetPlan::Flow(flow) => {
                let host = self.lab.plan.workload.flows[flow].from;
                let started = self.change_host(host, |host, now| host.start_flow(now, flow as u32));
                in_place(started, source, "flow", &self.lab.plan.workload.flows[flow].name)
            }
        }
    }

    fn stop(&mut self, target: TargetPlan, source: &str) -> Result<(), Failure> {
        match target {
            TargetPlan::Job(job) => {
                self.lab.simulation.jobs.stop_job(job);
                Ok(())
            }
            TargetPlan::Flow(flow) => {
                let host = self.lab.plan.workload.flows[flow].from;
                let stopped = self.change_host(host, |host, _| host.stop_flow(flow as u32));
                in_place(stopped, source, "flow", &self.lab.plan.workload.flows[flow].name)
            }
        }
    }

    fn set_enabled(&mut self, block: &BlockPlan, on: bool) {
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
                None => switch.set_tx_enabled(now, port, on, store, outputs),
                Some(queue) => {
                    switch.set_queue_enabled(now, QueueId::new(port, queue), on, store, outputs);
                }
            },
        );
    }

    /// Frames that go with a link, on it or in queues to it, are drops that no arrival tells of.
    fn set_link(&mut self, link: usize, up: bool) {
        let ends = self.lab.fabric_plan.links[link].ends;
        let before = (self.dropped(ends), self.lab.simulation.fabric.lost_frames(link));
        let fabric = &mut self.lab.simulation.fabric;
        fabric.set_link(link, up, &mut self.events);
        let now = fabric.now();
        let lost = fabric.lost_frames(link) > before.1;
        let after = self.dropped(ends);
        for (n, end) in ends.into_iter().enumerate() {
            if after[n] > before.0[n] || (lost && n == 0) {
                self.events.note(EventKind::Drop, now, end);
            }
        }
    }

    fn dropped(&self, ends: [LinkEnd; 2]) -> [u64; 2] {
        let fabric = &self.lab.simulation.fabric;
        ends.map(|end| match end {
            LinkEnd::Host(_) => 0,
            LinkEnd::Switch { switch, port } => fabric
                .switch(switch as usize)
                .port_counters(fabric.now(), PortId(port))
                .dropped_frames(),
        })
    }

    /// The ends of a link that send into the ways that are meant.
    fn ends(&self, direction: DirectionPlan) -> Vec<LinkEnd> {
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

/// Refuses a step whose flow or link the running lab does not have.
fn in_place(is_there: bool, source: &str, what: &str, name: &str) -> Result<(), Failure> {
    match is_there {
        true => Ok(()),
        false => Err(Failure::configuration(format!("the running lab has no {what} \"{name}\"")).at(source)),
    }
}

/// A failure of a step says which step.
fn in_step(failure: Failure, source: &str) -> Failure {
    let place = match &failure.place {
        Some(place) => format!("{source}, {place}"),
        None => source.to_owned(),
    };
    failure.at(place)
}
