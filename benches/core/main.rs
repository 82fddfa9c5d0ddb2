//! `cargo bench --bench core`: nanoseconds per frame through the switch, ingress to egress. See `benches/README.md`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use xoff_dataplane::Picos;
use xoff_dataplane::config::{Pick, Rebalance, SchemeConfig, SchemeKind};

mod balancing;
mod routing;
mod workload;

use balancing::Balanced;
use workload::{BURST, Way, Workload};

fn core(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    group.throughput(Throughput::Elements(BURST as u64));
    for (name, way) in [
        ("burst of 32, 4 ports to 1", Way::Bridged),
        ("routed, 1000 routes", Way::Routed { routes: 1_000 }),
        ("routed, 100000 routes", Way::Routed { routes: 100_000 }),
    ] {
        let mut load = Workload::new(way);
        group.bench_function(name, |bencher| bencher.iter(|| load.burst()));
        // Not with `--list`, nor when a filter leaves the bench out.
        if load.bursts() > 1_000 {
            load.check();
        }
    }
    group.finish();
}

/// Schemes beside the router's hash, which is the first.
fn schemes() -> Vec<(&'static str, Option<SchemeKind>, u32)> {
    let flowlet = |pick| SchemeKind::Flowlet {
        idle: Picos::from_micros(64),
        pick,
        rebalance: None,
    };
    let every = SchemeKind::Flowlet {
        idle: Picos::ZERO,
        pick: Pick::Quality,
        rebalance: None,
    };
    let rebalanced = SchemeKind::Flowlet {
        idle: Picos::from_micros(64),
        pick: Pick::Quality,
        rebalance: Some(Rebalance {
            quality_delta: 2,
            probability: 1 << 22,
        }),
    };
    let per_packet = |pick| SchemeKind::PerPacket { pick };
    vec![
        ("hash", None, 256),
        ("round robin", Some(SchemeKind::RoundRobin), 256),
        ("random", Some(per_packet(Pick::Random)), 256),
        ("per packet", Some(per_packet(Pick::Quality)), 256),
        ("per packet, path load", Some(per_packet(Pick::PathLoad)), 256),
        ("flowlet", Some(flowlet(Pick::Quality)), 256),
        ("flowlet, 32768 entries", Some(flowlet(Pick::Quality)), 32_768),
        ("flowlet, rebalancing", Some(rebalanced), 32_768),
        ("flowlet, every packet", Some(every), 32_768),
        ("letflow", Some(flowlet(Pick::Random)), 32_768),
        (
            "fixed, 32768 entries",
            Some(SchemeKind::Fixed { pick: Pick::Quality }),
            32_768,
        ),
        (
            "drill",
            Some(SchemeKind::Drill {
                samples: 2,
                memory: 1,
            }),
            256,
        ),
    ]
}

fn balancing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("balancing");
    group.throughput(Throughput::Elements(BURST as u64));
    for (name, kind, flowset_entries) in schemes() {
        let scheme = kind.map(|kind| SchemeConfig {
            flowset_entries,
            ..SchemeConfig::new(name, kind)
        });
        group.bench_function(name, |bencher| {
            let mut load = Balanced::new(scheme.clone(), QUEUE_PAIRS);
            bencher.iter(|| load.burst());
            load.check();
        });
    }
    group.finish();
}

/// Queue pairs of the balanced workload.
const QUEUE_PAIRS: u32 = 1_000;

criterion_group!(benches, core, balancing);
criterion_main!(benches);
