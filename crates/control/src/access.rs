//! The rules that decide who may use the API.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::LazyLock;

use axum::http::{HeaderMap, Method, header};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use subtle::ConstantTimeEq;

use crate::error::{ErrorCode, ErrorReply};
use xoff_telemetry::failure::Failure;

/// Shortest token in bytes.
const TOKEN_BYTES_MIN: usize = 16;
/// Longest token file in bytes.
const TOKEN_BYTES_MAX: u64 = 4_096;

/// Returns whether the process at the other end belongs to root or to the user `owner`. `None` means the user of
/// this process.
pub(crate) fn is_trusted_peer(socket: &impl AsFd, owner: Option<u32>) -> bool {
    let Ok(peer) = getsockopt(socket, PeerCredentials) else {
        return false;
    };
    let owner = owner.unwrap_or_else(|| nix::unistd::geteuid().as_raw());
    static MAP: LazyLock<UserMap> = LazyLock::new(UserMap::of_this_process);
    is_trusted_user(peer.uid(), owner, &MAP)
}

/// The user IDs that exist in the user namespace of this process.
struct UserMap {
    /// The ID that the kernel shows for users without an ID in this namespace.
    overflow: u32,
    /// Whether every user of the machine has an ID in this namespace.
    is_complete: bool,
}

impl UserMap {
    fn of_this_process() -> UserMap {
        let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
        UserMap {
            overflow: overflow
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(65_534),
            is_complete: std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_complete_map(&map)),
        }
    }
}

/// Returns whether a text of `/proc/self/uid_map` maps all IDs. Each line has the first ID inside, the first
/// ID outside and the count. The ID 2^32 - 1 is no user.
fn is_complete_map(map: &str) -> bool {
    let counts = map.lines().filter_map(|line| line.split_whitespace().nth(2));
    let mapped: u64 = counts.filter_map(|count| count.parse::<u64>().ok()).sum();
    mapped >= u64::from(u32::MAX)
}

/// Returns whether a peer with the ID `peer` is root or the user `own`. In a user namespace, the kernel shows
/// all users without an ID under one overflow ID. That ID proves nothing, even if it equals `own`.
fn is_trusted_user(peer: u32, own: u32, map: &UserMap) -> bool {
    let is_known = map.is_complete || peer != map.overflow;
    is_known && (peer == 0 || peer == own)
}

/// A bearer token for changes over TCP.
#[derive(Clone)]
pub struct ApiToken(Vec<u8>);

impl std::fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiToken")
    }
}

impl ApiToken {
    /// Reads a token from a file. Blanks and line ends around the token are ignored.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, if other users can read the file, or if its content is not
    /// one word of 16 to 4096 ASCII characters.
    pub fn read(path: &Path) -> Result<ApiToken, Failure> {
        let failure = |what: &str| Failure::environment(what).at(format!("--api-token {}", path.display()));
        let unreadable = |error: std::io::Error| failure("the token file cannot be read").because(error);
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let data = file.metadata().map_err(unreadable)?;
        let own = nix::unistd::geteuid().as_raw();
        if !data.is_file() || data.mode() & 0o077 != 0 || (data.uid() != own && data.uid() != 0) {
            return Err(failure("the token file is not private")
                .because(format!(
                    "its mode is {:o} and its owner is user {}",
                    data.mode() & 0o777,
                    data.uid()
                ))
                .fix(format!(
                    "make it a regular file of yours with mode 600: chmod 600 {}",
                    path.display()
                )));
        }
        let mut text = String::new();
        file.take(TOKEN_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        let token = text.trim();
        let is_word = token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_word || token.len() < TOKEN_BYTES_MIN || text.len() as u64 > TOKEN_BYTES_MAX {
            return Err(failure("the token file does not contain a token")
                .because("a token is one word of 16 to 4096 ASCII characters")
                .fix("create one: (umask 077; head -c 24 /dev/urandom | base64 > FILE)"));
        }
        Ok(ApiToken(token.as_bytes().to_vec()))
    }

    /// Returns whether a value of the header `Authorization` contains this token. The time of the comparison
    /// does not depend on the position of the first difference.
    fn matches(&self, authorization: &[u8]) -> bool {
        let Some((scheme, token)) = authorization.split_at_checked(7) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(token.trim_ascii().ct_eq(&self.0))
    }
}

/// The access over a loopback TCP address.
#[derive(Clone, Debug)]
pub struct TcpAccess {
    /// The address to bind. The server refuses an address that is not a loopback address.
    pub address: SocketAddr,
    /// The token that each request needs. `None` means that requests need no token and can change nothing.
    pub token: Option<ApiToken>,
}

impl TcpAccess {
    /// Checks a request that came over TCP.
    pub(crate) fn check_request(&self, method: &Method, headers: &HeaderMap) -> Result<(), ErrorReply> {
        check_loopback_names(headers)?;
        match &self.token {
            None if method.is_safe() => Ok(()),
            None => Err(
                ErrorReply::new(ErrorCode::Forbidden, "changes over TCP are not permitted")
                    .because("the server has no token")
                    .fix("use the Unix socket, or start the switch with --api-token FILE"),
            ),
            Some(token) => {
                let authorization = headers.get(header::AUTHORIZATION);
                match authorization.is_some_and(|value| token.matches(value.as_bytes())) {
                    true => Ok(()),
                    false => Err(ErrorReply::new(
                        ErrorCode::Unauthorized,
                        "the bearer token is missing or wrong",
                    )
                    .fix("send `Authorization: Bearer TOKEN` with the token of --api-token")),
                }
            }
        }
    }
}

/// Checks that `Host` and `Origin` name this machine. A web page of another machine can make a browser connect
/// to a loopback address (DNS rebinding), but the browser then sends the name of that machine.
fn check_loopback_names(headers: &HeaderMap) -> Result<(), ErrorReply> {
    let refusal = |name: &str| {
        ErrorReply::new(
            ErrorCode::Forbidden,
            format!("the header {name} does not name this machine"),
        )
        .fix("use the name localhost or a loopback address")
    };
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|value| value.to_str().ok());
    if !host.is_some_and(is_loopback_authority) || hosts.next().is_some() {
        return Err(refusal("Host"));
    }
    let is_local_origin = |value: &axum::http::HeaderValue| {
        let origin = value.to_str().unwrap_or_default();
        let authority = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(is_loopback_authority)
    };
    match headers.get_all(header::ORIGIN).iter().all(is_local_origin) {
        true => Ok(()),
        false => Err(refusal("Origin")),
    }
}

/// Returns whether a text such as `localhost:8080` or `[::1]` is a loopback name, with or without a port.
fn is_loopback_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (
            host,
            rest.strip_prefix(':')
                .or(Some(rest).filter(|rest| !rest.is_empty())),
        ),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_port && (is_loopback || host.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_overflow_user_is_trusted_only_where_every_user_has_an_id() {
        let map = |is_complete| UserMap {
            overflow: 65_534,
            is_complete,
        };
        assert!(is_complete_map("         0          0 4294967295\n"));
        assert!(!is_complete_map("         0       1000          1\n"));
        assert!(!is_complete_map(""));
        for (peer, own, is_complete, expected) in [
            (0, 1_000, true, true),
            (1_000, 1_000, true, true),
            (1_001, 1_000, true, false),
            (65_534, 65_534, true, true),
            // Root of the namespace of a lab is its owner.
            (0, 0, false, true),
            // Users without an ID in the namespace, also where the server has no ID.
            (65_534, 0, false, false),
            (65_534, 65_534, false, false),
        ] {
            let is_trusted = is_trusted_user(peer, own, &map(is_complete));
            assert_eq!(is_trusted, expected, "{peer} {own} {is_complete}");
        }
    }

    #[test]
    fn a_token_file_must_be_private_and_contain_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        for (mode, is_accepted) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(ApiToken::read(&path).is_ok(), is_accepted, "{mode:o}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        for text in ["", "short", "0123456789 abcdef", &"x".repeat(5_000)] {
            std::fs::write(&path, text).unwrap();
            assert!(ApiToken::read(&path).is_err(), "{text:?}");
        }
        assert!(
            ApiToken::read(folder.path()).is_err(),
            "a folder is no token file"
        );
    }

    #[test]
    fn only_loopback_names_are_loopback() {
        for name in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1",
            "127.1.2.3:9",
            "[::1]",
            "[::1]:80",
        ] {
            assert!(is_loopback_authority(name), "{name}");
        }
        for name in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]",
            "localhost:x",
            "[::1]x",
            "localhost@evil.example",
        ] {
            assert!(!is_loopback_authority(name), "{name}");
        }
    }

    #[test]
    fn tcp_requests_need_local_names_and_changes_need_the_token() {
        let request = |names: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in names {
                headers.append(*name, value.parse().unwrap());
            }
            headers
        };
        let local = ("host", "localhost:80");
        let access = |token: Option<&str>| TcpAccess {
            address: ([127, 0, 0, 1], 0).into(),
            token: token.map(|text| ApiToken(text.as_bytes().to_vec())),
        };
        let code = |token, method: Method, names: &[(&'static str, &'static str)]| {
            let result = access(token).check_request(&method, &request(names));
            result.err().map(|error| error.code)
        };
        assert_eq!(code(None, Method::GET, &[local]), None);
        assert_eq!(code(None, Method::PATCH, &[local]), Some(ErrorCode::Forbidden));
        assert_eq!(code(None, Method::GET, &[]), Some(ErrorCode::Forbidden));
        assert_eq!(
            code(None, Method::GET, &[local, local]),
            Some(ErrorCode::Forbidden)
        );
        let evil = ("origin", "http://evil.example");
        assert_eq!(
            code(None, Method::GET, &[local, evil]),
            Some(ErrorCode::Forbidden)
        );
        assert_eq!(
            code(None, Method::GET, &[local, ("origin", "null")]),
            Some(ErrorCode::Forbidden)
        );
        assert_eq!(
            code(None, Method::GET, &[local, ("origin", "http://localhost:3000")]),
            None
        );
        let secret = Some("0123456789abcdef");
        for (header, expected) in [
            ("Bearer 0123456789abcdef", None),
            ("bearer 0123456789abcdef", None),
            ("Bearer 0123456789abcdeF", Some(ErrorCode::Unauthorized)),
            ("Bearer ", Some(ErrorCode::Unauthorized)),
            ("Basic 0123456789abcdef", Some(ErrorCode::Unauthorized)),
        ] {
            let names = [local, ("authorization", header)];
            assert_eq!(code(secret, Method::PUT, &names), expected, "{header}");
        }
        assert_eq!(code(secret, Method::GET, &[local]), Some(ErrorCode::Unauthorized));
    }
}
