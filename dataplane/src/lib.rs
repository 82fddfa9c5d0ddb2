//! The switch of xoff, as a state machine without input and output.
//!
//! A [`Switch`] receives frames, stores them in a buffer with priority groups and egress queues, and decides
//! when each frame leaves. A switch bridges, routes, balances load, marks ECN, sends and honours PFC, and
//! runs a PFC watchdog. The crate contains no clock, socket, thread or unsafe code. The real-time program,
//! the virtual-time simulator, the tests and the benches therefore run the same code.
//!
//! # How to drive a switch
//!
//! A driver calls one method of the switch at a time, such as [`Switch::receive`] or [`Switch::expire`].
//! Every call has the current model time as an argument. The time must not be earlier than the time of the
//! previous call. The switch appends its results to [`Outputs`], and the driver drains the outputs before the
//! next call:
//!
//! - It sends the frames of [`Outputs::transmits`] and then releases them in the [`FrameStore`].
//! - It calls [`Switch::expire`] at the time of each deadline in [`Outputs::deadlines`].
//! - It hands the frames of [`Outputs::punts`] to the CPU, if one is attached.
//! - It reports the events of [`Outputs::events`].
//!
//! The driver owns the memory of the frames. A [`FrameStore`] gives the switch access to the bytes.
//! [`store::VecStore`] is a store in ordinary memory.
//!
//! # Example
//!
//! A switch with two ports of 100 Gb/s receives a frame on port 0. The destination address is unknown, so the
//! switch floods the frame to port 1 and starts the transmission immediately.
//!
//! ```
//! use xoff_dataplane::config::*;
//! use xoff_dataplane::store::VecStore;
//! use xoff_dataplane::{ForwardingResult, FrameStore, LinkTiming, Outputs, Picos, PortId, ReceivedFrame, Switch};
//! use xoff_wire::parse::parse;
//!
//! let port = |number: u8| {
//!     PortConfig::new(format!("Ethernet{number}"), [2, 0, 0, 0, 0, number], LinkTiming::ethernet(100_000))
//! };
//! let mut config = SwitchConfig::new("leaf", [2, 0, 0, 0, 1, 0], vec![port(0), port(1)]);
//! config.pools = vec![
//!     PoolConfig::new("ingress", PoolSide::Ingress, 1 << 20),
//!     PoolConfig::new("egress", PoolSide::Egress, 1 << 20),
//! ];
//! config.profiles = vec![
//!     BufferProfile::new("ingress_lossy", 0, BufferThreshold::Dynamic(0)),
//!     BufferProfile::new("egress_lossy", 1, BufferThreshold::Dynamic(0)),
//! ];
//!
//! let mut switch = Switch::new(&config);
//! let mut store = VecStore::new(16);
//! let mut outputs = Outputs::with_capacity(16);
//! for port in [PortId(0), PortId(1)] {
//!     switch.set_link(Picos::ZERO, port, true, &mut store, &mut outputs);
//! }
//!
//! let mut bytes = [0; 60];
//! bytes[..6].copy_from_slice(&[2, 0, 0, 0, 9, 1]); // destination
//! bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 9, 2]); // source
//! let frame = ReceivedFrame {
//!     frame: store.insert(&bytes).unwrap(),
//!     frame_len: 60,
//!     parsed: parse(&bytes),
//!     received_at: Picos::ZERO,
//! };
//! let now = Picos::from_micros(1);
//! let result = switch.receive(now, PortId(0), &frame, &mut store, &mut outputs);
//!
//! assert_eq!(result, ForwardingResult::Forwarded { copies: 1 });
//! let transmit = outputs.transmits.pop().unwrap();
//! assert_eq!((transmit.port, transmit.start), (PortId(1), now));
//! store.release(transmit.frame);
//! ```
#![forbid(unsafe_code)]

mod acl_table;
pub mod balance;
mod bits;
mod bridge;
pub mod config;
mod counter_arithmetic;
pub mod counters;
mod drop_counters;
pub mod drops;
mod egress;
mod fib;
pub mod frame;
pub mod ids;
mod lag;
pub mod mmu;
mod outputs;
pub mod pfc;
pub mod route;
pub mod stages;
pub mod store;
mod switch;
mod watchdog;

pub use drops::DropReason;
pub use egress::{EtsScheduler, LinkRate};
pub use frame::{FrameHandle, FrameStore, ReceivedFrame};
pub use ids::{GroupId, InterfaceId, LogicalPort, NextHopId, PgId, PortId, QueueId, TimerId};
pub use outputs::{
    Deadline, DroppedFrame, ForwardingResult, Outputs, PuntReason, PuntedFrame, SwitchEvent, SwitchEventKind,
    Transmit,
};
pub use switch::{
    ApplyError, CONTROL_RECORD_BYTES, CONTROL_RECORDS_MAX, ControlRecord, FLOOD_PREFIX_BYTES,
    FlowAnnouncement, Switch,
};
pub use watchdog::{StormCounters, WatchdogStats, WatchdogStatus};
pub use xoff_units::{LinkTiming, Picos, prefetch};
