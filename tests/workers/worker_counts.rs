//! Comparison of one worker thread with three: both give the same results for the same frames.

use std::collections::BTreeMap;

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use xoff_ports::net::Netns;
use xoff_telemetry::{PortReport, SwitchReport};

use crate::frames::{self, PORTS, TestFrame, Treatment, without_vlan_tag};
use crate::support::{CompletionTest, KernelFeatures, check, check_equal, wait_for};
use crate::switch_process::{SwitchProcess, add_cable, dropped_in_class, port_name};

pub(crate) const TESTS: &[CompletionTest] = &[
    (
        "one_and_three_workers_send_equal_frames_below_congestion",
        KernelFeatures::Netns,
        one_and_three_workers_send_equal_frames_below_congestion,
    ),
    (
        "packet_and_xdp_send_equal_frames_below_congestion",
        KernelFeatures::Xdp,
        || packet_and_xdp_send_equal_frames_below_congestion("1"),
    ),
    (
        "packet_and_xdp_with_three_workers_send_equal_frames_below_congestion",
        KernelFeatures::Xdp,
        || packet_and_xdp_send_equal_frames_below_congestion("3"),
    ),
    (
        "all_frames_are_accounted_for_under_congestion",
        KernelFeatures::Netns,
        || check_congestion("1").map(|()| Completion::Completed),
    ),
    (
        "all_frames_are_accounted_for_under_congestion_with_three_workers",
        KernelFeatures::Netns,
        || check_congestion("3").map(|()| Completion::Completed),
    ),
];

/// Number of bursts. A burst has 32 frames.
const BURST_COUNT: usize = 50;

/// The frames of each sender address, in order.
pub(crate) type Flows = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

fn one_and_three_workers_send_equal_frames_below_congestion() -> Result<Completion, Failed> {
    let one = Netns::create()?.run(|| run_below_congestion("packet", "1"))??;
    let three = Netns::create()?.run(|| run_below_congestion("packet", "3"))??;
    check_equal_results(&one, &three)
}

fn packet_and_xdp_send_equal_frames_below_congestion(workers: &str) -> Result<Completion, Failed> {
    let packet = Netns::create()?.run(|| run_below_congestion("packet", "1"))??;
    let xdp = Netns::create()?.run(|| run_below_congestion("xdp", workers))??;
    check_equal_results(&packet, &xdp)
}

/// The frames that left each port, and the counters of each port.
type RunResult = (Vec<Flows>, Vec<Value>);

fn check_equal_results(one: &RunResult, other: &RunResult) -> Result<Completion, Failed> {
    for n in 0..PORTS {
        check(one.0[n] == other.0[n], || format!("port {n}: the frames differ"))?;
        check_equal(&one.1[n], &other.1[n], &port_name(n))?;
    }
    Ok(Completion::Completed)
}

fn run_below_congestion(backend: &str, workers: &str) -> Result<RunResult, Failed> {
    let far_ends = (0..PORTS).map(add_cable).collect::<Result<_, _>>()?;
    let options = ["--workers", workers];
    let folder = tempfile::tempdir()?;
    let mut switch_process =
        SwitchProcess::start_with_backend(backend, folder, far_ends, &frames::config(), PORTS, &options)?;
    let input = frames::input_bursts(BURST_COUNT);
    let mut received: Vec<Vec<Vec<u8>>> = vec![Vec::new(); PORTS];
    let mut expected = [0; PORTS];
    for burst in &input {
        for TestFrame {
            from,
            bytes,
            treatment,
        } in burst
        {
            switch_process.far_ends[*from].send(bytes)?;
            if let Treatment::To(ports) = treatment {
                ports.iter().for_each(|&port| expected[port] += 1);
            }
        }
        wait_for("the burst leaves the switch", || {
            for (far, received) in switch_process.far_ends.iter_mut().zip(&mut received) {
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
    let sent: Vec<&TestFrame> = input.iter().flatten().collect();
    // Backends report their drops at intervals, so the drop counters are read last.
    let refused = sent
        .iter()
        .filter(|sent| matches!(sent.treatment, Treatment::Refused(_)))
        .count() as u64;
    switch_process.wait_for_counters("the switch counts all refusals", |switch| {
        let told = switch
            .ports
            .iter()
            .filter_map(|port| port.drops.get("XOFF_OVERSIZED"));
        told.sum::<u64>() == refused && received_frames(switch) == sent.len() as u64 - refused
    })?;
    let ended = switch_process.stop(Signal::SIGTERM)?;
    ended.check_exit_code()?;
    let flows: Vec<Flows> = received.into_iter().map(frames_by_sender).collect();
    let ports = ended.switch()?.ports;
    for n in 0..PORTS {
        check_sent_frames(n, &sent, &flows[n])?;
        check_port_counters(n, &sent, &ports[n])?;
    }
    let counted = ports.iter().map(timeless_counters).collect::<Result<_, _>>()?;
    Ok((flows, counted))
}

/// Returns the number of received frames, flow control included.
fn received_frames(switch: &SwitchReport) -> u64 {
    let of = |port: &PortReport| port.rx_packets + port.pfc_rx_frames + port.pause_rx;
    switch.ports.iter().map(of).sum()
}

pub(crate) fn frames_by_sender(frames: Vec<Vec<u8>>) -> Flows {
    let mut flows = Flows::new();
    for frame in frames {
        flows.entry(frame[6..12].to_vec()).or_default().push(frame);
    }
    flows
}

/// Checks that the frames of each sender left port `n` in their order and unchanged except for VLAN tags.
fn check_sent_frames(n: usize, sent: &[&TestFrame], left: &Flows) -> Result<(), Failed> {
    let leaves = |sent: &&&TestFrame| matches!(&sent.treatment, Treatment::To(ports) if ports.contains(&n));
    let expected = frames_by_sender(
        sent.iter()
            .filter(leaves)
            .map(|sent| without_vlan_tag(&sent.bytes))
            .collect(),
    );
    for (sender, expected) in &expected {
        let got: Vec<Vec<u8>> = left
            .get(sender)
            .into_iter()
            .flatten()
            .map(|frame| without_vlan_tag(frame))
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
    check_equal(left.len(), expected.len(), "senders")
}

/// Checks that every frame is counted at its port with its bytes and its outcome.
fn check_port_counters(n: usize, sent: &[&TestFrame], port: &PortReport) -> Result<(), Failed> {
    let at = |what: &str| format!("port {n}: {what}");
    let mut drops: BTreeMap<String, u64> = BTreeMap::new();
    let (mut rx, mut rx_bytes, mut pfc, mut pause, mut tx) = (0, 0, 0, 0, 0);
    for TestFrame {
        from,
        bytes,
        treatment,
    } in sent
    {
        if matches!(treatment, Treatment::To(ports) if ports.contains(&n)) {
            tx += 1;
        }
        if *from != n {
            continue;
        }
        match treatment {
            Treatment::To(_) => {}
            Treatment::Dropped(reason) => *drops.entry((*reason).to_owned()).or_default() += 1,
            Treatment::Refused(reason) => {
                *drops.entry((*reason).to_owned()).or_default() += 1;
                continue;
            }
            Treatment::Pfc => {
                pfc += 1;
                continue;
            }
            Treatment::Pause => {
                pause += 1;
                continue;
            }
        }
        rx += 1;
        rx_bytes += (bytes.len() + 4).max(64) as u64;
    }
    check_equal(port.rx_packets, rx, &at("received"))?;
    check_equal(port.rx_bytes, rx_bytes, &at("octets received"))?;
    check_equal(
        port.rx_class_packets.iter().sum(),
        rx,
        &at("received in all classes"),
    )?;
    check_equal(port.tx_packets, tx, &at("sent"))?;
    check_equal(port.pfc_rx_frames, pfc, &at("PFC received"))?;
    check_equal(port.pause_rx, pause, &at("PAUSE received"))?;
    check_equal(&port.drops, &drops, &at("drops"))?;
    check_equal(port.host_lost, 0, &at("lost by the host"))
}

/// Returns the counters of a port that do not depend on time.
pub(crate) fn timeless_counters(port: &PortReport) -> Result<Value, Failed> {
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

/// A dilation at which any machine can send more frames than the links carry.
const DILATION: &str = "50";
/// Number of frames that each of three ports sends to the fourth port, in the classes 0, 1 and 3 in turn.
const FRAMES_PER_SENDER: usize = 300;
const CLASSES: [u8; 3] = [0, 1, 3];
const FRAME_BYTES: usize = 1_000;
/// Size of such a frame with its FCS in cells of 256 bytes.
const FRAME_CELL_BYTES: u64 = 1_024;

/// Returns small buffers. Lossy classes overflow at the queue, and a class whose sender ignores PFC overflows
/// at its priority group.
fn small_buffer_config() -> Value {
    let mut config = frames::qos_tables();
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
                (format!("{}|0-2", port_name(n)), lossy),
                (format!("{}|3", port_name(n)), lossless),
            ]
        });
        config[table] = rows.collect::<serde_json::Map<String, Value>>().into();
    }
    config
}

fn check_congestion(workers: &str) -> Result<(), Failed> {
    let options = ["--workers", workers, "--dilate", DILATION];
    let mut switch_process = SwitchProcess::start(&small_buffer_config(), PORTS, &options)?;
    let receiver = frames::station_mac(10, 3, 0);
    switch_process.far_ends[3].send(&frames::ipv6_frame([0xff; 6], receiver, 0, 0, 60))?;
    switch_process.wait_for_counters("the receiver is known", |switch| {
        switch.ports[..3].iter().all(|port| port.tx_packets == 1)
    })?;
    for id in 0..FRAMES_PER_SENDER as u32 {
        let class = CLASSES[id as usize % CLASSES.len()];
        for from in 0..3 {
            let frame = frames::ipv6_frame(
                receiver,
                frames::station_mac(10, from, class),
                class,
                id,
                FRAME_BYTES,
            );
            switch_process.far_ends[from].send(&frame)?;
        }
    }
    let sent = (3 * FRAMES_PER_SENDER) as u64;
    let mut wrong = None;
    switch_process.wait_for_counters("all frames have left or were dropped", |switch| {
        // The condition holds at every moment and not only at the end.
        wrong = wrong.take().or_else(|| find_unaccounted_class(switch));
        let out = &switch.ports[3];
        let received: u64 = switch.ports[..3].iter().map(|port| port.rx_packets).sum();
        received == sent && out.tx_packets + dropped_frames(switch) == sent
    })?;
    if let Some(wrong) = wrong {
        return Err(wrong.into());
    }
    let ended = switch_process.stop(Signal::SIGTERM)?;
    ended.check_exit_code()?;
    let switch = ended.switch()?;
    check_drop_counters(&switch)?;
    let mut received = 0;
    while let Some(frame) = switch_process.far_ends[3].receive()? {
        received += u64::from(frame[12..14] == [0x86, 0xdd]);
    }
    check_equal(received, switch.ports[3].tx_packets, "frames at the receiver")
}

fn dropped_frames(switch: &SwitchReport) -> u64 {
    switch.ports.iter().map(PortReport::dropped).sum()
}

/// Returns the first class in which received frames differ from sent, dropped and queued frames. The
/// receiver's announcement is not counted.
fn find_unaccounted_class(switch: &SwitchReport) -> Option<String> {
    CLASSES.iter().map(|&class| usize::from(class)).find_map(|class| {
        let received: u64 = switch.ports[..3]
            .iter()
            .map(|port| port.rx_class_packets[class])
            .sum();
        let out = &switch.ports[3];
        let queued = out.queues[class].current_bytes / FRAME_CELL_BYTES;
        let dropped = dropped_in_class(&switch.ports, class);
        let sum = out.tx_class_packets[class] + dropped + queued;
        (received != sum).then(|| {
            format!(
                "class {class}: {received} received, {} sent, {dropped} dropped, {queued} queued",
                out.tx_class_packets[class]
            )
        })
    })
}

/// Checks that drops are counted at the right places and that all their counters agree.
fn check_drop_counters(switch: &SwitchReport) -> Result<(), Failed> {
    if let Some(wrong) = find_unaccounted_class(switch) {
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
        check_equal(
            out.queues[class].dropped_packets,
            at_queue[class],
            "drops of the queue",
        )?;
        check_equal(
            out.queues[class].dropped_bytes,
            at_queue[class] * (FRAME_BYTES as u64 + 4),
            "octets the queue dropped",
        )?;
    }
    check_equal(
        out.drops.keys().map(String::as_str).collect(),
        vec!["QUEUE_DROPPED_PACKETS"],
        "reasons",
    )?;
    check_equal(at_queue[3], 0, "lossless frames dropped at the queue")?;
    for (n, port) in switch.ports[..3].iter().enumerate() {
        let reason = "INGRESS_PRIORITY_GROUP_DROPPED_PACKETS";
        let at_group = port.drops_by_class.get(reason).copied().unwrap_or_default();
        check(at_group[3] > 0, || {
            format!("port {n}: nothing was dropped for lack of headroom")
        })?;
        check_equal(port.drops.values().sum(), at_group[3], "all drops of the port")?;
        check_equal(
            port.priority_groups[3].dropped_packets,
            at_group[3],
            "drops of the group",
        )?;
        check(port.pfc_tx[3] > 0, || format!("port {n} has sent no PFC"))?;
        check_equal(port.host_lost, 0, "lost by the host")?;
    }
    Ok(())
}
