//! Compares the HPCC rules of the MMU with an independent model after every operation of random traces, and
//! with the published closed form.

use mmu_support::{pool_config, pool_profile, switch_config};
use proptest::prelude::*;
use xoff_dataplane::config::{BufferProfile, BufferThreshold, PoolSide, SwitchConfig};
use xoff_dataplane::mmu::{BufferLimit, Mmu};
use xoff_dataplane::{PgId, QueueId};

mod mmu_support;

const RESERVED_BYTES: u32 = 4_096;
const RESUME_OFFSET_BYTES: u32 = 3_072;
/// Frame lengths of the random traces: acknowledgement, last fragment, full data packet, jumbo frame.
const FRAME_LENGTHS: [u32; 5] = [60, 348, 1_048, 1_048, 9_048];

/// A port of the simulator.
#[derive(Clone, Copy, Debug)]
struct ModelPort {
    headroom: u32,
    shift: u8,
}

/// The published rules, with the variables and the arithmetic of the simulator.
#[derive(Debug)]
struct PublishedModel {
    buffer: u32,
    ports: Vec<ModelPort>,
    ingress: Vec<[u32; 8]>,
    headroom: Vec<[u32; 8]>,
    paused: Vec<[bool; 8]>,
    shared: u32,
}

impl PublishedModel {
    fn new(buffer: u32, ports: &[ModelPort]) -> PublishedModel {
        PublishedModel {
            buffer,
            ports: ports.to_vec(),
            ingress: vec![[0; 8]; ports.len()],
            headroom: vec![[0; 8]; ports.len()],
            paused: vec![[false; 8]; ports.len()],
            shared: 0,
        }
    }

    fn pause_threshold(&self, port: usize) -> u32 {
        let total_headroom = self
            .ports
            .iter()
            .fold(0_u32, |sum, port| sum.wrapping_add(port.headroom));
        let total_reserve = RESERVED_BYTES * self.ports.len() as u32;
        let free = self
            .buffer
            .wrapping_sub(total_headroom)
            .wrapping_sub(total_reserve)
            .wrapping_sub(self.shared);
        free >> self.ports[port].shift
    }

    fn used_bytes(&self, port: usize, group: usize) -> u32 {
        self.ingress[port][group].saturating_sub(RESERVED_BYTES)
    }

    /// Charges a frame. `None`: dropped. `Some(true)`: the group enters XOFF.
    fn arrive(&mut self, port: usize, group: usize, len: u32) -> Option<bool> {
        let no_headroom = len + self.headroom[port][group] > self.ports[port].headroom;
        if no_headroom && len + self.used_bytes(port, group) > self.pause_threshold(port) {
            return None;
        }
        let new = self.ingress[port][group] + len;
        if new <= RESERVED_BYTES {
            self.ingress[port][group] = new;
        } else if new - RESERVED_BYTES > self.pause_threshold(port) {
            self.headroom[port][group] += len;
        } else {
            self.ingress[port][group] = new;
            self.shared += len.min(new - RESERVED_BYTES);
        }
        let congested =
            self.headroom[port][group] > 0 || self.used_bytes(port, group) >= self.pause_threshold(port);
        let pauses = congested && !self.paused[port][group];
        self.paused[port][group] |= pauses;
        Some(pauses)
    }

    /// Releases a frame. Returns true if the group resumes.
    fn depart(&mut self, port: usize, group: usize, len: u32) -> bool {
        let from_headroom = len.min(self.headroom[port][group]);
        let from_shared = (len - from_headroom).min(self.used_bytes(port, group));
        self.headroom[port][group] -= from_headroom;
        self.ingress[port][group] -= len - from_headroom;
        self.shared -= from_shared;
        let used = self.used_bytes(port, group);
        let resumes = self.paused[port][group]
            && self.headroom[port][group] == 0
            && (used == 0 || used + RESUME_OFFSET_BYTES <= self.pause_threshold(port));
        self.paused[port][group] &= !resumes;
        resumes
    }
}

/// Returns the switch configuration of the ports of the model.
fn hpcc_config(buffer: u32, ports: &[ModelPort]) -> SwitchConfig {
    let mut config = switch_config(ports.len());
    config.pools = vec![
        pool_config("ingress", PoolSide::Ingress, u64::from(buffer), 0),
        pool_config("egress", PoolSide::Egress, 0, 0),
    ];
    for (index, port) in ports.iter().enumerate() {
        config.profiles.push(BufferProfile {
            size_bytes: u64::from(RESERVED_BYTES),
            xoff_bytes: u64::from(port.headroom),
            xon_offset_bytes: u64::from(RESUME_OFFSET_BYTES),
            trim: false,
            ..pool_profile(0, BufferThreshold::Hpcc { shift: port.shift })
        });
        config.ports[index].pgs = [index as u16; 8];
    }
    let queues = config.profiles.len() as u16;
    config.profiles.push(pool_profile(1, BufferThreshold::Static(0)));
    for port in &mut config.ports {
        port.queues.iter_mut().for_each(|queue| queue.profile = queues);
    }
    config
}

/// The model and the MMU, which receive the same operations.
struct ModelAndMmu {
    model: PublishedModel,
    mmu: Mmu,
    held: Vec<(usize, usize, u32)>,
    /// Counts of dropped frames, headroom charges, pauses and resumes.
    outcome_counts: [usize; 4],
}

impl ModelAndMmu {
    fn new(buffer: u32, ports: &[ModelPort]) -> ModelAndMmu {
        ModelAndMmu {
            model: PublishedModel::new(buffer, ports),
            mmu: Mmu::new(&hpcc_config(buffer, ports)),
            held: Vec::new(),
            outcome_counts: [0; 4],
        }
    }

    fn arrive(&mut self, port: usize, group: usize, len: u32) {
        let pg = PgId::new(xoff_dataplane::PortId(port as u16), group as u8);
        let cells = self.mmu.frame_cells(len);
        assert!(self.mmu.is_lossless(pg), "never dropped at egress");
        let plan = self.mmu.plan_ingress(pg, cells);
        let headroom_before = self.model.headroom[port][group];
        let Some(pauses) = self.model.arrive(port, group, len) else {
            let refusal = plan.expect_err("the model drops");
            assert_eq!(refusal.limit, BufferLimit::Headroom);
            assert!(refusal.used_cells + refusal.wanted_cells > refusal.limit_cells);
            self.outcome_counts[0] += 1;
            return;
        };
        let plan = plan.expect("the model accepts");
        let queue = QueueId(pg.0);
        let egress = self.mmu.plan_egress(queue, cells, true).expect("no limit there");
        self.mmu.commit_egress(queue, egress);
        assert_eq!(
            self.mmu.commit_ingress(pg, plan),
            pauses,
            "XOFF of {port} {group}"
        );
        self.held.push((port, group, len));
        self.outcome_counts[1] += usize::from(self.model.headroom[port][group] > headroom_before);
        self.outcome_counts[2] += usize::from(pauses);
    }

    fn depart(&mut self, index: usize) {
        let (port, group, len) = self.held.remove(index);
        let pg = PgId::new(xoff_dataplane::PortId(port as u16), group as u8);
        self.mmu.release_egress(QueueId(pg.0), len);
        let mut resumed = Vec::new();
        self.mmu.release_ingress(pg, len, &mut resumed);
        let resumes = self.model.depart(port, group, len);
        assert_eq!(
            resumed,
            Vec::from_iter(resumes.then_some(pg)),
            "XON of {port} {group}"
        );
        self.outcome_counts[3] += usize::from(resumes);
    }

    fn compare(&self) {
        for port in 0..self.model.ports.len() {
            for group in 0..8 {
                let pg = PgId::new(xoff_dataplane::PortId(port as u16), group as u8);
                let buffers = self.mmu.pg_buffers(pg);
                let (ingress, headroom) = (self.model.ingress[port][group], self.model.headroom[port][group]);
                assert_eq!(buffers.total.current_cells, ingress + headroom, "{port} {group}");
                assert_eq!(
                    buffers.shared.current_cells,
                    self.model.used_bytes(port, group),
                    "{port} {group}"
                );
                assert_eq!(buffers.headroom.current_cells, headroom, "{port} {group}");
                assert_eq!(buffers.xoff, self.model.paused[port][group], "{port} {group}");
            }
        }
        assert_eq!(self.mmu.pool_buffers(0).shared.current_cells, self.model.shared);
        self.mmu.assert_consistent();
    }
}

/// Returns a port of 100 Gb/s with the headroom of 1 us, or with another headroom.
fn port_with_headroom(headroom: u32, shift: u8) -> ModelPort {
    ModelPort { headroom, shift }
}

#[derive(Clone, Debug)]
enum Operation {
    Arrive { port: usize, group: usize, len: u32 },
    Depart { index: usize },
}

fn operation_sequences() -> impl Strategy<Value = Vec<Operation>> {
    let arrive = (0_usize..4, 3_usize..5, prop::sample::select(&FRAME_LENGTHS[..]))
        .prop_map(|(port, group, len)| Operation::Arrive { port, group, len });
    let depart = any::<usize>().prop_map(|index| Operation::Depart { index });
    prop::collection::vec(prop_oneof![11 => arrive, 10 => depart], 0..600)
}

fn run_trace(buffer: u32, ports: &[ModelPort], operations: &[Operation]) -> [usize; 4] {
    let mut pair = ModelAndMmu::new(buffer, ports);
    for operation in operations {
        match *operation {
            Operation::Arrive { port, group, len } => pair.arrive(port, group, len),
            Operation::Depart { .. } if pair.held.is_empty() => {}
            // Mostly in the order of arrival: one of the older half.
            Operation::Depart { index } => pair.depart(index % pair.held.len().div_ceil(2)),
        }
        pair.compare();
    }
    while !pair.held.is_empty() {
        pair.depart(0);
        pair.compare();
    }
    pair.outcome_counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The random buffers reach every rule. The ports have different speeds, and some buffers are below the
    /// reserved space.
    #[test]
    fn mmu_decisions_equal_the_published_hpcc_rules(
        buffer in prop_oneof![4 => 20_000_u32..200_000, 1 => 0_u32..40_000],
        headrooms in prop::array::uniform4(prop_oneof![0_u32..1, 2_000_u32..12_000]),
        shifts in prop::array::uniform4(0_u8..4),
        operations in operation_sequences(),
    ) {
        let ports: Vec<ModelPort> = (0..4).map(|n| port_with_headroom(headrooms[n], shifts[n])).collect();
        run_trace(buffer, &ports, &operations);
    }
}

/// A fixed trace that meets every case of the random traces.
#[test]
fn fixed_traces_contain_drops_headroom_pauses_and_resumes() {
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let operations: Vec<Operation> = (0..20_000)
        .map(|n| match draw(2) == 0 || n % 700 < 120 {
            true => Operation::Arrive {
                port: draw(4) as usize,
                group: 3,
                len: FRAME_LENGTHS[draw(5) as usize],
            },
            false => Operation::Depart {
                index: draw(1 << 20) as usize,
            },
        })
        .collect();
    let ports = [
        port_with_headroom(10_000, 3),
        port_with_headroom(10_000, 3),
        port_with_headroom(20_000, 1),
        port_with_headroom(0, 0),
    ];
    let outcome_counts = run_trace(150_000, &ports, &operations);
    assert!(
        outcome_counts.iter().all(|count| *count > 20),
        "{outcome_counts:?}"
    );
}

/// Four ports of 100 Gb/s with 1 us and 32 MiB. One group enters XOFF at 3 709 783 bytes, from (B - T_h -
/// T_r) / 9.
#[test]
fn one_group_enters_xoff_at_the_closed_form() {
    let ports = [port_with_headroom(37_500, 3); 4];
    let mut pair = ModelAndMmu::new(32 << 20, &ports);
    let closed_form = ((32 << 20) - 4 * 37_500 - 4 * RESERVED_BYTES) / 9;
    assert_eq!(closed_form, 3_709_783);
    while pair.outcome_counts[2] == 0 {
        pair.arrive(0, 3, 1);
    }
    assert_eq!(pair.model.used_bytes(0, 3), closed_form);
    pair.compare();
}

/// A buffer smaller than headroom and reserve. The limit wraps around, so that no group enters XOFF.
#[test]
fn a_buffer_below_headroom_and_reserve_never_pauses() {
    let ports = [port_with_headroom(37_500, 3); 2];
    let mut pair = ModelAndMmu::new(80_000, &ports);
    for _ in 0..10_000 {
        pair.arrive(0, 3, 1_048);
        pair.arrive(1, 3, 1_048);
    }
    assert_eq!(pair.outcome_counts, [0; 4]);
    pair.compare();
}

/// Releases of other groups resume no group, although they raise the limit.
#[test]
fn a_group_resumes_only_on_its_own_release() {
    let ports = [port_with_headroom(20_000, 3); 2];
    let mut pair = ModelAndMmu::new(1 << 20, &ports);
    for port in [0, 1] {
        let before = pair.outcome_counts[2];
        while pair.outcome_counts[2] == before {
            pair.arrive(port, 3, 1_048);
        }
    }
    // The frames of the first group leave. The second group is far below its limit and stays paused.
    while let Some(index) = pair.held.iter().position(|(port, ..)| *port == 0) {
        pair.depart(index);
    }
    let second = PgId::new(xoff_dataplane::PortId(1), 3);
    assert!(pair.mmu.is_in_xoff(second) && pair.outcome_counts[3] == 1);
    assert!(pair.model.used_bytes(1, 3) + RESUME_OFFSET_BYTES < pair.model.pause_threshold(1));
    pair.depart(0);
    assert!(!pair.mmu.is_in_xoff(second));
}
