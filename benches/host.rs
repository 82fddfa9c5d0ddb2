//! The cost of a frame at a model host: building the frame with its ICRC, and receiving it.

use std::hint::black_box;
use std::net::Ipv4Addr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use xoff_dataplane::{LinkTiming, Picos};
use xoff_host::{FlowConfig, Host, HostConfig};
use xoff_wire::parse::parse;

/// A link that is fast enough to be always free, so that only the cost of the host is measured.
const LINK: LinkTiming = LinkTiming::ethernet(1_600_000);

fn sending_host(frame_len: u32) -> Host {
    let mut config = HostConfig::new("h1", [2, 0, 0, 0, 0, 1], LINK);
    config.ipv4 = Some(Ipv4Addr::new(10, 0, 0, 1));
    let flow = FlowConfig::lossless(0, Ipv4Addr::new(10, 0, 0, 2).into(), Some([2, 0, 0, 0, 0, 2]));
    config.flows = vec![flow.with_frame_len(frame_len).expect("a possible length")];
    let mut host = Host::new(&config).expect("a valid configuration");
    host.start(Picos::ZERO);
    host
}

fn receiving_host() -> Host {
    let mut config = HostConfig::new("h2", [2, 0, 0, 0, 0, 2], LINK);
    config.ipv4 = Some(Ipv4Addr::new(10, 0, 0, 2));
    Host::new(&config).expect("a valid configuration")
}

fn bench_frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("host");
    group.throughput(Throughput::Elements(1));
    for frame_len in [98, 1_082, 4_154] {
        let mut host = sending_host(frame_len);
        let mut buf = vec![0; host.frame_len_max()];
        let mut now = Picos::from_millis(1);
        group.bench_function(format!("transmit {frame_len}"), |bench| {
            bench.iter(|| {
                now += Picos::from_nanos(100);
                black_box(host.transmit(now, 1, &mut buf))
            });
        });

        let (mut sender, mut receiver) = (sending_host(frame_len), receiving_host());
        let mut now = Picos::from_millis(1);
        // The receiver would count a repeated frame as a duplicate, so each iteration uses a new frame.
        // Building the frame is not measured.
        let mut build_frame = || loop {
            now += Picos::from_nanos(100);
            match sender.transmit(now, 1, &mut buf) {
                Some(len) if len >= 98 => return buf[..len].to_vec(),
                _ => {}
            }
        };
        group.bench_function(format!("receive {frame_len}"), |bench| {
            bench.iter_batched(
                &mut build_frame,
                |frame| receiver.receive(Picos::from_millis(2), 2, &frame, &parse(&frame)),
                criterion::BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, bench_frames);
criterion_main!(benches);
