//! Tests of the server and the client over real sockets.

mod access;
mod changes;
mod events;
mod fake_switch;
mod hostile;
mod http;
mod requests;
mod schema;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fake_switch::FakeSwitch;
use http::Response;

use crate::server::{Limits, start_server};
use crate::{
    Client, ControlAddress, ControlListener, ControlTarget, ServerHandle, ServerOptions, serve_control,
};

/// Longest wait of a test. A defect then ends the test instead of blocking it.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A server for fake switches on a socket in a temporary folder.
struct TestServer {
    folder: tempfile::TempDir,
    switch: Arc<FakeSwitch>,
    server: Option<ServerHandle>,
}

impl TestServer {
    fn start() -> TestServer {
        TestServer::start_with(&["sw0"], ServerOptions::default())
    }

    /// Starts a server with switches of these names.
    fn start_with(names: &[&str], options: ServerOptions) -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let listener = ControlListener::bind(&ControlAddress::Path(folder.path().join("api"))).unwrap();
        let switches: Vec<Arc<FakeSwitch>> = names.iter().map(|name| FakeSwitch::new(name)).collect();
        let targets = switches
            .iter()
            .map(|switch| Arc::clone(switch) as Arc<dyn ControlTarget>)
            .collect();
        let server = serve_control(listener, targets, options).unwrap();
        TestServer {
            folder,
            switch: Arc::clone(&switches[0]),
            server: Some(server),
        }
    }

    /// Starts a server with other limits.
    fn start_with_limits(limits: Limits) -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let listener = ControlListener::bind(&ControlAddress::Path(folder.path().join("api"))).unwrap();
        let switch = FakeSwitch::new("sw0");
        let target = Arc::clone(&switch) as Arc<dyn ControlTarget>;
        let options = ServerOptions::default();
        let server = start_server(listener, vec![target], options, limits, crate::routes::router);
        TestServer {
            folder,
            switch,
            server: Some(server.unwrap()),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("api")
    }

    fn handle(&self) -> &ServerHandle {
        self.server.as_ref().unwrap()
    }

    fn client(&self) -> Client {
        Client::connect(&ControlAddress::Path(self.path())).unwrap()
    }

    fn connect_raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream
    }

    /// Sends a request on a new connection and returns its response, which must match its schema.
    fn request(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Response {
        let mut stream = self.connect_raw();
        stream
            .write_all(http::request(method, path, headers, body).as_bytes())
            .unwrap();
        let response = http::read_response(&mut stream);
        schema::check_response(method, path, &response);
        response
    }

    fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], "")
    }
}

/// Waits until a condition holds.
fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is() {
        assert!(start.elapsed() < TEST_TIMEOUT, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}
