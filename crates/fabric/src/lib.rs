//! Virtual time: switches, hosts and links whose model time advances only with events.
//!
//! The fabric uses the switches of `xoff_dataplane` and the hosts of [`xoff_host`]. The same switch and host
//! code runs in real time. A [`FabricPlan`] describes switches, hosts and links. [`Fabric::new`] builds a
//! [`Fabric`] from the plan, and [`Fabric::run`] processes the events of the fabric. A [`Simulation`] adds
//! jobs. An [`Observer`] receives every event.
//!
//! The fabric reads no clock, and all random numbers come from seeds. The same plan and the same calls
//! therefore give the same events. An observer does not change them.
//!
//! Events are ordered by time. Events with equal times are handled in this order: first arrivals of frames,
//! then hosts, then timers of switches. Within each kind, the order of the plan decides. If no observer needs
//! this total order, the fabric is divided into partitions. Each partition processes its events alone within
//! a short time window. The window is so short that no frame can pass from one partition to another within
//! it. The results are the same.
//!
//! A frame occupies its link for preamble, frame, FCS and gap. The frame arrives when its last bit reaches
//! the receiver. The arrival time includes the delay of the link, but not the gap. A switch processes a frame
//! only after the last bit has arrived (store and forward). The frame can leave after the pipeline latency of
//! the switch.
//!
//! # Example
//!
//! In this example, two hosts share one link. The first host sends ten frames to the second host:
//!
//! ```
//! use xoff_fabric::{Fabric, FabricPlan, LinkEnd, LinkPlan};
//! use xoff_host::{FlowConfig, HostConfig};
//! use xoff_units::{LinkTiming, Picos};
//!
//! let host = |n: u8| {
//!     let mut config = HostConfig::new(format!("h{n}"), [2, 0, 0, 0, 0, n], LinkTiming::ethernet(100_000));
//!     config.ipv4 = Some([10, 0, 0, n].into());
//!     config
//! };
//! let mut sender = host(1);
//! let mut flow = FlowConfig::lossless(0, [10, 0, 0, 2].into(), Some([2, 0, 0, 0, 0, 2]));
//! flow.frames_max = Some(10);
//! sender.flows.push(flow);
//! let link = LinkPlan {
//!     name: "h1--h2".into(),
//!     ends: [LinkEnd::Host(0), LinkEnd::Host(1)],
//!     delay: Picos::from_micros(1),
//! };
//! let plan = FabricPlan { hosts: vec![sender, host(2)], links: vec![link], ..FabricPlan::default() };
//!
//! let mut fabric = Fabric::new(plan, 1)?;
//! fabric.change_host(0, &mut (), |host, now| host.start(now));
//! fabric.run(Picos::from_millis(1), &mut ());
//! assert_eq!(fabric.host(1).received_frames(), 10);
//! # Ok::<(), xoff_fabric::PlanError>(())
//! ```

mod acceleration;
mod deadlock;
mod deadlock_report;
mod engine;
mod event_log;
mod event_queue;
mod event_window;
mod far_events;
mod fault;
mod in_flight;
mod job_hosts;
mod jobs;
mod link_direction;
mod observation;
mod observer;
mod packet_lengths;
mod partition_calendar;
mod partitions;
mod path;
mod pending;
mod placement;
mod plan;
mod recording;
mod reference;
mod simulation;
mod store;
mod time_series;
mod timeline;

pub use acceleration::{Acceleration, AccelerationSummary, JobSkips};
pub use deadlock::find_deadlock;
pub use deadlock_report::{Deadlock, LastingDeadlock};
pub use engine::{
    CompletionHandler, CompletionScope, Fabric, FabricHosts, RunStopReason, SIMULTANEOUS_EVENTS_MAX,
};
pub use event_log::{EVENTS_SCHEMA, EventLog};
pub use fault::{Fault, FaultAction, FrameSelector};
pub use job_hosts::{HostDirectory, JobHosts};
pub use jobs::{
    DataFlow, FIRST_QUEUE_PAIR, FailedMessage, JobTransport, Jobs, ObservedFabric, ReceivedPackets,
};
pub use observer::{FrameView, HostEventCounts, ObservedEvents, Observer};
pub use packet_lengths::PacketLengths;
pub use path::{FabricPath, Paths};
pub use placement::{Edge, PlannedFlow, PlannedHop, equitable_colouring, place_flows};
pub use plan::{FabricPlan, LinkEnd, LinkPlan, PlanError};
pub use recording::{LinkRecording, RecordingError};
pub use reference::{ReferenceMessage, ReferenceTimes};
pub use simulation::{DEADLOCKS_MAX, Simulation, SimulationEnd};
pub use store::FabricStore;
pub use time_series::TimeSeries;
pub use timeline::{PortTimeline, Timeline};

#[cfg(test)]
mod dcbx_tests;
#[cfg(test)]
mod lldp_tests;
#[cfg(test)]
mod tests;
