//! Congestion control of a queue pair: the sending rate and the window.
//!
//! [`CongestionControl`] is the interface of an algorithm. [`CongestionConfig`] selects one of xoff's
//! algorithms by name. [`ControllerFactory`] also accepts algorithms of other crates. Each algorithm has a
//! parameter struct, which documents the meaning, unit, range and source of every parameter.

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

/// Feedback that the responder sends to the requester for data packets with an ECN mark (CE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CongestionFeedback {
    /// The responder sends no feedback.
    #[default]
    None,
    /// Congestion notification packets (CNPs), as in DCQCN.
    Cnp {
        /// Shortest time between two CNPs of a queue pair. With 0, the responder sends a CNP for every
        /// marked packet.
        #[serde(with = "xoff_units::serde_picos")]
        interval: Picos,
    },
    /// The acknowledgement of a marked packet reports the mark in its BECN bit.
    AckEcho,
}

/// A signal from which a controller detects congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionSignal {
    /// Acknowledgements, independent of their contents ([`CongestionControl::on_ack`]).
    Acknowledgement,
    /// Congestion notification packets ([`CongestionControl::on_cnp`]).
    Cnp,
    /// ECN marks that acknowledgements report ([`Ack::marked`]).
    MarkEcho,
    /// Hop records that acknowledgements return ([`Ack::telemetry`]).
    Telemetry,
    /// Round-trip times of acknowledged packets ([`Ack::rtt`]).
    RoundTrip,
}

impl CongestionSignal {
    /// Returns the name of the signal in messages, such as `CNPs`.
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
    /// Round-trip time of a full packet in an idle network. If the network is not known, use a
    /// few microseconds.
    pub base_rtt: Picos,
    /// Length of a full data packet in bytes, with headers and without telemetry.
    pub packet_bytes: u32,
    /// Seed of the queue pair, for controllers that use random numbers.
    pub seed: u64,
}

impl ControllerContext {
    /// A host at 100 Gb/s. Some calls need a host, although their result is equal for all hosts.
    const NOMINAL_HOST: ControllerContext = ControllerContext {
        line_rate_bps: 100_000_000_000,
        base_rtt: Picos::from_micros(10),
        packet_bytes: 1_086,
        seed: 0,
    };
}

/// Contents of an acknowledgement or NAK. Byte counts cover payload only.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Payload bytes that this acknowledgement is the first to acknowledge.
    pub acked_bytes: u64,
    /// Payload bytes that are still in flight.
    pub inflight_bytes: u64,
    /// Payload bytes acknowledged in total, including `acked_bytes`.
    pub acked_total: u64,
    /// Payload bytes sent in total, without retransmissions.
    pub sent_total: u64,
    /// Time from the departure of the acknowledged packet to the arrival of this acknowledgement. `None` if
    /// the packet was retransmitted or if the acknowledgement names no packet.
    pub rtt: Option<Picos>,
    /// True if the acknowledgement reports an ECN mark.
    pub marked: bool,
    /// Hop records of the acknowledged packet. `None` if it collected none.
    pub telemetry: Option<&'a Telemetry>,
}

/// Congestion control of one queue pair.
///
/// The requester reads [`rate_bps`](CongestionControl::rate_bps) before each packet and spaces its packets by
/// this rate. The requester stops when [`window_bytes`](CongestionControl::window_bytes) bytes are in flight.
/// When an event occurs, the requester calls the method `on_...` for this event. Every call passes the model
/// time, which never decreases.
///
/// Two runs with the same seed must give the same result. A controller therefore reads no clock and shares no
/// state. For floating-point numbers, a controller uses only `+`, `-`, `*`, `/`, square roots and
/// comparisons. These operations give the same results on every machine.
pub trait CongestionControl: fmt::Debug + Send {
    /// Returns the name of the algorithm, as in lab files.
    fn name(&self) -> &'static str;

    /// Fetches the first cache line of the controller, without waiting for it. Does nothing by default.
    fn prefetch(&self) {}

    /// Returns the current rate in bits per second. The rate counts whole packets with their headers.
    fn rate_bps(&self) -> u64;

    /// Returns the window in payload bytes. `None` means no limit. A packet may be sent while fewer bytes
    /// than the window are in flight.
    fn window_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the signals that the controller uses. The controller works if it receives at least one of
    /// these signals.
    ///
    /// If no flow of a lab receives one of the signals, xoff rejects the lab. If only some flows receive no
    /// signal, xoff prints a warning. An empty slice means that the controller needs no signal. UC messages,
    /// UD messages and READ responses have no acknowledgements.
    fn signals(&self) -> &'static [CongestionSignal] {
        &[]
    }

    /// Returns the format of the telemetry that data packets collect. `None` means no telemetry. Called once,
    /// when the queue pair is created. Telemetry makes packets longer on links, in buffers and in pacing.
    fn telemetry_format(&self) -> Option<TelemetryFormat> {
        None
    }

    /// A data packet starts to leave. `packet_bytes` is its length in bytes with headers. Retransmissions
    /// are included.
    fn on_packet_sent(&mut self, now: Picos, packet_bytes: u32) {
        let _ = (now, packet_bytes);
    }

    /// An acknowledgement has arrived. READ responses and NAKs also count as acknowledgements.
    fn on_ack(&mut self, now: Picos, ack: &Ack<'_>) {
        let _ = (now, ack);
    }

    /// A congestion notification packet has arrived.
    fn on_cnp(&mut self, now: Picos) {
        let _ = now;
    }

    /// A NAK has reported a missing packet ("PSN sequence error").
    fn on_nak(&mut self, now: Picos) {
        let _ = now;
    }

    /// The local ACK timeout has expired.
    fn on_timeout(&mut self, now: Picos) {
        let _ = now;
    }

    /// Returns the time at which [`on_deadline`](CongestionControl::on_deadline) must be called next.
    /// [`Picos::NEVER`] means no call. The queue pair reads the time again after every call.
    fn next_deadline(&self) -> Picos {
        Picos::NEVER
    }

    /// The time of [`next_deadline`](CongestionControl::next_deadline) has been reached.
    fn on_deadline(&mut self, now: Picos) {
        let _ = now;
    }
}

type MakeController = dyn Fn(&ControllerContext) -> Box<dyn CongestionControl> + Send + Sync;

/// Creates one controller for each queue pair.
#[derive(Clone)]
pub struct ControllerFactory(Arc<MakeController>);

impl ControllerFactory {
    /// Creates a factory from a function. Other crates use this method to add an algorithm.
    pub fn new(
        make: impl Fn(&ControllerContext) -> Box<dyn CongestionControl> + Send + Sync + 'static,
    ) -> ControllerFactory {
        ControllerFactory(Arc::new(make))
    }

    /// Creates the controller of one queue pair.
    pub fn make(&self, context: &ControllerContext) -> Box<dyn CongestionControl> {
        (self.0)(context)
    }

    /// Returns the signals that the controllers use ([`CongestionControl::signals`]).
    pub fn signals(&self) -> &'static [CongestionSignal] {
        self.make(&ControllerContext::NOMINAL_HOST).signals()
    }

    /// Returns the telemetry format of the controllers ([`CongestionControl::telemetry_format`]). `None`
    /// means no telemetry.
    pub fn telemetry_format(&self) -> Option<TelemetryFormat> {
        self.make(&ControllerContext::NOMINAL_HOST).telemetry_format()
    }
}

impl fmt::Debug for ControllerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControllerFactory")
    }
}
