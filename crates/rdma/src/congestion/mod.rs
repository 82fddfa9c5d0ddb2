//! Congestion control of a queue pair: its sending rate and its window.
//!
//! [`CongestionControl`] is the interface of an algorithm. [`CongestionConfig`] selects one of xoff's
//! algorithms by name, and [`ControllerFactory`] accepts algorithms of other crates. Each algorithm has a
//! parameter struct that documents the meaning, unit, range and source of every parameter.

mod alpha;
mod config;
mod dcqcn_nic;
mod dcqcn_paper;
mod dctcp;
mod hpcc;
mod none;
mod parameters;
mod rate;
mod swift;
mod timely;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xoff_units::Picos;

use super::telemetry::{Telemetry, TelemetryFormat};

pub use config::{Algorithm, CongestionConfig};
pub use dcqcn_nic::{DcqcnNic, DcqcnNicParameters};
pub use dcqcn_paper::{Dcqcn, DcqcnParameters};
pub use dctcp::{Dctcp, DctcpParameters};
pub use hpcc::{Hpcc, HpccParameters};
pub use none::{ConstantRate, ConstantRateParameters};
pub use parameters::{FieldRef, ParameterError, ParameterField, ParameterSet, ParameterValue, Preset};
pub use swift::{Swift, SwiftParameters};
pub use timely::{Timely, TimelyParameters};

/// Feedback of the responder to the requester for ECN marks (CE) on data packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CongestionFeedback {
    /// No feedback.
    #[default]
    None,
    /// Congestion notification packets, as the notification point of DCQCN sends them.
    Cnp {
        /// Shortest time between two CNPs of a queue pair. With 0, every marked packet causes a CNP.
        #[serde(with = "xoff_units::serde_picos")]
        interval: Picos,
    },
    /// The acknowledgement of a marked packet echoes the mark in its BECN bit.
    AckEcho,
}

/// A signal of congestion that a controller can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionSignal {
    /// Acknowledgements of any content ([`CongestionControl::on_ack`]).
    Acknowledgement,
    /// Congestion notification packets ([`CongestionControl::on_cnp`]).
    Cnp,
    /// ECN marks that acknowledgements echo ([`Ack::marked`]).
    MarkEcho,
    /// Link records that acknowledgements echo ([`Ack::telemetry`]).
    Telemetry,
    /// Round-trip times of acknowledged packets ([`Ack::rtt`]).
    RoundTrip,
}

impl CongestionSignal {
    /// Returns the text for messages.
    pub fn description(self) -> &'static str {
        match self {
            CongestionSignal::Acknowledgement => "acknowledgements",
            CongestionSignal::Cnp => "CNPs",
            CongestionSignal::MarkEcho => "marks echoed in acknowledgements",
            CongestionSignal::Telemetry => "telemetry echoed in acknowledgements",
            CongestionSignal::RoundTrip => "round-trip times of acknowledgements",
        }
    }
}

/// Properties of a queue pair and its host that a controller needs at creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerContext {
    /// Speed of the host's link in bits per second.
    pub line_rate_bps: u64,
    /// Round-trip time of an idle network. If the network is not known, use a few microseconds.
    pub base_rtt: Picos,
    /// Length of a full data packet in bytes, with headers and without telemetry.
    pub packet_bytes: u32,
    /// Seed of the queue pair, for controllers that use random numbers.
    pub seed: u64,
}

impl ControllerContext {
    /// Properties of a host at 100 Gb/s, for calls that need a host although their result does not depend on
    /// the host.
    const NOMINAL_HOST: ControllerContext = ControllerContext {
        line_rate_bps: 100_000_000_000,
        base_rtt: Picos::from_micros(10),
        packet_bytes: 1_086,
        seed: 0,
    };
}

/// Contents of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Payload bytes that this acknowledgement covers and no earlier one did.
    pub acked_bytes: u64,
    /// Payload bytes that remain in flight.
    pub inflight_bytes: u64,
    /// All payload bytes acknowledged so far, including `acked_bytes`.
    pub acked_total: u64,
    /// All payload bytes sent so far, without retransmissions.
    pub sent_total: u64,
    /// Time from the departure of the acknowledged packet to the arrival of this acknowledgement.
    pub rtt: Option<Picos>,
    /// The acknowledgement echoes an ECN mark.
    pub marked: bool,
    /// Link records of the acknowledged packet, if it collected any.
    pub telemetry: Option<&'a Telemetry>,
}

/// Congestion control of one queue pair.
///
/// The requester reads [`rate_bps`](CongestionControl::rate_bps) before each packet and spaces its packets by
/// this rate. It stops when [`window_bytes`](CongestionControl::window_bytes) bytes are in flight. It calls
/// the other methods at the events that they describe. Every call passes the model time,
/// which never decreases.
///
/// A run with the same seed must give the same result. A controller therefore reads no clock and shares no
/// state. For floating-point numbers it uses only `+`, `-`, `*`, `/`, square roots and comparisons. The
/// results of these operations are equal on every machine.
pub trait CongestionControl: fmt::Debug + Send {
    /// Returns the name of the algorithm, as in lab files.
    fn name(&self) -> &'static str;

    /// Returns the current rate in bits per second. The rate counts whole packets with their headers.
    fn rate_bps(&self) -> u64;

    /// Returns the window in payload bytes, or `None` without a limit. A packet may be sent while fewer bytes
    /// than the window are in flight.
    fn window_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the signals that the controller uses. One of them is sufficient.
    ///
    /// If no flow of a lab receives such a signal, xoff rejects the lab. If only some flows receive no
    /// signal, xoff prints a warning. An empty slice means that the controller needs no signal. UC, UD and
    /// READ responses have no acknowledgements.
    fn signals(&self) -> &'static [CongestionSignal] {
        &[]
    }

    /// Returns the format of the telemetry that data packets collect, or `None`. Called once, when the queue
    /// pair is created. Telemetry bytes make packets longer on links, in buffers and in pacing.
    fn telemetry_format(&self) -> Option<TelemetryFormat> {
        None
    }

    /// A data packet starts to leave. `packet_bytes` includes headers. Retransmissions count too.
    fn on_packet_sent(&mut self, now: Picos, packet_bytes: u32) {
        let _ = (now, packet_bytes);
    }

    /// An acknowledgement has arrived.
    fn on_ack(&mut self, now: Picos, ack: &Ack<'_>) {
        let _ = (now, ack);
    }

    /// A congestion notification packet has arrived.
    fn on_cnp(&mut self, now: Picos) {
        let _ = now;
    }

    /// A NAK has reported a missing packet.
    fn on_nak(&mut self, now: Picos) {
        let _ = now;
    }

    /// The local ACK timeout has expired.
    fn on_timeout(&mut self, now: Picos) {
        let _ = now;
    }

    /// Returns the time of the next [`on_deadline`](CongestionControl::on_deadline) call, or
    /// [`Picos::NEVER`]. The queue pair reads the time again after every call.
    fn next_deadline(&self) -> Picos {
        Picos::NEVER
    }

    /// The time of [`next_deadline`](CongestionControl::next_deadline) has been reached.
    fn on_deadline(&mut self, now: Picos) {
        let _ = now;
    }
}

type MakeController = dyn Fn(&ControllerContext) -> Box<dyn CongestionControl> + Send + Sync;

/// Creates a controller for each queue pair.
#[derive(Clone)]
pub struct ControllerFactory(Arc<MakeController>);

impl ControllerFactory {
    /// Creates a factory from a function. Other crates use this to add an algorithm.
    pub fn new(
        make: impl Fn(&ControllerContext) -> Box<dyn CongestionControl> + Send + Sync + 'static,
    ) -> ControllerFactory {
        ControllerFactory(Arc::new(make))
    }

    /// Creates the controller of one queue pair.
    pub fn make(&self, context: &ControllerContext) -> Box<dyn CongestionControl> {
        (self.0)(context)
    }

    /// Returns [`CongestionControl::signals`] of the controllers.
    pub fn signals(&self) -> &'static [CongestionSignal] {
        self.make(&ControllerContext::NOMINAL_HOST).signals()
    }

    /// Returns [`CongestionControl::telemetry_format`] of the controllers.
    pub fn telemetry_format(&self) -> Option<TelemetryFormat> {
        self.make(&ControllerContext::NOMINAL_HOST).telemetry_format()
    }
}

impl fmt::Debug for ControllerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControllerFactory")
    }
}
