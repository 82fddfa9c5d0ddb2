//! No arriving frame and no configuration causes a panic, and equal input gives equal output.

use bolero::check;
use xoff_wire::lldp::{EtsTables, SelectionAlgorithm};

use super::*;

fn asking_host() -> Host {
    let mut config = host_config(2);
    config.accept_any_token = true;
    let mut asking = flow(1, 3);
    (asking.dst_mac, asking.dst_ip) = (None, ipv6(1).into());
    config.flows = vec![
        asking,
        FlowConfig {
            id: 2,
            dst_mac: None,
            ..flow(2, 4)
        },
    ];
    config.nic.receive_buffer = Some(ReceiveBuffer {
        buffer_bytes: 5_000,
        drain_bps: 1_000_000,
        xoff_bytes: 2_000,
        xon_bytes: 1_000,
        pfc_enabled: 0x0f,
        pause_quanta: 100,
        dscp_to_class: [3; 64],
    });
    let mut host = Host::new(&config).unwrap();
    host.start(Picos::ZERO);
    host
}

fn deliver_and_transmit(host: &mut Host, now: Picos, frame: &[u8]) {
    host.receive(now, wall_ns(now), frame, &parse(frame));
    let mut buf = [0; 2048];
    while host.transmit(now, wall_ns(now), &mut buf).is_some() {}
}

#[test]
fn arbitrary_bytes_cause_no_panic() {
    check!()
        .with_type::<Vec<Vec<u8>>>()
        .with_iterations(2_000)
        .for_each(|frames| {
            let mut host = asking_host();
            for (n, frame) in frames.iter().enumerate() {
                deliver_and_transmit(&mut host, Picos::from_micros(n as u64 * 700), frame);
            }
            host.results(Picos::from_millis(1_000));
        });
}

#[test]
fn modified_frames_cause_no_panic() {
    let mut peer = sender(vec![
        flow(3, 3),
        FlowConfig {
            dst_ip: ipv6(2).into(),
            ..flow(4, 4)
        },
    ]);
    peer.start(Picos::ZERO);
    let mut seeds = Vec::new();
    let mut buf = [0; 2048];
    let mut now = Picos::ZERO;
    while seeds.len() < 12 {
        while let Some(len) = peer.transmit(now, wall_ns(now), &mut buf) {
            seeds.push(buf[..len].to_vec());
        }
        now = peer.next_deadline();
    }
    let mut asker = asking_host();
    while let Some(len) = asker.transmit(Picos::ZERO, 0, &mut buf) {
        // Requests for the peers of host 2, sent to host 2.
        seeds.push(buf[..len].to_vec());
    }
    seeds.push(
        MacControl::Pfc(Pfc {
            enable: 0xff,
            quanta: [9; 8],
        })
        .to_frame(mac(1))
        .to_vec(),
    );
    check!()
        .with_type::<(u8, Vec<(u16, u8)>, u16)>()
        .with_iterations(5_000)
        .for_each(|(pick, edits, cut)| {
            let mut frame = seeds[usize::from(*pick) % seeds.len()].clone();
            for (at, value) in edits {
                // Most changes are in the first 96 bytes, which contain the headers.
                let len = if at & 3 == 0 {
                    frame.len()
                } else {
                    frame.len().min(96)
                };
                frame[usize::from(*at >> 2) % len] = *value;
            }
            if cut & 1 == 1 {
                frame.truncate(usize::from(cut >> 1) % (frame.len() + 1));
            }
            let mut host = asking_host();
            deliver_and_transmit(&mut host, Picos::from_micros(10), &frame);
            deliver_and_transmit(&mut host, Picos::from_micros(900), &frame);
            host.results(Picos::from_millis(1));
        });
}

#[test]
fn the_same_input_gives_the_same_frames() {
    let run = || {
        let lossy = FlowConfig {
            rate: FlowRate::LinkShare(333_000),
            ..flow(2, 0)
        };
        let mut cable = Cable::new([sender(vec![flow(1, 3), lossy]), receiver()], |_, f| vec![f]);
        cable.hosts[0].start(Picos::ZERO);
        cable.hosts[1].start(Picos::ZERO);
        cable.run_and_drain(Picos::from_millis(5));
        (cable.log, cable.hosts[1].results(cable.now))
    };
    assert_eq!(run(), run());
}

#[test]
fn configurations_out_of_range_are_rejected() {
    let refused = |change: &dyn Fn(&mut HostConfig)| {
        let mut config = host_config(1);
        config.flows = vec![flow(5, 3)];
        change(&mut config);
        Host::new(&config).map(|_| ()).unwrap_err().to_string()
    };
    type Case = (&'static str, &'static dyn Fn(&mut HostConfig));
    let cases: [Case; 13] = [
        ("speed is 0 Mb/s", &|c| c.nic.link.speed_mbps = 0),
        ("weights", &|c| c.nic.weights[2] = 0),
        ("ets is Some", &|c| {
            c.nic.ets = Some(EtsTables {
                algorithm: [SelectionAlgorithm::Ets; 8],
                bandwidth_percent: [50, 40, 0, 0, 0, 0, 0, 0],
                ..EtsTables::default()
            });
        }),
        ("dilate is 0", &|c| c.dilate = 0),
        ("a unicast address", &|c| c.mac[0] = 1),
        ("flow 5 class is 8", &|c| c.flows[0].class = 8),
        ("flow 5 dscp is 64", &|c| c.flows[0].dscp = 64),
        ("flow 5 path MTU is 39", &|c| c.flows[0].path_mtu = 39),
        ("flow 5 path MTU is 8193", &|c| c.flows[0].path_mtu = 8193),
        ("flow 5 message length is 1030", &|c| {
            c.flows[0].message_bytes = 1030
        }),
        ("flow 5 dst_qp is 16777216", &|c| c.flows[0].dst_qp = 1 << 24),
        ("flow 5 rate", &|c| {
            c.flows[0].rate = FlowRate::LinkShare(1_000_001)
        }),
        ("flow 5 destination is 10.0.0.2", &|c| c.ipv4 = None),
    ];
    for (text, change) in cases {
        let message = refused(change);
        assert!(
            message.contains(text) && message.starts_with("host h1:"),
            "{message}"
        );
    }
}

#[test]
fn a_short_buffer_gets_no_frame() {
    let mut host = sender(vec![flow(3, 3)]);
    host.start(Picos::ZERO);
    let mut short = [0; 1000];
    assert!((0..5).all(|_| {
        host.transmit(Picos::from_micros(10), 0, &mut short)
            .is_none_or(|len| len < 100)
    }));
    assert_eq!(host.sent_frames(), 0);
}
