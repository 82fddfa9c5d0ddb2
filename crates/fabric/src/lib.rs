//! Virtual time: many switches, hosts and links, and what happens to them in its order.
//!
//! The switches are those of `xoff_dataplane`, the hosts those of [`xoff_host`]: what runs here is what forwards real frames,
//! with a clock that only events advance. A [`Fabric`] is made from a [`FabricPlan`] and driven by [`Fabric::run`]; nothing in it
//! reads a clock, sleeps or draws from anything but seeds of the plan, so the same plan and the same calls give the same
//! events, whoever watches ([`Observer`]).
//!
//! The order of events is total: by time, then wires before hosts before timers of switches, each in the order of the plan. Where
//! nobody has to hear of all of them in it, parts of the fabric go through theirs by themselves for as long as no frame can come from
//! one to another; what comes of it is the same.
//!
//! A frame begins to leave, occupies its wire for preamble, frame, FCS and gap, and has arrived when its last bit has:
//! the gap behind it not counted, the link's delay added. Then the switch decides at once (store and forward), and its own
//! pipeline latency passes before the frame can leave.

mod diagnosis;
mod engine;
mod events;
mod fault;
mod jobs;
mod lengths;
mod observer;
mod parts;
mod path;
mod pending;
mod placement;
mod plan;
mod queue;
mod recording;
mod reference;
mod series;
mod simulation;
mod store;
mod timeline;
mod under_way;
mod window;
mod wire;

pub use diagnosis::{Deadlock, diagnose};
pub use engine::{EVENTS_AT_ONCE_MAX, Fabric, Halt};
pub use events::{EVENTS_SCHEMA, EventLog};
pub use fault::{Fault, FaultAction, Selector};
pub use jobs::{
    Arrivals, DataFlow, Directory, FIRST_QUEUE_PAIR, FailedMessage, JobHosts, Jobs, Transport, Watched,
};
pub use lengths::PacketLengths;
pub use observer::{FrameView, Observer};
pub use path::{FabricPath, Paths};
pub use placement::{Edge, PlannedFlow, PlannedHop, equitable, place};
pub use plan::{End, FabricPlan, LinkPlan, PlanError};
pub use recording::{LinkRecording, RecordingError};
pub use reference::{ReferenceMessage, ReferenceTimes};
pub use series::Series;
pub use simulation::{DEADLOCKS_MAX, LastingDeadlock, Outcome, Simulation};
pub use store::FabricStore;
pub use timeline::{PortTimeline, Timeline};

#[cfg(test)]
mod tests;
