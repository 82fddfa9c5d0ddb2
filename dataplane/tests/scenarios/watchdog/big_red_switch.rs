//! The big red switch: every watched queue drops its frames.

use xoff_dataplane::config::WatchdogAction;
use xoff_dataplane::{DropReason, ForwardingResult, PortId, SwitchEventKind, WatchdogStatus};

use super::{QUEUE, detected, ms, pause, restored, stats, storm, stormed, watched};
use crate::support::Harness;
use crate::support::frames::small;

fn dropped(verdict: ForwardingResult) -> Option<DropReason> {
    match verdict {
        ForwardingResult::Dropped(drop) => Some(drop.reason),
        _ => None,
    }
}

#[test]
fn all_watched_queues_drop_until_it_is_off_whatever_the_action() {
    for action in [
        WatchdogAction::Drop,
        WatchdogAction::Forward,
        WatchdogAction::Alert,
    ] {
        let mut config = watched(3, action);
        config.ports[2].watchdog = None;
        let mut harness = Harness::learnt(&config);
        harness.receive(1, &pause(3, 0xffff));
        harness.receive_many(7, 0, &small(0, 1, QUEUE));
        config.watchdog.big_red_switch = true;
        harness.apply(&config);
        assert_eq!(stats(&harness, 1).total.tx_dropped_packets, 7, "what waited");
        assert_eq!(
            dropped(harness.receive(0, &small(0, 1, QUEUE))),
            Some(DropReason::WatchdogIngress)
        );
        assert_eq!(
            dropped(harness.receive(2, &small(2, 1, QUEUE))),
            Some(DropReason::WatchdogEgress)
        );
        assert_eq!(
            dropped(harness.receive(0, &small(0, 2, 4))),
            Some(DropReason::WatchdogIngress)
        );
        assert_eq!(dropped(harness.receive(2, &small(2, 1, 5))), None, "not watched");
        let now = harness.now();
        storm(&mut harness, 1, 3, now, now + ms(2_000));
        harness.run();
        assert_eq!(stats(&harness, 1).status, WatchdogStatus::BigRedSwitch);
        assert_eq!(
            stats(&harness, 1).storms_detected,
            0,
            "nothing is detected meanwhile"
        );

        config.watchdog.big_red_switch = false;
        harness.apply(&config);
        assert_eq!(stats(&harness, 1).status, WatchdogStatus::Operational);
        assert_eq!(dropped(harness.receive(0, &small(0, 1, QUEUE))), None);
        assert_eq!(stats(&harness, 1).total.tx_dropped_packets, 8);
        assert_eq!(stats(&harness, 1).storms_restored, 0);
        let told: Vec<_> = harness.told.iter().map(|event| event.kind).collect();
        let switched = |on| SwitchEventKind::BigRedSwitch { on };
        assert_eq!(told, [switched(true), switched(false)]);
        stormed(&mut harness, ms(900));
        harness.run();
        assert_eq!(
            stats(&harness, 1).storms_restored,
            1,
            "detection goes on where it was"
        );
        harness.assert_empty();
    }
}

#[test]
fn it_closes_storms_and_they_do_not_come_back_by_themselves() {
    let mut config = watched(2, WatchdogAction::Drop);
    let mut harness = Harness::learnt(&config);
    let end = stormed(&mut harness, ms(3_000));
    config.watchdog.big_red_switch = true;
    harness.apply(&config);
    assert_eq!(restored(&harness, 1), [harness.now()]);
    harness.run_for(ms(1_000));
    config.watchdog.big_red_switch = false;
    harness.apply(&config);
    let off = harness.now();
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 0);
    // The peer still pauses. A storm is detected again after a full detection time.
    harness.run_until(end);
    let again = detected(&harness, 1)[1];
    assert!(
        again >= off + ms(400) && again < off + ms(600),
        "{off:?} {again:?}"
    );
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_switch_may_start_with_it() {
    let mut config = watched(2, WatchdogAction::Alert);
    config.watchdog.big_red_switch = true;
    let mut harness = Harness::learnt(&config);
    assert_eq!(stats(&harness, 0).status, WatchdogStatus::BigRedSwitch);
    assert_eq!(
        dropped(harness.receive(0, &small(0, 1, QUEUE))),
        Some(DropReason::WatchdogIngress)
    );
    harness.set_link(1, false);
    harness.set_link(1, true);
    assert_eq!(
        stats(&harness, 1).status,
        WatchdogStatus::BigRedSwitch,
        "links change nothing"
    );
    assert!(harness.told.is_empty(), "nothing has changed");
    harness.run();
}
