use std::io::{BufRead, BufReader, Write};

use serde_json::Value;

use super::{TestServer, http};
use crate::EVENTS_KEPT;
use xoff_telemetry::EventReport;

fn event(at_ns: u64) -> EventReport {
    serde_json::from_value(serde_json::json!({"at_ns": at_ns, "event": "pfc-storm"})).unwrap()
}

/// A reader of an event stream.
struct StreamReader(BufReader<std::os::unix::net::UnixStream>);

impl StreamReader {
    fn open(running: &TestServer, headers: &[&str]) -> StreamReader {
        let mut stream = running.connect_raw();
        let headers = [&["Accept: text/event-stream"], headers].concat();
        stream
            .write_all(http::request("GET", "/v1/events", &headers, "").as_bytes())
            .unwrap();
        let mut reader = StreamReader(BufReader::new(stream));
        let head: Vec<String> =
            std::iter::from_fn(|| Some(reader.line()).filter(|line| !line.is_empty())).collect();
        assert!(head[0].contains("200"), "{head:?}");
        assert!(
            head.iter().any(|line| line == "content-type: text/event-stream"),
            "{head:?}"
        );
        reader
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the fields `id`, `event` and `data` of the next record.
    fn record(&mut self) -> (String, String, Value) {
        let mut record = (String::new(), String::new(), Value::Null);
        loop {
            // Lines with the lengths of chunks have no colon.
            match self.line().split_once(": ") {
                Some(("id", id)) => record.0 = id.to_owned(),
                Some(("event", name)) => record.1 = name.to_owned(),
                Some(("data", data)) => record.2 = serde_json::from_str(data).unwrap(),
                _ if !record.0.is_empty() && !record.2.is_null() => return record,
                _ => {}
            }
        }
    }
}

#[test]
fn a_stream_has_new_events_with_their_numbers() {
    let running = TestServer::start();
    running.switch.events.push(1, event(10));
    let mut reader = StreamReader::open(&running, &[]);
    running.switch.events.push(2, event(20));
    let (id, name, data) = reader.record();
    assert_eq!(
        (id.as_str(), name.as_str(), &data["at_ns"]),
        ("2", "", &20.into())
    );
    let mut resumed = StreamReader::open(&running, &["Last-Event-ID: 0"]);
    assert_eq!(resumed.record().2["at_ns"], 10);
    assert_eq!(resumed.record().2["at_ns"], 20);
    let refused = running.request(
        "GET",
        "/v1/events",
        &["Accept: text/event-stream", "Last-Event-ID: x"],
        "",
    );
    assert_eq!((refused.status, refused.code().as_str()), (400, "bad_request"));
}

#[test]
fn a_reader_that_falls_behind_gets_a_gap_and_delays_nobody() {
    let running = TestServer::start();
    let mut slow = StreamReader::open(&running, &[]);
    // Socket buffers cannot hold all these events, so the slow reader misses some.
    let count = 100_000;
    let mut fast = StreamReader::open(&running, &[]);
    for n in 1..=count {
        running.switch.events.push(n, event(n));
        if n % (EVENTS_KEPT as u64 / 2) == 0 {
            while fast.record().0 != n.to_string() {}
        }
    }
    running.client().counters().unwrap();
    let (mut events, mut missed) = (0, 0);
    loop {
        let (id, name, data) = slow.record();
        match name.as_str() {
            "gap" => missed += data["missed"].as_u64().unwrap(),
            _ => events += 1,
        }
        assert_eq!(id, (events + missed).to_string());
        if id == count.to_string() {
            break;
        }
    }
    assert!(missed > 0 && events > 0, "{missed} {events}");
}
