//! The client's side of a control socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::address::Address;
use super::pfc::PfcPort;
use super::protocol::{
    Applied, Counters, ErrorReply, Hello, MacControlFrame, Op, VERSION, WatermarkKind, WatermarkPart,
    to_value,
};
use super::tables::{Family, Interfaces, MacEntry, Neighbour, RouteEntry};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{EventReport, LoadBalancingReport, Taint, WatchdogReport};

/// A switch that says nothing for this long is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Longest response read; the counters of a switch with 512 ports stay far below it.
const RESPONSE_BYTES_MAX: u64 = 256 << 20;

/// A connection to a running switch.
#[derive(Debug)]
pub struct Client {
    address: Address,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there, or a process of another user.
    pub fn connect(address: &Address) -> Result<Client, Failure> {
        let connect = || {
            let stream = address.connect()?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            stream.set_write_timeout(Some(SILENCE_MAX))?;
            Ok(stream)
        };
        let stream = connect().map_err(|error: std::io::Error| {
            let fix = match error.kind() {
                ErrorKind::PermissionDenied => "run this as the user who started the switch, or as root",
                _ => "start a switch with `xoff switch run ... --api PATH` and give the same PATH here",
            };
            Failure::environment("no running switch answers")
                .at(address.to_string())
                .because(error)
                .fix(fix)
        })?;
        Ok(Client {
            address: address.clone(),
            stream: BufReader::new(stream),
        })
    }

    /// Who answers.
    ///
    /// # Errors
    /// As all requests: the connection broke, or the switch refused.
    pub fn ping(&mut self) -> Result<Hello, Failure> {
        self.request(&Op::Ping {})
    }

    /// Counters, watermarks and pause states.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn counters(&mut self) -> Result<Counters, Failure> {
        self.request(&Op::Counters {})
    }

    /// The configuration in force.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn config(&mut self) -> Result<Value, Failure> {
        self.request(&Op::ConfigGet {})
    }

    /// Puts a configuration in force, or with `dry_run` says what it would change.
    ///
    /// # Errors
    /// See [`Client::ping`]; an invalid configuration is refused whole, and without `force` one that must lose lossless frames.
    pub fn apply(&mut self, config: Value, dry_run: bool, force: bool) -> Result<Applied, Failure> {
        self.request(&Op::ConfigApply {
            config,
            dry_run,
            force,
        })
    }

    /// Counters with the watermarks of a kind.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn watermarks(&mut self, kind: WatermarkKind) -> Result<Counters, Failure> {
        self.request(&Op::Watermarks { kind })
    }

    /// Starts watermarks of a kind again.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn clear_watermarks(&mut self, kind: WatermarkKind, part: WatermarkPart) -> Result<(), Failure> {
        self.request(&Op::ClearWatermarks { kind, part })
    }

    /// The tables of the configuration that concern buffers, as written or as completed.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn buffers(&mut self, running: bool) -> Result<Value, Failure> {
        self.request(&Op::Buffers { running })
    }

    /// What has tainted the run so far.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn taints(&mut self) -> Result<Vec<Taint>, Failure> {
        self.request(&Op::Taints {})
    }

    /// Sends a MAC control frame (hexadecimal digits, without FCS) out of a port.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn send_mac_control(&mut self, port: &str, frame: &str) -> Result<(), Failure> {
        self.request(&Op::SendMacControl {
            port: port.to_owned(),
            frame: frame.to_owned(),
        })
    }

    /// The MAC control frames a port received last, oldest first.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn mac_control(&mut self, port: &str) -> Result<Vec<MacControlFrame>, Failure> {
        self.request(&Op::MacControl {
            port: port.to_owned(),
        })
    }

    /// The MAC addresses learnt.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn mac_table(&mut self) -> Result<Vec<MacEntry>, Failure> {
        self.request(&Op::MacTable {})
    }

    /// The router's neighbours.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn neighbours(&mut self) -> Result<Vec<Neighbour>, Failure> {
        self.request(&Op::Neighbours {})
    }

    /// The routes of a family.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn routes(&mut self, family: Family) -> Result<Vec<RouteEntry>, Failure> {
        self.request(&Op::Routes { family })
    }

    /// Ports, LAGs and router interfaces.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn interfaces(&mut self) -> Result<Interfaces, Failure> {
        self.request(&Op::Interfaces {})
    }

    /// The PFC watchdog; `None` where it watches nothing.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn watchdog(&mut self) -> Result<Option<WatchdogReport>, Failure> {
        self.request(&Op::Watchdog {})
    }

    /// Load balancing; `None` where there is nothing to choose.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn load_balancing(&mut self) -> Result<Option<LoadBalancingReport>, Failure> {
        self.request(&Op::LoadBalancing {})
    }

    /// Sets the watchdog's statistics back to zero.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn clear_watchdog(&mut self) -> Result<(), Failure> {
        self.request(&Op::ClearWatchdog {})
    }

    /// What the switch has told its operator, oldest first.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn events(&mut self) -> Result<Vec<EventReport>, Failure> {
        self.request(&Op::Events {})
    }

    /// Priority flow control of each port.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn pfc(&mut self) -> Result<Vec<PfcPort>, Failure> {
        self.request(&Op::Pfc {})
    }

    /// Lets the counters of [`Client::pfc`] begin anew.
    ///
    /// # Errors
    /// See [`Client::ping`].
    pub fn clear_pfc(&mut self) -> Result<(), Failure> {
        self.request(&Op::ClearPfc {})
    }

    fn request<T: DeserializeOwned>(&mut self, op: &Op) -> Result<T, Failure> {
        let response = self.exchange(op).map_err(|error| {
            Failure::environment("the running switch did not answer")
                .at(self.address.to_string())
                .because(error)
                .fix("see whether its process still runs")
        })?;
        self.understand(response)
    }

    fn exchange(&mut self, op: &Op) -> std::io::Result<Vec<u8>> {
        let mut request = to_value(op);
        request["version"] = VERSION.into();
        let mut line = request.to_string().into_bytes();
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        let mut response = Vec::new();
        self.stream
            .by_ref()
            .take(RESPONSE_BYTES_MAX)
            .read_until(b'\n', &mut response)?;
        if response.last() != Some(&b'\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(response)
    }

    fn understand<T: DeserializeOwned>(&self, response: Vec<u8>) -> Result<T, Failure> {
        let strange = |why: &dyn std::fmt::Display| {
            Failure::environment("the running switch answers in another language")
                .at(self.address.to_string())
                .because(why)
                .fix("use the version of xoff that runs the switch")
        };
        let mut object: Map<String, Value> = serde_json::from_slice(&response).map_err(|e| strange(&e))?;
        if let Some(error) = object.shift_remove("error") {
            let reply: ErrorReply = serde_json::from_value(error).map_err(|e| strange(&e))?;
            return Err(reply.into());
        }
        let result = object
            .shift_remove("result")
            .ok_or_else(|| strange(&"neither result nor error"))?;
        serde_json::from_value(result).map_err(|e| strange(&e))
    }
}
