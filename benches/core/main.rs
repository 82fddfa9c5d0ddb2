//! `cargo bench --bench core`: nanoseconds per frame through the switch, ingress to egress. See `benches/README.md`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

mod workload;

use workload::{BURST, Workload};

fn core(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    group.throughput(Throughput::Elements(BURST as u64));
    let mut load = Workload::new();
    group.bench_function("burst of 32, 4 ports to 1", |bencher| {
        bencher.iter(|| load.burst())
    });
    group.finish();
    // Not with `--list`, nor when a filter leaves the bench out.
    if load.bursts() > 1_000 {
        load.check();
    }
}

criterion_group!(benches, core);
criterion_main!(benches);
