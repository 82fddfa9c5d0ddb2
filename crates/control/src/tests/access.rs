use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;

use super::http::{self, Response};
use super::{TEST_TIMEOUT, TestServer};
use crate::{ApiToken, ServerOptions, TcpAccess};
use xoff_telemetry::failure::Exit;

fn start(token: Option<ApiToken>) -> (TestServer, SocketAddr) {
    let tcp = TcpAccess {
        address: ([127, 0, 0, 1], 0).into(),
        token,
    };
    let running = TestServer::start_with(
        &["sw0"],
        ServerOptions {
            tcp: Some(tcp),
            worker_cores: vec![0],
        },
    );
    let address = running.handle().tcp_address().unwrap();
    (running, address)
}

fn request(address: SocketAddr, method: &str, headers: &[&str], body: &str) -> Response {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
        .write_all(http::request(method, "/v1/config", headers, body).as_bytes())
        .unwrap();
    http::read_response(&mut stream)
}

#[test]
fn tcp_is_read_only_without_a_token_and_the_socket_is_not() {
    let (running, address) = start(None);
    assert_eq!(request(address, "GET", &[], "").status, 200);
    for method in ["PUT", "PATCH"] {
        let refused = request(address, method, &[], "{}");
        assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"));
    }
    let refused = request(address, "GET", &["Origin: http://evil.example"], "");
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"));
    assert_eq!(running.request("PUT", "/v1/config", &[], "{}").status, 200);
}

#[test]
fn tcp_with_a_token_needs_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "0123456789abcdef").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let (_running, address) = start(Some(ApiToken::read(&path).unwrap()));
    let refused = request(address, "GET", &[], "");
    assert_eq!(
        (refused.status, refused.header("www-authenticate")),
        (401, Some("Bearer"))
    );
    let bearer = ["Authorization: Bearer 0123456789abcdef"];
    assert_eq!(request(address, "PUT", &bearer, "{}").status, 200);
}

#[test]
fn an_address_that_other_machines_reach_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = crate::ControlAddress::Path(folder.path().join("api"));
    for ip in [[0, 0, 0, 0], [10, 0, 0, 1]] {
        let listener = crate::ControlListener::bind(&path).unwrap();
        let tcp = TcpAccess {
            address: (ip, 0).into(),
            token: None,
        };
        let options = ServerOptions {
            tcp: Some(tcp),
            ..ServerOptions::default()
        };
        let failure = crate::serve_control(listener, vec![], options).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
    }
}
