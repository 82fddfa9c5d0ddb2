use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::TestServer;
use super::fake_switch::FakeSwitch;
use crate::{
    AddressFamily, COUNTERS_SCHEMA, Client, ControlAddress, ControlListener, ServerOptions, WatermarkKind,
    WatermarkPart, serve_control,
};
use xoff_telemetry::failure::Exit;

#[test]
fn each_request_of_the_client_reaches_the_switch_and_returns_its_result() {
    let running = TestServer::start();
    let mut client = running.client();
    let server = client.server().unwrap();
    assert_eq!(
        (server.pid, server.switches),
        (std::process::id(), vec!["sw0".to_owned()])
    );
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
        (applied.changes, applied.losses, applied.generation),
        (vec!["dry false".to_owned()], vec!["forced".to_owned()], 2)
    );
    client
        .clear_watermarks(WatermarkKind::Persistent, WatermarkPart::Queue)
        .unwrap();
    client.clear_watchdog().unwrap();
    client.clear_pfc().unwrap();
    assert_eq!(running.switch.cleared.load(Ordering::Relaxed), 3);
    assert_eq!(
        client
            .watermarks(WatermarkKind::Periodic)
            .unwrap()
            .switch
            .ports
            .len(),
        2
    );
    assert_eq!(client.taints().unwrap()[0].cause, "stall");
    assert_eq!(
        client.routes(AddressFamily::Ipv4).unwrap()[0].next_hops[0].weight,
        2
    );
    assert_eq!(client.routes(AddressFamily::Ipv6).unwrap(), []);
    assert_eq!(client.mac_table().unwrap()[0].vlan, 10);
    assert_eq!(client.neighbours().unwrap()[0].held_frames, 1);
    assert_eq!(client.interfaces().unwrap().lags[0].name, "PortChannel1");
    assert_eq!(
        client.buffers(true).unwrap()["BUFFER_POOL"]["pool"]["running"],
        "true"
    );
    assert!(client.watchdog().unwrap().is_some());
    assert!(client.load_balancing().unwrap().is_none());
    assert_eq!(client.lldp().unwrap(), None);
    assert_eq!(client.events().unwrap(), []);
    assert_eq!(client.pfc().unwrap()[0].tx[3], 7);
    assert_eq!(client.mac_control("Ethernet0").unwrap()[0].at_ns, 7);
    let frame = "01:80:c2:00:00:01 02-00-00-00-00-01 8808 0001 ffff";
    client.send_mac_control("Ethernet0", frame).unwrap();
}

#[test]
fn an_error_keeps_its_kind_location_and_fix() {
    let running = TestServer::start();
    let mut client = running.client();
    let wrong = json!({"PORT": {"Ethernet0": {"speed": "fast"}}});
    let failure = client.apply_config(wrong, false, false).unwrap_err();
    assert_eq!(failure.exit, Exit::Configuration);
    assert_eq!(failure.location.as_deref(), Some("PORT|Ethernet0|speed"));
    assert_eq!(failure.fix.as_deref(), Some("1 to 1600000"));
    for (frame, word) in [("01 80 c2", "MAC control"), ("01 80 c", "hexadecimal")] {
        let failure = client.send_mac_control("Ethernet0", frame).unwrap_err();
        assert!(
            failure.what.contains(word) && failure.exit == Exit::Usage,
            "{failure}"
        );
    }
    let failure = client.mac_control("Ethernet9").unwrap_err();
    assert!(
        failure.what.contains("Ethernet9") && failure.exit == Exit::Usage,
        "{failure}"
    );
}

#[test]
fn wrong_requests_get_an_error_as_json() {
    let running = TestServer::start();
    let deep = "[".repeat(100_000);
    for (method, path, headers, body, status, code) in [
        ("GET", "/", &[][..], "", 404, "not_found"),
        ("GET", "/v2/ports", &[], "", 404, "not_found"),
        ("GET", "/v1/ports/", &[], "", 404, "not_found"),
        ("GET", "/v1/nothing", &[], "", 404, "not_found"),
        ("GET", "/v1/ports/Ethernet9", &[], "", 404, "not_found"),
        ("GET", "/v1/switches/sw9/ports", &[], "", 404, "not_found"),
        ("GET", "/v1/switches/sw9", &[], "", 404, "not_found"),
        ("DELETE", "/v1/ports", &[], "", 405, "method_not_allowed"),
        ("GET", "/v1/routes?family=ipx", &[], "", 400, "bad_request"),
        ("GET", "/v1/counters?watermark=user", &[], "", 400, "bad_request"),
        ("GET", "/v1/buffers?running=maybe", &[], "", 400, "bad_request"),
        ("PUT", "/v1/config?dry=true", &[], "{}", 400, "bad_request"),
        ("PUT", "/v1/config", &[], "{", 400, "bad_request"),
        ("PUT", "/v1/config", &[], &deep, 400, "bad_request"),
        ("PUT", "/v1/config", &["If-Match: 7"], "{}", 400, "bad_request"),
        (
            "PUT",
            "/v1/config",
            &["Content-Type: text/plain"],
            "{}",
            415,
            "unsupported_media_type",
        ),
        (
            "PATCH",
            "/v1/config",
            &["If-Match: \"7\""],
            "{}",
            412,
            "precondition_failed",
        ),
        ("POST", "/v1/clear", &[], "{}", 400, "bad_request"),
        (
            "POST",
            "/v1/clear",
            &[],
            "{\"what\": \"everything\"}",
            400,
            "bad_request",
        ),
        (
            "POST",
            "/v1/clear",
            &[],
            "{\"what\": \"pfc\", \"more\": 1}",
            400,
            "bad_request",
        ),
        (
            "POST",
            "/v1/ports/Ethernet0/mac-control",
            &[],
            "{\"frame\": \"0\"}",
            400,
            "bad_request",
        ),
    ] {
        let response = running.request(method, path, headers, body);
        assert_eq!(
            (response.status, response.code().as_str()),
            (status, code),
            "{method} {path} {body:.40}"
        );
    }
    assert_eq!(
        running.switch.generation.load(Ordering::Relaxed),
        1,
        "nothing was changed"
    );
}

#[test]
fn a_body_that_is_too_long_is_refused_and_the_server_continues() {
    let running = TestServer::start();
    let headers = ["Content-Type: application/json", "Content-Length: 4194305"];
    let claimed = running.request("PUT", "/v1/config", &headers, "");
    assert_eq!((claimed.status, claimed.code().as_str()), (413, "too_large"));
    running.client().server().unwrap();
}

#[test]
fn a_server_with_several_switches_needs_the_name_of_one() {
    let running = TestServer::start_with(&["leaf0", "leaf1"], ServerOptions::default());
    let refused = running.get("/v1/ports");
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "switch_not_named")
    );
    let why = refused.json()["why"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("leaf0") && why.contains("leaf1"), "{why}");
    let failure = running.client().counters().unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    for name in ["leaf0", "leaf1"] {
        assert_eq!(
            running.client().for_switch(name).counters().unwrap().switch.name,
            name
        );
        assert_eq!(running.get(&format!("/v1/switches/{name}")).json()["name"], name);
    }
    let failure = running.client().for_switch("spine/0 %").counters().unwrap_err();
    assert!(
        failure.what.contains("spine/0 %") && failure.exit == Exit::Usage,
        "{failure}"
    );
    assert_eq!(failure.fix.as_deref(), Some("the switches are leaf0, leaf1"));
    let misspelt = running.client().for_switch("laef1").counters().unwrap_err();
    assert_eq!(
        misspelt.fix.as_deref(),
        Some("did you mean `leaf1`? (the switches are leaf0, leaf1)")
    );
    assert_eq!(
        running.get("/v1/switches").json().as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn a_client_connects_again_when_the_server_has_closed_its_connection() {
    let limits = crate::server::Limits {
        connections: 1,
        ..crate::server::Limits::default()
    };
    let running = TestServer::start_with_limits(limits);
    let mut client = running.client();
    client.server().unwrap();
    // The second client takes the only place.
    running.client().server().unwrap();
    client.server().unwrap();
    client.apply_config(json!({}), false, false).unwrap();
}

#[test]
fn a_head_request_has_no_body() {
    let running = TestServer::start();
    let mut stream = running.connect_raw();
    stream
        .write_all(b"HEAD /v1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\n"),
        "{text}"
    );
}

#[test]
fn the_socket_is_removed_with_the_server_and_an_active_socket_is_not_replaced() {
    let mut running = TestServer::start();
    let address = ControlAddress::Path(running.path());
    let failure = ControlListener::bind(&address).unwrap_err();
    assert_eq!(failure.exit, Exit::Environment);
    assert!(failure.what.contains("another process answers"), "{failure}");
    running.client().server().unwrap();
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
    let listener = ControlListener::bind(&address).unwrap();
    let target = FakeSwitch::new("sw0") as Arc<_>;
    let _server = serve_control(listener, vec![target], ServerOptions::default()).unwrap();
    Client::connect(&address).unwrap().server().unwrap();
}
