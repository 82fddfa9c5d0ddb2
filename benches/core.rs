//! `cargo bench --bench core`: nanoseconds per frame through the switch, ingress to
//! egress. See `benches/README.md`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use core_bench::{
    BalancedLoad, FEATURE_VARIANTS, ForwardingMode, ManyToOneLoad, MeshForwarding, MeshLoad, MeshTraffic,
    balancing_cases, built_in_workloads,
};
use xoff_measure::frame_cost::{BURST_FRAMES, FrameLoad};

fn bench_packet_path(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    group.throughput(Throughput::Elements(BURST_FRAMES as u64));
    for (name, forwarding) in [
        ("burst of 32, 4 ports to 1", ForwardingMode::Bridged),
        ("routed, 1000 routes", ForwardingMode::Routed { routes: 1_000 }),
        (
            "routed, 100000 routes",
            ForwardingMode::Routed { routes: 100_000 },
        ),
    ] {
        let mut load = ManyToOneLoad::new(forwarding);
        group.bench_function(name, |bencher| bencher.iter(|| load.run_burst()));
        load.check().expect(name);
    }
    let traffic = |forwarding, ports, flows, frame_bytes| MeshTraffic {
        forwarding,
        ports,
        flows,
        frame_bytes,
    };
    for (name, traffic) in [
        ("8 ports, bridged", traffic(MeshForwarding::Bridged, 8, 64, 1_082)),
        (
            "8 ports, bridged, 64 octets",
            traffic(MeshForwarding::Bridged, 8, 64, 64),
        ),
        (
            "8 ports, bridged, 4200 octets",
            traffic(MeshForwarding::Bridged, 8, 64, 4_200),
        ),
        ("8 ports, routed", traffic(MeshForwarding::Routed, 8, 64, 1_082)),
        ("8 ports, ECMP", traffic(MeshForwarding::Ecmp, 8, 64, 1_082)),
        (
            "8 ports, ECMP, 64 octets",
            traffic(MeshForwarding::Ecmp, 8, 64, 64),
        ),
        (
            "8 ports, ECMP, 4200 octets",
            traffic(MeshForwarding::Ecmp, 8, 64, 4_200),
        ),
        (
            "32 ports, ECMP, 10000 flows",
            traffic(MeshForwarding::Ecmp, 32, 10_000, 1_082),
        ),
    ] {
        let mut load = MeshLoad::new(traffic);
        group.bench_function(name, |bencher| bencher.iter(|| load.run_burst()));
        load.check().expect(name);
    }
    for (_, summary, features) in FEATURE_VARIANTS {
        let name = format!("8 ports, ECMP, {summary}");
        let mut load = MeshLoad::with_features(traffic(MeshForwarding::Ecmp, 8, 64, 1_082), features);
        group.bench_function(&name, |bencher| bencher.iter(|| load.run_burst()));
        load.check().expect(&name);
    }
    group.finish();
}

/// Measures each stage of the packet path by itself.
fn bench_stages(criterion: &mut Criterion) {
    // Each stage uses 64 different frames, which are two bursts.
    let frames = 2 * BURST_FRAMES as u64;
    let mut group = criterion.benchmark_group("stages");
    group.throughput(Throughput::Elements(frames));
    for stage in built_in_workloads().into_iter().map(|known| known.workload) {
        let Some(name) = stage.name.strip_prefix("stage-") else {
            continue;
        };
        let mut load = stage.build().expect(name);
        group.bench_function(name, |bencher| bencher.iter(|| load.run(frames)));
        load.check().expect(name);
    }
    group.finish();
}

fn bench_balancing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("balancing");
    group.throughput(Throughput::Elements(BURST_FRAMES as u64));
    for case in balancing_cases() {
        group.bench_function(case.name, |bencher| {
            let mut load = BalancedLoad::new(case.scheme.clone(), case.queue_pairs);
            bencher.iter(|| load.run_burst());
            load.check().expect(case.name);
        });
    }
    group.finish();
}

criterion_group!(benches, bench_packet_path, bench_stages, bench_balancing);
criterion_main!(benches);
