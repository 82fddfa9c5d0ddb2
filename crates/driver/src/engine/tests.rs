//! Tests of the engine without a clock: late workers and fast senders.

mod cpu;
mod lldp;

use xoff_dataplane::config::{
    BufferProfile, BufferThreshold, PoolConfig, PoolSide, PortConfig, SwitchConfig,
};
use xoff_dataplane::store::VecStore;
use xoff_wire::parse::parse;

use super::*;

const GIGABIT: LinkTiming = LinkTiming::ethernet(1_000);
const FRAME_LEN: usize = 1_082;

/// Two gigabit ports in one bridge, with buffers that never fill up.
fn config() -> SwitchConfig {
    let port = |n: u8| PortConfig::new(format!("Ethernet{n}"), [2, 0, 0, 0, 1, n], GIGABIT);
    let pool = |name: &str, side| PoolConfig::new(name, side, 1 << 30);
    let profile = |name: &str, pool| BufferProfile::new(name, pool, BufferThreshold::Static(0));
    SwitchConfig {
        pools: vec![pool("in", PoolSide::Ingress), pool("out", PoolSide::Egress)],
        profiles: vec![profile("in", 0), profile("out", 1)],
        ..SwitchConfig::new("engine", [2; 6], vec![port(0), port(1)])
    }
}

struct EngineBench {
    engine: Engine,
    store: VecStore,
    sent: Vec<Transmit>,
}

impl EngineBench {
    fn new() -> EngineBench {
        EngineBench::with_links([GIGABIT, GIGABIT])
    }

    fn with_links(links: [LinkTiming; 2]) -> EngineBench {
        let mut config = config();
        config
            .ports
            .iter_mut()
            .zip(links)
            .for_each(|(port, link)| port.link = link);
        EngineBench::with_config(&config, links)
    }

    fn with_config(config: &SwitchConfig, links: [LinkTiming; 2]) -> EngineBench {
        let mut bench = EngineBench {
            engine: Engine::new(Switch::new(config), &links),
            store: VecStore::new(8_192),
            sent: Vec::new(),
        };
        for port in [PortId(0), PortId(1)] {
            bench.engine.with_switch(
                Picos::ZERO,
                &mut bench.store,
                &mut |_| (),
                |switch, at, store, out| switch.set_link(at, port, true, store, out),
            );
        }
        bench
    }

    fn receive_paced(&mut self, received_at: Picos) {
        let arrival = self.arrival(received_at, FRAME_LEN);
        self.engine.receive_paced(PortId(0), arrival);
    }

    fn arrival(&mut self, received_at: Picos, frame_len: usize) -> ReceivedFrame {
        let mut bytes = vec![0; frame_len];
        bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x12, 0x34]);
        let frame = self.store.insert(&bytes).unwrap();
        ReceivedFrame {
            frame,
            frame_len: frame_len as u32,
            parsed: parse(&bytes),
            received_at,
        }
    }

    fn run_until(&mut self, now: Picos) {
        let sent = &mut self.sent;
        self.engine
            .run_until(now, &mut self.store, &mut |transmit| sent.push(transmit));
    }

    fn departure_times(&self) -> Vec<Picos> {
        self.sent.iter().map(|t| t.start).collect()
    }
}

fn transmission_time() -> Picos {
    GIGABIT.duration(GIGABIT.wire_len(GIGABIT.mac_len(FRAME_LEN as u32)))
}

#[test]
fn frames_faster_than_the_link_arrive_at_the_speed_of_the_link() {
    let mut bench = EngineBench::new();
    for _ in 0..10 {
        bench.receive_paced(Picos::ZERO);
    }
    bench.run_until(Picos::ZERO);
    assert_eq!(
        bench.departure_times(),
        [Picos::ZERO],
        "the other frames are in flight"
    );
    bench.run_until(Picos::from_millis(1));
    let expected: Vec<_> = (0..10).map(|n| Picos(transmission_time().0 * n)).collect();
    assert_eq!(bench.departure_times(), expected);
    assert_eq!(bench.engine.delayed_frames(PortId(0)), 9);
}

#[test]
fn carried_frames_arrive_at_their_time_and_in_order() {
    let mut bench = EngineBench::with_links([GIGABIT, LinkTiming::ethernet(100_000)]);
    let us = Picos::from_micros;
    // The link has carried the long and the short frame, so their distance is the time of the short one. The
    // stated arrival of the third frame is earlier, as after a change of the link delay.
    for (at, len) in [(us(20), FRAME_LEN), (us(21), 60), (us(5), 60)] {
        let arrival = bench.arrival(at, len);
        bench.engine.receive_after_link_delay(PortId(0), arrival);
    }
    assert_eq!(bench.engine.next_event(), Some(us(20)), "the frame is in flight");
    bench.run_until(us(19));
    assert_eq!(bench.departure_times(), []);
    bench.run_until(us(30));
    let starts = bench.departure_times();
    assert_eq!(starts[..2], [us(20), us(21)]);
    assert_eq!(starts.len(), 3, "the third frame follows the second: {starts:?}");
    assert_eq!(bench.engine.delayed_frames(PortId(0)), 0);
}

#[test]
fn a_late_worker_catches_up_with_a_limited_burst_and_records_the_rest() {
    let mut bench = EngineBench::new();
    // Both frames of a pair arrive at once. The second waits in the queue, so each departure needs a
    // deadline.
    for n in 0..100 {
        bench.receive_paced(Picos(transmission_time().0 * n));
    }
    // The egress link is held during the stall, as if the worker had slept.
    bench.engine.with_switch(
        Picos::ZERO,
        &mut bench.store,
        &mut |_| (),
        |switch, at, store, out| switch.set_tx_enabled(at, PortId(1), false, store, out),
    );
    let filled = Picos(transmission_time().0 * 100);
    bench.run_until(filled);
    let sent = &mut bench.sent;
    bench.engine.with_switch(
        filled,
        &mut bench.store,
        &mut |t| sent.push(t),
        |switch, at, store, out| switch.set_tx_enabled(at, PortId(1), true, store, out),
    );
    let stalled_until = filled + Picos(transmission_time().0 * 60);
    bench.run_until(stalled_until);
    // One frame at once, CATCH_UP_FRAMES_MAX late frames, and one that starts now instead of 33 frames after
    // the first.
    assert_eq!(bench.sent.len(), 1 + CATCH_UP_FRAMES_MAX as usize + 1);
    assert_eq!(bench.sent.last().unwrap().start, stalled_until);
    let missed = 60 - u64::from(CATCH_UP_FRAMES_MAX) - 1;
    assert_eq!(
        bench.engine.switch().total_transmit_delay(PortId(1)),
        Picos(transmission_time().0 * missed)
    );
    assert_eq!(
        bench.engine.take_max_event_delay(),
        Picos(transmission_time().0 * 59)
    );
}

#[test]
fn late_arrivals_do_not_extend_the_catch_up_burst() {
    // The egress link has half the speed, so frames wait there while more frames arrive, all during a stall.
    let half = LinkTiming::ethernet(500);
    let mut bench = EngineBench::with_links([GIGABIT, half]);
    for n in 0..100 {
        bench.receive_paced(Picos(transmission_time().0 * n));
    }
    let now = Picos(transmission_time().0 * 100);
    bench.run_until(now);
    let past = bench
        .departure_times()
        .iter()
        .filter(|&&start| start < now)
        .count();
    assert_eq!(past, CATCH_UP_FRAMES_MAX as usize);
    assert_eq!(
        bench.departure_times().last(),
        Some(&now),
        "the next frame starts now"
    );
    let missed = now.0 - u64::from(CATCH_UP_FRAMES_MAX) * 2 * transmission_time().0;
    assert_eq!(
        bench.engine.switch().total_transmit_delay(PortId(1)),
        Picos(missed)
    );
}

#[test]
fn a_full_link_has_no_free_ingress_frames() {
    let mut bench = EngineBench::new();
    assert_eq!(bench.engine.free_ingress_frames(PortId(0)), IN_FLIGHT_FRAMES_MAX);
    for _ in 0..IN_FLIGHT_FRAMES_MAX {
        bench.receive_paced(Picos::ZERO);
    }
    assert_eq!(bench.engine.free_ingress_frames(PortId(0)), 0);
    bench.run_until(transmission_time());
    assert_eq!(bench.engine.free_ingress_frames(PortId(0)), 2);
}
