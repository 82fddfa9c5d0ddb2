//! Connections over Unix sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use xoff_lockstep::{
    Connection, CounterValues, DecodeError, Frame, Grant, Hello, HostRequest, LinkError, Message,
    MessageDecoder, OrderError, Reply, ReplyBody, SettingValues, SocketListener, SocketTransport, VERSION,
    WaitOptions, connect_shared_memory, connect_socket,
};

fn hello(name: &str) -> Hello {
    Hello {
        version: VERSION,
        flags: 0,
        speed_bps: 1_000_000_000,
        name: name.to_owned(),
    }
}

fn short_wait() -> WaitOptions {
    WaitOptions {
        timeout: Duration::from_millis(100),
        ..WaitOptions::default()
    }
}

/// Opens a connection whose peer sends bytes after its HELLO. Returns the error of the connection, and the BYE that
/// the peer gets.
fn meet_peer(bytes: &[u8], closes: bool) -> (LinkError, Vec<Message>) {
    let (own, mut peer) = UnixStream::pair().expect("a pair");
    let mut sent = Vec::new();
    Message::Hello(hello("peer")).encode(&mut sent);
    sent.extend_from_slice(bytes);
    peer.write_all(&sent).expect("a write");
    if closes {
        peer.shutdown(std::net::Shutdown::Write).expect("a shutdown");
    }
    let transport = SocketTransport::new(own, short_wait()).expect("a transport");
    let mut connection = Connection::open(Box::new(transport), &hello("own")).expect("a connection");
    let error = loop {
        if let Err(error) = connection.receive() {
            break error;
        }
    };
    drop(connection);
    let mut answer = Vec::new();
    peer.read_to_end(&mut answer).expect("a read");
    let mut decoder = MessageDecoder::default();
    decoder.push(&answer);
    let messages = std::iter::from_fn(|| decoder.next_message().expect("a message"));
    (error, messages.collect())
}

fn encode(messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| message.encode(&mut bytes));
    bytes
}

fn grant(time_ps: u64) -> Message {
    Message::Grant(Grant {
        first_bit_ps: time_ps,
        last_bit_ps: time_ps,
        received: 0,
    })
}

#[test]
fn a_peer_that_goes_back_in_time_learns_why() {
    let (error, answer) = meet_peer(&encode(&[grant(2_000), grant(1_000)]), false);
    let back = OrderError::GrantGoesBack {
        time_ps: 1_000,
        granted_ps: 2_000,
    };
    assert_eq!(error, LinkError::Order(back));
    let Some(Message::Bye { reason }) = answer.last() else {
        panic!("no BYE: {answer:?}");
    };
    assert_eq!(
        reason,
        "the peer goes back in time: a grant of 1000 ps follows a grant of 2000 ps"
    );
}

#[test]
fn a_peer_that_ends_or_never_grants_is_an_error() {
    assert_eq!(meet_peer(&encode(&[grant(5)]), true).0, LinkError::Closed);
    assert_eq!(
        meet_peer(&encode(&[grant(5)])[..20], true).0,
        LinkError::Closed,
        "within a message"
    );
    let (error, _) = meet_peer(&encode(&[grant(7)]), false);
    let wait = Duration::from_millis(100);
    assert_eq!(error, LinkError::Silent { wait, horizon_ps: 7 });
    let bye = Message::Bye {
        reason: "no clock".to_owned(),
    };
    assert_eq!(
        meet_peer(&encode(&[bye]), true).0,
        LinkError::Bye("no clock".to_owned())
    );
}

/// Sends messages until the other side closes the connection. `next` returns the next ones. Returns the error of the
/// other side.
fn meet_flood(mut next: impl FnMut() -> Vec<Message> + Send, stops: bool) -> LinkError {
    let (own, mut peer) = UnixStream::pair().expect("a pair");
    let wait = short_wait();
    let transport = SocketTransport::new(own, wait.clone()).expect("a transport");
    std::thread::scope(|scope| {
        let mut reader = peer.try_clone().expect("the same socket");
        scope.spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        scope.spawn(move || {
            let mut sent = peer.write_all(&encode(&[Message::Hello(hello("peer"))]));
            while sent.is_ok() {
                sent = peer.write_all(&encode(&next()));
            }
        });
        let mut connection = Connection::open(Box::new(transport), &hello("own")).expect("a connection");
        wait.stop.store(stops, std::sync::atomic::Ordering::Relaxed);
        loop {
            // The grant counts the messages of the peer.
            if let Err(error) = connection.receive().and_then(|_| connection.grant_until(0)) {
                break error;
            }
        }
    })
}

#[test]
fn a_peer_that_repeats_its_grant_for_ever_is_an_error() {
    let wait = short_wait().timeout;
    let error = meet_flood(|| vec![grant(7); 1_000], false);
    assert_eq!(error, LinkError::NoProgress { wait, horizon_ps: 7 });
}

#[test]
fn a_peer_that_sends_frames_without_granting_is_an_error() {
    let wait = short_wait().timeout;
    let mut time_ps = 0;
    let frames = move || {
        time_ps += 1_000;
        let frame = Frame {
            first_bit_ps: time_ps,
            last_bit_ps: time_ps + 800,
            has_error: false,
            bytes: vec![0; 100],
        };
        vec![Message::Frame(frame)]
    };
    let error = meet_flood(frames, false);
    assert_eq!(error, LinkError::NoProgress { wait, horizon_ps: 0 });
}

#[test]
fn a_peer_that_always_sends_does_not_prevent_an_interruption() {
    assert_eq!(meet_flood(|| vec![grant(7); 1_000], true), LinkError::Interrupted);
}

#[test]
fn wrong_bytes_are_an_error() {
    let mut long = encode(&[grant(1)]);
    long[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        meet_peer(&long, false).0,
        LinkError::Decode(DecodeError::PayloadLength(u32::MAX))
    );
    let mut kind = encode(&[grant(1)]);
    kind[4] = 9;
    assert_eq!(meet_peer(&kind, false).0, LinkError::Decode(DecodeError::Kind(9)));
}

#[test]
fn the_first_message_has_the_version_and_the_speed() {
    for (first, expected) in [
        (
            Message::Hello(Hello {
                version: 2,
                ..hello("p")
            }),
            LinkError::Version(2),
        ),
        (
            Message::Hello(Hello {
                speed_bps: 10,
                ..hello("p")
            }),
            LinkError::Speed {
                peer_bps: 10,
                own_bps: 1_000_000_000,
            },
        ),
        (
            grant(1),
            LinkError::Order(OrderError::NotPermitted {
                kind: "GRANT",
                rule: "the first message is HELLO",
            }),
        ),
    ] {
        let (own, mut peer) = UnixStream::pair().expect("a pair");
        peer.write_all(&encode(&[first])).expect("a write");
        let transport = SocketTransport::new(own, short_wait()).expect("a transport");
        let error = Connection::open(Box::new(transport), &hello("own")).expect_err("an error");
        assert_eq!(error, expected);
    }
}

#[test]
fn a_socket_without_a_peer_is_an_error_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s");
    let no_peer = Some(LinkError::NoPeer(short_wait().timeout));
    assert_eq!(connect_socket(&path, short_wait()).err(), no_peer);
    let mut listener = SocketListener::bind(&path).expect("a socket");
    assert!(SocketListener::bind(&path).is_err(), "the socket is in use");
    let client = std::thread::spawn({
        let path = path.clone();
        move || connect_socket(&path, WaitOptions::default()).is_ok()
    });
    let accepted = listener.accept(WaitOptions::default());
    assert!(accepted.is_ok() && client.join().expect("a thread"));
    drop(accepted);
    // The refused second listener has connected, too.
    while listener.accept(short_wait()).is_ok() {}
    assert_eq!(listener.accept(short_wait()).err(), no_peer);
    drop(listener);
    assert!(!path.exists());
    std::fs::write(&path, "text").expect("a file");
    assert!(SocketListener::bind(&path).is_err(), "the file is no socket");
    assert!(path.exists());
}

/// Connects to the listener at `path` by shared memory.
fn connect_peer(path: &Path) -> Connection {
    let transport = connect_shared_memory(path, WaitOptions::default()).expect("a socket");
    Connection::open(Box::new(transport), &hello("peer")).expect("a connection")
}

fn accept_peer(listener: &mut SocketListener) -> Connection {
    let transport = listener.accept(WaitOptions::default()).expect("a peer");
    Connection::open(Box::new(transport), &hello("own")).expect("a connection")
}

#[test]
fn messages_pass_through_shared_memory_until_the_peer_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s");
    let ring = folder.path().join("s.ring");
    let mut listener = SocketListener::bind(&path).expect("a socket");
    let peer = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut peer = connect_peer(&path);
            for number in 1..=50_000 {
                peer.grant_until(number).expect("a grant");
            }
            // The grants fill the ring many times.
            peer.receive().expect("a grant")
        }
    });
    let mut own = accept_peer(&mut listener);
    for number in 1..=50_000 {
        assert_eq!(own.receive(), Ok(grant(number)));
    }
    own.grant_until(7).expect("a grant");
    assert_eq!(own.receive(), Err(LinkError::Closed), "the peer ends without BYE");
    assert_eq!(peer.join().expect("a thread"), grant(7));
    assert!(ring.exists());
    drop(listener);
    assert!(!ring.exists());
}

#[test]
fn a_peer_that_shortens_the_shared_memory_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s");
    let mut listener = SocketListener::bind(&path).expect("a socket");
    let peer = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut peer = connect_peer(&path);
            std::fs::write(path.with_extension("ring"), "").expect("an empty file");
            peer.receive()
        }
    });
    let mut own = accept_peer(&mut listener);
    let lost = LinkError::SharedMemory("another program has shortened the file".to_owned());
    assert_eq!(own.receive(), Err(lost.clone()));
    assert_eq!(peer.join().expect("a thread"), Err(lost));
}

fn any_request() -> impl Strategy<Value = HostRequest> {
    let frame = proptest::collection::vec(any::<u8>(), 8..2_000);
    prop_oneof![
        (0..8_u8, 0..=1_000_u32, frame).prop_map(|(class, share_permille, frame)| {
            HostRequest::StartTraffic {
                class,
                share_permille,
                sequence_offset: frame.len() as u32 - 8,
                frame,
            }
        }),
        (0..8_u8).prop_map(|class| HostRequest::StopTraffic { class }),
        any::<u8>().prop_map(|enabled| HostRequest::SetPfc { enabled }),
        any::<bool>().prop_map(|is_honoured| HostRequest::SetLinkPause { is_honoured }),
        any::<u8>().prop_map(|classes| HostRequest::SetUnread { classes }),
        any::<bool>().prop_map(|trusts_pcp| HostRequest::SetTrust { trusts_pcp }),
        any::<bool>().prop_map(|is_willing| HostRequest::SetWilling { is_willing }),
        Just(HostRequest::ResetDevice),
        Just(HostRequest::ReadCounters),
        Just(HostRequest::ReadSettings),
    ]
}

fn any_reply() -> impl Strategy<Value = ReplyBody> {
    let counters = any::<([[u64; 8]; 5], [u64; 4])>().prop_map(|(lists, single)| {
        ReplyBody::Counters(Box::new(CounterValues {
            pfc_rx: lists[0],
            pfc_tx: lists[1],
            paused_ns: lists[2],
            rx_frames: lists[3],
            rx_discards: lists[4],
            rx_unsupported_control: single[0],
            control_frames_to_host: single[1],
            link_resets: single[2],
            storm_events: single[3],
        }))
    });
    let settings = any::<(u8, u64, Option<u32>, [[u8; 8]; 3])>().prop_map(|(pfc, headroom, limit, lists)| {
        ReplyBody::Settings(SettingValues {
            pfc,
            headroom_bytes: headroom,
            storm_limit_ps: limit.map(u64::from),
            traffic_class: lists[0],
            bandwidth_percent: lists[1],
            algorithm: lists[2],
        })
    });
    prop_oneof![
        Just(ReplyBody::Done),
        "[a-z ]{0,40}".prop_map(ReplyBody::Unsupported),
        (any::<[u8; 6]>(), "[a-z ]{0,40}").prop_map(|(mac, name)| ReplyBody::Started { mac, name }),
        counters,
        settings,
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<u64>(), "[a-z]{0,20}").prop_map(|(speed_bps, name)| Message::Hello(Hello {
            speed_bps,
            ..hello(&name)
        })),
        (
            any::<[u64; 2]>(),
            any::<bool>(),
            proptest::collection::vec(any::<u8>(), 1..2_000)
        )
            .prop_map(|(times, has_error, bytes)| Message::Frame(Frame {
                first_bit_ps: times[0],
                last_bit_ps: times[1],
                has_error,
                bytes,
            })),
        any::<[u64; 3]>().prop_map(|fields| Message::Grant(Grant {
            first_bit_ps: fields[0],
            last_bit_ps: fields[1],
            received: fields[2],
        })),
        (any::<[u64; 2]>(), "[a-z-]{0,20}").prop_map(|(fields, mutant)| Message::Reset {
            time_ps: fields[0],
            speed_bps: fields[1],
            mutant,
        }),
        (any::<u64>(), any_request()).prop_map(|(time_ps, request)| Message::Request { time_ps, request }),
        (any::<u64>(), any_reply()).prop_map(|(time_ps, body)| Message::Reply(Reply { time_ps, body })),
        "[a-z ]{0,40}".prop_map(|reason| Message::Bye { reason }),
    ]
}

proptest! {
    #[test]
    fn messages_survive_their_bytes_in_pieces(
        messages in proptest::collection::vec(any_message(), 1..8),
        piece in 1..200_usize,
    ) {
        let mut decoder = MessageDecoder::default();
        let mut read = Vec::new();
        for chunk in encode(&messages).chunks(piece) {
            decoder.push(chunk);
            while let Some(message) = decoder.next_message().expect("a message") {
                read.push(message);
            }
        }
        prop_assert!(!decoder.is_within_message());
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0..9_u8) {
        let mut bytes = bytes;
        if bytes.len() > 4 {
            bytes[4] = kind;
            bytes[2..4].fill(0);
        }
        let mut decoder = MessageDecoder::default();
        decoder.push(&bytes);
        while let Ok(Some(_)) = decoder.next_message() {}
    }
}
