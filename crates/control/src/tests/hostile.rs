use std::io::{BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use super::http::{self, try_read_response};
use super::{TestServer, wait_until};
use crate::server::Limits;

const PING: &[u8] = b"GET /v1 HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn garbage_ends_the_connection_and_no_other() {
    let running = TestServer::start();
    let mut other = running.client();
    let long_line = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(200_000));
    let long_head = format!(
        "GET / HTTP/1.1\r\n{}\r\n",
        "X-Field: 0123456789\r\n".repeat(10_000)
    );
    let blank = "\r\n".repeat(100_000);
    let binary: Vec<u8> = (0..100_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for bytes in [
        b"hello\r\n\r\n",
        &binary[..],
        long_line.as_bytes(),
        long_head.as_bytes(),
        blank.as_bytes(),
    ] {
        let mut stream = running.connect_raw();
        // The server may close the connection before the last byte.
        let _ = stream.write_all(bytes);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(
            rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"),
            "{}",
            rest.escape_ascii()
        );
        other.server().unwrap();
    }
}

#[test]
fn pipelined_requests_are_all_answered_in_order() {
    let running = TestServer::start();
    let mut stream = running.connect_raw();
    let mut all = String::new();
    for n in 0..100 {
        all.push_str(&http::request("GET", &format!("/v1/nothing{n}"), &[], ""));
    }
    stream.write_all(all.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    for n in 0..100 {
        let response = try_read_response(&mut stream).unwrap();
        assert_eq!(response.json()["where"], format!("/v1/nothing{n}"));
    }
}

#[test]
fn a_client_that_closes_its_sending_half_gets_its_response() {
    let running = TestServer::start();
    let mut stream = running.connect_raw();
    stream.write_all(PING).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("xoff_version"), "{text}");
}

#[test]
fn clients_that_do_not_read_or_do_not_end_a_request_do_not_delay_others() {
    let running = TestServer::start();
    let mut non_reading = running.connect_raw();
    non_reading.set_nonblocking(true).unwrap();
    // Socket buffers cannot hold all these responses, so the server stops reading from this client.
    let request = http::request("GET", "/v1/counters", &[], "");
    while non_reading.write(request.as_bytes()).is_ok() {}
    let mut silent = running.connect_raw();
    silent.write_all(b"GET /v1 HT").unwrap();
    let mut slow_body = running.connect_raw();
    let head = b"PUT /v1/config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{";
    slow_body.write_all(head).unwrap();
    for _ in 0..20 {
        running.client().counters().unwrap();
    }
}

#[test]
fn excess_requests_of_a_connection_get_429() {
    let limits = Limits {
        connections: 8,
        connection_requests: 1,
        connection_requests_burst: 3,
        ..Limits::default()
    };
    let running = TestServer::start_with_limits(limits);
    let mut stream = running.connect_raw();
    stream.write_all(&PING.repeat(5)).unwrap();
    let mut reader = BufReader::new(stream);
    let responses: Vec<_> = (0..5).map(|_| try_read_response(&mut reader).unwrap()).collect();
    assert_eq!(
        responses
            .iter()
            .map(|response| response.status)
            .collect::<Vec<_>>(),
        [200, 200, 200, 429, 429]
    );
    assert_eq!(responses[3].header("retry-after"), Some("1"));
    assert_eq!(responses[3].code(), "too_many_requests");
    assert_eq!(running.handle().report().refused, 2);
    running.client().server().unwrap();
}

#[test]
fn requests_of_a_client_that_has_gone_are_not_answered() {
    // A request costs one second here, so the requests in the socket would occupy the server for an hour.
    let limits = Limits {
        connections: 8,
        connection_requests: 1,
        connection_requests_burst: 1,
        refusals: 1,
        ..Limits::default()
    };
    let running = TestServer::start_with_limits(limits);
    for is_half_closed in [false, true] {
        let mut stream = running.connect_raw();
        stream.write_all(&PING.repeat(4_000)).unwrap();
        wait_until("the server reads", || running.handle().open_connections() == 1);
        if is_half_closed {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        drop(stream);
        wait_until("the connection is dropped", || {
            running.handle().open_connections() == 0
        });
    }
    let report = running.handle().report();
    assert!(report.requests + report.refused < 200, "{report:?}");
}

#[test]
fn bytes_beyond_the_budget_wait() {
    let limits = Limits {
        connections: 8,
        connection_bytes: 1,
        connection_bytes_burst: 1_000,
        ..Limits::default()
    };
    let running = TestServer::start_with_limits(limits);
    let mut stream = running.connect_raw();
    stream.set_nonblocking(true).unwrap();
    let mut written = 0;
    // The kernel takes what fits into the socket, and the server takes only its budget.
    while let Ok(count) = stream.write(&PING.repeat(1_000)) {
        written += count;
    }
    wait_until("the budget is used", || running.handle().report().requests > 0);
    for _ in 0..10 {
        running.client().server().unwrap();
    }
    let answered = running.handle().report().requests as usize;
    assert!(
        answered * PING.len() < 40_000,
        "{answered} of {} requests",
        written / PING.len()
    );
}

#[test]
fn a_new_connection_does_not_use_the_shared_budget_in_advance() {
    // Each read counts as at least 512 bytes, so the budget permits four reads, and then none for a minute.
    let running = TestServer::start_with_limits(Limits {
        bytes: 1,
        bytes_burst: 2_000,
        ..Limits::default()
    });
    let mut clients = Vec::new();
    for answered in 1..=4 {
        let mut client = running.connect_raw();
        client.write_all(PING).unwrap();
        clients.push(client);
        wait_until("a request is answered", || {
            running.handle().report().requests == answered
        });
    }
    for _ in 0..20 {
        let mut client = running.connect_raw();
        client.write_all(&PING.repeat(100)).unwrap();
        clients.push(client);
    }
    wait_until("the clients are accepted", || {
        running.handle().open_connections() == 24
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(running.handle().report().requests, 4);
}

#[test]
fn an_additional_client_replaces_the_client_with_the_longest_silence() {
    let running = TestServer::start_with_limits(Limits {
        connections: 4,
        ..Limits::default()
    });
    let slow: Vec<UnixStream> = (0..4)
        .map(|_| {
            let mut stream = running.connect_raw();
            // Bytes of an incomplete request are no activity.
            stream.write_all(b"GET /v1 HTTP/1.1\r\nX: ").unwrap();
            stream
        })
        .collect();
    // Each of these clients replaces another one.
    for _ in 0..3 {
        running.client().server().unwrap();
    }
    let mut byte = [0];
    assert_eq!(
        (&slow[0]).read(&mut byte).unwrap(),
        0,
        "the longest silent client was closed"
    );
}

#[test]
fn a_crowd_of_clients_does_not_exclude_another_client() {
    let running = TestServer::start_with_limits(Limits {
        connections: 8,
        ..Limits::default()
    });
    let crowd: Vec<UnixStream> = (0..200).map(|_| running.connect_raw()).collect();
    running.client().counters().unwrap();
    drop(crowd);
    wait_until("all connections end", || running.handle().open_connections() == 0);
}

#[test]
fn an_idle_server_does_nothing() {
    let running = TestServer::start();
    let _idle: Vec<UnixStream> = (0..20).map(|_| running.connect_raw()).collect();
    wait_until("the clients are accepted", || {
        running.handle().open_connections() == 20
    });
    let before = running.handle().parks();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let after = running.handle().parks();
    assert!(
        after - before < 10,
        "{} wake-ups without a request",
        after - before
    );
}
