//! Mutated frames of every protocol at one port of a switch in virtual time, next to a victim flow between two
//! other ports. `cargo bench --bench frame_fuzz` does the same with real ports and a million frames.

#[path = "support/frame_fuzz.rs"]
mod frame_fuzz;

use std::collections::BTreeMap;

use xoff_config::{ResolveOptions, load};
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{ForwardingResult, FrameStore, Picos, PortId, ReceivedFrame};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::parse;

use frame_fuzz::{
    FrameFuzzer, SourcePolicy, addresses, announcement, station, switch_config, victim_frame, victim_id,
};

const PORTS: u16 = 4;
/// Longest frame of the fuzzer in bytes, longer than the MTU permits.
const FRAME_LEN_MAX: usize = 1_600;
/// Time between two frames of the fuzzer. A frame of 1600 bytes occupies a link of 1 Gb/s for 13 us, so the
/// rate is below the capacity of every port.
const INTERVAL: Picos = Picos::from_micros(25);
/// Number of frames of the fuzzer for each frame of the victim flow.
const VICTIM_PERIOD: usize = 4;

/// A switch under test, and the frames of the victim flow that have left it.
struct FuzzedSwitch {
    switch: VirtualSwitch<VecStore, ()>,
    /// Ports at which each frame of the victim flow has left.
    victims: BTreeMap<u32, Vec<u16>>,
    /// Number of frames of the victim flow that were dropped on arrival.
    victims_dropped: usize,
}

impl FuzzedSwitch {
    fn new() -> FuzzedSwitch {
        let options = ResolveOptions {
            ports: (0..PORTS).map(|n| format!("Ethernet{}", 4 * n)).collect(),
            reaction_budget: Picos::from_millis(1),
            ..ResolveOptions::default()
        };
        let loaded = load(&[("fuzz", &switch_config().to_string())], &options);
        let config = loaded
            .unwrap_or_else(|problems| panic!("{problems}"))
            .resolved
            .config;
        let mut fuzzed = FuzzedSwitch {
            switch: VirtualSwitch::new(&config, VecStore::new(1 << 16)),
            victims: BTreeMap::new(),
            victims_dropped: 0,
        };
        fuzzed.switch.set_links_up();
        for port in 0..PORTS {
            fuzzed.receive(port, &announcement(port as u8));
        }
        fuzzed.advance(Picos::from_millis(1));
        fuzzed
    }

    fn receive(&mut self, port: u16, bytes: &[u8]) -> ForwardingResult {
        let frame = self.switch.store_mut().insert(bytes).expect("the store has room");
        let arrival = ReceivedFrame {
            frame,
            frame_len: bytes.len() as u32,
            parsed: parse(bytes),
            received_at: self.switch.now(),
        };
        let result = self.switch.receive(PortId(port), &arrival);
        self.take_departures();
        result
    }

    /// Handles all events of the next `span`.
    fn advance(&mut self, span: Picos) {
        let until = self.switch.now() + span;
        while let Step::Deadline | Step::Event(()) = self.switch.step(until) {
            self.take_departures();
        }
        self.switch.advance_to(until);
    }

    fn take_departures(&mut self) {
        let victims = &mut self.victims;
        self.switch.take_departures(|departure, store| {
            if let Some(id) = victim_id(store.prefix(departure.frame)) {
                victims.entry(id).or_default().push(departure.port.0);
            }
            store.release(departure.frame);
        });
        self.switch.take_events().for_each(drop);
    }

    /// Sends `frames` frames of the fuzzer, and the victim flow. Returns the number of frames of the flow.
    fn run(&mut self, frames: usize, fuzzer: &mut FrameFuzzer) -> u32 {
        let mut sent = 0;
        for n in 0..frames {
            self.receive(0, &fuzzer.next_frame());
            self.advance(Picos(INTERVAL.0 / 2));
            if n % VICTIM_PERIOD == 0 {
                let result = self.receive(1, &victim_frame(sent));
                self.victims_dropped += usize::from(matches!(result, ForwardingResult::Dropped(_)));
                sent += 1;
            }
            self.advance(Picos(INTERVAL.0 / 2));
            if n % 1_024 == 0 {
                self.switch.switch().assert_consistent();
            }
        }
        sent
    }

    /// Checks that the switch is empty after all pauses and timers have ended.
    fn check_empty(&mut self) {
        self.advance(Picos::from_millis(60_000));
        self.switch.switch().assert_consistent();
        assert_eq!(self.switch.switch().queued_frames(), 0, "frames in queues");
        assert_eq!(self.switch.store().in_use(), 0, "slots in use");
    }
}

fn fuzzer(policy: SourcePolicy, seed: u64) -> FrameFuzzer {
    FrameFuzzer::new(&addresses(), policy, FRAME_LEN_MAX, seed)
}

#[test]
fn mutated_frames_of_other_sources_cost_a_flow_no_frame() {
    let mut fuzzer = fuzzer(SourcePolicy::Except((1..4).map(station).collect()), 1);
    let frames = fuzzer.systematic_frames().max(20_000);
    let mut fuzzed = FuzzedSwitch::new();
    let sent = fuzzed.run(frames, &mut fuzzer);
    fuzzed.check_empty();
    let lost: Vec<u32> = (0..sent)
        .filter(|id| fuzzed.victims.get(id) != Some(&vec![2]))
        .collect();
    assert!(
        lost.is_empty(),
        "{} of {sent} lost, the first ones {:?}",
        lost.len(),
        &lost[..lost.len().min(8)]
    );
}

#[test]
fn losses_by_spoofed_sources_are_explained_by_moves_and_pauses() {
    let mut fuzzer = fuzzer(SourcePolicy::Spoof(vec![station(1), station(2)]), 2);
    let mut fuzzed = FuzzedSwitch::new();
    let sent = fuzzed.run(20_000, &mut fuzzer);
    fuzzed.check_empty();
    let all = fuzzed.victims.values();
    let arrived = all.clone().filter(|ports| ports.contains(&2)).count();
    // These frames follow the address of their receiver, and wait while the fuzzer pauses its port.
    let moved = all.filter(|ports| **ports == [0]).count();
    assert!(moved > 0, "no address has moved");
    assert_eq!(
        sent as usize,
        arrived + moved + fuzzed.victims_dropped,
        "frames of the flow"
    );
}

#[test]
fn the_same_seed_gives_the_same_frames_within_the_limits() {
    let policy = || SourcePolicy::Except((1..4).map(station).collect());
    let (mut a, mut b) = (fuzzer(policy(), 7), fuzzer(policy(), 7));
    for _ in 0..10_000 {
        let frame = a.next_frame();
        assert_eq!(frame, b.next_frame());
        assert!((14..=FRAME_LEN_MAX).contains(&frame.len()));
        assert!(!(1..4).any(|port| frame[6..12] == station(port)), "{frame:02x?}");
    }
}
