//! AF_PACKET and AF_XDP make no difference: the same input, bad input included, gives the same frames, counters and drops.
//!
//! The input is a seeded mix of every kind of frame. One port sends at a time, and what it has sent has passed the switch
//! before the next one sends, so that what the switch has learned does not depend on timing. The far ends are in a
//! namespace that the switch cannot reach, with their checksum offload on.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use xoff_ports::net::ethtool::{self, Offloads};
use xoff_ports::net::{Netns, add_veth};

use crate::bench::{Bench, port};
use crate::equality::{Flows, by_sender, counts};
use crate::far::Far;
use crate::frames::{self, PORTS, control, pfc, station};
use crate::raw::Unfinished;
use crate::support::{Needs, Reporting, check, same, wait_for};

pub(crate) const TESTS: &[Reporting] = &[
    ("packet_and_xdp_treat_any_input_alike", Needs::Xdp, || alike(1500)),
    (
        "packet_and_xdp_treat_any_input_alike_with_jumbo_frames",
        Needs::Xdp,
        || alike(9216),
    ),
];

/// Bursts from each port in turn.
const BURSTS: usize = 80;
/// Frames of a burst: what the far ends' sockets hold, flooded jumbo frames included.
const BURST: usize = 6;
/// No frame comes for so long: what was sent has passed.
const QUIET: Duration = Duration::from_millis(30);
/// An ethertype for marks, and for frames of no known kind.
const LOCAL: [u8; 2] = [0x88, 0xb5];

/// What left each port, what each port counted, and how often each reason occurred.
#[derive(Debug)]
struct Outcome {
    flows: Vec<Flows>,
    counts: Vec<Value>,
    drops: Vec<Value>,
}

fn alike(mtu: usize) -> Result<Completion, Failed> {
    let run = |backend: &str, workers: &str| Netns::create()?.run(|| outcome(backend, workers, mtu))?;
    let packet = run("packet", "1")?;
    every_reason_occurred(&packet)?;
    for workers in ["1", "3"] {
        let xdp = run("xdp", workers)?;
        for n in 0..PORTS {
            let at = format!("port {n}, {workers} workers");
            same(&xdp.drops[n], &packet.drops[n], &format!("{at}: drops"))?;
            same(&xdp.counts[n], &packet.counts[n], &format!("{at}: counters"))?;
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

/// The test is one of bad input only if there was some.
fn every_reason_occurred(outcome: &Outcome) -> Result<(), Failed> {
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

/// As [`frames::config`], with this MTU.
fn config(mtu: usize) -> Value {
    let mut config = frames::config();
    let ports = (0..PORTS).map(|n| (port(n), json!({"mtu": mtu.to_string()})));
    config["PORT"] = ports.collect::<Map<String, Value>>().into();
    config
}

/// The far ends of the cables.
struct Hosts {
    netns: Netns,
    unfinished: Vec<Unfinished>,
}

fn plug(netns: &Netns, n: usize, mtu: usize) -> Result<Far, Failed> {
    // Longer frames than the port's MTU allows reach the switch, too.
    add_veth(&format!("v{n}"), &format!("h{n}"), Some(netns), mtu as u32 + 100)?;
    Far::open(netns, &format!("h{n}"))
}

fn outcome(backend: &str, workers: &str, mtu: usize) -> Result<Outcome, Failed> {
    let netns = Netns::create()?;
    let fars = (0..PORTS)
        .map(|n| plug(&netns, n, mtu))
        .collect::<Result<_, _>>()?;
    let (folder, options) = (tempfile::tempdir()?, ["--workers", workers]);
    let mut bench = Bench::driven_by(backend, folder, fars, &config(mtu), PORTS, &options)?;
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
    let unfinished = names.iter().map(|name| Unfinished::open(&netns, name));
    let hosts = Hosts {
        unfinished: unfinished.collect::<Result<_, _>>()?,
        netns,
    };
    let mut maker = Maker {
        random: 7,
        id: 0,
        mtu,
    };
    let mut received: Vec<Vec<Vec<u8>>> = vec![Vec::new(); PORTS];
    for n in 0..PORTS {
        settle(&mut bench, &mut received, &mut maker, n)?;
    }
    kernel_datagrams(&hosts)?;
    for from in (0..PORTS).cycle().take(BURSTS) {
        for _ in 0..BURST {
            match maker.any(from) {
                Input::Frame(frame) => bench.fars[from].send(&frame)?,
                Input::Unfinished(frame, start, offset) => {
                    hosts.unfinished[from].send(&frame, start, offset)?;
                }
            }
        }
        settle(&mut bench, &mut received, &mut maker, from)?;
    }
    // Drops of the backends are told now and then.
    std::thread::sleep(Duration::from_millis(400));
    let ended = bench.end(Signal::SIGTERM)?;
    ended.in_order()?;
    let ports = ended.switch()?.ports;
    for (n, port) in ports.iter().enumerate() {
        same(port.host_lost, 0, &format!("port {n}: lost by the host"))?;
    }
    let reasons = ports.iter().map(|port| serde_json::to_value(&port.drops));
    Ok(Outcome {
        flows: received.into_iter().map(by_sender).collect(),
        drops: reasons.collect::<Result<_, _>>()?,
        counts: ports.iter().map(counts).collect::<Result<_, _>>()?,
    })
}

/// Datagrams of the kernel's own, from the first port.
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

/// Sends a mark to everybody and waits until it is there and nothing more comes.
fn settle(
    bench: &mut Bench,
    received: &mut [Vec<Vec<u8>>],
    maker: &mut Maker,
    from: usize,
) -> Result<(), Failed> {
    let mark = maker.mark(from);
    let id = mark[mark.len() - 4..].to_vec();
    bench.fars[from].send(&mark)?;
    let mut missing: Vec<usize> = (0..PORTS).filter(|n| *n != from).collect();
    let mut quiet_since = Instant::now();
    wait_for("what was sent has passed", || {
        for (n, (far, received)) in bench.fars.iter_mut().zip(received.iter_mut()).enumerate() {
            while let Some(frame) = far.receive()? {
                if frame.ends_with(&id) {
                    missing.retain(|port| *port != n);
                }
                received.push(frame);
                quiet_since = Instant::now();
            }
        }
        Ok((missing.is_empty() && quiet_since.elapsed() > QUIET).then_some(()))
    })
}

/// What a far end sends.
enum Input {
    Frame(Vec<u8>),
    /// A checksum is to be put in: behind these octets, at this offset.
    Unfinished(Vec<u8>, u16, u16),
}

struct Maker {
    random: u64,
    id: u32,
    mtu: usize,
}

impl Maker {
    /// Always the same sequence (Knuth's MMIX generator).
    fn below(&mut self, bound: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % bound as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    fn id(&mut self) -> [u8; 4] {
        self.id += 1;
        [&[0xa5][..], &self.id.to_be_bytes()[1..]]
            .concat()
            .try_into()
            .expect("four octets")
    }

    /// A broadcast frame by which a port becomes known; on port 3 in its VLAN.
    fn mark(&mut self, from: usize) -> Vec<u8> {
        let mut frame = [&[0xff; 6][..], &station(10, from, 0), &LOCAL, &[0; 42]].concat();
        frame.extend(self.id());
        self.in_vlan10(from, frame)
    }

    fn in_vlan10(&self, from: usize, frame: Vec<u8>) -> Vec<u8> {
        match from {
            3 => tagged(&frame, [0x81, 0x00], 0x600a),
            _ => frame,
        }
    }

    /// Addresses, a type, random octets, and a number.
    fn some(&mut self, from: usize, ethertype: [u8; 2], len: usize) -> Vec<u8> {
        let to = self.below(PORTS);
        let class = self.below(8) as u8;
        let mut frame = [&station(10, to, 0)[..], &station(10, from, class), &ethertype].concat();
        let filling = self.bytes(len.saturating_sub(18));
        frame.extend(filling);
        frame.extend(self.id());
        frame.truncate(len);
        frame
    }

    fn length(&mut self) -> usize {
        let mtu = self.mtu;
        match self.below(6) {
            0 => 60 + self.below(8),
            // Where a frame takes one slot more.
            1 => 1792 * (1 + self.below(5)) + self.below(5) - 2,
            2 => mtu + 14 - self.below(3),
            _ => 60 + self.below(mtu - 46),
        }
        .min(mtu + 14)
    }

    fn any(&mut self, from: usize) -> Input {
        let len = self.length();
        let frame = match self.below(16) {
            0 => self.runt(from),
            1 => self.too_long(from),
            2 => self.many_tags(from, len),
            3 => self.grouped(from, len),
            4 => self.mac_control(),
            5 => self.garbage(),
            6..=8 => return self.transport(from, len),
            9 | 10 => {
                let (v6, header) = (self.below(2) == 1, self.bytes(40));
                let ethertype = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
                let mut frame = self.some(from, ethertype, len.max(60));
                frame[14..54].copy_from_slice(&header);
                self.in_vlan10(from, frame)
            }
            _ => {
                let frame = self.some(from, LOCAL, len);
                self.in_vlan10(from, frame)
            }
        };
        Input::Frame(frame)
    }

    /// 14 octets to 59, with tags that may be cut off.
    fn runt(&mut self, from: usize) -> Vec<u8> {
        let types = [
            LOCAL,
            [0x08, 0x00],
            [0x81, 0x00],
            [0x88, 0xa8],
            [0x88, 0x08],
            [0x00, 0x20],
        ];
        let ethertype = types[self.below(types.len())];
        let range = [8, 46][self.below(2)];
        let len = 14 + self.below(range);
        self.some(from, ethertype, len)
    }

    fn too_long(&mut self, from: usize) -> Vec<u8> {
        let range = [12, 80][self.below(2)];
        let len = self.mtu + 15 + self.below(range);
        let ethertype = [LOCAL, [0x81, 0x00], [0x88, 0xa8]][self.below(3)];
        let mut frame = self.some(from, ethertype, len);
        if ethertype != LOCAL {
            frame[14..18].copy_from_slice(&[0x60, 0x0a, LOCAL[0], LOCAL[1]]);
        }
        frame
    }

    /// One tag to three, of any VLAN.
    fn many_tags(&mut self, from: usize, len: usize) -> Vec<u8> {
        let count = 1 + self.below(3);
        let mut frame = self.some(from, LOCAL, len.clamp(60, self.mtu + 2));
        for _ in 0..count {
            let tpid = [[0x81, 0x00], [0x88, 0xa8], [0x81, 0x00]][self.below(3)];
            let priority = (self.below(8) << 13) as u16;
            let vid = [0, 10, 20, 30, 100, 4095][self.below(6)];
            let tci = if self.below(4) == 0 { 0 } else { priority | vid };
            frame = tagged(&frame, tpid, tci);
        }
        frame
    }

    fn grouped(&mut self, from: usize, len: usize) -> Vec<u8> {
        let mut frame = self.some(from, LOCAL, len);
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

    fn mac_control(&mut self) -> Vec<u8> {
        match self.below(5) {
            0 => pfc(self.below(8), self.below(100) as u16),
            1 => control(0x0001, &[0, 10]),
            2 => control(0x0102, &[1, 2, 3]),
            3 => {
                let mut short = pfc(3, 5);
                short.truncate(20 + self.below(20));
                short
            }
            _ => tagged(&pfc(3, 5), [0x81, 0x00], 0),
        }
    }

    /// Anything at all, but a sender that no other frame has: who is first learned does not matter then.
    fn garbage(&mut self) -> Vec<u8> {
        let len = 14 + self.below(self.mtu);
        let mut frame = self.bytes(len);
        let id = self.id();
        frame[6..8].copy_from_slice(&[0x06, 0xee]);
        frame[8..12].copy_from_slice(&id);
        frame
    }

    /// TCP or UDP, over IPv4 or IPv6, perhaps with tags, its checksum finished, unfinished, wrong or missing.
    fn transport(&mut self, from: usize, len: usize) -> Input {
        let (v6, udp) = (self.below(2) == 1, self.below(2) == 1);
        let (ip_len, at) = (if v6 { 40 } else { 20 }, if udp { 6 } else { 16 });
        let len = len.max(14 + ip_len + 20 + 4);
        let mut frame = self.some(from, if v6 { [0x86, 0xdd] } else { [0x08, 0x00] }, len);
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
        let pseudo = sum(&frame[addresses]) + u64::from(protocol) + payload as u64;
        let full = pseudo + sum(&frame[transport..]);
        let kind = self.below(6);
        let value = match kind {
            0 => !fold(full),
            1 => !fold(full) ^ 0x1234,
            2 => 0,
            _ => fold(pseudo),
        };
        frame[field].copy_from_slice(&value.to_be_bytes());
        let frame = self.in_vlan10(from, frame);
        if kind < 3 {
            return Input::Frame(frame);
        }
        let start = transport + if from == 3 { 4 } else { 0 };
        Input::Unfinished(frame, start as u16, at as u16)
    }
}

fn tagged(frame: &[u8], tpid: [u8; 2], tci: u16) -> Vec<u8> {
    [&frame[..12], &tpid, &tci.to_be_bytes(), &frame[12..]].concat()
}

fn sum(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

fn fold(sum: u64) -> u16 {
    match sum {
        0..=0xffff => sum as u16,
        _ => fold((sum & 0xffff) + (sum >> 16)),
    }
}
