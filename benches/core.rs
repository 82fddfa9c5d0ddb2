//! `cargo bench --bench core`: nanoseconds per frame through the switch, ingress to egress. See
//! `benches/README.md`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use core_bench::{
    Balanced, FEATURES, ForwardingMode, ManyToOne, Mesh, Shape, Way, balancing_cases, built_in_workloads,
};
use xoff_measure::frame_cost::{BURST, Load};

fn core(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    group.throughput(Throughput::Elements(BURST as u64));
    for (name, way) in [
        ("burst of 32, 4 ports to 1", ForwardingMode::Bridged),
        ("routed, 1000 routes", ForwardingMode::Routed { routes: 1_000 }),
        (
            "routed, 100000 routes",
            ForwardingMode::Routed { routes: 100_000 },
        ),
    ] {
        let mut load = ManyToOne::new(way);
        group.bench_function(name, |bencher| bencher.iter(|| load.burst()));
        load.check().expect(name);
    }
    let shape = |way, ports, flows, frame_bytes| Shape {
        way,
        ports,
        flows,
        frame_bytes,
    };
    for (name, shape) in [
        ("8 ports, bridged", shape(Way::Bridged, 8, 64, 1_082)),
        ("8 ports, bridged, 64 octets", shape(Way::Bridged, 8, 64, 64)),
        ("8 ports, bridged, 4200 octets", shape(Way::Bridged, 8, 64, 4_200)),
        ("8 ports, routed", shape(Way::Routed, 8, 64, 1_082)),
        ("8 ports, ECMP", shape(Way::Ecmp, 8, 64, 1_082)),
        ("8 ports, ECMP, 64 octets", shape(Way::Ecmp, 8, 64, 64)),
        ("8 ports, ECMP, 4200 octets", shape(Way::Ecmp, 8, 64, 4_200)),
        ("32 ports, ECMP, 10000 flows", shape(Way::Ecmp, 32, 10_000, 1_082)),
    ] {
        let mut load = Mesh::new(shape);
        group.bench_function(name, |bencher| bencher.iter(|| load.burst()));
        load.check().expect(name);
    }
    for (_, about, features) in FEATURES {
        let name = format!("8 ports, ECMP, {about}");
        let mut load = Mesh::with(shape(Way::Ecmp, 8, 64, 1_082), features);
        group.bench_function(&name, |bencher| bencher.iter(|| load.burst()));
        load.check().expect(&name);
    }
    group.finish();
}

/// Measures the stages of the packet path separately.
fn stages(criterion: &mut Criterion) {
    // Two bursts: all frames that a stage processes in turn.
    let frames = 2 * BURST as u64;
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

fn balancing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("balancing");
    group.throughput(Throughput::Elements(BURST as u64));
    for case in balancing_cases() {
        group.bench_function(case.name, |bencher| {
            let mut load = Balanced::new(case.scheme.clone(), case.queue_pairs);
            bencher.iter(|| load.burst());
            load.check().expect(case.name);
        });
    }
    group.finish();
}

criterion_group!(benches, core, stages, balancing);
criterion_main!(benches);
