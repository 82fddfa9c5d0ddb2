//! Tests that the probe measures thresholds exactly. The tests use published thresholds of switch chips, and
//! random configurations.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;
use xoff_dataplane::config::{
    BufferProfile, BufferThreshold, PoolConfig, PoolSide, PortProfile, SwitchConfig, TrimDscp, TrimQueue,
    TrimmingConfig,
};

use super::*;
use xoff_config::{ResolveOptions, load};
use xoff_telemetry::failure::{Exit, Failure};

const CELL: u64 = 208;
/// More frames than any threshold of the random configurations.
const FRAMES_MAX: u32 = 1 << 13;
/// More frames than any threshold of the chips.
const CHIP_FRAMES_MAX: u32 = 1 << 17;

/// Builds a switch with three ports. Class 3 is lossless: its priority group has profile 0, and its queue has
/// profile 1. Class 0 is lossy: its priority group has profile 2, and its queue has profile 3.
fn three_port_switch() -> SwitchConfig {
    let text = r#"{"PORT": {"Ethernet0": {"speed": "100000"}, "Ethernet4": {"speed": "100000"}, "Ethernet8": {"speed": "100000"}},
        "DSCP_TO_TC_MAP": {"M": {"0": "0", "26": "3"}}, "TC_TO_PRIORITY_GROUP_MAP": {"M": {"0": "0", "3": "3"}},
        "TC_TO_QUEUE_MAP": {"M": {"0": "0", "3": "3"}},
        "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "M", "tc_to_pg_map": "M", "tc_to_queue_map": "M", "pfc_enable": "3"},
            "Ethernet4": {"dscp_to_tc_map": "M", "tc_to_pg_map": "M", "tc_to_queue_map": "M", "pfc_enable": "3"},
            "Ethernet8": {"dscp_to_tc_map": "M", "tc_to_pg_map": "M", "tc_to_queue_map": "M", "pfc_enable": "3"}}}"#;
    let mut config = load(&[("test", text)], &ResolveOptions::default())
        .expect("a good configuration")
        .resolved
        .config;
    let pool = |name: &str, side, size_bytes| PoolConfig {
        name: name.into(),
        side,
        size_bytes,
        xoff_bytes: 0,
    };
    let profile = |pool, threshold| BufferProfile {
        name: "p".into(),
        pool,
        size_bytes: 0,
        threshold,
        xoff_bytes: 0,
        xon_bytes: 0,
        xon_offset_bytes: 0,
        trim: false,
    };
    config.cell_bytes = CELL as u32;
    config.pools = vec![
        pool("in", PoolSide::Ingress, 4_000 * CELL),
        pool("out", PoolSide::Egress, 3_000 * CELL),
    ];
    config.profiles = vec![
        profile(0, BufferThreshold::Dynamic(0)),
        profile(1, BufferThreshold::Static(0)),
        profile(0, BufferThreshold::Static(0)),
        profile(1, BufferThreshold::Dynamic(0)),
    ];
    for port in &mut config.ports {
        port.pgs = std::array::from_fn(|n| if n == 3 { 0 } else { 2 });
        for (n, queue) in port.queues.iter_mut().enumerate() {
            queue.profile = if n == 3 { 1 } else { 3 };
        }
    }
    config
}

fn measure_class(
    config: &SwitchConfig,
    class: u8,
    frame_bytes: u32,
    frames_max: u32,
) -> Result<MeasuredThresholds, Failure> {
    let mut device = VirtualProbeDevice::new(config, 0, &[1, 2], class, frame_bytes)?;
    let options = ProbeOptions {
        first: 1_000,
        frames_max,
        verifications: 1,
    };
    measure_thresholds(&mut device, &options)
}

fn expected_class(config: &SwitchConfig, class: u8, frame_bytes: u32, frames_max: u32) -> ExpectedThresholds {
    expected_thresholds(config, 0, 1, class, frame_bytes, frames_max).expect("a rule of chips")
}

/// Tests the rows of the data plane's chip table in which frames fill one priority group.
#[test]
fn probe_finds_the_published_thresholds_of_chips() {
    let table = include_str!("../../../../dataplane/tests/data/chip-mmu.json");
    let table: Value = serde_json::from_str(table).expect("JSON");
    let number = |row: &Value, at: &str| row.pointer(at).and_then(Value::as_u64);
    let mut rows = 0;
    for row in table["rows"].as_array().expect("rows") {
        let published = (number(row, "/xoff_at_frame/0"), number(row, "/drop_at_frame/0"));
        let (Some(xoff), Some(drop), Some(1)) = (published.0, published.1, number(row, "/groups")) else {
            continue;
        };
        let bytes = |at: &str| number(row, at).unwrap_or(0);
        let mut config = three_port_switch();
        config.cell_bytes = bytes("/cell_bytes") as u32;
        let pipes = bytes("/pipes").max(1);
        config.pools[0].size_bytes = bytes("/pool_bytes") / pipes;
        config.pools[0].xoff_bytes = bytes("/pool_xoff_bytes") / pipes;
        let alpha = row.pointer("/profile/dynamic_th").and_then(Value::as_i64);
        config.profiles[0] = BufferProfile {
            size_bytes: bytes("/profile/size_bytes"),
            threshold: match alpha {
                Some(n) => BufferThreshold::Dynamic(n as i8),
                None => BufferThreshold::Static(bytes("/profile/static_th")),
            },
            xoff_bytes: bytes("/profile/xoff_bytes"),
            xon_bytes: bytes("/profile/xon_bytes"),
            xon_offset_bytes: bytes("/profile/xon_offset_bytes"),
            ..config.profiles[0].clone()
        };
        let frame_bytes = bytes("/frame_bytes") as u32;
        let measured = measure_class(&config, 3, frame_bytes, CHIP_FRAMES_MAX)
            .unwrap_or_else(|failure| panic!("{row}: {failure}"));
        assert_eq!(
            (measured.xoff.map(u64::from), measured.drop.map(u64::from)),
            (Some(xoff), Some(drop)),
            "{row}"
        );
        assert_eq!(
            ExpectedThresholds::from(measured),
            expected_class(&config, 3, frame_bytes, CHIP_FRAMES_MAX),
            "{row}"
        );
        assert_eq!(
            (measured.hold, measured.leaked),
            (Some(EgressHoldMethod::Pause), 0)
        );
        rows += 1;
    }
    assert!(rows >= 4, "{rows} rows: Tomahawk 2, and Tomahawk at three speeds");
}

#[test]
fn probe_finds_the_thresholds_of_random_configurations() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut below = |n: u64| random.next_u64() % n;
    let (mut resumed, mut dropped) = (0, 0);
    for round in 0..40 {
        let mut config = three_port_switch();
        let cell = 64 + below(300);
        config.cell_bytes = cell as u32;
        config.pools[0].size_bytes = (50 + below(1_500)) * cell + below(cell);
        config.pools[1].size_bytes = (50 + below(1_500)) * cell;
        config.pools[0].xoff_bytes = [0, below(200) * cell][below(2) as usize];
        for profile in &mut config.profiles {
            profile.threshold = match below(3) {
                0 => BufferThreshold::Static(below(1_200) * cell),
                _ => BufferThreshold::Dynamic(below(12) as i8 - 8),
            };
            profile.size_bytes = below(40) * cell + below(cell);
        }
        for (pool, port) in [(0, 0), (1, 1)] {
            if below(3) == 0 {
                let mut listed = config.profiles[1 + 2 * pool].clone();
                (listed.pool, listed.threshold) = (pool as u16, config.profiles[3 - 2 * pool].threshold);
                config.port_profiles.push(PortProfile {
                    port,
                    profile: config.profiles.len() as u16,
                });
                config.profiles.push(listed);
            }
        }
        let group = &mut config.profiles[0];
        group.xoff_bytes = (1 + below(120)) * cell;
        group.xon_bytes = [0, below(60) * cell][below(2) as usize];
        group.xon_offset_bytes = [0, below(60) * cell][below(2) as usize];
        let frame_bytes = [64, 64, 64, 1_000][below(4) as usize];
        for class in [0, 3] {
            let wanted = expected_class(&config, class, frame_bytes, FRAMES_MAX);
            let measured = measure_class(&config, class, frame_bytes, FRAMES_MAX);
            if wanted.drop == Some(1) {
                let failure = measured.expect_err("nothing passes");
                assert_eq!(failure.exit, Exit::Inconclusive, "round {round}, class {class}");
                continue;
            }
            let measured =
                measured.unwrap_or_else(|failure| panic!("round {round}, class {class}: {failure}"));
            assert_eq!(
                ExpectedThresholds::from(measured),
                wanted,
                "round {round}, class {class}, frames of {frame_bytes}: {:#?} {:?}",
                config.profiles,
                config.pools
            );
            let hold = if class == 3 {
                EgressHoldMethod::Pause
            } else {
                EgressHoldMethod::Block
            };
            assert_eq!(measured.hold, Some(hold));
            resumed += u32::from(measured.xon.is_some());
            dropped += u32::from(measured.drop.is_some());
        }
    }
    assert!(
        resumed > 15 && dropped > 50,
        "{resumed} resumed, {dropped} dropped"
    );
}

#[test]
fn trimmed_frame_counts_as_dropped() {
    let mut config = three_port_switch();
    config.profiles[3].trim = true;
    config.trimming = Some(TrimmingConfig {
        size_bytes: 128,
        dscp: TrimDscp::Fixed(48),
        queue: TrimQueue::Fixed(6),
        exempt: Vec::new(),
    });
    let measured = measure_class(&config, 0, 400, FRAMES_MAX).expect("thresholds");
    assert_eq!(
        ExpectedThresholds::from(measured),
        expected_class(&config, 0, 400, FRAMES_MAX)
    );
}

#[test]
fn class_that_cannot_be_probed_is_an_error() {
    let mut config = three_port_switch();
    let unmapped = measure_class(&config, 5, 64, FRAMES_MAX).expect_err("no header leads to class 5");
    assert_eq!(unmapped.exit, Exit::Usage);
    config.ports[1].mtu = 1_500;
    let long = measure_class(&config, 3, 1_600, FRAMES_MAX).expect_err("too long");
    assert_eq!(long.exit, Exit::Usage);
    config.profiles[3].threshold = BufferThreshold::Static(1);
    let lost = measure_class(&config, 0, 64, FRAMES_MAX).expect_err("nothing passes");
    assert_eq!(lost.exit, Exit::Inconclusive);
}

/// A simulated switch with given thresholds. The first frames leave although the port is held (leaked
/// frames), and the XOFF threshold may vary.
struct SimulatedSwitch {
    xoff: u32,
    drop: u32,
    leaked_frames: u32,
    is_unstable: bool,
    held: Vec<u32>,
    next: u32,
    fillings: u32,
    is_held: bool,
    seen: DeviceOutput,
}

impl ProbeDevice for SimulatedSwitch {
    fn egress_count(&self) -> usize {
        1
    }

    fn frame_bytes(&self) -> u32 {
        64
    }

    fn send_frames(&mut self, _: usize, frames: u32) -> Result<(), Failure> {
        for _ in 0..frames {
            let number = self.next;
            self.next += 1;
            // The hold takes effect late, except for the single frame that tests the hold method.
            if !self.is_held || (self.fillings > 1 && number < self.leaked_frames) {
                self.seen.arrived.push(number);
            } else if (self.held.len() as u32) + 1 < self.drop {
                self.held.push(number);
            }
        }
        let is_unstable = self.is_unstable && self.fillings.is_multiple_of(2);
        if self.held.len() as u32 >= self.xoff + u32::from(is_unstable) {
            self.seen.xoff |= 8;
        }
        Ok(())
    }

    fn set_hold(&mut self, _: usize, _: EgressHoldMethod, is_held: bool) -> Result<(), Failure> {
        self.is_held = is_held;
        if !is_held {
            self.seen.arrived.append(&mut self.held);
        }
        Ok(())
    }

    fn wait_until_idle(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn take_output(&mut self) -> DeviceOutput {
        std::mem::take(&mut self.seen)
    }

    fn reset_numbering(&mut self) {
        self.next = 0;
        self.fillings += 1;
    }
}

fn measure_simulated_switch(leaked_frames: u32, is_unstable: bool) -> Result<MeasuredThresholds, Failure> {
    let mut device = SimulatedSwitch {
        xoff: 700,
        drop: 1_000,
        leaked_frames,
        is_unstable,
        held: Vec::new(),
        next: 0,
        fillings: 0,
        is_held: false,
        seen: DeviceOutput::default(),
    };
    let options = ProbeOptions {
        first: 37,
        frames_max: 5_000,
        verifications: 2,
    };
    measure_thresholds(&mut device, &options)
}

#[test]
fn leaked_frames_are_not_part_of_the_threshold() {
    for leaked_frames in [0, 1, 9] {
        let measured = measure_simulated_switch(leaked_frames, false).expect("thresholds");
        assert_eq!(
            (measured.xoff, measured.drop),
            (Some(700), Some(1_000)),
            "{leaked_frames}"
        );
        assert_eq!(measured.leaked, leaked_frames);
        assert_eq!(measured.headroom(), Some(299));
    }
}

#[test]
fn switch_with_varying_threshold_is_inconclusive() {
    let failure = measure_simulated_switch(0, true).expect_err("unstable");
    assert_eq!(failure.exit, Exit::Inconclusive);
}
