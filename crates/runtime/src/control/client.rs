//! A client of the control socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::address::ControlAddress;
use super::pfc::PfcPort;
use super::protocol::{
    ConfigApplyReply, CountersReply, ErrorReply, MacControlFrame, Operation, PingReply, VERSION,
    WatermarkKind, WatermarkPart, to_value,
};
use super::tables::{AddressFamily, Interfaces, MacEntry, Neighbour, RouteEntry};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{EventReport, LoadBalancingReport, Taint, WatchdogReport};

/// Longest wait for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Length of the longest accepted response in bytes. The counters of a switch with 512 ports need much less.
const RESPONSE_BYTES_MAX: u64 = 256 << 20;

/// A connection to a running switch. Each method sends one request and waits for the response, at most 10 s.
#[derive(Debug)]
pub struct Client {
    address: ControlAddress,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the control socket of a running switch.
    ///
    /// # Errors
    /// Returns an error if no process listens at the address, or if the process belongs to another user.
    pub fn connect(address: &ControlAddress) -> Result<Client, Failure> {
        let connect = || {
            let stream = address.connect()?;
            stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
            stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
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

    /// Returns the version of xoff and the process id of the switch.
    ///
    /// # Errors
    /// Returns an error if the connection broke, no valid response came within 10 s, or the switch refused
    /// the request.
    pub fn ping(&mut self) -> Result<PingReply, Failure> {
        self.request(&Operation::Ping {})
    }

    /// Returns the counters, watermarks and pause states of the switch. The watermarks have the
    /// kind [`WatermarkKind::User`].
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn counters(&mut self) -> Result<CountersReply, Failure> {
        self.request(&Operation::Counters {})
    }

    /// Returns the current configuration in the form of `config_db.json`, including computed fields.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn config(&mut self) -> Result<Value, Failure> {
        self.request(&Operation::ConfigGet {})
    }

    /// Applies a configuration, completely or not at all. With `dry_run`, the switch only reports
    /// the changes.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]). The
    /// switch refuses an invalid configuration completely. Without `force` and `dry_run`, it also refuses a
    /// change that loses lossless frames.
    pub fn apply_config(
        &mut self,
        config: Value,
        dry_run: bool,
        force: bool,
    ) -> Result<ConfigApplyReply, Failure> {
        self.request(&Operation::ConfigApply {
            config,
            dry_run,
            force,
        })
    }

    /// Returns the same reply as [`Client::counters`], but with watermarks of the kind `kind` instead
    /// of [`WatermarkKind::User`].
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn watermarks(&mut self, kind: WatermarkKind) -> Result<CountersReply, Failure> {
        self.request(&Operation::Watermarks { kind })
    }

    /// Resets the selected watermarks of one kind to the present use.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn clear_watermarks(&mut self, kind: WatermarkKind, part: WatermarkPart) -> Result<(), Failure> {
        self.request(&Operation::ClearWatermarkCommand { kind, part })
    }

    /// Returns the buffer tables of the configuration, as an object of tables. With `running`, the tables
    /// include computed fields.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn buffers(&mut self, running: bool) -> Result<Value, Failure> {
        self.request(&Operation::Buffers { running })
    }

    /// Returns the taints of the run so far. A taint is a reason for which the run proves nothing.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn taints(&mut self) -> Result<Vec<Taint>, Failure> {
        self.request(&Operation::Taints {})
    }

    /// Sends a MAC control frame from the port `port`. `frame` has two hexadecimal digits for each byte, and
    /// no FCS.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn send_mac_control(&mut self, port: &str, frame: &str) -> Result<(), Failure> {
        self.request(&Operation::SendMacControl {
            port: port.to_owned(),
            frame: frame.to_owned(),
        })
    }

    /// Returns the latest MAC control frames that the port `port` received, oldest first.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn mac_control(&mut self, port: &str) -> Result<Vec<MacControlFrame>, Failure> {
        self.request(&Operation::MacControl {
            port: port.to_owned(),
        })
    }

    /// Returns the learned MAC addresses, sorted by VLAN and address.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn mac_table(&mut self) -> Result<Vec<MacEntry>, Failure> {
        self.request(&Operation::MacTable {})
    }

    /// Returns the neighbours of the router, sorted by interface and address.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn neighbours(&mut self) -> Result<Vec<Neighbour>, Failure> {
        self.request(&Operation::Neighbours {})
    }

    /// Returns the routes of an address family, sorted by prefix. Static routes that are not in use
    /// are included.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn routes(&mut self, family: AddressFamily) -> Result<Vec<RouteEntry>, Failure> {
        self.request(&Operation::Routes { family })
    }

    /// Returns the ports, LAGs and router interfaces of the switch.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn interfaces(&mut self) -> Result<Interfaces, Failure> {
        self.request(&Operation::Interfaces {})
    }

    /// Returns the settings, states and statistics of the PFC watchdog. Returns `None` if the watchdog
    /// watches no queue.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn watchdog(&mut self) -> Result<Option<WatchdogReport>, Failure> {
        self.request(&Operation::Watchdog {})
    }

    /// Returns the load balancing groups, their members and the latest flow moves. Returns `None` if the
    /// switch has no group and counts no reordering.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn load_balancing(&mut self) -> Result<Option<LoadBalancingReport>, Failure> {
        self.request(&Operation::LoadBalancing {})
    }

    /// Clears the statistics of the PFC watchdog. Present storms continue.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn clear_watchdog(&mut self) -> Result<(), Failure> {
        self.request(&Operation::ClearWatchdog {})
    }

    /// Returns the events of the switch since its start, oldest first, at most the first 8192.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn events(&mut self) -> Result<Vec<EventReport>, Failure> {
        self.request(&Operation::Events {})
    }

    /// Returns the PFC state of each port, and its PFC counters since the last [`Client::clear_pfc`].
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn pfc(&mut self) -> Result<Vec<PfcPort>, Failure> {
        self.request(&Operation::Pfc {})
    }

    /// Clears the counters that [`Client::pfc`] returns, for all clients. Other counters are not changed.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::ping`]).
    pub fn clear_pfc(&mut self) -> Result<(), Failure> {
        self.request(&Operation::ClearPfcCommand {})
    }

    /// Sends a request and returns its result.
    fn request<T: DeserializeOwned>(&mut self, op: &Operation) -> Result<T, Failure> {
        let response = self.send_and_receive(op).map_err(|error| {
            Failure::environment("the running switch did not answer")
                .at(self.address.to_string())
                .because(error)
                .fix("check that its process still runs")
        })?;
        self.parse_response(response)
    }

    fn send_and_receive(&mut self, op: &Operation) -> std::io::Result<Vec<u8>> {
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

    fn parse_response<T: DeserializeOwned>(&self, response: Vec<u8>) -> Result<T, Failure> {
        let unexpected = |reason: &dyn std::fmt::Display| {
            Failure::environment("the response of the running switch has an unknown form")
                .at(self.address.to_string())
                .because(reason)
                .fix("use the version of xoff that runs the switch")
        };
        let mut object: Map<String, Value> = serde_json::from_slice(&response).map_err(|e| unexpected(&e))?;
        if let Some(error) = object.shift_remove("error") {
            let reply: ErrorReply = serde_json::from_value(error).map_err(|e| unexpected(&e))?;
            return Err(reply.into());
        }
        let result = object
            .shift_remove("result")
            .ok_or_else(|| unexpected(&"the response has neither a result nor an error"))?;
        serde_json::from_value(result).map_err(|e| unexpected(&e))
    }
}
