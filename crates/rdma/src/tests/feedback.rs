//! ECN marks and their feedback.

use super::*;
use crate::congestion::CongestionFeedback;

fn transfer_with_marks(
    feedback: CongestionFeedback,
    ack_every: u32,
    mark: impl Fn(u64) -> bool + 'static,
) -> (TestLink, QpIndex, RecordingController) {
    let script = move |end: usize, n: u64, _: &Packet| {
        if end == 0 && mark(n) {
            LinkAction::Mark
        } else {
            LinkAction::Pass
        }
    };
    connect_with_script(script, move |config| {
        config.feedback = feedback;
        config.ack_every = ack_every;
    })
}

#[test]
fn at_most_one_cnp_is_sent_per_interval() {
    let interval = Picos::from_micros(4);
    let (mut link, qp, control) = transfer_with_marks(CongestionFeedback::Cnp { interval }, 1, |_| true);
    link.post(0, qp, 1, Verb::Write, 1024 * 1024);
    link.run(SECOND);
    let cnps: Vec<(Picos, Packet)> = link
        .log
        .iter()
        .filter(|(_, _, p)| p.opcode == Opcode::Cnp)
        .map(|(at, _, p)| (*at, *p))
        .collect();
    // 1024 packets of 86.88 ns. The marks of an interval of 4 us, plus at most one packet, cause one CNP.
    assert!((21..=23).contains(&cnps.len()), "{}", cnps.len());
    let packet = cnps[0].1;
    assert_eq!(
        (packet.dst_qp, packet.psn, packet.becn, packet.ack_req),
        (0x10, 0, true, false)
    );
    let notified = control.calls().notified;
    assert!(
        notified
            .windows(2)
            .all(|pair| pair[1].since(pair[0]).0 + 10_000 >= interval.0),
        "{notified:?}"
    );
    let (requester, responder) = (link.ends[0].counters(), link.ends[1].counters());
    assert_eq!(responder.np_ecn_marked_roce_packets, 1024);
    assert_eq!(responder.np_cnp_sent, cnps.len() as u64);
    assert_eq!(
        (requester.rp_cnp_handled, requester.rp_cnp_ignored),
        (cnps.len() as u64, 0)
    );
}

#[test]
fn with_interval_zero_each_marked_packet_causes_a_cnp() {
    let (mut link, qp, control) = transfer_with_marks(
        CongestionFeedback::Cnp {
            interval: Picos::ZERO,
        },
        1,
        |n| n % 2 == 0,
    );
    link.post(0, qp, 1, Verb::Write, 100 * 1024);
    link.run(SECOND);
    assert_eq!(control.calls().notified.len(), 50);

    let cnp = link
        .log
        .iter()
        .find(|(_, _, p)| p.opcode == Opcode::Cnp)
        .unwrap()
        .2;
    let mut other = Endpoint::new();
    other.create_queue_pair(
        QpConfig::new(cnp.dst_qp, 1),
        Box::new(RecordingController::new(1)),
    );
    assert!(other.receive(Picos::ZERO, &cnp, ArrivalInfo::default()));
    assert_eq!(other.counters().rp_cnp_ignored, 1, "its feedback is none");
}

#[test]
fn acknowledgements_echo_the_marks_of_the_packets_they_acknowledge() {
    let (mut link, qp, control) = transfer_with_marks(CongestionFeedback::AckEcho, 1, |n| n == 3 || n == 7);
    link.post(0, qp, 1, Verb::Write, 10 * 1024);
    link.run(SECOND);
    let echoes: Vec<usize> = control
        .calls()
        .acks
        .iter()
        .enumerate()
        .filter(|(_, ack)| ack.4)
        .map(|(n, _)| n)
        .collect();
    assert_eq!(echoes, [3, 7]);

    let (mut link, qp, control) = transfer_with_marks(CongestionFeedback::AckEcho, 4, |n| n == 1 || n == 2);
    link.post(0, qp, 1, Verb::Write, 10 * 1024);
    link.run(SECOND);
    assert_eq!(
        control.calls().acks.iter().map(|ack| ack.4).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert!(link.log.iter().all(|(_, _, p)| p.opcode != Opcode::Cnp));
}

#[test]
fn marks_on_read_responses_send_cnps_to_the_responder() {
    let script = |end: usize, _: u64, _: &Packet| {
        if end == 1 {
            LinkAction::Mark
        } else {
            LinkAction::Pass
        }
    };
    let mut link = TestLink::new(script);
    let responder = RecordingController::new(LINE_BPS);
    let feedback = CongestionFeedback::Cnp {
        interval: Picos::ZERO,
    };
    let qp = link.connect([&RecordingController::new(LINE_BPS), &responder], |config| {
        config.feedback = feedback
    });
    link.post(0, qp, 1, Verb::Read, 5 * 1024);
    link.run(SECOND);
    assert_eq!(responder.calls().notified.len(), 5);
}

#[test]
fn acknowledgements_echo_telemetry() {
    let mut link = TestLink::new(|_, _, _| LinkAction::Pass);
    let mut control = RecordingController::new(LINE_BPS);
    control.telemetry = true;
    let qp = link.connect([&control, &RecordingController::new(LINE_BPS)], |_| {});
    link.post(0, qp, 1, Verb::Write, 10 * 1024);
    link.run(SECOND);
    let acks = control.calls().acks;
    assert_eq!(acks.len(), 10);
    assert!(acks.iter().all(|ack| ack.5));
}
