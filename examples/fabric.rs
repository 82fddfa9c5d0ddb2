//! A fabric of your own: two switches, four hosts, and an observer that records which link carries the most frames.
//!
//!     cargo run --example fabric
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its results"
)]

use std::collections::BTreeMap;

use xoff_config::{ResolveOptions, build_preset, load};
use xoff_dataplane::config::SwitchConfig;
use xoff_fabric::{Fabric, FabricPlan, FrameView, LinkEnd, LinkPlan, Observer};
use xoff_host::{FlowConfig, HostConfig};
use xoff_units::{LinkTiming, Picos};

const SPEED_MBPS: u32 = 100_000;
const FRAMES_PER_HOST: u64 = 1_000;

/// Counts the arrivals of frames at each end of a link.
#[derive(Debug, Default)]
struct ArrivalCounter {
    frames: BTreeMap<LinkEnd, u64>,
}

impl Observer for ArrivalCounter {
    fn frame_arrived(&mut self, _at: Picos, to: LinkEnd, _frame: FrameView<'_>) {
        *self.frames.entry(to).or_default() += 1;
    }
}

/// Returns a lossless switch with three ports: two hosts and one uplink.
fn switch_config(name: &str, mac: u8) -> Result<SwitchConfig, Box<dyn std::error::Error>> {
    let ports: Vec<(String, u32)> = (0..3)
        .map(|port| (format!("Ethernet{port}"), SPEED_MBPS))
        .collect();
    let config_db = build_preset("roce-lossless", &ports, Picos::ZERO)?.to_json();
    let options = ResolveOptions {
        hostname: Some(name.to_owned()),
        ..ResolveOptions::default()
    };
    let mut config = load(&[("preset", &config_db)], &options)?.resolved.config;
    config.mac = [2, 0, 0, 1, 0, mac];
    Ok(config)
}

/// Returns host `n`, which sends [`FRAMES_PER_HOST`] RoCEv2 frames to host `to`.
fn host_config(n: u8, to: u8) -> HostConfig {
    let mut config = HostConfig::new(format!("h{n}"), host_mac(n), LinkTiming::ethernet(SPEED_MBPS));
    config.ipv4 = Some([10, 0, 0, n].into());
    let mut flow = FlowConfig::lossless(u32::from(n), [10, 0, 0, to].into(), Some(host_mac(to)));
    flow.frames_max = Some(FRAMES_PER_HOST);
    config.flows.push(flow);
    config
}

fn host_mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Hosts 0 and 1 are at switch 0, hosts 2 and 3 at switch 1. All flows share the link between the switches.
    let link = |name: &str, a, b| LinkPlan {
        name: name.to_owned(),
        ends: [a, b],
        delay: Picos::from_micros(1),
    };
    let port = |switch, port| LinkEnd::Switch { switch, port };
    let plan = FabricPlan {
        switches: vec![switch_config("s0", 0)?.into(), switch_config("s1", 1)?.into()],
        hosts: vec![
            host_config(0, 2),
            host_config(1, 3),
            host_config(2, 0),
            host_config(3, 1),
        ],
        links: vec![
            link("h0--s0", LinkEnd::Host(0), port(0, 0)),
            link("h1--s0", LinkEnd::Host(1), port(0, 1)),
            link("h2--s1", LinkEnd::Host(2), port(1, 0)),
            link("h3--s1", LinkEnd::Host(3), port(1, 1)),
            link("s0--s1", port(0, 2), port(1, 2)),
        ],
    };

    let mut observer = ArrivalCounter::default();
    let mut fabric = Fabric::new(plan, 1)?;
    for host in 0..4 {
        fabric.change_host(host, &mut observer, |host, now| host.start(now));
    }
    fabric.run(Picos::from_millis(1), &mut observer);

    for host in 0..4 {
        println!("h{host} received {} frames", fabric.host(host).received_frames());
        assert_eq!(fabric.host(host).received_frames(), FRAMES_PER_HOST);
    }
    let (busiest, frames) = observer
        .frames
        .iter()
        .max_by_key(|(_, frames)| **frames)
        .expect("frames have arrived");
    println!("most frames arrived at {busiest:?}: {frames}");
    assert!(matches!(busiest, LinkEnd::Switch { port: 2, .. }));
    Ok(())
}
