//! A core of SONiC's tests with real frames on devices of the kernel. The labs of `tests/sonic/` test the
//! same in virtual time.
//!
//! All results are counters. Wall time only limits the duration of a pause, and a run in which the pause
//! ended is repeated or skipped.

use std::ops::Range;
use std::time::Duration;

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use xoff_config::build_preset;
use xoff_telemetry::SwitchReport;
use xoff_units::Picos;

use crate::frames::{ipv6_frame, mac_control_frame, pfc_frame, station_mac};
use crate::support::{CompletionTest, KernelFeatures, check, check_equal, wait_for};
use crate::switch_process::{SwitchProcess, port_name};
use crate::watchdog::{PORTS, XoffFlood, inconclusive_after_gap, send_announcements};

pub(crate) const TESTS: &[CompletionTest] = &[
    (
        "sonic_test_pfc_counters",
        KernelFeatures::Netns,
        check_pfc_counters,
    ),
    ("sonic_test_pfc_pause", KernelFeatures::Netns, check_pfc_pause),
    (
        "sonic_qos_sai_pfc_xoff_limit",
        KernelFeatures::Netns,
        check_xoff_limit,
    ),
    (
        "sonic_qos_sai_dscp_queue_mapping",
        KernelFeatures::Netns,
        check_dscp_mapping,
    ),
];

/// At this speed, a pause of 65535 quanta lasts 336 ms, far longer than the machine delays a thread.
const SPEED_MBPS: u32 = 100;
/// The lossless priority. Its DSCP is [`ROCE_DSCP`].
const PRIORITY: usize = 3;
const ROCE_DSCP: u8 = 26;
/// Length of frames that take one cell of 256 bytes.
const FRAME_BYTES: usize = 60;
const CELL_BYTES: u64 = 256;
/// Number of PFC frames of each kind, as in the upstream test.
const PFC_FRAMES: u64 = 10;

fn config() -> Result<Value, Failed> {
    let ports: Vec<(String, u32)> = (0..PORTS).map(|n| (port_name(n), SPEED_MBPS)).collect();
    let mut config = build_preset("roce-lossless", &ports, Picos::from_millis(20))?.to_value();
    config["DEVICE_METADATA"] = json!({"localhost": {"mac": "02:00:00:00:10:00"}});
    // The MTU of the cables of the test.
    (0..PORTS).for_each(|n| config["PORT"][port_name(n)]["mtu"] = json!("1500"));
    Ok(config)
}

/// Source address of frames that port 0 itself sends, with the switch address of [`config`].
const PORT_0_MAC: [u8; 6] = [0x02, 0, 0, 0, 0x10, 0x01];

/// Returns a frame with this DSCP from the station at port `way.0` to the station at port `way.1`.
fn frame_with_dscp(way: (usize, usize), dscp: u8, id: u32) -> Vec<u8> {
    let mut frame = ipv6_frame(
        station_mac(10, way.1, 0),
        station_mac(10, way.0, 0),
        0,
        id,
        FRAME_BYTES,
    );
    frame[14..16].copy_from_slice(&[0x60 | dscp >> 2, dscp << 6]);
    frame
}

fn dscp_of_frame(frame: &[u8]) -> u8 {
    (frame[14] << 4 | frame[15] >> 4) >> 2
}

/// Returns the number that [`frame_with_dscp`] wrote into a frame.
fn frame_number(frame: &[u8]) -> u32 {
    frame[FRAME_BYTES - 4..]
        .iter()
        .fold(0, |id, octet| id << 8 | u32::from(*octet))
}

fn is_mac_control(frame: &[u8]) -> bool {
    frame[12..14] == [0x88, 0x08]
}

/// Returns the frames that left port `n`. Waits for `count` frames, and more may follow.
fn receive_frames(
    switch_process: &mut SwitchProcess,
    n: usize,
    count: usize,
) -> Result<Vec<Vec<u8>>, Failed> {
    let mut frames = Vec::new();
    wait_for("the frames arrive", || {
        while let Some(frame) = switch_process.far_ends[n].receive()? {
            frames.push(frame);
        }
        Ok((frames.len() >= count).then_some(()))
    })?;
    Ok(frames)
}

/// Discards the three frames at each port that made the stations known.
fn discard_announcements(switch_process: &mut SwitchProcess) -> Result<(), Failed> {
    send_announcements(switch_process)?;
    (0..PORTS).try_for_each(|n| receive_frames(switch_process, n, PORTS - 1).map(drop))
}

fn dropped_frames(switch: &SwitchReport) -> u64 {
    switch
        .ports
        .iter()
        .map(|port| port.dropped() + port.host_lost)
        .sum()
}

/// Returns true if the priority of port 1 has been paused since the first XOFF.
fn is_paused(switch: &SwitchReport) -> bool {
    let port = &switch.ports[1];
    port.paused_now[PRIORITY] && port.pfc_on2off_rx[PRIORITY] == 1
}

/// Pauses the lossless priority of port 1.
fn pause_port(switch_process: &mut SwitchProcess) -> Result<XoffFlood, Failed> {
    let flood = XoffFlood::start(vec![(1, PRIORITY, Duration::ZERO)])?;
    switch_process.wait_for_counters("the pause is there", |switch| {
        switch.ports[1].paused_now[PRIORITY]
    })?;
    Ok(flood)
}

/// Sends frames of the lossless class to the paused port 1 and waits until all are queued. Returns false if
/// the pause has ended meanwhile.
fn fill_paused_queue(switch_process: &mut SwitchProcess, ids: Range<u32>) -> Result<bool, Failed> {
    let queued = u64::from(ids.end);
    for id in ids {
        switch_process.far_ends[0].send(&frame_with_dscp((0, 1), ROCE_DSCP, id))?;
    }
    let switch = switch_process.wait_for_counters("the frames wait in the queue", |switch| {
        !is_paused(switch) || switch.ports[1].queues[PRIORITY].current_bytes == queued * CELL_BYTES
    })?;
    Ok(is_paused(&switch))
}

/// `tests/qos/test_pfc_counters.py`: PFC is counted by priority and PAUSE is not counted as PFC. Neither is
/// counted as an ordinary frame.
fn check_pfc_counters() -> Result<Completion, Failed> {
    let mut switch_process = SwitchProcess::start(&config()?, PORTS, &[])?;
    discard_announcements(&mut switch_process)?;
    let began = switch_process.counters()?;
    let mut expected = [0; 8];
    for quanta in [u16::MAX, 0] {
        for priority in 0..8 {
            for _ in 0..PFC_FRAMES {
                switch_process.far_ends[0].send(&pfc_frame(priority, quanta))?;
            }
            expected[priority] += PFC_FRAMES;
            let all: u64 = expected.iter().sum();
            let switch = switch_process.wait_for_counters("the PFC frames are counted", |switch| {
                switch.ports[0].pfc_rx_frames == all
            })?;
            let what = format!("counters after priority {priority}, {quanta} quanta");
            check_equal(switch.ports[0].pfc_rx, expected, &what)?;
        }
    }
    for quanta in [[0xff, 0xff], [0, 0]] {
        for _ in 0..PFC_FRAMES {
            switch_process.far_ends[0].send(&mac_control_frame(0x0001, &quanta))?;
        }
    }
    // The next frame at each port is the first data frame of the other ports.
    switch_process.wait_for_counters("the PAUSE frames are counted", |switch| {
        switch.ports[0].pause_rx == 2 * PFC_FRAMES
    })?;
    switch_process.far_ends[0].send(&ipv6_frame([0xff; 6], station_mac(10, 0, 0), 0, 77, FRAME_BYTES))?;
    for n in 1..PORTS {
        let frames = receive_frames(&mut switch_process, n, 1)?;
        let ids: Vec<u32> = frames.iter().map(|frame| frame_number(frame)).collect();
        check_equal(ids, vec![77], &format!("what port {n} has sent"))?;
    }
    let after = switch_process.wait_for_counters("the last frame has left", |switch| {
        (1..PORTS).all(|n| switch.ports[n].tx_packets == began.ports[n].tx_packets + 1)
    })?;
    let (from, before) = (&after.ports[0], &began.ports[0]);
    check_equal(from.pfc_rx, expected, "PFC counters after PAUSE")?;
    check_equal(from.pfc_rx_frames, 16 * PFC_FRAMES, "PFC frames")?;
    check_equal(from.rx_packets, before.rx_packets + 1, "ordinary frames")?;
    check_equal(from.rx_bytes, before.rx_bytes + 64, "octets of ordinary frames")?;
    check_equal(dropped_frames(&after), 0, "dropped")?;
    for n in 1..PORTS {
        check_equal(after.ports[n].pfc_rx, [0; 8], "PFC of another port")?;
        check_equal(after.ports[n].pause_rx, 0, "PAUSE of another port")?;
    }
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}

/// Sends one frame of the paused class and one of another class. Returns false if the pause
/// has ended meanwhile.
fn send_round(switch_process: &mut SwitchProcess, n: u32) -> Result<bool, Failed> {
    // The second frame overtakes the frame of the paused class.
    switch_process.far_ends[0].send(&frame_with_dscp((0, 1), ROCE_DSCP, n))?;
    switch_process.far_ends[0].send(&frame_with_dscp((0, 1), 0, n))?;
    let arrived = receive_frames(switch_process, 1, 1)?;
    let switch = switch_process.counters()?;
    if !is_paused(&switch) {
        return Ok(false);
    }
    let arrived: Vec<(u8, u32)> = arrived
        .iter()
        .map(|frame| (dscp_of_frame(frame), frame_number(frame)))
        .collect();
    check_equal(arrived, vec![(0, n)], "arrived while priority 3 is paused")?;
    let port = &switch.ports[1];
    let waiting = port.queues[PRIORITY].current_bytes;
    check_equal(waiting, u64::from(n + 1) * CELL_BYTES, "octets that wait")?;
    check_equal(port.tx_class_packets[PRIORITY], 0, "sent while paused")?;
    Ok(true)
}

/// `tests/qos/test_pfc_pause.py`: the paused priority stops, the other one continues, and no frame is lost.
fn check_pfc_pause() -> Result<Completion, Failed> {
    const ROUNDS: u32 = 20;
    let mut switch_process = SwitchProcess::start(&config()?, PORTS, &[])?;
    discard_announcements(&mut switch_process)?;
    let flood = pause_port(&mut switch_process)?;
    let still_held = (0..ROUNDS).try_fold(true, |held, n| {
        Ok::<bool, Failed>(held && send_round(&mut switch_process, n)?)
    });
    flood.stop()?;
    if !still_held? {
        return Ok(inconclusive_after_gap());
    }
    switch_process.far_ends[1].send(&pfc_frame(PRIORITY, 0))?;
    let arrived = receive_frames(&mut switch_process, 1, ROUNDS as usize)?;
    let arrived: Vec<(u8, u32)> = arrived
        .iter()
        .map(|frame| (dscp_of_frame(frame), frame_number(frame)))
        .collect();
    let expected: Vec<(u8, u32)> = (0..ROUNDS).map(|id| (ROCE_DSCP, id)).collect();
    check_equal(arrived, expected, "arrived after XON")?;
    let after = switch_process.wait_for_counters("the frames have left", |switch| {
        switch.ports[1].tx_class_packets[PRIORITY] == u64::from(ROUNDS)
    })?;
    check_equal(dropped_frames(&after), 0, "dropped")?;
    let passed_on: u64 = after.ports.iter().map(|port| port.pfc_tx_frames).sum();
    check_equal(passed_on, 0, "PFC sent")?;
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}

/// Cells of the lossless group until XOFF.
const XOFF_CELLS: u32 = 40;
/// Additional cells, which use headroom.
const MORE_CELLS: u32 = 20;

/// `testQosSaiPfcXoffLimit`: no PFC below the XOFF threshold. At the threshold, the port repeats valid PFC
/// frames of that priority, and no frame is dropped.
fn check_xoff_limit() -> Result<Completion, Failed> {
    let mut config = config()?;
    let profile = &mut config["BUFFER_PROFILE"][format!("pg_lossless_{SPEED_MBPS}_profile")];
    let fields = profile.as_object_mut().ok_or("no profile")?;
    fields.shift_remove("dynamic_th");
    fields.insert(
        "static_th".to_owned(),
        (u64::from(XOFF_CELLS) * CELL_BYTES).to_string().into(),
    );
    fields.insert("xon_offset".to_owned(), (8 * CELL_BYTES).to_string().into());
    let mut switch_process = SwitchProcess::start(&config, PORTS, &[])?;
    discard_announcements(&mut switch_process)?;
    let flood = pause_port(&mut switch_process)?;
    let signals = fill_to_headroom(&mut switch_process);
    flood.stop()?;
    match signals? {
        Some(xoffs) => check_release_after_pause(&mut switch_process, xoffs),
        None => Ok(inconclusive_after_gap()),
    }
}

/// Fills the group to one cell below XOFF, to XOFF and beyond. Returns the number of XOFF frames. `None`: the
/// pause has ended meanwhile.
fn fill_to_headroom(switch_process: &mut SwitchProcess) -> Result<Option<usize>, Failed> {
    if !fill_paused_queue(switch_process, 0..XOFF_CELLS - 1)? {
        return Ok(None);
    }
    // PFC frames are sent before queued frames. A data frame that leaves after the fill shows that no PFC
    // frame was sent.
    switch_process.far_ends[2].send(&frame_with_dscp((2, 0), 0, 78))?;
    let seen = receive_frames(switch_process, 0, 1)?;
    let seen: Vec<u32> = seen.iter().map(|frame| frame_number(frame)).collect();
    check_equal(seen, vec![78], "at the sender, one cell short of XOFF")?;
    let sent = switch_process.counters()?.ports[0].pfc_tx_frames;
    check_equal(sent, 0, "PFC sent short of XOFF")?;

    if !fill_paused_queue(switch_process, XOFF_CELLS - 1..XOFF_CELLS)? {
        return Ok(None);
    }
    let mut xoffs = receive_frames(switch_process, 0, 1)?;
    if !fill_paused_queue(switch_process, XOFF_CELLS..XOFF_CELLS + MORE_CELLS)? {
        return Ok(None);
    }
    // The first XOFF frame is repeated.
    xoffs.extend(receive_frames(switch_process, 0, 2)?);
    let switch = switch_process.counters()?;
    if !is_paused(&switch) {
        return Ok(None);
    }
    xoffs
        .iter()
        .try_for_each(|frame| check_pfc_frame(frame, u16::MAX))?;
    let port = &switch.ports[0];
    check_equal(port.xoff_transitions[PRIORITY], 1, "times in XOFF")?;
    let headroom = port.priority_groups[PRIORITY].headroom_current_bytes;
    check_equal(headroom, u64::from(MORE_CELLS) * CELL_BYTES, "octets in headroom")?;
    check_equal(dropped_frames(&switch), 0, "dropped")?;
    Ok(Some(xoffs.len()))
}

/// Checks that all frames leave in order after the pause and that one XON follows at least
/// `xoffs` XOFF frames.
fn check_release_after_pause(switch_process: &mut SwitchProcess, xoffs: usize) -> Result<Completion, Failed> {
    let all = XOFF_CELLS + MORE_CELLS;
    switch_process.far_ends[1].send(&pfc_frame(PRIORITY, 0))?;
    let arrived: Vec<u32> = receive_frames(switch_process, 1, all as usize)?
        .iter()
        .map(|frame| frame_number(frame))
        .collect();
    check_equal(arrived, (0..all).collect(), "arrived after XON")?;
    let after = switch_process.wait_for_counters("XON is sent", |switch| {
        !switch.ports[0].xoff_now[PRIORITY] && switch.ports[1].tx_class_packets[PRIORITY] == u64::from(all)
    })?;
    let sent = after.ports[0].pfc_tx_frames;
    let rest = receive_frames(switch_process, 0, sent as usize - xoffs)?;
    let (xon, refreshes) = rest.split_last().ok_or("no XON")?;
    refreshes
        .iter()
        .try_for_each(|frame| check_pfc_frame(frame, u16::MAX))?;
    check_pfc_frame(xon, 0)?;
    check_equal(rest.len() + xoffs, sent as usize, "PFC frames at the sender")?;
    let mut counters = [0; 8];
    counters[PRIORITY] = sent;
    check_equal(after.ports[0].pfc_tx, counters, "PFC counters")?;
    for n in 1..PORTS {
        check_equal(after.ports[n].pfc_tx_frames, 0, "PFC at another port")?;
    }
    check_equal(dropped_frames(&after), 0, "dropped")?;
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}

/// Checks every byte of a PFC frame of port 0 for the lossless priority.
fn check_pfc_frame(frame: &[u8], quanta: u16) -> Result<(), Failed> {
    check(is_mac_control(frame), || {
        format!("no MAC control frame: {frame:02x?}")
    })?;
    let mut expected = vec![0x01, 0x80, 0xc2, 0, 0, 0x01];
    expected.extend(PORT_0_MAC);
    // Ethertype, opcode and class-enable vector.
    expected.extend([0x88, 0x08, 0x01, 0x01, 0, 1 << PRIORITY]);
    for priority in 0..8 {
        let time = if priority == PRIORITY { quanta } else { 0 };
        expected.extend(time.to_be_bytes());
    }
    expected.resize(60, 0);
    check_equal(frame, &expected[..], "the PFC frame")
}

/// `testQosSaiDscpQueueMapping`: a frame of every DSCP uses the queue of SONiC's default map
/// and is unchanged.
fn check_dscp_mapping() -> Result<Completion, Failed> {
    let stock: Value = serde_json::from_str(include_str!("../sonic/stock.config_db.json"))?;
    let map = &stock["DSCP_TO_TC_MAP"]["AZURE"];
    let mut config = config()?;
    // In the preset, a class uses the queue of its number.
    config["DSCP_TO_TC_MAP"]["ROCE"] = map.clone();
    let mut switch_process = SwitchProcess::start(&config, PORTS, &[])?;
    discard_announcements(&mut switch_process)?;
    let queues = |switch: &SwitchReport| -> Vec<u64> {
        switch.ports[1].queues.iter().map(|queue| queue.packets).collect()
    };
    let mut expected = queues(&switch_process.counters()?);
    let before = expected.clone();
    for dscp in 0..64 {
        let class = map[dscp.to_string()].as_str().ok_or("the map lacks a DSCP")?;
        expected[class.parse::<usize>()?] += 1;
        switch_process.far_ends[0].send(&frame_with_dscp((0, 1), dscp, u32::from(dscp)))?;
    }
    let mut arrived = receive_frames(&mut switch_process, 1, 64)?;
    arrived.sort_by_key(|frame| frame_number(frame));
    let sent: Vec<Vec<u8>> = (0..64)
        .map(|dscp| frame_with_dscp((0, 1), dscp, u32::from(dscp)))
        .collect();
    check_equal(arrived, sent, "the frames of all DSCPs")?;
    let after = switch_process.wait_for_counters("the frames are counted", |switch| {
        queues(switch).iter().sum::<u64>() == before.iter().sum::<u64>() + 64
    })?;
    check_equal(queues(&after), expected, "frames of the queues")?;
    let new: Vec<u64> = queues(&after)
        .iter()
        .zip(&before)
        .map(|(now, then)| now - then)
        .collect();
    check_equal(
        new,
        vec![1, 58, 1, 1, 1, 1, 1, 0],
        "frames of the queues by upstream's figures",
    )?;
    check_equal(dropped_frames(&after), 0, "dropped")?;
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}
