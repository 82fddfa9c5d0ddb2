//! Tests of pauses: affected classes and duration.

use super::*;

const PRIORITY_3_BIT: u8 = 1 << 3;

fn quanta_of_priority(priority: usize, quanta: u16) -> [u16; 8] {
    let mut all = [0; 8];
    all[priority] = quanta;
    all
}

/// Returns a started host with one flow per class, each at a tenth of the link rate.
fn eight_classes() -> Host {
    let tenth = |class: u8| FlowConfig {
        rate: FlowRate::LinkShare(100_000),
        ..flow(u32::from(class), class)
    };
    let mut host = sender((0..8).map(tenth).collect());
    host.start(Picos::ZERO);
    host
}

/// Returns the times of sent frames of `class`. A flow has the number of its class.
fn send_times(frames: &[SentFrame], class: u32) -> Vec<Picos> {
    frames
        .iter()
        .filter(|frame| frame.stamp().unwrap().flow == class)
        .map(|frame| frame.at)
        .collect()
}

/// Passes a PFC frame to a host at `at`. Returns the frames sent before, and those sent after until `end`.
fn pause_at(
    host: &mut Host,
    at: Picos,
    enable: u8,
    quanta: [u16; 8],
    end: Picos,
) -> (Vec<SentFrame>, Vec<SentFrame>) {
    let before = run_single_host(host, Picos::ZERO, at);
    deliver_pfc(host, at, enable, quanta);
    (before, run_single_host(host, at, end))
}

#[test]
fn a_pause_stops_only_its_class_for_its_quanta() {
    let at = Picos::from_millis(2);
    for class in 0..8 {
        let mut host = eight_classes();
        let (_, after) = pause_at(
            &mut host,
            at,
            1 << class,
            quanta_of_priority(class, 20_000),
            Picos::from_millis(20),
        );
        let silent_until = at + RESPONSE + GIGABIT.pause_duration(20_000);
        for other in 0..8 {
            let sent = send_times(&after, other as u32);
            if other == class {
                let first = *sent.iter().find(|t| **t > at + RESPONSE).unwrap();
                // A waiting class has a frame ready. At most one frame of another class is in transmission,
                // and one more may be selected.
                assert!(
                    first >= silent_until && first <= silent_until + Picos(FRAME_TIME.0 * 8),
                    "class {class}"
                );
            } else {
                assert!(
                    sent.windows(2)
                        .all(|pair| pair[1] - pair[0] < Picos(FRAME_TIME.0 * 16)),
                    "class {other}"
                );
            }
        }
        let nic = host.results(Picos::from_millis(20)).nic;
        assert_eq!(nic.paused_ns[class], GIGABIT.pause_duration(20_000).as_nanos());
        assert_eq!(nic.paused_ns.iter().sum::<u64>(), nic.paused_ns[class]);
        assert_eq!(
            (nic.pfc_rx[class], nic.pfc_on2off_rx[class], nic.pfc_rx_frames),
            (1, 1, 1)
        );
    }
}

#[test]
fn a_single_class_resumes_at_the_exact_time() {
    let mut host = sender(vec![flow(3, 3)]);
    host.start(Picos::ZERO);
    let at = Picos::from_millis(1);
    let (_, after) = pause_at(
        &mut host,
        at,
        PRIORITY_3_BIT,
        quanta_of_priority(3, 1_000),
        Picos::from_millis(3),
    );
    let resumed = at + RESPONSE + GIGABIT.pause_duration(1_000);
    assert_eq!(
        send_times(&after, 3).into_iter().find(|t| *t > at + RESPONSE),
        Some(resumed)
    );
}

#[test]
fn frames_leave_until_the_response_time_is_over() {
    let mut config = host_config(1);
    config.flows = vec![flow(3, 3)];
    config.nic.response_ns = 50_000;
    let mut host = Host::new(&config).unwrap();
    host.start(Picos::ZERO);
    let at = Picos::from_millis(1);
    let (_, after) = pause_at(
        &mut host,
        at,
        PRIORITY_3_BIT,
        quanta_of_priority(3, 1_000),
        Picos::from_millis(3),
    );
    let response = Picos::from_micros(50);
    let in_response = send_times(&after, 3)
        .iter()
        .filter(|t| **t < at + response)
        .count() as u64;
    let fits = response.0 / FRAME_TIME.0;
    assert!(
        in_response == fits || in_response == fits + 1,
        "{in_response} frames, {fits} fit"
    );
    let resumed = send_times(&after, 3).into_iter().find(|t| *t >= at + response);
    assert_eq!(resumed, Some(at + response + GIGABIT.pause_duration(1_000)));
}

#[test]
fn xon_resumes_and_a_new_pause_replaces_the_timer() {
    let mut host = sender(vec![flow(3, 3)]);
    host.start(Picos::ZERO);
    let at = Picos::from_millis(1);
    let xon = Picos::from_millis(4);
    let (_, silent) = pause_at(&mut host, at, PRIORITY_3_BIT, quanta_of_priority(3, 0xffff), xon);
    assert!(send_times(&silent, 3).iter().all(|t| *t <= at + RESPONSE));
    deliver_pfc(&mut host, xon, PRIORITY_3_BIT, [0; 8]);
    let resumed = run_single_host(&mut host, xon, Picos::from_millis(5));
    assert_eq!(resumed[0].at, xon + RESPONSE);

    // 100 quanta, and 100 again after half of them: 150 in total.
    let first = Picos::from_millis(5);
    deliver_pfc(&mut host, first, PRIORITY_3_BIT, quanta_of_priority(3, 100));
    let second = first + GIGABIT.pause_duration(50);
    let mut frames = run_single_host(&mut host, first, second);
    deliver_pfc(&mut host, second, PRIORITY_3_BIT, quanta_of_priority(3, 100));
    frames.extend(run_single_host(&mut host, second, Picos::from_millis(6)));
    let resumed = frames.iter().map(|f| f.at).find(|t| *t > first + RESPONSE);
    assert_eq!(resumed, Some(first + RESPONSE + GIGABIT.pause_duration(150)));
}

#[test]
fn all_eight_classes_resume_each_at_its_own_time() {
    let mut host = eight_classes();
    let at = Picos::from_millis(2);
    let quanta: [u16; 8] = std::array::from_fn(|n| 1_000 * (n as u16 + 1));
    let (_, after) = pause_at(&mut host, at, 0xff, quanta, Picos::from_millis(20));
    for (class, quanta) in quanta.into_iter().enumerate() {
        let until = at + RESPONSE + GIGABIT.pause_duration(quanta);
        let first = send_times(&after, class as u32)
            .into_iter()
            .find(|t| *t > at + RESPONSE)
            .unwrap();
        assert!(
            first >= until && first <= until + Picos(2 * FRAME_TIME.0 * (class as u64 + 1)),
            "{class}"
        );
    }
}

#[test]
fn other_control_frames_do_not_pause() {
    let undisturbed = {
        let mut host = sender(vec![flow(3, 3)]);
        host.start(Picos::ZERO);
        run_single_host(&mut host, Picos::ZERO, Picos::from_millis(3))
    };
    let disturb = |frame: &[u8], honoured: u8| {
        let mut config = host_config(1);
        config.flows = vec![flow(3, 3)];
        config.nic.pfc_honoured = honoured;
        let mut host = Host::new(&config).unwrap();
        host.start(Picos::ZERO);
        let at = Picos::from_millis(1);
        let mut frames = run_single_host(&mut host, Picos::ZERO, at);
        host.receive(at, 0, frame, &parse(frame));
        frames.extend(run_single_host(&mut host, at, Picos::from_millis(3)));
        frames
    };
    let xoff = |enable: u8| {
        MacControl::Pfc(Pfc {
            enable,
            quanta: [0xffff; 8],
        })
        .to_frame(mac(9))
        .to_vec()
    };
    let other_address = {
        let mut frame = xoff(0xff);
        frame[5] = 2;
        frame
    };
    let unknown_opcode = {
        let mut frame = xoff(0xff);
        frame[15] = 2;
        frame
    };
    assert_eq!(disturb(&xoff(0), 0xff), undisturbed, "no bit set");
    assert_eq!(
        disturb(&xoff(!PRIORITY_3_BIT), 0xff),
        undisturbed,
        "other priorities"
    );
    assert_eq!(
        disturb(&xoff(0xff), !PRIORITY_3_BIT),
        undisturbed,
        "priority not honoured"
    );
    assert_eq!(
        disturb(&MacControl::Pause { quanta: 0xffff }.to_frame(mac(9)), 0xff),
        undisturbed,
        "802.3x"
    );
    assert_eq!(disturb(&other_address, 0xff), undisturbed, "another address");
    assert_eq!(disturb(&unknown_opcode, 0xff), undisturbed, "another opcode");
    assert_eq!(disturb(&xoff(0xff)[..30], 0xff), undisturbed, "cut short");
    assert_ne!(disturb(&xoff(PRIORITY_3_BIT), 0xff), undisturbed);
}

#[test]
fn a_late_call_sends_no_frame_from_before_the_end_of_a_pause() {
    let mut host = sender(vec![flow(3, 3)]);
    host.start(Picos::ZERO);
    let at = Picos::from_millis(1);
    run_single_host(&mut host, Picos::ZERO, at);
    deliver_pfc(&mut host, at, PRIORITY_3_BIT, quanta_of_priority(3, 1_000));
    let resumed = at + RESPONSE + GIGABIT.pause_duration(1_000);
    let late = resumed + Picos(FRAME_TIME.0 * 5);
    let mut buf = [0; 2048];
    let mut burst = 0;
    while host.transmit(late, wall_ns(late), &mut buf).is_some() {
        burst += 1;
    }
    assert_eq!(burst, 6, "one at the end of the pause, five in the time since");
}

#[test]
fn a_slow_receiver_pauses_its_peer_without_loss() {
    let mut slow = host_config(2);
    slow.nic.receive_buffer = Some(ReceiveBuffer {
        buffer_bytes: 100_000,
        drain_bps: 300_000_000,
        xoff_bytes: 60_000,
        xon_bytes: 30_000,
        pfc_enabled: 0xff,
        pause_quanta: 2_000,
        dscp_to_class: std::array::from_fn(|dscp| dscp as u8 / 8),
    });
    let mut cable = Cable::new(
        [sender(vec![flow(3, 3)]), Host::new(&slow).unwrap()],
        |_, frame| vec![frame],
    );
    cable.hosts[0].start(Picos::ZERO);
    cable.run_and_drain(Picos::from_millis(100));
    let (left, right) = (
        cable.hosts[0].results(cable.now),
        cable.hosts[1].results(cable.now),
    );
    assert_eq!(right.received[0].received_frames, left.sent[0].sent_frames);
    assert_eq!(right.nic.rx_dropped_frames, [0; 8]);
    assert!(
        right.nic.pfc_tx[3] > 2 && right.nic.pfc_tx[3] == left.nic.pfc_rx[3],
        "{:?}",
        right.nic
    );
    assert_eq!(right.nic.pfc_tx.iter().sum::<u64>(), right.nic.pfc_tx[3]);
    // 1086 bytes are drained for 1024 bytes of payload.
    let drained = 300_000_000 * 1024 / 1086;
    let goodput = right.received[0].goodput_bps;
    assert!(
        goodput.abs_diff(drained) < drained / 50,
        "{goodput}, the buffer drains {drained}"
    );
}

#[test]
fn a_slow_receiver_without_pfc_counts_drops() {
    let mut slow = host_config(2);
    slow.nic.receive_buffer = Some(ReceiveBuffer {
        buffer_bytes: 20_000,
        drain_bps: 500_000_000,
        xoff_bytes: 10_000,
        xon_bytes: 5_000,
        pfc_enabled: 0,
        pause_quanta: 2_000,
        dscp_to_class: std::array::from_fn(|dscp| dscp as u8 / 8),
    });
    let mut cable = Cable::new(
        [sender(vec![flow(3, 3)]), Host::new(&slow).unwrap()],
        |_, frame| vec![frame],
    );
    cable.hosts[0].start(Picos::ZERO);
    cable.run_and_drain(Picos::from_millis(20));
    let (left, right) = (
        cable.hosts[0].results(cable.now),
        cable.hosts[1].results(cable.now),
    );
    let lost = left.sent[0].sent_frames - right.received[0].received_frames;
    assert!(lost > 0);
    assert_eq!(right.nic.rx_dropped_frames[3], lost);
    assert_eq!(right.nic.pfc_tx, [0; 8]);
}

#[test]
fn a_nic_without_pfc_honours_802_3x() {
    let at = Picos::from_millis(2);
    let run = |pause_honoured: bool| {
        let mut config = host_config(1);
        config.nic.pfc_honoured = 0;
        config.nic.pause_honoured = pause_honoured;
        config.flows = vec![flow(0, 0), flow(3, 3)];
        let mut host = Host::new(&config).unwrap();
        host.start(Picos::ZERO);
        run_single_host(&mut host, Picos::ZERO, at);
        let frame = MacControl::Pause { quanta: 20_000 }.to_frame(mac(9));
        host.receive(at, wall_ns(at), &frame, &parse(&frame));
        let after = run_single_host(&mut host, at, Picos::from_millis(20));
        let first = after
            .iter()
            .map(|frame| frame.at)
            .find(|sent| *sent > at + RESPONSE);
        (first.unwrap(), host.results(Picos::from_millis(20)).nic)
    };
    let silent_until = at + RESPONSE + GIGABIT.pause_duration(20_000);
    let (first, nic) = run(true);
    assert!((silent_until..=silent_until + FRAME_TIME).contains(&first));
    assert_eq!(nic.global_paused_ns, GIGABIT.pause_duration(20_000).as_nanos());
    assert_eq!((nic.pause_rx_frames, nic.paused_ns), (1, [0; 8]));
    // With PFC enabled, the frame is counted and ignored (IEEE 802.1Q 36.1.1).
    let (first, nic) = run(false);
    assert!(first < silent_until);
    assert_eq!((nic.pause_rx_frames, nic.global_paused_ns), (1, 0));
}
