//! A client of the control API.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use axum::http::{Method, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use crate::address::ControlAddress;
use crate::error::ErrorReply;
use crate::pfc::PfcPort;
use crate::resources::{
    ClearRequest, ConfigApplyReply, CountersReply, MacControlFrame, MacControlRequest, ServerInfo,
    WatermarkKind, WatermarkPart,
};
use crate::tables::{AddressFamily, Interfaces, MacEntry, Neighbour, RouteEntry};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{EventReport, LldpReport, LoadBalancingReport, Taint, WatchdogReport};

/// Longest wait for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Length of the longest accepted response in bytes. The counters of a switch with 512 ports need much less.
const RESPONSE_BYTES_MAX: usize = 256 << 20;
/// Wait time before a request that the server has refused with the status 429 is repeated.
const RETRY_WAIT: Duration = Duration::from_millis(50);

/// A connection to the server of a running switch. Each method sends one request and waits for the response, at
/// most 10 s. The client connects again if the server has closed an idle connection.
#[derive(Debug)]
pub struct Client {
    address: ControlAddress,
    /// Path of the switch: `/v1` for the only switch.
    prefix: String,
    runtime: Runtime,
    connection: SendRequest<Full<Bytes>>,
}

/// A response: its status and its body.
type RawResponse = (StatusCode, Bytes);
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Client {
    /// Connects to the control API of a running switch. The requests concern the only switch of the server.
    ///
    /// # Errors
    /// Returns an error if no process listens at the address, or if the process belongs to another user.
    pub fn connect(address: &ControlAddress) -> Result<Client, Failure> {
        let failure = |error: std::io::Error| {
            let fix = match error.kind() {
                ErrorKind::PermissionDenied => "run this as the user who started the switch, or as root",
                _ => "start a switch with `xoff switch run ... --api PATH` and give the same PATH here",
            };
            Failure::environment("no running switch answers")
                .at(address.to_string())
                .because(error)
                .fix(fix)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build();
        let runtime = runtime.map_err(failure)?;
        let connection = open_connection(&runtime, address).map_err(failure)?;
        Ok(Client {
            address: address.clone(),
            prefix: "/v1".to_owned(),
            runtime,
            connection,
        })
    }

    /// Selects the switch that the requests concern, by its name.
    #[must_use]
    pub fn for_switch(self, name: &str) -> Client {
        Client {
            prefix: format!("/v1/switches/{}", encode_segment(name)),
            ..self
        }
    }

    /// Returns the version of xoff, the process id of the server and the names of its switches.
    ///
    /// # Errors
    /// Returns an error if the connection broke, no valid response came within 10 s, or the switch refused
    /// the request.
    pub fn server(&mut self) -> Result<ServerInfo, Failure> {
        self.request(Method::GET, "/v1".to_owned(), None)
    }

    /// Returns the counters, watermarks and pause states of the switch. The watermarks have the
    /// kind [`WatermarkKind::User`].
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn counters(&mut self) -> Result<CountersReply, Failure> {
        self.get("counters")
    }

    /// Returns the current configuration in the form of `config_db.json`, including computed fields.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn config(&mut self) -> Result<Value, Failure> {
        self.get("config")
    }

    /// Returns the fields of the current configuration that were written, in the form of `config_db.json`.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn written_config(&mut self) -> Result<Value, Failure> {
        self.get("config?written=true")
    }

    /// Applies a configuration, completely or not at all. With `dry_run`, the switch only reports
    /// the changes.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]). The
    /// switch refuses an invalid configuration completely. Without `force` and `dry_run`, it also refuses a
    /// change that loses lossless frames.
    pub fn apply_config(
        &mut self,
        config: Value,
        dry_run: bool,
        force: bool,
    ) -> Result<ConfigApplyReply, Failure> {
        let path = self.path(&format!("config?dry_run={dry_run}&force={force}"));
        self.request(Method::PUT, path, Some(to_body(&config)))
    }

    /// Changes the configuration by a JSON merge patch (RFC 7386), completely or not at all. `null` removes a
    /// field. With `dry_run`, the switch only reports the changes.
    ///
    /// # Errors
    /// Returns the same errors as [`Client::apply_config`].
    pub fn patch_config(
        &mut self,
        patch: &Value,
        dry_run: bool,
        force: bool,
    ) -> Result<ConfigApplyReply, Failure> {
        let path = self.path(&format!("config?dry_run={dry_run}&force={force}"));
        self.request(Method::PATCH, path, Some(to_body(patch)))
    }

    /// Returns the same reply as [`Client::counters`], but with watermarks of the kind `kind` instead
    /// of [`WatermarkKind::User`].
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn watermarks(&mut self, kind: WatermarkKind) -> Result<CountersReply, Failure> {
        self.get(&format!("counters?watermarks={}", kind.name()))
    }

    /// Resets the selected watermarks of one kind to the present use.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn clear_watermarks(&mut self, kind: WatermarkKind, part: WatermarkPart) -> Result<(), Failure> {
        self.clear(&ClearRequest::Watermarks { kind, part })
    }

    /// Returns the buffer tables of the configuration, as an object of tables. With `running`, the tables
    /// include computed fields.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn buffers(&mut self, running: bool) -> Result<Value, Failure> {
        self.get(&format!("buffers?running={running}"))
    }

    /// Returns the taints of the run so far. A taint is a reason for which the run proves nothing.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn taints(&mut self) -> Result<Vec<Taint>, Failure> {
        self.get("taints")
    }

    /// Sends a MAC control frame from the port `port`. `frame` has two hexadecimal digits for each byte, and
    /// no FCS.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn send_mac_control(&mut self, port: &str, frame: &str) -> Result<(), Failure> {
        let path = self.path(&format!("ports/{}/mac-control", encode_segment(port)));
        let body = to_body(&MacControlRequest {
            frame: frame.to_owned(),
        });
        self.request(Method::POST, path, Some(body))
    }

    /// Returns the latest MAC control frames that the port `port` received, oldest first.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn mac_control(&mut self, port: &str) -> Result<Vec<MacControlFrame>, Failure> {
        self.get(&format!("ports/{}/mac-control", encode_segment(port)))
    }

    /// Returns the learned MAC addresses, sorted by VLAN and address.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn mac_table(&mut self) -> Result<Vec<MacEntry>, Failure> {
        self.get("mac-table")
    }

    /// Returns the neighbours of the router, sorted by interface and address.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn neighbours(&mut self) -> Result<Vec<Neighbour>, Failure> {
        self.get("neighbours")
    }

    /// Returns the LLDP neighbours of each port, and the results of the DCBX negotiation. `None`: LLDP is off.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn lldp(&mut self) -> Result<Option<LldpReport>, Failure> {
        self.get("lldp")
    }

    /// Returns the routes of an address family, sorted by prefix. Static routes that are not in use
    /// are included.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn routes(&mut self, family: AddressFamily) -> Result<Vec<RouteEntry>, Failure> {
        self.get(match family {
            AddressFamily::Ipv4 => "routes?family=ipv4",
            AddressFamily::Ipv6 => "routes?family=ipv6",
        })
    }

    /// Returns the ports, LAGs and router interfaces of the switch.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn interfaces(&mut self) -> Result<Interfaces, Failure> {
        self.get("interfaces")
    }

    /// Returns the settings, states and statistics of the PFC watchdog. Returns `None` if the watchdog
    /// watches no queue.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn watchdog(&mut self) -> Result<Option<WatchdogReport>, Failure> {
        self.get("watchdog")
    }

    /// Returns the load balancing groups, their members and the latest flow moves. Returns `None` if the
    /// switch has no group and counts no reordering.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn load_balancing(&mut self) -> Result<Option<LoadBalancingReport>, Failure> {
        self.get("load-balancing")
    }

    /// Clears the statistics of the PFC watchdog. Present storms continue.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn clear_watchdog(&mut self) -> Result<(), Failure> {
        self.clear(&ClearRequest::Watchdog {})
    }

    /// Returns the events of the switch since its start, oldest first, at most the first 8192.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn events(&mut self) -> Result<Vec<EventReport>, Failure> {
        self.get("events")
    }

    /// Returns the PFC state of each port, and its PFC counters since the last [`Client::clear_pfc`].
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn pfc(&mut self) -> Result<Vec<PfcPort>, Failure> {
        self.get("pfc")
    }

    /// Clears the counters that [`Client::pfc`] returns, for all clients. Other counters are not changed.
    ///
    /// # Errors
    /// Returns an error if the switch did not answer or refused the request (see [`Client::server`]).
    pub fn clear_pfc(&mut self) -> Result<(), Failure> {
        self.clear(&ClearRequest::Pfc {})
    }

    fn path(&self, resource: &str) -> String {
        format!("{}/{resource}", self.prefix)
    }

    fn get<T: DeserializeOwned>(&mut self, resource: &str) -> Result<T, Failure> {
        self.request(Method::GET, self.path(resource), None)
    }

    fn clear(&mut self, request: &ClearRequest) -> Result<(), Failure> {
        self.request(Method::POST, self.path("clear"), Some(to_body(request)))
    }

    /// Sends a request and returns its result.
    fn request<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: String,
        body: Option<Bytes>,
    ) -> Result<T, Failure> {
        let end = Instant::now() + RESPONSE_TIMEOUT;
        loop {
            let response = self.send_with_reconnect(&method, &path, body.as_ref(), end);
            let (status, body) = response.map_err(|error| {
                Failure::environment("the running switch did not answer")
                    .at(self.address.to_string())
                    .because(error)
                    .fix("check that its process still runs")
            })?;
            if status == StatusCode::TOO_MANY_REQUESTS && Instant::now() + RETRY_WAIT < end {
                std::thread::sleep(RETRY_WAIT);
                continue;
            }
            return self.parse_response(status, &body);
        }
    }

    /// Sends a request. If the server has closed the connection before, connects again.
    fn send_with_reconnect(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&Bytes>,
        end: Instant,
    ) -> Result<RawResponse, BoxError> {
        for _ in 0..2 {
            match self.send(method, path, body, end) {
                Ok(response) => return Ok(response),
                // A request that was not sent can be repeated. A read can always be repeated.
                Err(error) if error.is_canceled() || error.is_closed() || method.is_safe() => {
                    self.connection = open_connection(&self.runtime, &self.address)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.send(method, path, body, end)?)
    }

    fn send(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&Bytes>,
        end: Instant,
    ) -> Result<RawResponse, SendError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(body.cloned().unwrap_or_default()))
            .map_err(|error| SendError::Other(error.into()))?;
        let connection = &mut self.connection;
        let exchange = async {
            connection.ready().await.map_err(SendError::Connection)?;
            let response = connection
                .send_request(request)
                .await
                .map_err(SendError::Connection)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX)
                .collect()
                .await;
            Ok((status, body.map_err(SendError::Other)?.to_bytes()))
        };
        self.runtime.block_on(async {
            let timeout = tokio::time::timeout_at(end.into(), exchange).await;
            timeout.unwrap_or_else(|_| Err(SendError::Timeout))
        })
    }

    fn parse_response<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, Failure> {
        let unexpected = |reason: &dyn std::fmt::Display| {
            Failure::environment("the response of the running switch has an unknown form")
                .at(self.address.to_string())
                .because(reason)
                .fix("use the version of xoff that runs the switch")
        };
        if !status.is_success() {
            let reply: Result<ErrorReply, _> = serde_json::from_slice(body);
            return Err(reply.map_err(|_| unexpected(&status))?.into());
        }
        let body = if body.is_empty() { b"null" } else { body };
        serde_json::from_slice(body).map_err(|e| unexpected(&e))
    }
}

/// The reason for which a request got no response.
#[derive(Debug)]
enum SendError {
    Connection(hyper::Error),
    Timeout,
    Other(BoxError),
}

impl SendError {
    fn is_canceled(&self) -> bool {
        matches!(self, SendError::Connection(error) if error.is_canceled())
    }

    fn is_closed(&self) -> bool {
        matches!(self, SendError::Connection(error) if error.is_closed())
    }
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SendError::Connection(error) => write!(f, "{error}"),
            SendError::Timeout => write!(f, "no response within {} s", RESPONSE_TIMEOUT.as_secs()),
            SendError::Other(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SendError {}

fn open_connection(runtime: &Runtime, address: &ControlAddress) -> std::io::Result<SendRequest<Full<Bytes>>> {
    let stream = address.connect()?;
    stream.set_nonblocking(true)?;
    runtime.block_on(async {
        let stream = UnixStream::from_std(stream)?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(std::io::Error::other)?;
        // The task ends with the connection. Errors also reach the request.
        tokio::spawn(connection);
        Ok(sender)
    })
}

fn to_body(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value)
        .expect("requests have string keys only")
        .into()
}

/// Encodes a name as one segment of a path.
fn encode_segment(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
