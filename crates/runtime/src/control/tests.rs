use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use xoff_telemetry::failure::Exit;

/// A switch with fixed answers.
#[derive(Default)]
struct FakeSwitch {
    cleared: AtomicUsize,
}

impl ControlTarget for FakeSwitch {
    fn snapshot(&self) -> Option<SwitchSnapshot> {
        Some(xoff_telemetry::samples::sample_snapshot())
    }
    fn config(&self) -> Value {
        json!({"PORT": {"Ethernet0": {"speed": "1000"}}})
    }
    fn apply_config(&self, config: Value, dry_run: bool, force: bool) -> Result<ConfigApplyReply, Failure> {
        if config["PORT"]["Ethernet0"]["speed"] != "10000" {
            return Err(Failure::configuration("speed out of range")
                .at("PORT|Ethernet0|speed")
                .fix("1 to 1600000"));
        }
        Ok(ConfigApplyReply {
            changes: vec![format!("dry {dry_run}")],
            warnings: vec![],
            losses: if force { vec!["forced".to_owned()] } else { vec![] },
            moves: vec![],
        })
    }
    fn routes(&self, family: AddressFamily) -> Result<Vec<RouteEntry>, Failure> {
        let hop = RouteHop {
            address: Some([10, 0, 0, 1].into()),
            interface: "Ethernet0".to_owned(),
            weight: 2,
            active: true,
        };
        Ok(match family {
            AddressFamily::Ipv4 => vec![RouteEntry {
                prefix: "0.0.0.0/0".to_owned(),
                protocol: "static".to_owned(),
                distance: 1,
                selected: true,
                blackhole: false,
                next_hops: vec![hop],
                age_s: 12,
            }],
            AddressFamily::Ipv6 => vec![],
        })
    }
    fn clear_watermarks(&self, kind: WatermarkKind, part: WatermarkPart) {
        assert_eq!((kind, part), (WatermarkKind::Persistent, WatermarkPart::Queue));
        self.cleared.fetch_add(1, Ordering::Relaxed);
    }
    fn taints(&self) -> Vec<Taint> {
        vec![Taint {
            since_ns: 5,
            cause: "stall".to_owned(),
        }]
    }
}

/// A server for a [`FakeSwitch`] on a socket in a temporary folder.
struct TestServer {
    folder: tempfile::TempDir,
    target: Arc<FakeSwitch>,
    server: Option<ServerHandle>,
}

impl TestServer {
    fn start() -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let target = Arc::new(FakeSwitch::default());
        let endpoint = ControlListener::bind(&ControlAddress::Path(folder.path().join("api"))).unwrap();
        let server = serve_control(endpoint, Arc::clone(&target) as Arc<dyn ControlTarget>).unwrap();
        TestServer {
            folder,
            target,
            server: Some(server),
        }
    }
    fn path(&self) -> PathBuf {
        self.folder.path().join("api")
    }
    fn client(&self) -> Client {
        Client::connect(&ControlAddress::Path(self.path())).unwrap()
    }
    fn connect_raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).unwrap();
        // A defect then ends the test instead of blocking it.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

fn read_reply(stream: &mut impl BufRead) -> Value {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn each_request_reaches_the_target_and_returns_its_result() {
    let running = TestServer::start();
    let mut client = running.client();
    assert_eq!(client.ping().unwrap().pid, std::process::id());
    let counters = client.counters().unwrap();
    assert_eq!(
        (counters.schema.as_str(), counters.switch.ports[0].pfc_tx[3]),
        (COUNTERS_SCHEMA, 7)
    );
    assert_eq!(client.config().unwrap()["PORT"]["Ethernet0"]["speed"], "1000");
    let good = json!({"PORT": {"Ethernet0": {"speed": "10000"}}});
    assert_eq!(
        client.apply_config(good.clone(), true, false).unwrap().changes,
        ["dry true"]
    );
    let applied = client.apply_config(good, false, true).unwrap();
    assert_eq!(
        (applied.changes, applied.losses),
        (vec!["dry false".to_owned()], vec!["forced".to_owned()])
    );
    client
        .clear_watermarks(WatermarkKind::Persistent, WatermarkPart::Queue)
        .unwrap();
    assert_eq!(
        client
            .watermarks(WatermarkKind::Periodic)
            .unwrap()
            .switch
            .ports
            .len(),
        2
    );
    assert_eq!(running.target.cleared.load(Ordering::Relaxed), 1);
    assert_eq!(client.taints().unwrap()[0].cause, "stall");
}

#[test]
fn an_error_keeps_its_kind_place_and_fix() {
    let failure = TestServer::start()
        .client()
        .apply_config(json!({}), false, false)
        .unwrap_err();
    assert_eq!(failure.exit, Exit::Configuration);
    assert_eq!(failure.location.as_deref(), Some("PORT|Ethernet0|speed"));
    assert_eq!(failure.fix.as_deref(), Some("1 to 1600000"));
}

#[test]
fn unsupported_and_malformed_mac_control_requests_are_refused() {
    let running = TestServer::start();
    let failure = running
        .client()
        .send_mac_control("Ethernet0", "01 80 c2")
        .unwrap_err();
    assert_eq!(failure.exit, Exit::Environment);
    let failure = running.client().mac_control("Ethernet0").unwrap_err();
    assert!(failure.what.contains("record"), "{failure}");
    let failure = running
        .client()
        .send_mac_control("Ethernet0", "01 80 c")
        .unwrap_err();
    assert!(failure.what.contains("hexadecimal"), "{failure}");
}

#[test]
fn invalid_requests_get_an_error_and_the_connection_continues() {
    let running = TestServer::start();
    let mut stream = BufReader::new(running.connect_raw());
    let deep = format!("{}{}", "[".repeat(100_000), "\n");
    let garbage: [&[u8]; 9] = [
        b"hello\n",
        b"\xff\xfe\0\n",
        b"[]\n",
        b"42\n",
        deep.as_bytes(),
        b"{\"op\":\"counters\"}\n",
        b"{\"version\":2,\"op\":\"counters\"}\n",
        b"{\"version\":1,\"op\":\"reboot\"}\n",
        b"{\"version\":1,\"op\":\"counters\",\"extra\":1}\n",
    ];
    for line in garbage {
        stream.get_mut().write_all(line).unwrap();
        let reply = read_reply(&mut stream);
        assert_eq!(reply["error"]["code"], "bad_request", "{reply}");
        assert_eq!(reply["version"], 1);
    }
    stream
        .get_mut()
        .write_all(b"\n  \n{\"version\":1,\"id\":[7],\"op\":\"ping\"}\n")
        .unwrap();
    let reply = read_reply(&mut stream);
    assert_eq!((&reply["id"], reply["error"].is_null()), (&json!([7]), true));
}

#[test]
fn a_request_that_is_too_long_is_refused_and_the_connection_closed() {
    let running = TestServer::start();
    let mut stream = BufReader::new(running.connect_raw());
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..5 {
        // The server may close before the last chunk.
        let _ = stream.get_mut().write_all(&chunk);
    }
    let reply = read_reply(&mut stream);
    assert!(
        reply["error"]["what"].as_str().unwrap().contains("too long"),
        "{reply}"
    );
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).map_or(true, |count| count == 0));
    running.client().ping().unwrap();
}

#[test]
fn a_client_that_closes_its_sending_half_gets_its_response() {
    let running = TestServer::start();
    let mut stream = running.connect_raw();
    stream.write_all(b"{\"version\":1,\"op\":\"ping\"}").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("xoff_version") && text.ends_with('\n'), "{text}");
}

#[test]
fn clients_that_do_not_read_or_do_not_end_a_line_do_not_delay_others() {
    let running = TestServer::start();
    let mut non_reading = running.connect_raw();
    non_reading.set_nonblocking(true).unwrap();
    // Socket buffers cannot hold all these responses, so the server stops reading from this client.
    while non_reading
        .write(b"{\"version\":1,\"op\":\"counters\"}\n")
        .is_ok()
    {}
    let mut silent = running.connect_raw();
    silent.write_all(b"{\"version\":1,").unwrap();
    for _ in 0..20 {
        running.client().counters().unwrap();
    }
}

#[test]
fn pipelined_requests_are_all_answered_in_order() {
    let running = TestServer::start();
    let mut stream = BufReader::new(running.connect_raw());
    let mut all = String::new();
    for id in 0..100 {
        all.push_str(&format!("{{\"version\":1,\"id\":{id},\"op\":\"ping\"}}\n"));
    }
    stream.get_mut().write_all(all.as_bytes()).unwrap();
    for id in 0..100 {
        assert_eq!(read_reply(&mut stream)["id"], id);
    }
}

#[test]
fn an_additional_client_replaces_the_client_with_the_longest_silence() {
    let running = TestServer::start();
    let idle: Vec<UnixStream> = (0..CLIENTS_MAX).map(|_| running.connect_raw()).collect();
    // Each of these clients replaces another one.
    for _ in 0..3 {
        running.client().ping().unwrap();
    }
    let mut byte = [0];
    assert_eq!(
        (&idle[0]).read(&mut byte).unwrap(),
        0,
        "the longest silent client was closed"
    );
}

#[test]
fn the_socket_is_removed_with_the_server_and_an_active_socket_is_not_replaced() {
    let mut running = TestServer::start();
    let address = ControlAddress::Path(running.path());
    let failure = ControlListener::bind(&address).unwrap_err();
    assert_eq!(failure.exit, Exit::Environment);
    assert!(failure.what.contains("another process answers"), "{failure}");
    running.client().ping().unwrap();
    drop(running.server.take());
    assert!(!running.path().exists());
    let failure = Client::connect(&address).unwrap_err();
    assert!(failure.fix.unwrap().contains("--api"));
}

#[test]
fn a_stale_socket_is_replaced_but_another_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let stale = folder.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    ControlListener::bind(&ControlAddress::Path(stale)).unwrap();

    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let failure = ControlListener::bind(&ControlAddress::Path(file.clone())).unwrap_err();
    assert!(failure.what.contains("not a socket"), "{failure}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "precious");
}

#[test]
fn the_socket_of_a_later_server_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let address = ControlAddress::Path(folder.path().join("api"));
    let first = ControlListener::bind(&address).unwrap();
    std::fs::rename(folder.path().join("api"), folder.path().join("old")).unwrap();
    let second = ControlListener::bind(&address).unwrap();
    drop(first);
    assert!(second.path().unwrap().exists());
}

#[test]
fn invalid_socket_paths_are_reported_with_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    let missing =
        ControlListener::bind(&ControlAddress::Path(folder.path().join("no/such/folder"))).unwrap_err();
    assert!(missing.fix.unwrap().contains("folder"));
    let long = ControlListener::bind(&ControlAddress::Path(folder.path().join("x".repeat(200)))).unwrap_err();
    assert!(long.fix.unwrap().contains("shorter"));
}

#[test]
fn an_abstract_socket_address_is_served() {
    let name = format!("xoff-control-test-{}", std::process::id());
    let address = ControlAddress::Socket(SocketAddr::from_abstract_name(name).unwrap());
    let endpoint = ControlListener::bind(&address).unwrap();
    let _server = serve_control(endpoint, Arc::new(FakeSwitch::default())).unwrap();
    Client::connect(&address).unwrap().ping().unwrap();
}

#[test]
fn routes_of_each_family_are_returned_and_other_families_refused() {
    let running = TestServer::start();
    let mut client = running.client();
    let routes = client.routes(AddressFamily::Ipv4).unwrap();
    assert_eq!(
        (routes[0].prefix.as_str(), routes[0].next_hops[0].weight),
        ("0.0.0.0/0", 2)
    );
    assert_eq!(client.routes(AddressFamily::Ipv6).unwrap(), []);
    let refused = client.mac_table().unwrap_err();
    assert_eq!(refused.what, "this switch cannot show its MAC addresses");
    let mut raw = running.connect_raw();
    raw.write_all(b"{\"version\":1,\"op\":\"routes\",\"family\":\"ipx\"}\n")
        .unwrap();
    let mut line = String::new();
    BufReader::new(raw).read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["error"]["code"], "bad_request");
}
