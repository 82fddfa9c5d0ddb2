//! Whatever the pipe loses, delays and repeats: a reliable connection delivers everything once and in order.

use proptest::prelude::*;

use super::*;
use crate::congestion::Feedback;

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        5 => Just(Fate::Pass),
        2 => Just(Fate::Drop),
        1 => (0_u64..3_000).prop_map(|ns| Fate::Delay(Picos::from_nanos(ns))),
        1 => (0_u64..200_000).prop_map(|ns| Fate::Delay(Picos::from_nanos(ns))),
        1 => (0_u64..100_000).prop_map(|ns| Fate::Twice(Picos::from_nanos(ns))),
        1 => Just(Fate::Mark),
    ]
}

fn fates() -> impl Strategy<Value = [Vec<Fate>; 2]> {
    let one = || proptest::collection::vec(fate(), 0..200);
    (one(), one()).prop_map(|(there, back)| [there, back])
}

fn script(fates: [Vec<Fate>; 2]) -> impl FnMut(usize, u64, &Packet) -> Fate {
    move |end, n, _| fates[end].get(n as usize).copied().unwrap_or(Fate::Pass)
}

fn messages() -> impl Strategy<Value = Vec<(Verb, u64)>> {
    let verb = prop_oneof![3 => Just(Verb::Write), 2 => Just(Verb::Send), 2 => Just(Verb::Read)];
    let bytes = prop_oneof![0_u64..3, 0_u64..3_000, 0_u64..30_000];
    proptest::collection::vec((verb, bytes), 1..12)
}

#[derive(Clone, Debug)]
struct Setup {
    recovery: Recovery,
    out_of_order: Option<Picos>,
    ack_every: u32,
    first_psn: u32,
    window_packets: Option<u32>,
    reorder_window_packets: u32,
    posted: bool,
    feedback: Feedback,
}

fn setup() -> impl Strategy<Value = Setup> {
    let recovery = prop_oneof![
        Just(Recovery::GoBackN),
        Just(Recovery::GoBackZero),
        Just(Recovery::SelectiveRepeat)
    ];
    let first_psn = prop_oneof![Just(0), 0xff_ffe0_u32..0x100_0000, 0x7f_ffe0_u32..0x80_0010];
    let feedback = prop_oneof![
        Just(Feedback::AckEcho),
        (0_u64..50).prop_map(|us| Feedback::Cnp {
            interval: Picos::from_micros(us)
        })
    ];
    (
        recovery,
        proptest::option::of((0_u64..20).prop_map(Picos::from_micros)),
        1_u32..20,
        first_psn,
        proptest::option::of(1_u32..40),
        1_u32..64,
        any::<bool>(),
        feedback,
    )
        .prop_map(|tuple| Setup {
            recovery: tuple.0,
            out_of_order: tuple.1,
            ack_every: tuple.2,
            first_psn: tuple.3,
            window_packets: tuple.4,
            reorder_window_packets: tuple.5,
            posted: tuple.6,
            feedback: tuple.7,
        })
}

fn apply(setup: &Setup, config: &mut QpConfig) {
    config.mtu = 256;
    // Any number of losses in a row shall be survived.
    config.retry_cnt = u8::MAX;
    config.recovery = setup.recovery;
    config.out_of_order = setup.out_of_order;
    config.ack_every = setup.ack_every;
    config.first_psn = setup.first_psn;
    config.peer_first_psn = setup.first_psn.wrapping_mul(3);
    config.window_packets = setup.window_packets;
    config.reorder_window_packets = setup.reorder_window_packets;
    config.feedback = setup.feedback;
    config.min_rnr_timer = 1;
    if setup.posted {
        config.receive_queue = ReceiveQueue::Posted;
    }
}

/// What the receiver of these requests is to see.
fn arrivals(messages: &[(Verb, u64)]) -> Vec<(u64, u64, Verb)> {
    let data = messages
        .iter()
        .filter(|(verb, _)| *verb != Verb::Read)
        .enumerate();
    data.map(|(n, (verb, bytes))| (n as u64, *bytes, *verb)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_reliable_connection_delivers_everything_once_in_order(
        fates in fates(),
        there in messages(),
        back in messages(),
        setup in setup(),
    ) {
        let (mut pipe, qp, control) = scripted(script(fates), |config| apply(&setup, config));
        for (end, messages) in [&there, &back].into_iter().enumerate() {
            for (id, (verb, bytes)) in messages.iter().enumerate() {
                pipe.post(end, qp, id as u64, *verb, *bytes);
            }
        }
        // Receive entries come one by one, and late.
        for _ in 0..24 {
            pipe.run(pipe.now.saturating_add(Picos::from_micros(40)));
            for end in 0..2 {
                pipe.ends[end].post_receives(pipe.now, qp, 1);
            }
        }
        pipe.run(Picos::from_millis(2_000));
        for (end, messages) in [&there, &back].into_iter().enumerate() {
            prop_assert_eq!(pipe.acked(end), (0..messages.len() as u64).collect::<Vec<_>>());
            prop_assert_eq!(pipe.received(1 - end), arrivals(messages));
            prop_assert!(pipe.failed(end).is_empty());
            let earliest = *pipe.ends[end].earliest();
            prop_assert_eq!(earliest, [Picos::NEVER; 8], "nothing is left to send");
            prop_assert_eq!(pipe.ends[end].next_deadline(), Picos::NEVER, "and no timer runs");
        }
        let posted: u64 = there.iter().filter(|(verb, _)| *verb != Verb::Read).map(|(_, bytes)| *bytes).sum();
        let acked: u64 = control.told().acks.iter().map(|ack| ack.1).sum();
        prop_assert_eq!(acked, posted, "each byte is acknowledged once");
    }

    #[test]
    fn an_unreliable_connection_loses_whole_messages_only(
        fates in fates(),
        lengths in proptest::collection::vec(0_u64..3_000, 1..30),
        sends in any::<bool>(),
    ) {
        let (mut pipe, qp, _) = scripted(script(fates.clone()), |config| {
            config.transport = Transport::Uc;
            config.mtu = 256;
        });
        let verb = if sends { Verb::Send } else { Verb::Write };
        for (id, bytes) in lengths.iter().enumerate() {
            pipe.post(0, qp, id as u64, verb, *bytes);
        }
        pipe.run(SECOND);
        prop_assert_eq!(pipe.acked(0).len(), lengths.len());
        prop_assert!(pipe.sent_by(1).is_empty(), "nobody answers");
        let received = pipe.received(1);
        let mut posted = lengths.iter();
        for (n, (message, bytes, _)) in received.iter().enumerate() {
            prop_assert_eq!(*message, n as u64);
            prop_assert!(posted.any(|length| length == bytes), "in order, with the length it was sent with");
        }
        // Where nothing was reordered, just those arrive that lost no packet.
        let ordered = fates[0].iter().all(|fate| matches!(fate, Fate::Pass | Fate::Drop | Fate::Mark));
        if ordered {
            let mut n = 0;
            let whole = lengths.iter().filter(|bytes| {
                let packets = bytes.div_ceil(256).max(1) as usize;
                n += packets;
                (n - packets..n).all(|n| fates[0].get(n) != Some(&Fate::Drop))
            });
            prop_assert_eq!(received.iter().map(|r| &r.1).collect::<Vec<_>>(), whole.collect::<Vec<_>>());
        }
    }
}

/// The same as above with drops alone, so that its last part is always looked at.
#[test]
fn an_unreliable_connection_delivers_what_lost_nothing() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 0 && n % 7 == 3 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    };
    let (mut pipe, qp, _) = scripted(script, |config| config.transport = Transport::Uc);
    for id in 0..70 {
        pipe.post(0, qp, id, Verb::Write, 2 * 1024 + id);
    }
    pipe.run(SECOND);
    // Message 0 has two packets, the others three: message `id` begins with packet 3 * id - 1.
    let whole = (0..70_u64).filter(|id| {
        let (first, end) = (if *id == 0 { 0 } else { 3 * id - 1 }, 3 * id + 2);
        (first..end).all(|n| n % 7 != 3)
    });
    let lengths: Vec<u64> = pipe
        .received(1)
        .iter()
        .map(|received| received.1 - 2048)
        .collect();
    assert_eq!(lengths, whole.collect::<Vec<_>>());
}
