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

use crate::support::frames::mac;
use crate::support::{Harness, config};

/// Interval of pauses in a storm. At 1 Gb/s, a full pause lasts 33.55 ms.
const REPEAT: Picos = Picos::from_millis(16);
/// The queue of the storm in most tests.
const QUEUE: u8 = 3;

const fn ms(n: u64) -> Picos {
    Picos::from_millis(n)
}

/// Queues 3 and 4 of all ports are watched: detection 400 ms, restoration 400 ms, poll 200 ms.
fn watched(ports: usize, action: WatchdogAction) -> SwitchConfig {
    timed(ports, action, ms(400), ms(200))
}

fn timed(ports: usize, action: WatchdogAction, time: Picos, poll: Picos) -> SwitchConfig {
    let mut config = config::switch(ports);
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

fn pause(priority: usize, quanta: u16) -> Vec<u8> {
    let mut all = [0; 8];
    all[priority] = quanta;
    let pfc = Pfc {
        enable: 1 << priority,
        quanta: all,
    };
    MacControl::Pfc(pfc).to_frame(mac(0xee)).to_vec()
}

/// The station at `port` pauses `priority` from `from` on with full pauses, the last one not after `until`.
/// Returns the time of the last pause.
fn storm(harness: &mut Harness, port: u16, priority: usize, from: Picos, until: Picos) -> Picos {
    let mut at = from;
    loop {
        harness.receive_at(at, port, pause(priority, 0xffff));
        if at + REPEAT > until {
            return at;
        }
        at += REPEAT;
    }
}

/// Starts a storm of [`QUEUE`] at port 1 for `span` and runs until it is detected.
fn stormed(harness: &mut Harness, span: Picos) -> Picos {
    let (now, told) = (harness.now(), harness.told.len());
    let end = storm(harness, 1, usize::from(QUEUE), now, now + span);
    while harness.told.len() == told {
        assert!(harness.now() < end, "not detected");
        harness.run_for(ms(1));
    }
    end
}

fn queue(port: u16) -> QueueId {
    QueueId::new(PortId(port), QUEUE)
}

fn stats(harness: &Harness, port: u16) -> WatchdogStats {
    harness
        .switch()
        .watchdog_stats(queue(port))
        .expect("the queue is watched")
}

/// Times at which storms of a port's [`QUEUE`] were detected and restored.
fn detected(harness: &Harness, port: u16) -> Vec<Picos> {
    let of = |kind| matches!(kind, SwitchEventKind::StormDetected { queue: q, .. } if q == queue(port));
    times(harness, of)
}

fn restored(harness: &Harness, port: u16) -> Vec<Picos> {
    times(harness, |kind| {
        kind == SwitchEventKind::StormRestored { queue: queue(port) }
    })
}

fn times(harness: &Harness, of: impl Fn(SwitchEventKind) -> bool) -> Vec<Picos> {
    let of_kind = harness.told.iter().filter(|event| of(event.kind));
    of_kind.map(|event| event.at).collect()
}
