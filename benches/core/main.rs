//! `cargo bench --bench core`: nanoseconds per frame through the switch, ingress to egress. See `benches/README.md`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

mod balancing;
mod routing;
mod workload;

use balancing::{Balanced, cases};
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

fn balancing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("balancing");
    group.throughput(Throughput::Elements(BURST as u64));
    for case in cases() {
        group.bench_function(case.name, |bencher| {
            let mut load = Balanced::new(case.scheme.clone(), case.queue_pairs);
            bencher.iter(|| load.burst());
            load.check();
        });
    }
    group.finish();
}

criterion_group!(benches, core, balancing);
criterion_main!(benches);
