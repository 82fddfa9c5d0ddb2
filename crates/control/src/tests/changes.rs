use std::io::Write;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::fake_switch::computed_fields;
use super::{TestServer, http, wait_until};

#[test]
fn a_merge_patch_changes_only_the_fields_that_it_names() {
    let running = TestServer::start();
    let patch = json!({"PORT": {"Ethernet0": {"speed": "10000", "mtu": null}}, "VLAN": {"Vlan10": {}}});
    let media_type = ["Content-Type: application/merge-patch+json"];
    let response = running.request(
        "PATCH",
        "/v1/config?dry_run=true",
        &media_type,
        &patch.to_string(),
    );
    assert_eq!((response.status, response.header("etag")), (200, Some("\"1\"")));
    let response = running.request("PATCH", "/v1/config", &media_type, &patch.to_string());
    assert_eq!((response.status, response.header("etag")), (200, Some("\"2\"")));
    let expected = json!({"PORT": {"Ethernet0": {"speed": "10000"}}, "VLAN": {"Vlan10": {}}});
    // The patch changes the written fields. Computed fields do not become written.
    assert_eq!(running.get("/v1/config?written=true").json(), expected);
    let mut complete = expected;
    complete["BUFFER_POOL"] = computed_fields()["BUFFER_POOL"].clone();
    assert_eq!(running.get("/v1/config").json(), complete);
    let reply = running
        .client()
        .patch_config(&json!({"VLAN": null}), false, false)
        .unwrap();
    assert_eq!(reply.generation, 3);
    assert_eq!(
        running.client().written_config().unwrap(),
        json!({"PORT": {"Ethernet0": {"speed": "10000"}}})
    );
}

#[test]
fn a_change_with_the_tag_of_an_earlier_generation_is_refused() {
    let running = TestServer::start();
    let read = running.get("/v1/config");
    let tag = format!("If-Match: {}", read.header("etag").unwrap());
    assert_eq!(running.request("PUT", "/v1/config", &[&tag], "{}").status, 200);
    let refused = running.request("PUT", "/v1/config", &[&tag], "{}");
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (412, "precondition_failed")
    );
    for tag in ["If-Match: *", "If-Match: \"9\", \"2\""] {
        let generation = running.switch.generation.load(Ordering::Relaxed);
        assert_eq!(
            running.request("PUT", "/v1/config", &[tag], "{}").status,
            200,
            "{tag} {generation}"
        );
        running.switch.generation.store(2, Ordering::Relaxed);
    }
}

#[test]
fn a_change_ends_even_if_its_client_has_gone() {
    let running = TestServer::start();
    running.switch.hold_changes(true);
    let mut stream = running.connect_raw();
    let patch = http::request("PATCH", "/v1/config", &[], "{\"VLAN\": {}}");
    stream.write_all(patch.as_bytes()).unwrap();
    running.switch.wait_for_changes(1);
    // A second change waits for the first one, and its client leaves, too.
    let mut waiting = running.connect_raw();
    waiting.write_all(patch.as_bytes()).unwrap();
    wait_until("the second change waits", || {
        running.handle().unfinished_changes() == 2
    });
    drop((stream, waiting));
    wait_until("the server closes both connections", || {
        running.handle().open_connections() == 0
    });
    running.switch.hold_changes(false);
    wait_until("both changes are made", || {
        running.switch.generation.load(Ordering::Relaxed) == 3
    });
}

#[test]
fn reads_do_not_wait_for_a_change() {
    let running = TestServer::start();
    running.switch.hold_changes(true);
    let mut stream = running.connect_raw();
    stream
        .write_all(http::request("PUT", "/v1/config", &[], "{}").as_bytes())
        .unwrap();
    running.switch.wait_for_changes(1);
    let mut client = running.client();
    for _ in 0..20 {
        assert_eq!(client.config().unwrap()["PORT"]["Ethernet0"]["speed"], "1000");
        client.counters().unwrap();
    }
    running.switch.hold_changes(false);
    assert_eq!(http::read_response(&mut stream).status, 200);
}

#[test]
fn changes_that_find_a_full_queue_get_429() {
    let running = TestServer::start();
    running.switch.hold_changes(true);
    let patch = http::request("PATCH", "/v1/config", &[], "{}");
    let mut clients: Vec<_> = (0..30)
        .map(|_| {
            let mut stream = running.connect_raw();
            stream.write_all(patch.as_bytes()).unwrap();
            stream
        })
        .collect();
    wait_until("the excess is refused", || {
        running.handle().report().refused == 14
    });
    running.switch.hold_changes(false);
    let statuses: Vec<u16> = clients
        .iter_mut()
        .map(|stream| http::read_response(stream).status)
        .collect();
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(200), count(429)), (16, 14));
    assert_eq!(running.switch.generation.load(Ordering::Relaxed), 17);
}
