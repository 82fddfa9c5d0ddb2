//! A process without free file descriptors. The test is alone in its process, since it changes the limit of the
//! process.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use xoff_control::{
    Client, ConfigApplyReply, ControlAddress, ControlListener, ControlTarget, CurrentConfig, EventLog,
    NewConfig, ServerOptions, WatermarkKind, WatermarkPart, serve_control,
};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{SwitchSnapshot, Taint};

/// A switch without ports.
struct EmptySwitch;

impl ControlTarget for EmptySwitch {
    fn name(&self) -> String {
        "empty".to_owned()
    }
    fn port_names(&self) -> Vec<String> {
        Vec::new()
    }
    fn event_log(&self) -> Arc<EventLog> {
        Arc::default()
    }
    fn snapshot(&self) -> Option<SwitchSnapshot> {
        None
    }
    fn config(&self) -> CurrentConfig {
        CurrentConfig::default()
    }
    fn config_generation(&self) -> u64 {
        0
    }
    fn apply_config(&self, _: NewConfig, _: bool, _: bool) -> Result<ConfigApplyReply, Failure> {
        Ok(ConfigApplyReply::default())
    }
    fn clear_watermarks(&self, _: WatermarkKind, _: WatermarkPart) {}
    fn taints(&self) -> Vec<Taint> {
        Vec::new()
    }
}

#[test]
fn a_server_without_descriptors_pauses_and_then_serves_all_clients() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("api");
    let address = ControlAddress::Path(path.clone());
    let listener = ControlListener::bind(&address).unwrap();
    let server = serve_control(listener, vec![Arc::new(EmptySwitch)], ServerOptions::default()).unwrap();
    Client::connect(&address).unwrap().server().unwrap();

    // The sockets of the clients exist before the limit, and need no further descriptor to connect.
    let sockets: Vec<_> = (0..20)
        .map(|_| socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap())
        .collect();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let highest = sockets.iter().map(AsRawFd::as_raw_fd).max().unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, highest as u64 + 1, hard).unwrap();
    let start = Instant::now();
    for socket in &sockets {
        connect(socket.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    }
    while server.report().accept_errors < 3 {
        assert!(start.elapsed() < Duration::from_secs(60), "no failure to accept");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Each failure is followed by a pause of 100 ms, however long the test takes.
    let errors = u128::from(server.report().accept_errors);
    assert!(
        errors <= start.elapsed().as_millis() / 100 + 2,
        "{errors} failures in {:?}",
        start.elapsed()
    );

    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    Client::connect(&address).unwrap().server().unwrap();
    while server.report().connections < 22 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "clients are left: {:?}",
            server.report()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
