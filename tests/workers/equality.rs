//! One worker and three do the same with the same frames.

use std::collections::BTreeMap;

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use xoff_ports::net::Netns;
use xoff_telemetry::{PortReport, SwitchReport};

use crate::bench::{Bench, drops, plug, port};
use crate::frames::{self, Fate, PORTS, Sent, bare};
use crate::support::{Needs, Reporting, check, same, wait_for};

pub(crate) const TESTS: &[Reporting] = &[
    (
        "one_worker_and_three_send_the_same_below_congestion",
        Needs::Netns,
        one_worker_and_three_send_the_same_below_congestion,
    ),
    (
        "packet_and_xdp_send_the_same_below_congestion",
        Needs::Xdp,
        || packet_and_xdp_send_the_same_below_congestion("1"),
    ),
    (
        "packet_and_xdp_with_three_workers_send_the_same_below_congestion",
        Needs::Xdp,
        || packet_and_xdp_send_the_same_below_congestion("3"),
    ),
    (
        "nothing_is_unaccounted_for_above_congestion",
        Needs::Netns,
        || congested("1").map(|()| Completion::Completed),
    ),
    (
        "nothing_is_unaccounted_for_above_congestion_with_three_workers",
        Needs::Netns,
        || congested("3").map(|()| Completion::Completed),
    ),
];

/// Bursts of 32 frames.
const BURSTS: usize = 50;

/// By the sender's address: its frames in order.
pub(crate) type Flows = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

fn one_worker_and_three_send_the_same_below_congestion() -> Result<Completion, Failed> {
    let one = Netns::create()?.run(|| below_congestion("packet", "1"))??;
    let three = Netns::create()?.run(|| below_congestion("packet", "3"))??;
    are_equal(&one, &three)
}

fn packet_and_xdp_send_the_same_below_congestion(workers: &str) -> Result<Completion, Failed> {
    let packet = Netns::create()?.run(|| below_congestion("packet", "1"))??;
    let xdp = Netns::create()?.run(|| below_congestion("xdp", workers))??;
    are_equal(&packet, &xdp)
}

/// What left each port, and what each port counted.
type Outcome = (Vec<Flows>, Vec<Value>);

fn are_equal(one: &Outcome, other: &Outcome) -> Result<Completion, Failed> {
    for n in 0..PORTS {
        check(one.0[n] == other.0[n], || format!("port {n}: the frames differ"))?;
        same(&one.1[n], &other.1[n], &port(n))?;
    }
    Ok(Completion::Completed)
}

fn below_congestion(backend: &str, workers: &str) -> Result<Outcome, Failed> {
    let fars = (0..PORTS).map(plug).collect::<Result<_, _>>()?;
    let options = ["--workers", workers];
    let folder = tempfile::tempdir()?;
    let mut bench = Bench::driven_by(backend, folder, fars, &frames::config(), PORTS, &options)?;
    let input = frames::input(BURSTS);
    let mut received: Vec<Vec<Vec<u8>>> = vec![Vec::new(); PORTS];
    let mut expected = [0; PORTS];
    for burst in &input {
        for Sent { from, bytes, fate } in burst {
            bench.fars[*from].send(bytes)?;
            if let Fate::To(ports) = fate {
                ports.iter().for_each(|&port| expected[port] += 1);
            }
        }
        wait_for("the burst leaves the switch", || {
            for (far, received) in bench.fars.iter_mut().zip(&mut received) {
                while let Some(frame) = far.receive()? {
                    received.push(frame);
                }
            }
            let all = received
                .iter()
                .zip(expected)
                .all(|(got, expected)| got.len() >= expected);
            Ok(all.then_some(()))
        })
        .map_err(|_| {
            let got: Vec<usize> = received.iter().map(Vec::len).collect();
            format!("{workers} workers: {got:?} frames left the ports instead of {expected:?}")
        })?;
    }
    let sent: Vec<&Sent> = input.iter().flatten().collect();
    // Drops of the backends are told to the switch now and then, so they come last.
    let refused = sent
        .iter()
        .filter(|sent| matches!(sent.fate, Fate::Refused(_)))
        .count() as u64;
    bench.wait("the switch counts all refusals", |switch| {
        let told = switch
            .ports
            .iter()
            .filter_map(|port| port.drops.get("XOFF_OVERSIZED"));
        told.sum::<u64>() == refused && arrived(switch) == sent.len() as u64 - refused
    })?;
    let ended = bench.end(Signal::SIGTERM)?;
    ended.in_order()?;
    let flows: Vec<Flows> = received.into_iter().map(by_sender).collect();
    let ports = ended.switch()?.ports;
    for n in 0..PORTS {
        what_was_to_leave(n, &sent, &flows[n])?;
        what_was_to_be_counted(n, &sent, &ports[n])?;
    }
    let counted = ports.iter().map(counts).collect::<Result<_, _>>()?;
    Ok((flows, counted))
}

/// Frames that arrived, flow control included.
fn arrived(switch: &SwitchReport) -> u64 {
    let of = |port: &PortReport| port.rx_packets + port.pfc_rx_frames + port.pause_rx;
    switch.ports.iter().map(of).sum()
}

pub(crate) fn by_sender(frames: Vec<Vec<u8>>) -> Flows {
    let mut flows = Flows::new();
    for frame in frames {
        flows.entry(frame[6..12].to_vec()).or_default().push(frame);
    }
    flows
}

/// Each sender's frames have left port `n` in the order they were sent, whole but for the tag of a VLAN.
fn what_was_to_leave(n: usize, sent: &[&Sent], left: &Flows) -> Result<(), Failed> {
    let leaves = |sent: &&&Sent| matches!(&sent.fate, Fate::To(ports) if ports.contains(&n));
    let expected = by_sender(sent.iter().filter(leaves).map(|sent| bare(&sent.bytes)).collect());
    for (sender, expected) in &expected {
        let got: Vec<Vec<u8>> = left
            .get(sender)
            .into_iter()
            .flatten()
            .map(|frame| bare(frame))
            .collect();
        check(&got == expected, || {
            let (got_first, first) = got.iter().zip(expected).find(|(a, b)| a != b).unzip();
            format!(
                "port {n}, sender {sender:02x?}: {} frames instead of {}, the first that differs: {got_first:02x?} instead of {first:02x?}",
                got.len(),
                expected.len()
            )
        })?;
    }
    same(left.len(), expected.len(), "senders")
}

/// Every frame is counted where it was, with its octets, and for what became of it.
fn what_was_to_be_counted(n: usize, sent: &[&Sent], port: &PortReport) -> Result<(), Failed> {
    let at = |what: &str| format!("port {n}: {what}");
    let mut drops: BTreeMap<String, u64> = BTreeMap::new();
    let (mut rx, mut rx_bytes, mut pfc, mut pause, mut tx) = (0, 0, 0, 0, 0);
    for Sent { from, bytes, fate } in sent {
        if matches!(fate, Fate::To(ports) if ports.contains(&n)) {
            tx += 1;
        }
        if *from != n {
            continue;
        }
        match fate {
            Fate::To(_) => {}
            Fate::Dropped(reason) => *drops.entry((*reason).to_owned()).or_default() += 1,
            Fate::Refused(reason) => {
                *drops.entry((*reason).to_owned()).or_default() += 1;
                continue;
            }
            Fate::Pfc => {
                pfc += 1;
                continue;
            }
            Fate::Pause => {
                pause += 1;
                continue;
            }
        }
        rx += 1;
        rx_bytes += (bytes.len() + 4).max(64) as u64;
    }
    same(port.rx_packets, rx, &at("received"))?;
    same(port.rx_bytes, rx_bytes, &at("octets received"))?;
    same(
        port.rx_class_packets.iter().sum(),
        rx,
        &at("received in all classes"),
    )?;
    same(port.tx_packets, tx, &at("sent"))?;
    same(port.pfc_rx_frames, pfc, &at("PFC received"))?;
    same(port.pause_rx, pause, &at("PAUSE received"))?;
    same(&port.drops, &drops, &at("drops"))?;
    same(port.host_lost, 0, &at("lost by the host"))
}

/// The counters of a port that do not depend on time.
pub(crate) fn counts(port: &PortReport) -> Result<Value, Failed> {
    let all = serde_json::to_value(port)?;
    let pick = |from: &Value, fields: &[&str]| -> Value {
        fields
            .iter()
            .map(|&field| (field.to_owned(), from[field].clone()))
            .collect()
    };
    let of_port = [
        "rx_packets",
        "rx_bytes",
        "rx_class_packets",
        "tx_packets",
        "tx_bytes",
        "tx_class_packets",
        "pfc_rx",
        "pfc_tx",
        "pfc_rx_frames",
        "pfc_tx_frames",
        "pause_rx",
        "ecn_marked",
        "drops_by_class",
        "xoff_transitions",
    ];
    let names = |object: &str, fields: &[&str]| -> Vec<String> {
        fields
            .iter()
            .map(|field| format!("SAI_{object}_STAT_{field}"))
            .collect()
    };
    let each = |list: &Value, fields: &[String]| -> Value {
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        list.as_array()
            .into_iter()
            .flatten()
            .map(|item| pick(item, &fields))
            .collect()
    };
    let group = names("INGRESS_PRIORITY_GROUP", &["PACKETS", "BYTES", "DROPPED_PACKETS"]);
    let queue = names("QUEUE", &["PACKETS", "BYTES", "DROPPED_PACKETS", "DROPPED_BYTES"]);
    Ok(json!({
        "port": pick(&all, &of_port),
        "groups": each(&all["priority_groups"], &group),
        "queues": each(&all["queues"], &queue),
    }))
}

/// Model time slow enough for any machine to send more than the links carry.
const DILATE: &str = "50";
/// Frames that each of three ports sends to the fourth, of classes 0, 1 and 3 in turn.
const EACH: usize = 300;
const CLASSES: [u8; 3] = [0, 1, 3];
const FRAME_BYTES: usize = 1_000;
/// Such a frame and its FCS in cells of 256 octets.
const FRAME_CELL_BYTES: u64 = 1_024;

/// Little buffer: lossy classes overflow at the queue, a class whose sender does not obey PFC at its priority group.
fn small_buffers() -> Value {
    let mut config = frames::qos();
    config["BUFFER_POOL"] = json!({
        "in": {"type": "ingress", "mode": "static", "size": "8000000"},
        "in_lossless": {"type": "ingress", "mode": "static", "size": "60000", "xoff": "60000"},
        "out": {"type": "egress", "mode": "static", "size": "100000"},
        "out_lossless": {"type": "egress", "mode": "static", "size": "8000000"},
    });
    config["BUFFER_PROFILE"] = json!({
        "in": {"pool": "in", "size": "0", "static_th": "8000000"},
        "in_lossless": {"pool": "in_lossless", "size": "0", "static_th": "20000", "xoff": "10000"},
        "out": {"pool": "out", "size": "0", "static_th": "30000"},
        "out_lossless": {"pool": "out_lossless", "size": "0", "static_th": "8000000"},
    });
    for (table, side) in [("BUFFER_PG", "in"), ("BUFFER_QUEUE", "out")] {
        let rows = (0..PORTS).flat_map(|n| {
            let lossy = json!({"profile": side});
            let lossless = json!({"profile": format!("{side}_lossless")});
            [
                (format!("{}|0-2", port(n)), lossy),
                (format!("{}|3", port(n)), lossless),
            ]
        });
        config[table] = rows.collect::<serde_json::Map<String, Value>>().into();
    }
    config
}

fn congested(workers: &str) -> Result<(), Failed> {
    let options = ["--workers", workers, "--dilate", DILATE];
    let mut bench = Bench::start(&small_buffers(), PORTS, &options)?;
    let receiver = frames::station(10, 3, 0);
    bench.fars[3].send(&frames::ip([0xff; 6], receiver, 0, 0, 60))?;
    bench.wait("the receiver is known", |switch| {
        switch.ports[..3].iter().all(|port| port.tx_packets == 1)
    })?;
    for id in 0..EACH as u32 {
        let class = CLASSES[id as usize % CLASSES.len()];
        for from in 0..3 {
            let frame = frames::ip(receiver, frames::station(10, from, class), class, id, FRAME_BYTES);
            bench.fars[from].send(&frame)?;
        }
    }
    let sent = (3 * EACH) as u64;
    let mut wrong = None;
    bench.wait("all frames have left or were dropped", |switch| {
        // At every moment, not only in the end.
        wrong = wrong.take().or_else(|| unaccounted(switch));
        let out = &switch.ports[3];
        let received: u64 = switch.ports[..3].iter().map(|port| port.rx_packets).sum();
        received == sent && out.tx_packets + dropped(switch) == sent
    })?;
    if let Some(wrong) = wrong {
        return Err(wrong.into());
    }
    let ended = bench.end(Signal::SIGTERM)?;
    ended.in_order()?;
    let switch = ended.switch()?;
    in_the_end(&switch)?;
    let mut received = 0;
    while let Some(frame) = bench.fars[3].receive()? {
        received += u64::from(frame[12..14] == [0x86, 0xdd]);
    }
    same(received, switch.ports[3].tx_packets, "frames at the receiver")
}

fn dropped(switch: &SwitchReport) -> u64 {
    switch.ports.iter().map(PortReport::dropped).sum()
}

/// Received = sent + dropped + queued, class by class; says where it is not so. The receiver's announcement apart.
fn unaccounted(switch: &SwitchReport) -> Option<String> {
    CLASSES.iter().map(|&class| usize::from(class)).find_map(|class| {
        let received: u64 = switch.ports[..3]
            .iter()
            .map(|port| port.rx_class_packets[class])
            .sum();
        let out = &switch.ports[3];
        let queued = out.queues[class].current_bytes / FRAME_CELL_BYTES;
        let dropped = drops(&switch.ports, class);
        let sum = out.tx_class_packets[class] + dropped + queued;
        (received != sum).then(|| {
            format!(
                "class {class}: {received} received, {} sent, {dropped} dropped, {queued} queued",
                out.tx_class_packets[class]
            )
        })
    })
}

/// Drops are where they belong, and every counter of them says the same.
fn in_the_end(switch: &SwitchReport) -> Result<(), Failed> {
    if let Some(wrong) = unaccounted(switch) {
        return Err(wrong.into());
    }
    let out = &switch.ports[3];
    let at_queue = out
        .drops_by_class
        .get("QUEUE_DROPPED_PACKETS")
        .copied()
        .unwrap_or_default();
    for class in [0, 1] {
        check(at_queue[class] > 0, || {
            format!("class {class} has lost nothing at its queue")
        })?;
        same(
            out.queues[class].dropped_packets,
            at_queue[class],
            "drops of the queue",
        )?;
        same(
            out.queues[class].dropped_bytes,
            at_queue[class] * (FRAME_BYTES as u64 + 4),
            "octets the queue dropped",
        )?;
    }
    same(
        out.drops.keys().map(String::as_str).collect(),
        vec!["QUEUE_DROPPED_PACKETS"],
        "reasons",
    )?;
    same(at_queue[3], 0, "lossless frames dropped at the queue")?;
    for (n, port) in switch.ports[..3].iter().enumerate() {
        let reason = "INGRESS_PRIORITY_GROUP_DROPPED_PACKETS";
        let at_group = port.drops_by_class.get(reason).copied().unwrap_or_default();
        check(at_group[3] > 0, || {
            format!("port {n}: nothing was dropped for lack of headroom")
        })?;
        same(port.drops.values().sum(), at_group[3], "all drops of the port")?;
        same(
            port.priority_groups[3].dropped_packets,
            at_group[3],
            "drops of the group",
        )?;
        check(port.pfc_tx[3] > 0, || format!("port {n} has sent no PFC"))?;
        same(port.host_lost, 0, "lost by the host")?;
    }
    Ok(())
}
