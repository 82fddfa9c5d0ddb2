//! The PFC watchdog in virtual time.

mod actions;
mod big_red_switch;
mod changes;
mod conservation;
mod isolation;
mod rules;
mod statistics;
mod timers;

use xoff_dataplane::config::{PortWatchdog, SwitchConfig, WatchdogAction, WatchdogConfig, WatchdogRule};
use xoff_dataplane::{Picos, PortId, QueueId, SwitchEventKind, WatchdogStats};
use xoff_wire::{MacControl, Pfc};

use crate::support::frames::station_mac;
use crate::support::{Harness, config};

/// Interval of pauses in a storm. At 1 Gb/s, a full pause lasts 33.55 ms.
const PAUSE_INTERVAL: Picos = Picos::from_millis(16);
/// The queue of the storm in most tests.
const STORM_QUEUE: u8 = 3;

const fn ms(n: u64) -> Picos {
    Picos::from_millis(n)
}

/// Creates ports whose queues 3 and 4 are watched: detection 400 ms, restoration 400 ms, poll 200 ms.
fn watched_config(ports: usize, action: WatchdogAction) -> SwitchConfig {
    watched_config_with_times(ports, action, ms(400), ms(200))
}

fn watched_config_with_times(ports: usize, action: WatchdogAction, time: Picos, poll: Picos) -> SwitchConfig {
    let mut config = config::bridge_config(ports);
    config.watchdog = WatchdogConfig {
        poll,
        big_red_switch: false,
        rule: WatchdogRule::Broadcom,
    };
    for port in &mut config.ports {
        port.watchdog = Some(PortWatchdog {
            queues: 0b1_1000,
            action,
            detection: time,
            restoration: Some(time),
            history: true,
        });
    }
    config
}

fn pause_frame(priority: usize, quanta: u16) -> Vec<u8> {
    let mut all = [0; 8];
    all[priority] = quanta;
    let pfc = Pfc {
        enable: 1 << priority,
        quanta: all,
    };
    MacControl::Pfc(pfc).to_frame(station_mac(0xee)).to_vec()
}

/// Schedules full pauses of `priority` from the station at `port`, the first at `from` and the last not after
/// `until`. Returns the time of the last pause.
fn schedule_pauses(harness: &mut Harness, port: u16, priority: usize, from: Picos, until: Picos) -> Picos {
    let mut at = from;
    loop {
        harness.receive_at(at, port, pause_frame(priority, 0xffff));
        if at + PAUSE_INTERVAL > until {
            return at;
        }
        at += PAUSE_INTERVAL;
    }
}

/// Starts a storm of [`STORM_QUEUE`] at port 1 for `span` and runs until it is detected.
fn start_storm(harness: &mut Harness, span: Picos) -> Picos {
    let (now, told) = (harness.now(), harness.switch_events.len());
    let end = schedule_pauses(harness, 1, usize::from(STORM_QUEUE), now, now + span);
    while harness.switch_events.len() == told {
        assert!(harness.now() < end, "not detected");
        harness.run_for(ms(1));
    }
    end
}

fn storm_queue_of(port: u16) -> QueueId {
    QueueId::new(PortId(port), STORM_QUEUE)
}

fn storm_queue_stats(harness: &Harness, port: u16) -> WatchdogStats {
    harness
        .switch()
        .watchdog_stats(storm_queue_of(port))
        .expect("the queue is watched")
}

/// Returns the times at which storms of a port's [`STORM_QUEUE`] were detected.
fn detection_times(harness: &Harness, port: u16) -> Vec<Picos> {
    let of =
        |kind| matches!(kind, SwitchEventKind::StormDetected { queue: q, .. } if q == storm_queue_of(port));
    event_times(harness, of)
}

fn restore_times(harness: &Harness, port: u16) -> Vec<Picos> {
    event_times(harness, |kind| {
        kind == SwitchEventKind::StormRestored {
            queue: storm_queue_of(port),
        }
    })
}

fn event_times(harness: &Harness, is_wanted: impl Fn(SwitchEventKind) -> bool) -> Vec<Picos> {
    let of_kind = harness.switch_events.iter().filter(|event| is_wanted(event.kind));
    of_kind.map(|event| event.at).collect()
}
