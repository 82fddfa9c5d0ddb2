//! Congestion control of a queue pair: how fast it may send, and how much may be under way.
//!
//! [`CongestionControl`] is the interface, [`Choice`] names the algorithms that come with xoff, and [`Factory`] is the way
//! in for others. Each algorithm has a struct of parameters with their meaning, unit, range and source.

mod alpha;
mod choice;
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

pub use choice::{Algorithm, Choice};
pub use dcqcn_nic::{DcqcnNic, DcqcnNicParameters};
pub use dcqcn_paper::{Dcqcn, DcqcnParameters};
pub use dctcp::{Dctcp, DctcpParameters};
pub use hpcc::{Hpcc, HpccParameters};
pub use none::{Constant, ConstantParameters};
pub use parameters::{Field, ParameterError, ParameterSet, Preset, Slot, Value};
pub use swift::{Swift, SwiftParameters};
pub use timely::{Timely, TimelyParameters};

/// What the far end tells the sender of congestion marks (CE) on its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Feedback {
    /// Nothing.
    #[default]
    None,
    /// A congestion notification packet, at most one per queue pair and interval (DCQCN's notification point); an interval of
    /// zero sends one per marked packet.
    Cnp {
        /// Shortest time between two.
        #[serde(with = "xoff_units::serde_picos")]
        interval: Picos,
    },
    /// The mark is echoed in the BECN bit of the acknowledgement that covers the marked packet.
    AckEcho,
}

/// Something that tells a controller of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Acknowledgements ([`CongestionControl::acknowledged`]), whatever they carry.
    Acknowledgement,
    /// Congestion notification packets ([`CongestionControl::notified`]).
    Cnp,
    /// Congestion marks echoed in acknowledgements ([`Ack::marked`]).
    MarkEcho,
    /// Records of links, echoed in acknowledgements ([`Ack::telemetry`]).
    Telemetry,
    /// Round-trip times of acknowledged packets ([`Ack::rtt`]).
    RoundTrip,
}

impl Signal {
    /// What it is called in messages.
    pub fn description(self) -> &'static str {
        match self {
            Signal::Acknowledgement => "acknowledgements",
            Signal::Cnp => "CNPs",
            Signal::MarkEcho => "marks echoed in acknowledgements",
            Signal::Telemetry => "telemetry echoed in acknowledgements",
            Signal::RoundTrip => "round-trip times of acknowledgements",
        }
    }
}

/// Where a controller finds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Speed of the host's link, bits per second.
    pub line_rate_bps: u64,
    /// Round trip of an empty network, as far as it is known; a few microseconds otherwise.
    pub base_rtt: Picos,
    /// Bytes of a full data packet, headers included; telemetry is not.
    pub packet_bytes: u32,
    /// A seed of the queue pair's own, for controllers that draw.
    pub seed: u64,
}

impl Context {
    /// A host at 100 Gb/s, to ask controllers for properties that do not depend on where they are.
    const NOMINAL: Context = Context {
        line_rate_bps: 100_000_000_000,
        base_rtt: Picos::from_micros(10),
        packet_bytes: 1_086,
        seed: 0,
    };
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Payload bytes that it acknowledges for the first time.
    pub acked_bytes: u64,
    /// Payload bytes that remain unacknowledged.
    pub inflight_bytes: u64,
    /// Payload bytes that had been acknowledged before, plus `acked_bytes`: a position in the stream.
    pub acked_total: u64,
    /// Payload bytes sent for the first time so far: where the stream stands.
    pub sent_total: u64,
    /// From the sending of the packet that it answers to its arrival.
    pub rtt: Option<Picos>,
    /// It echoes a congestion mark.
    pub marked: bool,
    /// Records of the links on the packet's path, if it collected any.
    pub telemetry: Option<&'a Telemetry>,
}

/// Congestion control of one queue pair.
///
/// The sender asks [`rate_bps`](CongestionControl::rate_bps) before each packet and spaces packets accordingly; it stops
/// when [`window_bytes`](CongestionControl::window_bytes) are unacknowledged. It calls the other methods as things happen, with
/// the model time, which never goes backwards. A controller reads no clock and shares no state, so that runs repeat. Use only
/// `+ - * /` and comparisons on floats: those are the same on every machine.
pub trait CongestionControl: fmt::Debug + Send {
    /// Its name, as in lab files.
    fn name(&self) -> &'static str;

    /// The rate at which the queue pair may send now, in bits per second of whole packets (payload and headers).
    fn rate_bps(&self) -> u64;

    /// How many payload bytes may be unacknowledged; `None`: any number. A packet is sent while fewer are.
    fn window_bytes(&self) -> Option<u64> {
        None
    }

    /// The signals that it acts on, each of which is enough by itself. A lab is refused before it runs if no flow gets one, and
    /// warned of if some do not. Empty: it needs none. UC, UD and READ responses have no acknowledgements.
    fn signals(&self) -> &'static [Signal] {
        &[]
    }

    /// What data packets collect on their path; `None`: nothing. Asked once, when the queue pair is created. The bytes count on
    /// links, in buffers and in pacing.
    fn telemetry_format(&self) -> Option<TelemetryFormat> {
        None
    }

    /// A data packet of so many bytes, headers included, begins to leave; repetitions too.
    fn sent(&mut self, now: Picos, packet_bytes: u32) {
        let _ = (now, packet_bytes);
    }

    /// An acknowledgement arrived.
    fn acknowledged(&mut self, now: Picos, ack: &Ack<'_>) {
        let _ = (now, ack);
    }

    /// A congestion notification packet arrived.
    fn notified(&mut self, now: Picos) {
        let _ = now;
    }

    /// The far end missed a packet (NAK, sequence error).
    fn missed(&mut self, now: Picos) {
        let _ = now;
    }

    /// Nothing was acknowledged for the length of the timeout.
    fn timed_out(&mut self, now: Picos) {
        let _ = now;
    }

    /// When [`expire`](CongestionControl::expire) is to be called; [`Picos::NEVER`] if at no time. Asked again after every call.
    fn next_deadline(&self) -> Picos {
        Picos::NEVER
    }

    /// The time of the deadline has come.
    fn expire(&mut self, now: Picos) {
        let _ = now;
    }
}

type Make = dyn Fn(&Context) -> Box<dyn CongestionControl> + Send + Sync;

/// Makes a controller for each queue pair.
#[derive(Clone)]
pub struct Factory(Arc<Make>);

impl Factory {
    /// A factory around a function; the way in for controllers of other crates.
    pub fn new(make: impl Fn(&Context) -> Box<dyn CongestionControl> + Send + Sync + 'static) -> Factory {
        Factory(Arc::new(make))
    }

    /// A controller for one queue pair.
    pub fn make(&self, context: &Context) -> Box<dyn CongestionControl> {
        (self.0)(context)
    }

    /// Signals that its controllers act on: [`CongestionControl::signals`].
    pub fn signals(&self) -> &'static [Signal] {
        self.make(&Context::NOMINAL).signals()
    }

    /// What data packets of its controllers collect: [`CongestionControl::telemetry_format`].
    pub fn telemetry_format(&self) -> Option<TelemetryFormat> {
        self.make(&Context::NOMINAL).telemetry_format()
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Factory")
    }
}
