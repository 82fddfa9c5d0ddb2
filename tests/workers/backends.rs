//! Comparison of AF_PACKET and AF_XDP: the same valid and invalid input gives the same frames,
//! counters and drops.
//!
//! The input is a seeded mix of every kind of frame. One port sends at a time, and its frames have passed the
//! switch before the next port sends. The learnt addresses therefore do not depend on timing. The far ends
//! are in a namespace that the switch cannot reach and have checksum offload on.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use xoff_ports::net::ethtool::{self, Offloads};
use xoff_ports::net::{Netns, add_veth};

use crate::checksum_sender::UnfinishedChecksumSender;
use crate::far_end::FarEnd;
use crate::frames::{self, PORTS, mac_control_frame, pfc_frame, station_mac};
use crate::support::{CompletionTest, KernelFeatures, check, check_equal, wait_for};
use crate::switch_process::{SwitchProcess, port_name};
use crate::worker_counts::{Flows, frames_by_sender, timeless_counters};

pub(crate) const TESTS: &[CompletionTest] = &[
    (
        "packet_and_xdp_give_equal_results_for_any_input",
        KernelFeatures::Xdp,
        || compare_backends(1500),
    ),
    (
        "packet_and_xdp_give_equal_results_for_jumbo_frames",
        KernelFeatures::Xdp,
        || compare_backends(9216),
    ),
];

/// Number of bursts from each port in turn.
const BURST_COUNT: usize = 80;
/// Frames of a burst. The sockets of the far ends hold a burst of flooded jumbo frames.
const BURST_FRAMES: usize = 6;
/// If no frame arrives for this time, all sent frames have passed.
const QUIET_TIME: Duration = Duration::from_millis(30);
/// Ethertype of markers and of frames of no known kind (IEEE 802 local experiments).
const LOCAL_ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// The frames that left each port, the counters of each port, and the number of drops by reason.
#[derive(Debug)]
struct RunResult {
    flows: Vec<Flows>,
    counts: Vec<Value>,
    drops: Vec<Value>,
}

fn compare_backends(mtu: usize) -> Result<Completion, Failed> {
    let run = |backend: &str, workers: &str| Netns::create()?.run(|| run_input(backend, workers, mtu))?;
    let packet = run("packet", "1")?;
    check_all_drop_reasons(&packet)?;
    for workers in ["1", "3"] {
        let xdp = run("xdp", workers)?;
        for n in 0..PORTS {
            let at = format!("port {n}, {workers} workers");
            check_equal(&xdp.drops[n], &packet.drops[n], &format!("{at}: drops"))?;
            check_equal(&xdp.counts[n], &packet.counts[n], &format!("{at}: counters"))?;
            check(xdp.flows[n] == packet.flows[n], || {
                let differs = packet.flows[n]
                    .iter()
                    .find(|(sender, sent)| xdp.flows[n].get(*sender) != Some(sent));
                let got = differs.map(|(sender, _)| xdp.flows[n].get(sender));
                format!("{at}: the frames differ, first {differs:02x?} and {got:02x?}")
            })?;
        }
    }
    Ok(Completion::Completed)
}

/// Checks that the input contained frames for every drop reason.
fn check_all_drop_reasons(outcome: &RunResult) -> Result<(), Failed> {
    let all = serde_json::to_string(&outcome.drops)?;
    let expected = [
        "XOFF_CHECKSUM_UNFINISHED",
        "XOFF_OVERSIZED",
        "EXCEEDS_L2_MTU",
        "INGRESS_VLAN_FILTER",
        "XOFF_MAC_CONTROL_UNKNOWN",
        "SMAC_MULTICAST",
        "DMAC_RESERVED",
    ];
    for reason in expected {
        check(all.contains(reason), || {
            format!("nothing was dropped for {reason}: {all}")
        })?;
    }
    Ok(())
}

/// Returns [`frames::config`] with this MTU.
fn config(mtu: usize) -> Value {
    let mut config = frames::config();
    let ports = (0..PORTS).map(|n| (port_name(n), json!({"mtu": mtu.to_string()})));
    config["PORT"] = ports.collect::<Map<String, Value>>().into();
    config
}

/// The far ends of the cables.
struct Hosts {
    netns: Netns,
    unfinished: Vec<UnfinishedChecksumSender>,
}

fn add_cable(netns: &Netns, n: usize, mtu: usize) -> Result<FarEnd, Failed> {
    // The cable MTU is larger than the MTU of the port, so that the switch also receives frames that are too
    // long.
    add_veth(&format!("v{n}"), &format!("h{n}"), Some(netns), mtu as u32 + 100)?;
    FarEnd::open(netns, &format!("h{n}"))
}

fn run_input(backend: &str, workers: &str, mtu: usize) -> Result<RunResult, Failed> {
    let netns = Netns::create()?;
    let far_ends = (0..PORTS)
        .map(|n| add_cable(&netns, n, mtu))
        .collect::<Result<_, _>>()?;
    let (folder, options) = (tempfile::tempdir()?, ["--workers", workers]);
    let mut switch_process =
        SwitchProcess::start_with_backend(backend, folder, far_ends, &config(mtu), PORTS, &options)?;
    let names: Vec<String> = (0..PORTS).map(|n| format!("h{n}")).collect();
    let leave_checksums = || -> Result<(), Failed> {
        let on = Offloads {
            rx_csum: true,
            tx_csum: true,
            sg: true,
            ..Offloads::OFF
        };
        Ok(names
            .iter()
            .try_for_each(|name| ethtool::set_offloads(name, &on))?)
    };
    netns.run(leave_checksums)??;
    let unfinished = names
        .iter()
        .map(|name| UnfinishedChecksumSender::open(&netns, name));
    let hosts = Hosts {
        unfinished: unfinished.collect::<Result<_, _>>()?,
        netns,
    };
    let mut generator = FrameGenerator {
        random: 7,
        id: 0,
        mtu,
    };
    let mut received: Vec<Vec<Vec<u8>>> = vec![Vec::new(); PORTS];
    for n in 0..PORTS {
        wait_for_marker(&mut switch_process, &mut received, &mut generator, n)?;
    }
    kernel_datagrams(&hosts)?;
    for from in (0..PORTS).cycle().take(BURST_COUNT) {
        for _ in 0..BURST_FRAMES {
            match generator.random_input(from) {
                TestInput::Frame(frame) => switch_process.far_ends[from].send(&frame)?,
                TestInput::UnfinishedChecksum(frame, start, offset) => {
                    hosts.unfinished[from].send(&frame, start, offset)?;
                }
            }
        }
        wait_for_marker(&mut switch_process, &mut received, &mut generator, from)?;
    }
    // Backends report their drops at intervals.
    std::thread::sleep(Duration::from_millis(400));
    let ended = switch_process.stop(Signal::SIGTERM)?;
    ended.check_exit_code()?;
    let ports = ended.switch()?.ports;
    for (n, port) in ports.iter().enumerate() {
        check_equal(port.host_lost, 0, &format!("port {n}: lost by the host"))?;
    }
    let reasons = ports.iter().map(|port| serde_json::to_value(&port.drops));
    Ok(RunResult {
        flows: received.into_iter().map(frames_by_sender).collect(),
        drops: reasons.collect::<Result<_, _>>()?,
        counts: ports.iter().map(timeless_counters).collect::<Result<_, _>>()?,
    })
}

/// Sends UDP datagrams of the kernel from the first port.
fn kernel_datagrams(hosts: &Hosts) -> Result<(), Failed> {
    hosts.netns.run(|| -> Result<(), Failed> {
        let index = nix::net::if_::if_nametoindex("h0")?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let (connection, handle, _) = rtnetlink::new_connection()?;
            tokio::spawn(connection);
            let address = Ipv4Addr::new(10, 9, 0, 1).into();
            Ok::<_, Failed>(handle.address().add(index, address, 24).execute().await?)
        })?;
        let socket = UdpSocket::bind("10.9.0.1:4791")?;
        socket.set_broadcast(true)?;
        for n in 0..5 {
            socket.send_to(&vec![n; 100 + usize::from(n)], "10.9.0.255:4791")?;
        }
        Ok(())
    })?
}

/// Floods a marker and waits until it has arrived and no more frame follows.
fn wait_for_marker(
    switch_process: &mut SwitchProcess,
    received: &mut [Vec<Vec<u8>>],
    generator: &mut FrameGenerator,
    from: usize,
) -> Result<(), Failed> {
    let mark = generator.marker_frame(from);
    let id = mark[mark.len() - 4..].to_vec();
    switch_process.far_ends[from].send(&mark)?;
    let mut missing: Vec<usize> = (0..PORTS).filter(|n| *n != from).collect();
    let mut quiet_since = Instant::now();
    wait_for("what was sent has passed", || {
        for (n, (far, received)) in switch_process
            .far_ends
            .iter_mut()
            .zip(received.iter_mut())
            .enumerate()
        {
            while let Some(frame) = far.receive()? {
                if frame.ends_with(&id) {
                    missing.retain(|port| *port != n);
                }
                received.push(frame);
                quiet_since = Instant::now();
            }
        }
        Ok((missing.is_empty() && quiet_since.elapsed() > QUIET_TIME).then_some(()))
    })
}

/// The input of a far end.
enum TestInput {
    Frame(Vec<u8>),
    /// A frame without its checksum, the start of the checksummed bytes and the offset of the checksum.
    UnfinishedChecksum(Vec<u8>, u16, u16),
}

struct FrameGenerator {
    random: u64,
    id: u32,
    mtu: usize,
}

impl FrameGenerator {
    /// Returns a pseudo-random number below `bound` (Knuth's MMIX generator).
    fn below(&mut self, bound: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % bound as u64) as usize
    }

    fn random_bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    fn next_id(&mut self) -> [u8; 4] {
        self.id += 1;
        [&[0xa5][..], &self.id.to_be_bytes()[1..]]
            .concat()
            .try_into()
            .expect("four octets")
    }

    /// Returns a broadcast frame by which a port becomes known. Port 3 sends it in its VLAN.
    fn marker_frame(&mut self, from: usize) -> Vec<u8> {
        let mut frame = [
            &[0xff; 6][..],
            &station_mac(10, from, 0),
            &LOCAL_ETHERTYPE,
            &[0; 42],
        ]
        .concat();
        frame.extend(self.next_id());
        self.in_vlan10(from, frame)
    }

    fn in_vlan10(&self, from: usize, frame: Vec<u8>) -> Vec<u8> {
        match from {
            3 => insert_vlan_tag(&frame, [0x81, 0x00], 0x600a),
            _ => frame,
        }
    }

    /// Returns a frame with addresses, an ethertype, random bytes and a number.
    fn random_payload_frame(&mut self, from: usize, ethertype: [u8; 2], len: usize) -> Vec<u8> {
        let to = self.below(PORTS);
        let class = self.below(8) as u8;
        let mut frame = [
            &station_mac(10, to, 0)[..],
            &station_mac(10, from, class),
            &ethertype,
        ]
        .concat();
        let filling = self.random_bytes(len.saturating_sub(18));
        frame.extend(filling);
        frame.extend(self.next_id());
        frame.truncate(len);
        frame
    }

    fn random_length(&mut self) -> usize {
        let mtu = self.mtu;
        match self.below(6) {
            0 => 60 + self.below(8),
            // Lengths at which a frame needs another slot.
            1 => 1792 * (1 + self.below(5)) + self.below(5) - 2,
            2 => mtu + 14 - self.below(3),
            _ => 60 + self.below(mtu - 46),
        }
        .min(mtu + 14)
    }

    fn random_input(&mut self, from: usize) -> TestInput {
        let len = self.random_length();
        let frame = match self.below(16) {
            0 => self.runt_frame(from),
            1 => self.oversized_frame(from),
            2 => self.frame_with_many_tags(from, len),
            3 => self.multicast_frame(from, len),
            4 => self.mac_control_frame(),
            5 => self.garbage_frame(),
            6..=8 => return self.transport_frame(from, len),
            9 | 10 => {
                let (v6, header) = (self.below(2) == 1, self.random_bytes(40));
                let ethertype = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
                let mut frame = self.random_payload_frame(from, ethertype, len.max(60));
                frame[14..54].copy_from_slice(&header);
                self.in_vlan10(from, frame)
            }
            _ => {
                let frame = self.random_payload_frame(from, LOCAL_ETHERTYPE, len);
                self.in_vlan10(from, frame)
            }
        };
        TestInput::Frame(frame)
    }

    /// Returns a frame of 14 to 59 bytes. Its tags may be cut off.
    fn runt_frame(&mut self, from: usize) -> Vec<u8> {
        let types = [
            LOCAL_ETHERTYPE,
            [0x08, 0x00],
            [0x81, 0x00],
            [0x88, 0xa8],
            [0x88, 0x08],
            [0x00, 0x20],
        ];
        let ethertype = types[self.below(types.len())];
        let range = [8, 46][self.below(2)];
        let len = 14 + self.below(range);
        self.random_payload_frame(from, ethertype, len)
    }

    fn oversized_frame(&mut self, from: usize) -> Vec<u8> {
        let range = [12, 80][self.below(2)];
        let len = self.mtu + 15 + self.below(range);
        let ethertype = [LOCAL_ETHERTYPE, [0x81, 0x00], [0x88, 0xa8]][self.below(3)];
        let mut frame = self.random_payload_frame(from, ethertype, len);
        if ethertype != LOCAL_ETHERTYPE {
            frame[14..18].copy_from_slice(&[0x60, 0x0a, LOCAL_ETHERTYPE[0], LOCAL_ETHERTYPE[1]]);
        }
        frame
    }

    /// Returns a frame with one to three tags of any VLAN.
    fn frame_with_many_tags(&mut self, from: usize, len: usize) -> Vec<u8> {
        let count = 1 + self.below(3);
        let mut frame = self.random_payload_frame(from, LOCAL_ETHERTYPE, len.clamp(60, self.mtu + 2));
        for _ in 0..count {
            let tpid = [[0x81, 0x00], [0x88, 0xa8], [0x81, 0x00]][self.below(3)];
            let priority = (self.below(8) << 13) as u16;
            let vid = [0, 10, 20, 30, 100, 4095][self.below(6)];
            let tci = if self.below(4) == 0 { 0 } else { priority | vid };
            frame = insert_vlan_tag(&frame, tpid, tci);
        }
        frame
    }

    fn multicast_frame(&mut self, from: usize, len: usize) -> Vec<u8> {
        let mut frame = self.random_payload_frame(from, LOCAL_ETHERTYPE, len);
        let groups = [
            [0xff; 6],
            [0x33, 0x33, 0, 0, 0, 1],
            [0x01, 0x00, 0x5e, 0, 0, 1],
            [0x01, 0x80, 0xc2, 0, 0, 0],
            [0x01, 0x80, 0xc2, 0, 0, 0x0e],
        ];
        frame[..6].copy_from_slice(&groups[self.below(groups.len())]);
        if self.below(5) == 0 {
            frame[6] |= 1;
        }
        self.in_vlan10(from, frame)
    }

    fn mac_control_frame(&mut self) -> Vec<u8> {
        match self.below(5) {
            0 => pfc_frame(self.below(8), self.below(100) as u16),
            1 => mac_control_frame(0x0001, &[0, 10]),
            2 => mac_control_frame(0x0102, &[1, 2, 3]),
            3 => {
                let mut short = pfc_frame(3, 5);
                short.truncate(20 + self.below(20));
                short
            }
            _ => insert_vlan_tag(&pfc_frame(3, 5), [0x81, 0x00], 0),
        }
    }

    /// Returns random bytes with a source address that no other frame has, so that the order of learning does
    /// not matter.
    fn garbage_frame(&mut self) -> Vec<u8> {
        let len = 14 + self.below(self.mtu);
        let mut frame = self.random_bytes(len);
        let id = self.next_id();
        frame[6..8].copy_from_slice(&[0x06, 0xee]);
        frame[8..12].copy_from_slice(&id);
        frame
    }

    /// Returns a TCP or UDP packet over IPv4 or IPv6, with or without tags. Its checksum is finished,
    /// unfinished, wrong or missing.
    fn transport_frame(&mut self, from: usize, len: usize) -> TestInput {
        let (v6, udp) = (self.below(2) == 1, self.below(2) == 1);
        let (ip_len, at) = (if v6 { 40 } else { 20 }, if udp { 6 } else { 16 });
        let len = len.max(14 + ip_len + 20 + 4);
        let mut frame = self.random_payload_frame(from, if v6 { [0x86, 0xdd] } else { [0x08, 0x00] }, len);
        let payload = len - 14 - ip_len;
        let protocol = if udp { 17 } else { 6 };
        let addresses = if v6 {
            frame[14..22].copy_from_slice(&[
                0x60,
                0,
                0,
                0,
                (payload >> 8) as u8,
                payload as u8,
                protocol,
                64,
            ]);
            22..54
        } else {
            let total = (len - 14).to_be_bytes();
            let header = [0x45, 0, total[6], total[7], 0, 0, 0x40, 0, 64, protocol, 0, 0];
            frame[14..26].copy_from_slice(&header);
            26..34
        };
        let transport = 14 + ip_len;
        if udp {
            frame[transport + 4..transport + 6].copy_from_slice(&(payload as u16).to_be_bytes());
        }
        let field = transport + at..transport + at + 2;
        frame[field.clone()].fill(0);
        let pseudo = checksum_sum(&frame[addresses]) + u64::from(protocol) + payload as u64;
        let full = pseudo + checksum_sum(&frame[transport..]);
        let kind = self.below(6);
        let value = match kind {
            0 => !fold_checksum(full),
            1 => !fold_checksum(full) ^ 0x1234,
            2 => 0,
            _ => fold_checksum(pseudo),
        };
        frame[field].copy_from_slice(&value.to_be_bytes());
        let frame = self.in_vlan10(from, frame);
        if kind < 3 {
            return TestInput::Frame(frame);
        }
        let start = transport + if from == 3 { 4 } else { 0 };
        TestInput::UnfinishedChecksum(frame, start as u16, at as u16)
    }
}

fn insert_vlan_tag(frame: &[u8], tpid: [u8; 2], tci: u16) -> Vec<u8> {
    [&frame[..12], &tpid, &tci.to_be_bytes(), &frame[12..]].concat()
}

fn checksum_sum(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

fn fold_checksum(sum: u64) -> u16 {
    match sum {
        0..=0xffff => sum as u16,
        _ => fold_checksum((sum & 0xffff) + (sum >> 16)),
    }
}
