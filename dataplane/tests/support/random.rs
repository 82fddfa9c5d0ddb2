//! Random traffic and random disturbances of a switch, for tests of invariants.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xoff_dataplane::config::{
    BridgingConfig, SchedulingMode, ShaperConfig, SwitchConfig, TaggingMode, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::Ecn;

use super::frames::{ethernet_frame, insert_vlan_tag, station_mac, udp_frame};
use super::{Harness, config};

/// Number of ports.
pub const PORTS: u16 = 5;

/// A stream of random numbers.
pub struct RandomSource(Xoshiro256PlusPlus);

impl RandomSource {
    pub fn new(seed: u64) -> RandomSource {
        RandomSource(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    pub fn happens_once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn random_port(&mut self) -> u16 {
        self.below(u64::from(PORTS)) as u16
    }
}

/// Creates a small buffer that sometimes reaches every limit, with marking, early drop, a shaper and
/// different speeds.
pub fn small_buffer_config() -> SwitchConfig {
    let mut config = config::bridge_config(usize::from(PORTS));
    config.pools[config::INGRESS_POOL].size_bytes = 600 * 256;
    config.pools[config::EGRESS_LOSSY_POOL].size_bytes = 300 * 256;
    config.frames_max = 700;
    config.pipeline_latency = Picos::from_nanos(300);
    config.ports[1].link = LinkTiming::ethernet(100);
    config.ports[2].link = LinkTiming::ethernet(10_000);
    config.ports[3].mtu = 1_000;
    for port in &mut config.ports {
        port.queues[7].schedule = SchedulingMode::Strict;
        port.queues[5].shaper = Some(ShaperConfig {
            bytes_per_second: 3_000_000,
            burst_bytes: 3_000,
        });
        for queue in &mut port.queues {
            let mut wred = config::wred_marking_above(3_000);
            (wred.max_bytes, wred.max_probability, wred.drop) = (20_000, 1 << 30, true);
            queue.wred = Some(wred);
        }
    }
    config
}

/// Returns a random frame of any kind that may arrive on `port`.
pub fn random_frame(random: &mut RandomSource, port: u16, unicast_only: bool) -> Vec<u8> {
    let len = match random.below(4) {
        0 => 60,
        1 => 42 + random.below(30) as usize,
        _ => 60 + random.below(1_440) as usize,
    };
    let ecn = Ecn::from_tos(random.below(4) as u8);
    let dscp = random.below(8) as u8;
    let to = random.random_port() as u8;
    let mut frame = udp_frame(port as u8, to, dscp, ecn, len);
    match random.below(40) {
        0 => frame[6] |= 1,
        1 => frame.copy_within(0..6, 6),
        2 => frame = ethernet_frame([0x01, 0x80, 0xc2, 0, 0, 2], station_mac(port as u8), 60),
        3 => frame.truncate(random.below(20) as usize),
        4 => frame = insert_vlan_tag(&frame, 0x8100, (random.below(1 << 16)) as u16),
        5 => frame = insert_vlan_tag(&insert_vlan_tag(&frame, 0x8100, 3), 0x88a8, 0x4000),
        6 => frame[12..14].copy_from_slice(&[0x88, 0x08]),
        7..10 if !unicast_only => frame[..6].copy_from_slice(&[0xff; 6]),
        10 if !unicast_only => frame[5] = 99,
        _ => {}
    }
    frame
}

/// Applies a random disturbance, such as a link change or a new configuration.
pub fn apply_random_disturbance(random: &mut RandomSource, harness: &mut Harness, with_link_flaps: bool) {
    let port = random.random_port();
    match random.below(if with_link_flaps { 6 } else { 4 }) {
        0 => {
            let quanta = std::array::from_fn(|_| random.below(2_000) as u16);
            harness.receive_pfc(port, random.below(256) as u8, quanta);
        }
        1 => {
            harness.receive_pfc(port, 0xff, [0; 8]);
        }
        2 => harness.set_tx_enabled(port, false),
        3 => harness.set_tx_enabled(port, true),
        4 => harness.set_link(port, false),
        _ => harness.set_link(port, true),
    }
}

pub fn drain_switch(harness: &mut Harness) {
    for port in 0..PORTS {
        harness.set_link(port, true);
        harness.set_tx_enabled(port, true);
        harness.receive_pfc(port, 0xff, [0; 8]);
    }
    harness.run();
}

pub fn vlan_config() -> SwitchConfig {
    let mut config = small_buffer_config();
    let member = |port, tagging| VlanMemberConfig { port, tagging };
    let vlan = |id, tagging| VlanConfig {
        id,
        members: (0..PORTS).map(|port| member(port, tagging)).collect(),
    };
    config.bridging =
        BridgingConfig::Vlans(vec![vlan(3, TaggingMode::Untagged), vlan(9, TaggingMode::Tagged)]);
    config
}

/// Sends random frames while links flap and configurations change.
pub fn run_with_disturbances(seed: u64, steps: usize) -> Harness {
    let mut random = RandomSource::new(seed);
    let configs = [small_buffer_config(), vlan_config()];
    let mut harness = Harness::new(&configs[0]);
    harness.records_frames = false;
    for step in 0..steps {
        if random.happens_once_in(50) {
            apply_random_disturbance(&mut random, &mut harness, true);
        }
        if random.happens_once_in(2_000) {
            harness.apply(&configs[random.below(2) as usize]);
        }
        let port = random.random_port();
        let frame = random_frame(&mut random, port, false);
        harness.receive(port, &frame);
        harness.run_for(Picos::from_nanos(random.below(20_000)));
        if step % 64 == 0 {
            harness.switch().assert_consistent();
        }
    }
    drain_switch(&mut harness);
    harness
}
