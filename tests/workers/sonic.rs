//! A core of SONiC's tests with real frames: what the labs of `tests/sonic/` show in virtual time, on devices of the kernel.
//!
//! Everything is counted. The wall only decides how long a pause is kept up, and a run in which it ended is no result.

use std::ops::Range;
use std::time::Duration;

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use xoff_config::build_preset;
use xoff_telemetry::SwitchReport;
use xoff_units::Picos;

use crate::bench::{Bench, port};
use crate::frames::{control, ip, pfc, station};
use crate::support::{Needs, Reporting, check, same, wait_for};
use crate::watchdog::{Flood, PORTS, announce, stalled};

pub(crate) const TESTS: &[Reporting] = &[
    ("sonic_test_pfc_counters", Needs::Netns, pfc_counters),
    ("sonic_test_pfc_pause", Needs::Netns, pfc_pause),
    ("sonic_qos_sai_pfc_xoff_limit", Needs::Netns, xoff_limit),
    ("sonic_qos_sai_dscp_queue_mapping", Needs::Netns, dscp_mapping),
];

/// A pause of 65535 quanta lasts 336 ms at this speed: far longer than a machine keeps a thread waiting.
const SPEED_MBPS: u32 = 100;
/// The lossless priority, and its DSCP.
const PRIORITY: usize = 3;
const ROCE: u8 = 26;
/// Frames of a test that take one cell of 256 octets.
const LEN: usize = 60;
const CELL: u64 = 256;
/// Frames of one kind of PFC, as upstream sends them.
const PFC_FRAMES: u64 = 10;

fn config() -> Result<Value, Failed> {
    let ports: Vec<(String, u32)> = (0..PORTS).map(|n| (port(n), SPEED_MBPS)).collect();
    let mut config = build_preset("roce-lossless", &ports, Picos::from_millis(20))?.to_value();
    config["DEVICE_METADATA"] = json!({"localhost": {"mac": "02:00:00:00:10:00"}});
    // What the cables of the test take.
    (0..PORTS).for_each(|n| config["PORT"][port(n)]["mtu"] = json!("1500"));
    Ok(config)
}

/// Source of what port 0 sends itself, with [`config`]'s address.
const PORT_0: [u8; 6] = [0x02, 0, 0, 0, 0x10, 0x01];

/// A frame with this DSCP from the station behind `way.0` to that behind `way.1`.
fn frame(way: (usize, usize), dscp: u8, id: u32) -> Vec<u8> {
    let mut frame = ip(station(10, way.1, 0), station(10, way.0, 0), 0, id, LEN);
    frame[14..16].copy_from_slice(&[0x60 | dscp >> 2, dscp << 6]);
    frame
}

fn dscp(frame: &[u8]) -> u8 {
    (frame[14] << 4 | frame[15] >> 4) >> 2
}

/// The number that [`frame`] put into it.
fn id(frame: &[u8]) -> u32 {
    frame[LEN - 4..]
        .iter()
        .fold(0, |id, octet| id << 8 | u32::from(*octet))
}

fn is_control(frame: &[u8]) -> bool {
    frame[12..14] == [0x88, 0x08]
}

/// What has come out of port `n`, as soon as there are `count` frames, after which there may be more.
fn receive(bench: &mut Bench, n: usize, count: usize) -> Result<Vec<Vec<u8>>, Failed> {
    let mut frames = Vec::new();
    wait_for("the frames arrive", || {
        while let Some(frame) = bench.fars[n].receive()? {
            frames.push(frame);
        }
        Ok((frames.len() >= count).then_some(()))
    })?;
    Ok(frames)
}

/// Throws away what has made the stations known: three frames at each port.
fn known(bench: &mut Bench) -> Result<(), Failed> {
    announce(bench)?;
    (0..PORTS).try_for_each(|n| receive(bench, n, PORTS - 1).map(drop))
}

fn dropped(switch: &SwitchReport) -> u64 {
    switch
        .ports
        .iter()
        .map(|port| port.dropped() + port.host_lost)
        .sum()
}

/// The priority of port 1 has been paused from the first XOFF until now.
fn held(switch: &SwitchReport) -> bool {
    let port = &switch.ports[1];
    port.paused_now[PRIORITY] && port.pfc_on2off_rx[PRIORITY] == 1
}

/// Pauses the lossless priority of port 1.
fn hold(bench: &mut Bench) -> Result<Flood, Failed> {
    let flood = Flood::start(vec![(1, PRIORITY, Duration::ZERO)])?;
    bench.wait("the pause is there", |switch| {
        switch.ports[1].paused_now[PRIORITY]
    })?;
    Ok(flood)
}

/// Sends frames of the lossless class to port 1, which is held, and waits until all are there; false if the pause has
/// ended meanwhile.
fn fill(bench: &mut Bench, ids: Range<u32>) -> Result<bool, Failed> {
    let queued = u64::from(ids.end);
    for id in ids {
        bench.fars[0].send(&frame((0, 1), ROCE, id))?;
    }
    let switch = bench.wait("the frames wait in the queue", |switch| {
        !held(switch) || switch.ports[1].queues[PRIORITY].current_bytes == queued * CELL
    })?;
    Ok(held(&switch))
}

/// `tests/qos/test_pfc_counters.py`: PFC is counted by priority, PAUSE is no PFC, and neither is an ordinary frame.
fn pfc_counters() -> Result<Completion, Failed> {
    let mut bench = Bench::start(&config()?, PORTS, &[])?;
    known(&mut bench)?;
    let began = bench.counters()?;
    let mut expected = [0; 8];
    for quanta in [u16::MAX, 0] {
        for priority in 0..8 {
            for _ in 0..PFC_FRAMES {
                bench.fars[0].send(&pfc(priority, quanta))?;
            }
            expected[priority] += PFC_FRAMES;
            let all: u64 = expected.iter().sum();
            let switch = bench.wait("the PFC frames are counted", |switch| {
                switch.ports[0].pfc_rx_frames == all
            })?;
            let what = format!("counters after priority {priority}, {quanta} quanta");
            same(switch.ports[0].pfc_rx, expected, &what)?;
        }
    }
    for quanta in [[0xff, 0xff], [0, 0]] {
        for _ in 0..PFC_FRAMES {
            bench.fars[0].send(&control(0x0001, &quanta))?;
        }
    }
    // What comes next is the first that the other ports send.
    bench.wait("the PAUSE frames are counted", |switch| {
        switch.ports[0].pause_rx == 2 * PFC_FRAMES
    })?;
    bench.fars[0].send(&ip([0xff; 6], station(10, 0, 0), 0, 77, LEN))?;
    for n in 1..PORTS {
        let frames = receive(&mut bench, n, 1)?;
        let ids: Vec<u32> = frames.iter().map(|frame| id(frame)).collect();
        same(ids, vec![77], &format!("what port {n} has sent"))?;
    }
    let after = bench.wait("the last frame has left", |switch| {
        (1..PORTS).all(|n| switch.ports[n].tx_packets == began.ports[n].tx_packets + 1)
    })?;
    let (from, before) = (&after.ports[0], &began.ports[0]);
    same(from.pfc_rx, expected, "PFC counters after PAUSE")?;
    same(from.pfc_rx_frames, 16 * PFC_FRAMES, "PFC frames")?;
    same(from.rx_packets, before.rx_packets + 1, "ordinary frames")?;
    same(from.rx_bytes, before.rx_bytes + 64, "octets of ordinary frames")?;
    same(dropped(&after), 0, "dropped")?;
    for n in 1..PORTS {
        same(after.ports[n].pfc_rx, [0; 8], "PFC of another port")?;
        same(after.ports[n].pause_rx, 0, "PAUSE of another port")?;
    }
    bench.end(Signal::SIGTERM)?.in_order()?;
    Ok(Completion::Completed)
}

/// One frame of the paused class and one of another; false if the pause has ended meanwhile.
fn round(bench: &mut Bench, n: u32) -> Result<bool, Failed> {
    // The background's frame comes after the other one, and passes it.
    bench.fars[0].send(&frame((0, 1), ROCE, n))?;
    bench.fars[0].send(&frame((0, 1), 0, n))?;
    let arrived = receive(bench, 1, 1)?;
    let switch = bench.counters()?;
    if !held(&switch) {
        return Ok(false);
    }
    let arrived: Vec<(u8, u32)> = arrived.iter().map(|frame| (dscp(frame), id(frame))).collect();
    same(arrived, vec![(0, n)], "arrived while priority 3 is paused")?;
    let port = &switch.ports[1];
    let waiting = port.queues[PRIORITY].current_bytes;
    same(waiting, u64::from(n + 1) * CELL, "octets that wait")?;
    same(port.tx_class_packets[PRIORITY], 0, "sent while paused")?;
    Ok(true)
}

/// `tests/qos/test_pfc_pause.py`: the paused priority stands still, the other goes on; nothing is lost by it.
fn pfc_pause() -> Result<Completion, Failed> {
    const ROUNDS: u32 = 20;
    let mut bench = Bench::start(&config()?, PORTS, &[])?;
    known(&mut bench)?;
    let flood = hold(&mut bench)?;
    let still_held = (0..ROUNDS).try_fold(true, |held, n| Ok::<bool, Failed>(held && round(&mut bench, n)?));
    flood.end()?;
    if !still_held? {
        return Ok(stalled());
    }
    bench.fars[1].send(&pfc(PRIORITY, 0))?;
    let arrived = receive(&mut bench, 1, ROUNDS as usize)?;
    let arrived: Vec<(u8, u32)> = arrived.iter().map(|frame| (dscp(frame), id(frame))).collect();
    let expected: Vec<(u8, u32)> = (0..ROUNDS).map(|id| (ROCE, id)).collect();
    same(arrived, expected, "arrived after XON")?;
    let after = bench.wait("the frames have left", |switch| {
        switch.ports[1].tx_class_packets[PRIORITY] == u64::from(ROUNDS)
    })?;
    same(dropped(&after), 0, "dropped")?;
    let passed_on: u64 = after.ports.iter().map(|port| port.pfc_tx_frames).sum();
    same(passed_on, 0, "PFC sent")?;
    bench.end(Signal::SIGTERM)?.in_order()?;
    Ok(Completion::Completed)
}

/// Cells of the lossless group until XOFF.
const XOFF_CELLS: u32 = 40;
/// Cells more, which headroom has to take.
const MORE_CELLS: u32 = 20;

/// `testQosSaiPfcXoffLimit`: no PFC short of XOFF; at XOFF valid PFC of that priority, again and again, and no drop.
fn xoff_limit() -> Result<Completion, Failed> {
    let mut config = config()?;
    let profile = &mut config["BUFFER_PROFILE"][format!("pg_lossless_{SPEED_MBPS}_profile")];
    let fields = profile.as_object_mut().ok_or("no profile")?;
    fields.shift_remove("dynamic_th");
    fields.insert(
        "static_th".to_owned(),
        (u64::from(XOFF_CELLS) * CELL).to_string().into(),
    );
    fields.insert("xon_offset".to_owned(), (8 * CELL).to_string().into());
    let mut bench = Bench::start(&config, PORTS, &[])?;
    known(&mut bench)?;
    let flood = hold(&mut bench)?;
    let signals = until_headroom(&mut bench);
    flood.end()?;
    match signals? {
        Some(xoffs) => released(&mut bench, xoffs),
        None => Ok(stalled()),
    }
}

/// Fills the group to one cell short of XOFF, to XOFF and beyond; gives how many XOFF frames came, or nothing if the
/// pause has ended meanwhile.
fn until_headroom(bench: &mut Bench) -> Result<Option<usize>, Failed> {
    if !fill(bench, 0..XOFF_CELLS - 1)? {
        return Ok(None);
    }
    // PFC is sent before what waits: an ordinary frame that comes out behind the fill shows that there was none.
    bench.fars[2].send(&frame((2, 0), 0, 78))?;
    let seen = receive(bench, 0, 1)?;
    let seen: Vec<u32> = seen.iter().map(|frame| id(frame)).collect();
    same(seen, vec![78], "at the sender, one cell short of XOFF")?;
    let sent = bench.counters()?.ports[0].pfc_tx_frames;
    same(sent, 0, "PFC sent short of XOFF")?;

    if !fill(bench, XOFF_CELLS - 1..XOFF_CELLS)? {
        return Ok(None);
    }
    let mut xoffs = receive(bench, 0, 1)?;
    if !fill(bench, XOFF_CELLS..XOFF_CELLS + MORE_CELLS)? {
        return Ok(None);
    }
    // The first is repeated.
    xoffs.extend(receive(bench, 0, 2)?);
    let switch = bench.counters()?;
    if !held(&switch) {
        return Ok(None);
    }
    xoffs.iter().try_for_each(|frame| valid(frame, u16::MAX))?;
    let port = &switch.ports[0];
    same(port.xoff_transitions[PRIORITY], 1, "times in XOFF")?;
    let headroom = port.priority_groups[PRIORITY].headroom_current_bytes;
    same(headroom, u64::from(MORE_CELLS) * CELL, "octets in headroom")?;
    same(dropped(&switch), 0, "dropped")?;
    Ok(Some(xoffs.len()))
}

/// After the pause all frames pass in order, and one XON follows the `xoffs` or more that were sent.
fn released(bench: &mut Bench, xoffs: usize) -> Result<Completion, Failed> {
    let all = XOFF_CELLS + MORE_CELLS;
    bench.fars[1].send(&pfc(PRIORITY, 0))?;
    let arrived: Vec<u32> = receive(bench, 1, all as usize)?
        .iter()
        .map(|frame| id(frame))
        .collect();
    same(arrived, (0..all).collect(), "arrived after XON")?;
    let after = bench.wait("XON is sent", |switch| {
        !switch.ports[0].xoff_now[PRIORITY] && switch.ports[1].tx_class_packets[PRIORITY] == u64::from(all)
    })?;
    let sent = after.ports[0].pfc_tx_frames;
    let rest = receive(bench, 0, sent as usize - xoffs)?;
    let (xon, refreshes) = rest.split_last().ok_or("no XON")?;
    refreshes.iter().try_for_each(|frame| valid(frame, u16::MAX))?;
    valid(xon, 0)?;
    same(rest.len() + xoffs, sent as usize, "PFC frames at the sender")?;
    let mut counters = [0; 8];
    counters[PRIORITY] = sent;
    same(after.ports[0].pfc_tx, counters, "PFC counters")?;
    for n in 1..PORTS {
        same(after.ports[n].pfc_tx_frames, 0, "PFC at another port")?;
    }
    same(dropped(&after), 0, "dropped")?;
    bench.end(Signal::SIGTERM)?.in_order()?;
    Ok(Completion::Completed)
}

/// A PFC frame of port 0 for the lossless priority alone, octet by octet.
fn valid(frame: &[u8], quanta: u16) -> Result<(), Failed> {
    check(is_control(frame), || {
        format!("no MAC control frame: {frame:02x?}")
    })?;
    let mut expected = vec![0x01, 0x80, 0xc2, 0, 0, 0x01];
    expected.extend(PORT_0);
    // Ethertype, opcode, class-enable vector.
    expected.extend([0x88, 0x08, 0x01, 0x01, 0, 1 << PRIORITY]);
    for priority in 0..8 {
        let time = if priority == PRIORITY { quanta } else { 0 };
        expected.extend(time.to_be_bytes());
    }
    expected.resize(60, 0);
    same(frame, &expected[..], "the PFC frame")
}

/// `testQosSaiDscpQueueMapping`: a frame of every DSCP, in the queue that SONiC's own map says, and unchanged.
fn dscp_mapping() -> Result<Completion, Failed> {
    let stock: Value = serde_json::from_str(include_str!("../sonic/stock.config_db.json"))?;
    let map = &stock["DSCP_TO_TC_MAP"]["AZURE"];
    let mut config = config()?;
    // A class has the queue of its number in the preset.
    config["DSCP_TO_TC_MAP"]["ROCE"] = map.clone();
    let mut bench = Bench::start(&config, PORTS, &[])?;
    known(&mut bench)?;
    let queues = |switch: &SwitchReport| -> Vec<u64> {
        switch.ports[1].queues.iter().map(|queue| queue.packets).collect()
    };
    let mut expected = queues(&bench.counters()?);
    let before = expected.clone();
    for dscp in 0..64 {
        let class = map[dscp.to_string()].as_str().ok_or("the map lacks a DSCP")?;
        expected[class.parse::<usize>()?] += 1;
        bench.fars[0].send(&frame((0, 1), dscp, u32::from(dscp)))?;
    }
    let mut arrived = receive(&mut bench, 1, 64)?;
    arrived.sort_by_key(|frame| id(frame));
    let sent: Vec<Vec<u8>> = (0..64).map(|dscp| frame((0, 1), dscp, u32::from(dscp))).collect();
    same(arrived, sent, "the frames of all DSCPs")?;
    let after = bench.wait("the frames are counted", |switch| {
        queues(switch).iter().sum::<u64>() == before.iter().sum::<u64>() + 64
    })?;
    same(queues(&after), expected, "frames of the queues")?;
    let new: Vec<u64> = queues(&after)
        .iter()
        .zip(&before)
        .map(|(now, then)| now - then)
        .collect();
    same(
        new,
        vec![1, 58, 1, 1, 1, 1, 1, 0],
        "frames of the queues by upstream's figures",
    )?;
    same(dropped(&after), 0, "dropped")?;
    bench.end(Signal::SIGTERM)?.in_order()?;
    Ok(Completion::Completed)
}
