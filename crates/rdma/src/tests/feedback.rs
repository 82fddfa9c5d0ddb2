//! Marks and their echoes.

use super::*;
use crate::congestion::Feedback;

fn marked(
    feedback: Feedback,
    ack_every: u32,
    mark: impl Fn(u64) -> bool + 'static,
) -> (Pipe, QpIndex, Fixed) {
    let script = move |end: usize, n: u64, _: &Packet| {
        if end == 0 && mark(n) {
            Fate::Mark
        } else {
            Fate::Pass
        }
    };
    scripted(script, move |config| {
        config.feedback = feedback;
        config.ack_every = ack_every;
    })
}

#[test]
fn one_cnp_per_interval() {
    let interval = Picos::from_micros(4);
    let (mut pipe, qp, control) = marked(Feedback::Cnp { interval }, 1, |_| true);
    pipe.post(0, qp, 1, Verb::Write, 1024 * 1024);
    pipe.run(SECOND);
    let cnps: Vec<(Picos, Packet)> = pipe
        .log
        .iter()
        .filter(|(_, _, p)| p.opcode == Opcode::Cnp)
        .map(|(at, _, p)| (*at, *p))
        .collect();
    // 1024 packets of 86.88 ns; those of one interval of 4 us and up to one packet more make one CNP.
    assert!((21..=23).contains(&cnps.len()), "{}", cnps.len());
    let packet = cnps[0].1;
    assert_eq!(
        (packet.dst_qp, packet.psn, packet.becn, packet.ack_req),
        (0x10, 0, true, false)
    );
    let notified = control.told().notified;
    assert!(
        notified
            .windows(2)
            .all(|pair| pair[1].since(pair[0]).0 + 10_000 >= interval.0),
        "{notified:?}"
    );
    let (requester, responder) = (pipe.ends[0].counters(), pipe.ends[1].counters());
    assert_eq!(responder.np_ecn_marked_roce_packets, 1024);
    assert_eq!(responder.np_cnp_sent, cnps.len() as u64);
    assert_eq!(
        (requester.rp_cnp_handled, requester.rp_cnp_ignored),
        (cnps.len() as u64, 0)
    );
}

#[test]
fn an_interval_of_zero_sends_one_per_marked_packet_in_its_class() {
    let (mut pipe, qp, control) = marked(
        Feedback::Cnp {
            interval: Picos::ZERO,
        },
        1,
        |n| n % 2 == 0,
    );
    pipe.post(0, qp, 1, Verb::Write, 100 * 1024);
    pipe.run(SECOND);
    assert_eq!(control.told().notified.len(), 50);

    let cnp = pipe
        .log
        .iter()
        .find(|(_, _, p)| p.opcode == Opcode::Cnp)
        .unwrap()
        .2;
    let mut other = Endpoint::new();
    other.create(QpConfig::new(cnp.dst_qp, 1), Box::new(Fixed::new(1)));
    assert!(other.receive(Picos::ZERO, &cnp, Arrival::default()));
    assert_eq!(other.counters().rp_cnp_ignored, 1, "its feedback is none");
}

#[test]
fn acknowledgements_echo_the_marks_of_what_they_cover() {
    let (mut pipe, qp, control) = marked(Feedback::AckEcho, 1, |n| n == 3 || n == 7);
    pipe.post(0, qp, 1, Verb::Write, 10 * 1024);
    pipe.run(SECOND);
    let echoes: Vec<usize> = control
        .told()
        .acks
        .iter()
        .enumerate()
        .filter(|(_, ack)| ack.4)
        .map(|(n, _)| n)
        .collect();
    assert_eq!(echoes, [3, 7]);

    let (mut pipe, qp, control) = marked(Feedback::AckEcho, 4, |n| n == 1 || n == 2);
    pipe.post(0, qp, 1, Verb::Write, 10 * 1024);
    pipe.run(SECOND);
    assert_eq!(
        control.told().acks.iter().map(|ack| ack.4).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert!(pipe.log.iter().all(|(_, _, p)| p.opcode != Opcode::Cnp));
}

#[test]
fn marked_read_responses_slow_the_responder() {
    let script = |end: usize, _: u64, _: &Packet| if end == 1 { Fate::Mark } else { Fate::Pass };
    let mut pipe = Pipe::new(script);
    let responder = Fixed::new(LINE_BPS);
    let feedback = Feedback::Cnp {
        interval: Picos::ZERO,
    };
    let qp = pipe.connect([&Fixed::new(LINE_BPS), &responder], |config| {
        config.feedback = feedback
    });
    pipe.post(0, qp, 1, Verb::Read, 5 * 1024);
    pipe.run(SECOND);
    assert_eq!(responder.told().notified.len(), 5);
}

#[test]
fn telemetry_comes_back_with_the_acknowledgement() {
    let mut pipe = Pipe::new(|_, _, _| Fate::Pass);
    let mut control = Fixed::new(LINE_BPS);
    control.telemetry = true;
    let qp = pipe.connect([&control, &Fixed::new(LINE_BPS)], |_| {});
    pipe.post(0, qp, 1, Verb::Write, 10 * 1024);
    pipe.run(SECOND);
    let acks = control.told().acks;
    assert_eq!(acks.len(), 10);
    assert!(acks.iter().all(|ack| ack.5));
}
