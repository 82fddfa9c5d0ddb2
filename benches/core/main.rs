//! `cargo bench --bench core`: nanoseconds per frame through the switch, ingress to egress. See `benches/README.md`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

mod workload;

use workload::{BURST, Workload};

fn core(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    group.throughput(Throughput::Elements(BURST as u64));
    group.bench_function("burst of 32, 4 ports to 1", |bencher| {
        let mut load = Workload::new();
        bencher.iter(|| load.burst());
        load.check();
    });
    group.finish();
}

criterion_group!(benches, core);
criterion_main!(benches);
