//! A reliable connection delivers every message once and in order, despite loss, reordering and duplicates.

use proptest::prelude::*;

use super::*;
use crate::congestion::CongestionFeedback;

fn any_link_action() -> impl Strategy<Value = LinkAction> {
    prop_oneof![
        5 => Just(LinkAction::Pass),
        2 => Just(LinkAction::Drop),
        1 => (0_u64..3_000).prop_map(|ns| LinkAction::Delay(Picos::from_nanos(ns))),
        1 => (0_u64..200_000).prop_map(|ns| LinkAction::Delay(Picos::from_nanos(ns))),
        1 => (0_u64..100_000).prop_map(|ns| LinkAction::Twice(Picos::from_nanos(ns))),
        1 => Just(LinkAction::Mark),
    ]
}

fn link_actions() -> impl Strategy<Value = [Vec<LinkAction>; 2]> {
    let one = || proptest::collection::vec(any_link_action(), 0..200);
    (one(), one()).prop_map(|(there, back)| [there, back])
}

fn script_of_actions(actions: [Vec<LinkAction>; 2]) -> impl FnMut(usize, u64, &Packet) -> LinkAction {
    move |end, n, _| actions[end].get(n as usize).copied().unwrap_or(LinkAction::Pass)
}

fn messages() -> impl Strategy<Value = Vec<(Verb, u64)>> {
    let verb = prop_oneof![3 => Just(Verb::Write), 2 => Just(Verb::Send), 2 => Just(Verb::Read)];
    let bytes = prop_oneof![0_u64..3, 0_u64..3_000, 0_u64..30_000];
    proptest::collection::vec((verb, bytes), 1..12)
}

#[derive(Clone, Debug)]
struct ConnectionOptions {
    recovery: Recovery,
    out_of_order: Option<Picos>,
    ack_every: u32,
    first_psn: u32,
    window_packets: Option<u32>,
    reorder_window_packets: u32,
    posted: bool,
    feedback: CongestionFeedback,
}

fn options() -> impl Strategy<Value = ConnectionOptions> {
    let recovery = prop_oneof![
        Just(Recovery::GoBackN),
        Just(Recovery::GoBackZero),
        Just(Recovery::SelectiveRepeat)
    ];
    let first_psn = prop_oneof![Just(0), 0xff_ffe0_u32..0x100_0000, 0x7f_ffe0_u32..0x80_0010];
    let feedback = prop_oneof![
        Just(CongestionFeedback::AckEcho),
        (0_u64..50).prop_map(|us| CongestionFeedback::Cnp {
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
        .prop_map(|tuple| ConnectionOptions {
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

fn apply(options: &ConnectionOptions, config: &mut QpConfig) {
    config.mtu = 256;
    // The connection must survive any number of losses in a row.
    config.retry_cnt = u8::MAX;
    config.recovery = options.recovery;
    config.out_of_order = options.out_of_order;
    config.ack_every = options.ack_every;
    config.first_psn = options.first_psn;
    config.peer_first_psn = options.first_psn.wrapping_mul(3);
    config.window_packets = options.window_packets;
    config.reorder_window_packets = options.reorder_window_packets;
    config.feedback = options.feedback;
    config.min_rnr_timer = 1;
    if options.posted {
        config.receive_queue = ReceiveQueue::Posted;
    }
}

/// Returns the messages that the receiver of these requests must report.
fn expected_arrivals(messages: &[(Verb, u64)]) -> Vec<(u64, u64, Verb)> {
    let data = messages
        .iter()
        .filter(|(verb, _)| *verb != Verb::Read)
        .enumerate();
    data.map(|(n, (verb, bytes))| (n as u64, *bytes, *verb)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_reliable_connection_delivers_every_message_once_in_order(
        actions in link_actions(),
        there in messages(),
        back in messages(),
        options in options(),
    ) {
        let (mut link, qp, control) = connect_with_script(script_of_actions(actions), |config| apply(&options, config));
        for (end, messages) in [&there, &back].into_iter().enumerate() {
            for (id, (verb, bytes)) in messages.iter().enumerate() {
                link.post(end, qp, id as u64, *verb, *bytes);
            }
        }
        // Receive entries are posted late and one at a time.
        for _ in 0..24 {
            link.run(link.now.saturating_add(Picos::from_micros(40)));
            for end in 0..2 {
                link.ends[end].post_receives(link.now, qp, 1);
            }
        }
        link.run(Picos::from_millis(2_000));
        for (end, messages) in [&there, &back].into_iter().enumerate() {
            prop_assert_eq!(link.acked(end), (0..messages.len() as u64).collect::<Vec<_>>());
            prop_assert_eq!(link.received(1 - end), expected_arrivals(messages));
            prop_assert!(link.failed(end).is_empty());
            let earliest = *link.ends[end].earliest_departures();
            prop_assert_eq!(earliest, [Picos::NEVER; 8], "nothing is left to send");
            prop_assert_eq!(link.ends[end].next_deadline(), Picos::NEVER, "and no timer runs");
        }
        let posted: u64 = there.iter().filter(|(verb, _)| *verb != Verb::Read).map(|(_, bytes)| *bytes).sum();
        let acked: u64 = control.calls().acks.iter().map(|ack| ack.1).sum();
        prop_assert_eq!(acked, posted, "each byte is acknowledged once");
    }

    #[test]
    fn an_unreliable_connection_discards_whole_messages(
        actions in link_actions(),
        lengths in proptest::collection::vec(0_u64..3_000, 1..30),
        sends in any::<bool>(),
    ) {
        let (mut link, qp, _) = connect_with_script(script_of_actions(actions.clone()), |config| {
            config.transport = Transport::Uc;
            config.mtu = 256;
        });
        let verb = if sends { Verb::Send } else { Verb::Write };
        for (id, bytes) in lengths.iter().enumerate() {
            link.post(0, qp, id as u64, verb, *bytes);
        }
        link.run(SECOND);
        prop_assert_eq!(link.acked(0).len(), lengths.len());
        prop_assert!(link.sent_by(1).is_empty(), "nobody answers");
        let received = link.received(1);
        let mut posted = lengths.iter();
        for (n, (message, bytes, _)) in received.iter().enumerate() {
            prop_assert_eq!(*message, n as u64);
            prop_assert!(posted.any(|length| length == bytes), "in order, with the length it was sent with");
        }
        // Without reordering, exactly the messages without a lost packet arrive.
        let ordered = actions[0].iter().all(|fate| matches!(fate, LinkAction::Pass | LinkAction::Drop | LinkAction::Mark));
        if ordered {
            let mut n = 0;
            let whole = lengths.iter().filter(|bytes| {
                let packets = bytes.div_ceil(256).max(1) as usize;
                n += packets;
                (n - packets..n).all(|n| actions[0].get(n) != Some(&LinkAction::Drop))
            });
            prop_assert_eq!(received.iter().map(|r| &r.1).collect::<Vec<_>>(), whole.collect::<Vec<_>>());
        }
    }
}

/// Tests drops alone, so that the last condition of the test above is always checked.
#[test]
fn an_unreliable_connection_delivers_messages_without_loss() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 0 && n % 7 == 3 {
            LinkAction::Drop
        } else {
            LinkAction::Pass
        }
    };
    let (mut link, qp, _) = connect_with_script(script, |config| config.transport = Transport::Uc);
    for id in 0..70 {
        link.post(0, qp, id, Verb::Write, 2 * 1024 + id);
    }
    link.run(SECOND);
    // Message 0 has two packets and the others have three, so message `id` starts with packet 3 * id - 1.
    let whole = (0..70_u64).filter(|id| {
        let (first, end) = (if *id == 0 { 0 } else { 3 * id - 1 }, 3 * id + 2);
        (first..end).all(|n| n % 7 != 3)
    });
    let lengths: Vec<u64> = link
        .received(1)
        .iter()
        .map(|received| received.1 - 2048)
        .collect();
    assert_eq!(lengths, whole.collect::<Vec<_>>());
}
