//! A congestion control of your own: additive increase, multiplicative decrease by ECN marks.
//!
//!     cargo run --example congestion_control
//!
//! Three hosts send to a fourth one through a switch that marks packets. The controllers share the bottleneck link.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its results"
)]

use xoff_config::{ResolveOptions, build_preset, load};
use xoff_fabric::{Fabric, FabricPlan, LinkEnd, LinkPlan, RunStopReason};
use xoff_host::{HostConfig, QueuePairSetup};
use xoff_rdma::congestion::{
    Ack, Algorithm, CongestionConfig, CongestionControl, CongestionFeedback, CongestionSignal,
    ControllerContext, ControllerFactory,
};
use xoff_rdma::{QpConfig, Verb, WorkRequest};
use xoff_units::{LinkTiming, Picos};

const SPEED_MBPS: u32 = 100_000;
const SENDERS: u8 = 3;
const RECEIVER: u8 = 3;
const MESSAGE_BYTES: u64 = 2 << 20;

/// Increases its rate once per round trip, and halves it after a round trip with a mark.
#[derive(Debug)]
struct Aimd {
    rate_bps: u64,
    line_rate_bps: u64,
    /// Position in the stream whose acknowledgement ends the current round trip, in bytes.
    round_end: u64,
    /// Whether a mark was echoed in the current round trip.
    is_marked: bool,
}

impl Aimd {
    fn new(context: &ControllerContext) -> Aimd {
        Aimd {
            rate_bps: context.line_rate_bps,
            line_rate_bps: context.line_rate_bps,
            round_end: 0,
            is_marked: false,
        }
    }
}

impl CongestionControl for Aimd {
    fn name(&self) -> &'static str {
        "aimd"
    }

    fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    fn signals(&self) -> &'static [CongestionSignal] {
        &[CongestionSignal::MarkEcho]
    }

    fn on_ack(&mut self, _now: Picos, ack: &Ack<'_>) {
        self.is_marked |= ack.marked;
        if ack.acked_total <= self.round_end {
            return;
        }
        self.rate_bps = match self.is_marked {
            true => (self.rate_bps / 2).max(self.line_rate_bps / 1_000),
            false => (self.rate_bps + self.line_rate_bps / 100).min(self.line_rate_bps),
        };
        self.is_marked = false;
        self.round_end = ack.sent_total;
    }
}

fn host_mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, host]
}

/// Returns the fabric: four hosts at one switch, whose preset marks packets with ECN and sends PFC.
fn build_fabric() -> Result<Fabric, Box<dyn std::error::Error>> {
    let ports: Vec<(String, u32)> = (0..=RECEIVER)
        .map(|port| (format!("Ethernet{port}"), SPEED_MBPS))
        .collect();
    let config_db = build_preset("roce-lossless", &ports, Picos::ZERO)?.to_json();
    let config = load(&[("preset", &config_db)], &ResolveOptions::default())?
        .resolved
        .config;
    let host = |n: u8| {
        let mut config = HostConfig::new(format!("h{n}"), host_mac(n), LinkTiming::ethernet(SPEED_MBPS));
        config.ipv4 = Some([10, 0, 0, n].into());
        config
    };
    let link = |port: u16| LinkPlan {
        name: format!("h{port}--s0"),
        ends: [LinkEnd::Host(port.into()), LinkEnd::Switch { switch: 0, port }],
        delay: Picos::from_micros(1),
    };
    let plan = FabricPlan {
        switches: vec![config.into()],
        hosts: (0..=RECEIVER).map(host).collect(),
        links: (0..=RECEIVER.into()).map(link).collect(),
    };
    Ok(Fabric::new(plan, 1)?)
}

/// Sends one message from each sender to the receiver. Returns the number of PFC frames that the hosts received.
fn run(controllers: &ControllerFactory) -> Result<u64, Box<dyn std::error::Error>> {
    let mut fabric = build_fabric()?;
    let context = ControllerContext {
        line_rate_bps: u64::from(SPEED_MBPS) * 1_000_000,
        base_rtt: Picos::from_micros(5),
        packet_bytes: 1_082,
        seed: 0,
    };
    let setup = |number: u32, peer: u32, peer_host: u8| {
        let mut config = QpConfig::new(number, peer);
        config.feedback = CongestionFeedback::AckEcho;
        let mut setup = QueuePairSetup::new(config, controllers.make(&context), [10, 0, 0, peer_host].into());
        setup.dst_mac = Some(host_mac(peer_host));
        setup
    };
    for sender in 0..SENDERS {
        let (own, peer) = (0x100 + u32::from(sender), 0x200 + u32::from(sender));
        fabric.change_host(usize::from(RECEIVER), &mut (), |host, _| {
            host.create_queue_pair(setup(peer, own, sender));
        });
        fabric.change_host(usize::from(sender), &mut (), |host, now| {
            let queue_pair = host.create_queue_pair(setup(own, peer, RECEIVER));
            let (verb, bytes) = (Verb::Write, MESSAGE_BYTES);
            host.post(now, queue_pair, WorkRequest { id: 1, verb, bytes })
        })?;
    }
    // The fabric pauses at each completion, so that the program can post more work.
    let mut completed = 0;
    while fabric.run(Picos::from_millis(20), &mut ()) == RunStopReason::Completion {
        fabric.take_completions(|host, _| completed += usize::from(host != usize::from(RECEIVER)));
    }
    assert_eq!(completed, usize::from(SENDERS), "all messages are acknowledged");
    Ok((0..usize::from(SENDERS))
        .map(|host| fabric.host(host).nic_counters(fabric.now()).pfc_rx_frames)
        .sum())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let without = run(&CongestionConfig::new(Algorithm::None).factory()?)?;
    let with_aimd = run(&ControllerFactory::new(|context| Box::new(Aimd::new(context))))?;
    println!("PFC frames without congestion control: {without}");
    println!("PFC frames with AIMD: {with_aimd}");
    assert!(with_aimd < without);
    Ok(())
}
