//! Compares the HPCC rules of the MMU with an independent model after every operation of random traces, and
//! with the published closed form.

use mmu_support::{pool, profile, switch};
use proptest::prelude::*;
use xoff_dataplane::config::{BufferProfile, BufferThreshold, PoolSide, SwitchConfig};
use xoff_dataplane::mmu::{BufferLimit, Mmu};
use xoff_dataplane::{PgId, QueueId};

mod mmu_support;

const RESERVE: u32 = 4_096;
const RESUME_OFFSET: u32 = 3_072;
/// Frame lengths of the random traces: acknowledgement, last fragment, full data packet, jumbo frame.
const LENGTHS: [u32; 5] = [60, 348, 1_048, 1_048, 9_048];

/// A port of the simulator.
#[derive(Clone, Copy, Debug)]
struct Port {
    headroom: u32,
    shift: u8,
}

/// The published rules, with the variables and the arithmetic of the simulator.
#[derive(Debug)]
struct Model {
    buffer: u32,
    ports: Vec<Port>,
    ingress: Vec<[u32; 8]>,
    headroom: Vec<[u32; 8]>,
    paused: Vec<[bool; 8]>,
    shared: u32,
}

impl Model {
    fn new(buffer: u32, ports: &[Port]) -> Model {
        Model {
            buffer,
            ports: ports.to_vec(),
            ingress: vec![[0; 8]; ports.len()],
            headroom: vec![[0; 8]; ports.len()],
            paused: vec![[false; 8]; ports.len()],
            shared: 0,
        }
    }

    fn threshold(&self, port: usize) -> u32 {
        let total_headroom = self
            .ports
            .iter()
            .fold(0_u32, |sum, p| sum.wrapping_add(p.headroom));
        let total_reserve = RESERVE * self.ports.len() as u32;
        let free = self
            .buffer
            .wrapping_sub(total_headroom)
            .wrapping_sub(total_reserve)
            .wrapping_sub(self.shared);
        free >> self.ports[port].shift
    }

    fn used(&self, p: usize, q: usize) -> u32 {
        self.ingress[p][q].saturating_sub(RESERVE)
    }

    /// Charges a frame. `None`: dropped. `Some(true)`: the group enters XOFF.
    fn arrive(&mut self, p: usize, q: usize, len: u32) -> Option<bool> {
        let no_headroom = len + self.headroom[p][q] > self.ports[p].headroom;
        if no_headroom && len + self.used(p, q) > self.threshold(p) {
            return None;
        }
        let new = self.ingress[p][q] + len;
        if new <= RESERVE {
            self.ingress[p][q] = new;
        } else if new - RESERVE > self.threshold(p) {
            self.headroom[p][q] += len;
        } else {
            self.ingress[p][q] = new;
            self.shared += len.min(new - RESERVE);
        }
        let congested = self.headroom[p][q] > 0 || self.used(p, q) >= self.threshold(p);
        let pauses = congested && !self.paused[p][q];
        self.paused[p][q] |= pauses;
        Some(pauses)
    }

    /// Releases a frame. Returns true if the group resumes.
    fn depart(&mut self, p: usize, q: usize, len: u32) -> bool {
        let from_headroom = len.min(self.headroom[p][q]);
        let from_shared = (len - from_headroom).min(self.used(p, q));
        self.headroom[p][q] -= from_headroom;
        self.ingress[p][q] -= len - from_headroom;
        self.shared -= from_shared;
        let used = self.used(p, q);
        let resumes = self.paused[p][q]
            && self.headroom[p][q] == 0
            && (used == 0 || used + RESUME_OFFSET <= self.threshold(p));
        self.paused[p][q] &= !resumes;
        resumes
    }
}

/// The same ports as a configuration of the switch.
fn config(buffer: u32, ports: &[Port]) -> SwitchConfig {
    let mut config = switch(ports.len());
    config.pools = vec![
        pool("ingress", PoolSide::Ingress, u64::from(buffer), 0),
        pool("egress", PoolSide::Egress, 0, 0),
    ];
    for (index, port) in ports.iter().enumerate() {
        config.profiles.push(BufferProfile {
            size_bytes: u64::from(RESERVE),
            xoff_bytes: u64::from(port.headroom),
            xon_offset_bytes: u64::from(RESUME_OFFSET),
            trim: false,
            ..profile(0, BufferThreshold::Hpcc { shift: port.shift })
        });
        config.ports[index].pgs = [index as u16; 8];
    }
    let queues = config.profiles.len() as u16;
    config.profiles.push(profile(1, BufferThreshold::Static(0)));
    for port in &mut config.ports {
        port.queues.iter_mut().for_each(|queue| queue.profile = queues);
    }
    config
}

/// The model and the MMU, driven together.
struct Pair {
    model: Model,
    mmu: Mmu,
    held: Vec<(usize, usize, u32)>,
    /// Counts of dropped frames, headroom charges, pauses and resumes.
    seen: [usize; 4],
}

impl Pair {
    fn new(buffer: u32, ports: &[Port]) -> Pair {
        Pair {
            model: Model::new(buffer, ports),
            mmu: Mmu::new(&config(buffer, ports)),
            held: Vec::new(),
            seen: [0; 4],
        }
    }

    fn arrive(&mut self, p: usize, q: usize, len: u32) {
        let pg = PgId::new(xoff_dataplane::PortId(p as u16), q as u8);
        let cells = self.mmu.frame_cells(len);
        assert!(self.mmu.is_lossless(pg), "never dropped at egress");
        let plan = self.mmu.plan_ingress(pg, cells);
        let headroom_before = self.model.headroom[p][q];
        let Some(pauses) = self.model.arrive(p, q, len) else {
            let refusal = plan.expect_err("the model drops");
            assert_eq!(refusal.limit, BufferLimit::Headroom);
            assert!(refusal.used_cells + refusal.wanted_cells > refusal.limit_cells);
            self.seen[0] += 1;
            return;
        };
        let plan = plan.expect("the model accepts");
        let queue = QueueId(pg.0);
        let egress = self.mmu.plan_egress(queue, cells, true).expect("no limit there");
        self.mmu.commit_egress(queue, egress);
        assert_eq!(self.mmu.commit_ingress(pg, plan), pauses, "XOFF of {p} {q}");
        self.held.push((p, q, len));
        self.seen[1] += usize::from(self.model.headroom[p][q] > headroom_before);
        self.seen[2] += usize::from(pauses);
    }

    fn depart(&mut self, index: usize) {
        let (p, q, len) = self.held.remove(index);
        let pg = PgId::new(xoff_dataplane::PortId(p as u16), q as u8);
        self.mmu.release_egress(QueueId(pg.0), len);
        let mut resumed = Vec::new();
        self.mmu.release_ingress(pg, len, &mut resumed);
        let resumes = self.model.depart(p, q, len);
        assert_eq!(resumed, Vec::from_iter(resumes.then_some(pg)), "XON of {p} {q}");
        self.seen[3] += usize::from(resumes);
    }

    fn compare(&self) {
        for p in 0..self.model.ports.len() {
            for q in 0..8 {
                let pg = PgId::new(xoff_dataplane::PortId(p as u16), q as u8);
                let buffers = self.mmu.pg_buffers(pg);
                let (ingress, headroom) = (self.model.ingress[p][q], self.model.headroom[p][q]);
                assert_eq!(buffers.total.current_cells, ingress + headroom, "{p} {q}");
                assert_eq!(buffers.shared.current_cells, self.model.used(p, q), "{p} {q}");
                assert_eq!(buffers.headroom.current_cells, headroom, "{p} {q}");
                assert_eq!(buffers.xoff, self.model.paused[p][q], "{p} {q}");
            }
        }
        assert_eq!(self.mmu.pool_buffers(0).shared.current_cells, self.model.shared);
        self.mmu.assert_consistent();
    }
}

/// A port of 100 Gb/s with the headroom of 1 us, or with another headroom.
fn port(headroom: u32, shift: u8) -> Port {
    Port { headroom, shift }
}

#[derive(Clone, Debug)]
enum Operation {
    Arrive { port: usize, group: usize, len: u32 },
    Depart { index: usize },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let arrive = (0_usize..4, 3_usize..5, prop::sample::select(&LENGTHS[..]))
        .prop_map(|(port, group, len)| Operation::Arrive { port, group, len });
    let depart = any::<usize>().prop_map(|index| Operation::Depart { index });
    prop::collection::vec(prop_oneof![11 => arrive, 10 => depart], 0..600)
}

fn walk(buffer: u32, ports: &[Port], operations: &[Operation]) -> [usize; 4] {
    let mut pair = Pair::new(buffer, ports);
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
    pair.seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Small buffers that reach every rule, ports of different speeds, and buffers smaller than the reserved
    /// space.
    #[test]
    fn equals_the_published_rules(
        buffer in prop_oneof![4 => 20_000_u32..200_000, 1 => 0_u32..40_000],
        headrooms in prop::array::uniform4(prop_oneof![0_u32..1, 2_000_u32..12_000]),
        shifts in prop::array::uniform4(0_u8..4),
        operations in operations(),
    ) {
        let ports: Vec<Port> = (0..4).map(|n| port(headrooms[n], shifts[n])).collect();
        walk(buffer, &ports, &operations);
    }
}

/// A fixed trace that meets every case of the random traces.
#[test]
fn traces_meet_drops_headroom_pauses_and_resumes() {
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
                len: LENGTHS[draw(5) as usize],
            },
            false => Operation::Depart {
                index: draw(1 << 20) as usize,
            },
        })
        .collect();
    let ports = [port(10_000, 3), port(10_000, 3), port(20_000, 1), port(0, 0)];
    let seen = walk(150_000, &ports, &operations);
    assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
}

/// Four ports of 100 Gb/s with 1 us and 32 MiB. One group enters XOFF at 3 709 783 bytes, from (B - T_h -
/// T_r) / 9.
#[test]
fn one_group_pauses_at_the_closed_form() {
    let ports = [port(37_500, 3); 4];
    let mut pair = Pair::new(32 << 20, &ports);
    let closed_form = ((32 << 20) - 4 * 37_500 - 4 * RESERVE) / 9;
    assert_eq!(closed_form, 3_709_783);
    while pair.seen[2] == 0 {
        pair.arrive(0, 3, 1);
    }
    assert_eq!(pair.model.used(0, 3), closed_form);
    pair.compare();
}

/// A buffer smaller than headroom and reserve. The limit wraps around, so that no group enters XOFF.
#[test]
fn a_buffer_below_what_is_set_aside_never_pauses() {
    let ports = [port(37_500, 3); 2];
    let mut pair = Pair::new(80_000, &ports);
    for _ in 0..10_000 {
        pair.arrive(0, 3, 1_048);
        pair.arrive(1, 3, 1_048);
    }
    assert_eq!(pair.seen, [0; 4]);
    pair.compare();
}

/// Releases of other groups resume no group, although they raise the limit.
#[test]
fn only_an_own_release_resumes() {
    let ports = [port(20_000, 3); 2];
    let mut pair = Pair::new(1 << 20, &ports);
    for port in [0, 1] {
        let before = pair.seen[2];
        while pair.seen[2] == before {
            pair.arrive(port, 3, 1_048);
        }
    }
    // The frames of the first group leave. The second group is far below its limit and stays paused.
    while let Some(index) = pair.held.iter().position(|(port, ..)| *port == 0) {
        pair.depart(index);
    }
    let second = PgId::new(xoff_dataplane::PortId(1), 3);
    assert!(pair.mmu.is_in_xoff(second) && pair.seen[3] == 1);
    assert!(pair.model.used(1, 3) + RESUME_OFFSET < pair.model.threshold(1));
    pair.depart(0);
    assert!(!pair.mmu.is_in_xoff(second));
}
