//! Tests with hosts around one switch: times, losses and order.

use std::net::Ipv4Addr;

use xoff_dataplane::config::{BufferThreshold, SwitchConfig, TrimDscp, TrimQueue, TrimmingConfig};
use xoff_dataplane::{ForwardingResult, LinkTiming, Picos};

use super::*;
use xoff_config::{ResolveOptions, build_preset, load};
use xoff_host::{HostConfig, QueuePairSetup};
use xoff_rdma::congestion::{Algorithm, CongestionConfig, ControllerContext};
use xoff_rdma::{CompletionKind, QpConfig, QpIndex, Verb, WorkRequest};

const SPEED_MBPS: u32 = 100_000;
const DELAY: Picos = Picos::from_micros(1);

fn ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + host as u8)
}

fn mac(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, 1 + host as u8]
}

/// Creates hosts around one switch with the preset `roce-lossless`.
fn star(hosts: usize) -> Fabric {
    star_with(hosts, |_| {})
}

/// Does the same with a changed switch configuration.
fn star_with(hosts: usize, change: impl FnOnce(&mut SwitchConfig)) -> Fabric {
    let ports: Vec<(String, u32)> = (0..hosts)
        .map(|n| (format!("Ethernet{}", 4 * n), SPEED_MBPS))
        .collect();
    let budget = Picos::from_micros(6);
    let layer = build_preset("roce-lossless", &ports, budget).unwrap().to_json();
    let speeds: Vec<String> = ports
        .iter()
        .map(|(name, speed)| format!("\"{name}\": {{\"speed\": \"{speed}\"}}"))
        .collect();
    let base = format!("{{\"PORT\": {{{}}}}}", speeds.join(","));
    let resolve = ResolveOptions {
        ports: ports.iter().map(|(name, _)| name.clone()).collect(),
        seed: 1,
        reaction_budget: budget,
        ..ResolveOptions::default()
    };
    let mut loaded = load(&[("base", base.as_str()), ("preset", layer.as_str())], &resolve).unwrap();
    change(&mut loaded.resolved.config);
    let host = |n| {
        let mut config = HostConfig::new(format!("h{n}"), mac(n), LinkTiming::ethernet(SPEED_MBPS));
        config.ipv4 = Some(ip(n));
        config
    };
    let link = |n| LinkPlan {
        name: format!("h{n}"),
        ends: [
            LinkEnd::Host(n as u32),
            LinkEnd::Switch {
                switch: 0,
                port: n as u16,
            },
        ],
        delay: DELAY,
    };
    let plan = FabricPlan {
        switches: vec![loaded.resolved.config.into()],
        hosts: (0..hosts).map(host).collect(),
        links: (0..hosts).map(link).collect(),
    };
    Fabric::new(plan, 1).unwrap()
}

/// Creates a queue pair at each of two hosts.
fn connect(fabric: &mut Fabric, from: usize, to: usize, number: u32) -> QpIndex {
    let mut end = |at: usize, peer: usize, number, peer_number| {
        let context = ControllerContext {
            line_rate_bps: u64::from(SPEED_MBPS) * 1_000_000,
            base_rtt: Picos::from_micros(5),
            packet_bytes: 1_086,
            seed: 1,
        };
        let none = CongestionConfig::new(Algorithm::None)
            .factory()
            .unwrap()
            .make(&context);
        let mut setup = QueuePairSetup::new(QpConfig::new(number, peer_number), none, ip(peer).into());
        setup.dst_mac = Some(mac(peer));
        fabric.change_host(at, &mut (), |host, _| host.create_queue_pair(setup))
    };
    end(to, from, number + 1, number);
    end(from, to, number, number + 1)
}

fn post_write(fabric: &mut Fabric, from: usize, qp: QpIndex, bytes: u64) {
    let request = WorkRequest {
        id: 7,
        verb: Verb::Write,
        bytes,
    };
    fabric
        .change_host(from, &mut (), |host, now| host.post(now, qp, request))
        .unwrap();
}

/// Runs until `count` requests are acknowledged. Returns the host and time of each acknowledgement.
fn run_until_acknowledged(
    fabric: &mut Fabric,
    count: usize,
    observer: &mut dyn Observer,
) -> Vec<(usize, Picos)> {
    let mut done = Vec::new();
    while done.len() < count {
        let halt = fabric.run(Picos::from_millis(100), observer);
        assert_eq!(halt, RunStopReason::Completion, "at {:?}", fabric.now());
        fabric.take_completions(|host, completion| {
            if matches!(completion.kind, CompletionKind::Acked { id: 7 }) {
                done.push((host, completion.at));
            }
        });
    }
    done
}

/// Records the arrivals of frames above 1000 bytes at hosts.
#[derive(Default)]
struct ArrivalRecorder {
    at_host: Vec<Picos>,
    dropped: u64,
}

impl Observer for ArrivalRecorder {
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        if matches!(to, LinkEnd::Host(_)) && frame.frame_len > 1_000 {
            self.at_host.push(at);
        }
    }
    fn admission_decided(&mut self, _: Picos, _: u32, _: xoff_dataplane::PortId, verdict: &ForwardingResult) {
        self.dropped += u64::from(matches!(verdict, ForwardingResult::Dropped(_)));
    }
}

/// Time of one byte at 100 Gb/s in picoseconds.
const BYTE_PS: u64 = 80;

#[test]
fn a_packet_on_an_idle_path_has_the_computed_time() {
    let mut fabric = star(2);
    let qp = connect(&mut fabric, 0, 1, 0x11);
    fabric.run(Picos::from_millis(1), &mut ());
    let start = fabric.now();
    let mut arrivals = ArrivalRecorder::default();
    post_write(&mut fabric, 0, qp, 1_024);
    run_until_acknowledged(&mut fabric, 1, &mut arrivals);
    // Preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16, payload 1024, ICRC 4, FCS 4. Twice, plus
    // two delays.
    let one = 8 + 14 + 20 + 8 + 12 + 16 + 1_024 + 4 + 4;
    assert_eq!(arrivals.at_host, [start + Picos(2 * (one * BYTE_PS + DELAY.0))]);
}

#[test]
fn an_incast_drops_no_frame_and_drains_completely() {
    let mut fabric = star(5);
    let senders = 0..4;
    let queue_pairs: Vec<QpIndex> = senders
        .clone()
        .map(|n| connect(&mut fabric, n, 4, 0x100 + 2 * n as u32))
        .collect();
    fabric.run(Picos::from_millis(1), &mut ());
    let start = fabric.now();
    for n in senders {
        post_write(&mut fabric, n, queue_pairs[n], 4 << 20);
    }
    let mut arrivals = ArrivalRecorder::default();
    let done = run_until_acknowledged(&mut fabric, 4, &mut arrivals);
    assert_eq!((arrivals.at_host.len(), arrivals.dropped), (4 * 4_096, 0));
    let xoffs: u64 = (0..4)
        .map(|n| {
            fabric
                .switch(0)
                .port_counters(fabric.now(), xoff_dataplane::PortId(n))
                .pfc_tx[3]
        })
        .sum();
    assert!(xoffs > 0, "four into one without a pause");
    // The link of the receiver carries each frame once: 16384 frames of 1106 bytes with preamble and gap, and
    // 16 more bytes for each first frame.
    let bits = (4 * 4_096 * (1_082 + 24) + 4 * 16) * BYTE_PS;
    let took = done.iter().map(|(_, at)| at.since(start).0).max().unwrap();
    assert!((bits..bits + bits / 100).contains(&took), "{took} {bits}");
    fabric.run(Picos::from_millis(200), &mut ());
    assert_eq!((fabric.frames_in_flight(), fabric.frames_on_links()), (0, 0));
    fabric.switch(0).assert_consistent();
}

#[test]
fn the_same_plan_gives_the_same_run() {
    let run = || {
        let mut fabric = star(4);
        for n in 0..3 {
            let qp = connect(&mut fabric, n, 3, 0x100 + 2 * n as u32);
            post_write(&mut fabric, n, qp, 1 << 20);
        }
        let mut arrivals = ArrivalRecorder::default();
        let done = run_until_acknowledged(&mut fabric, 3, &mut arrivals);
        (done, arrivals.at_host, fabric.events())
    };
    assert_eq!(run(), run());
}

#[test]
fn lost_and_corrupted_frames_are_retransmitted() {
    for action in [FaultAction::Drop, FaultAction::Corrupt] {
        let mut fabric = star(2);
        let qp = connect(&mut fabric, 0, 1, 0x11);
        let fault = Fault {
            action,
            selector: FrameSelector::Psn {
                psn: 17,
                dst_qp: None,
            },
            frames_max: 1,
            spares_up_to_len: 0,
        };
        assert!(fabric.add_fault(LinkEnd::Host(0), fault));
        post_write(&mut fabric, 0, qp, 1 << 16);
        run_until_acknowledged(&mut fabric, 1, &mut ());
        let counters = fabric.host(1).rdma_counters();
        assert!(counters.out_of_sequence > 0, "{counters:?}");
    }
}

/// Trimmed packets are counted and not delivered, and the requester sends the data again.
#[test]
fn a_trimmed_packet_is_not_received() {
    let mut fabric = star_with(3, |config| {
        let lossy = usize::from(config.ports[0].queues[0].profile);
        config.profiles[lossy].threshold = BufferThreshold::Static(20_000);
        config.profiles[lossy].trim = true;
        for port in &mut config.ports {
            port.pfc.enabled = 0;
            port.pgs = [port.pgs[0]; 8];
            port.queues[3].profile = lossy as u16;
        }
        config.trimming = Some(TrimmingConfig {
            size_bytes: 128,
            dscp: TrimDscp::Fixed(48),
            queue: TrimQueue::Fixed(6),
            exempt: Vec::new(),
        });
    });
    for source in [0, 1] {
        let qp = connect(&mut fabric, source, 2, 0x11 + source as u32);
        post_write(&mut fabric, source, qp, 1 << 18);
    }
    run_until_acknowledged(&mut fabric, 2, &mut ());
    let trims = fabric.switch(0).trim_counters();
    assert!(trims.sent > 10, "{trims:?}");
    assert_eq!(fabric.host(2).trimmed_frames(), trims.sent);
    let counters = fabric.host(2).rdma_counters();
    assert!(counters.out_of_sequence > 0, "{counters:?}");
    assert_eq!(fabric.host(2).icrc_errors(), 0);
}

#[test]
fn a_link_that_goes_down_loses_its_frames() {
    let mut fabric = star(2);
    let qp = connect(&mut fabric, 0, 1, 0x11);
    post_write(&mut fabric, 0, qp, 1 << 20);
    let halt = fabric.run(Picos::from_micros(20), &mut ());
    assert_eq!(halt, RunStopReason::TimeReached);
    fabric.set_link(1, false, &mut ());
    assert!(fabric.lost_frames(1) > 0);
    fabric.run(Picos::from_micros(60), &mut ());
    fabric.set_link(1, true, &mut ());
    run_until_acknowledged(&mut fabric, 1, &mut ());
}

#[test]
fn invalid_plans_are_rejected() {
    let link = |a, b| LinkPlan {
        name: "x".into(),
        ends: [a, b],
        delay: Picos::ZERO,
    };
    let host = |n: u32| HostConfig::new(format!("h{n}"), mac(n as usize), LinkTiming::ethernet(1_000));
    let plan = |links: Vec<LinkPlan>| FabricPlan {
        switches: Vec::new(),
        hosts: vec![host(0), host(1)],
        links,
    };
    assert!(Fabric::new(plan(vec![link(LinkEnd::Host(0), LinkEnd::Host(1))]), 1).is_ok());
    for links in [
        vec![link(LinkEnd::Host(0), LinkEnd::Host(2))],
        vec![link(LinkEnd::Host(0), LinkEnd::Switch { switch: 0, port: 0 })],
        vec![link(LinkEnd::Host(0), LinkEnd::Host(0))],
        vec![
            link(LinkEnd::Host(0), LinkEnd::Host(1)),
            link(LinkEnd::Host(1), LinkEnd::Host(0)),
        ],
    ] {
        assert!(Fabric::new(plan(links.clone()), 1).is_err(), "{links:?}");
    }
}

#[test]
fn discarded_events_change_no_result() {
    let mut fabric = star(2);
    let qp = connect(&mut fabric, 0, 1, 0x11);
    fabric.run(Picos::from_millis(1), &mut ());
    post_write(&mut fabric, 0, qp, 1 << 20);
    fabric.run(
        Picos::from_millis(1).saturating_add(Picos::from_micros(20)),
        &mut (),
    );
    let results = |fabric: &Fabric| {
        let counters = [0, 1].map(|host| fabric.host(host).rdma_counters());
        (
            counters,
            fabric.events(),
            fabric.frame_hops(),
            fabric.frames_in_flight(),
        )
    };
    let before = results(&fabric);
    assert!(fabric.events_pending() > 0 && fabric.frames_in_flight() > 0);
    fabric.discard_events();
    assert_eq!(fabric.events_pending(), 0);
    assert_eq!(results(&fabric), before);
}

/// Sends messages of three packets, one after the other. The very last packet is lost. Returns the time from the
/// last message to its acknowledgement, and the number of pending events before it.
fn time_of_lost_message(messages_before: u32) -> (Picos, usize) {
    let mut fabric = star(2);
    let qp = connect(&mut fabric, 0, 1, 0x11);
    let fault = Fault {
        action: FaultAction::Drop,
        selector: FrameSelector::Psn {
            psn: 3 * messages_before + 2,
            dst_qp: Some(0x12),
        },
        frames_max: 1,
        spares_up_to_len: 0,
    };
    assert!(fabric.add_fault(LinkEnd::Host(0), fault));
    for _ in 0..messages_before {
        post_write(&mut fabric, 0, qp, 3_000);
        run_until_acknowledged(&mut fabric, 1, &mut ());
    }
    let (posted, pending) = (fabric.now(), fabric.events_pending());
    post_write(&mut fabric, 0, qp, 3_000);
    let done = run_until_acknowledged(&mut fabric, 1, &mut ());
    assert_eq!(fabric.host(0).rdma_counters().local_ack_timeout_err, 1);
    (done[0].1.since(posted), pending)
}

/// The timeout of each message is later than that of the message before. The events of the earlier ones do not pile up,
/// and a lost packet is sent again at the end of its own timeout.
#[test]
fn timeouts_that_move_leave_one_event() {
    // The switch has learned both addresses after one message.
    let (first, _) = time_of_lost_message(1);
    let (later, pending) = time_of_lost_message(500);
    assert_eq!(later, first);
    assert!(pending <= 4, "{pending}");
}
