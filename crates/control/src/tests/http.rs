//! HTTP as bytes, for requests that no client would send.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

/// A response of the server.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Returns the code of an error.
    pub(super) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Returns the text of a request. A request with a body is JSON unless `headers` have another type.
pub(super) fn request(method: &str, path: &str, headers: &[&str], body: &str) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    for header in headers {
        text.push_str(&format!("{header}\r\n"));
    }
    let has = |name: &str| {
        headers
            .iter()
            .any(|header| header.to_ascii_lowercase().starts_with(name))
    };
    if !body.is_empty() && !has("content-type") {
        text.push_str("Content-Type: application/json\r\n");
    }
    if !body.is_empty() && !has("transfer-encoding") {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text + "\r\n" + body
}

/// Reads one response with a length.
pub(super) fn read_response(stream: &mut impl Read) -> Response {
    try_read_response(&mut BufReader::new(stream)).expect("a response")
}

/// Reads one response with a length. Returns `None` if the server closes the connection instead.
pub(super) fn try_read_response(stream: &mut impl BufRead) -> Option<Response> {
    let mut line = String::new();
    if stream.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
    };
    let length = response
        .header("content-length")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    response.body = vec![0; length];
    stream.read_exact(&mut response.body).ok()?;
    Some(response)
}
