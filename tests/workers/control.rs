//! What a running switch is told and asked, and how it ends.

use std::fs;

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::bench::{Bench, port};
use crate::frames::{control, ip, pfc, qos, station};
use crate::support::{Needs, Reporting, check, same};

pub(crate) const TESTS: &[Reporting] = &[
    ("what_was_dropped_last_is_in_the_report", Needs::Netns, last_drops),
    ("counters_are_what_was_sent", Needs::Netns, counters),
    (
        "a_configuration_changes_while_traffic_goes_on",
        Needs::Netns,
        apply,
    ),
    ("a_killed_switch_does_not_stand_in_the_way", Needs::Netns, killed),
];

/// Frames of a test.
const FRAMES: u64 = 40;

/// Sends frames of a class from port 0 to the station behind port 1, and waits until they have left.
fn send(bench: &mut Bench, class: u8, len: usize) -> Result<(), Failed> {
    let before = bench.counters()?.ports[1].tx_packets;
    for id in 0..FRAMES as u32 {
        bench.fars[0].send(&ip(station(10, 1, 0), station(10, 0, class), class, id, len))?;
    }
    bench.wait("the frames have left", |switch| {
        switch.ports[1].tx_packets == before + FRAMES
    })?;
    let mut received = 0;
    crate::support::wait_for("the frames arrive", || {
        while let Some(frame) = bench.fars[1].receive()? {
            received += u64::from(frame[6..12] == station(10, 0, class));
        }
        Ok((received == FRAMES).then_some(()))
    })
}

fn announce(bench: &mut Bench) -> Result<(), Failed> {
    bench.fars[1].send(&ip([0xff; 6], station(10, 1, 0), 0, 0, 60))?;
    bench.wait("the station is known", |switch| switch.ports[0].tx_packets == 1)?;
    Ok(())
}

/// `show counters --json` of a port.
fn shown(bench: &Bench, n: usize) -> Result<Value, Failed> {
    let output = bench.ask(&["show", "counters", "--json"])?;
    same(output.status.code(), Some(0), "exit code of show counters")?;
    let counters: Value = serde_json::from_slice(&output.stdout)?;
    same(counters["schema"].as_str(), Some("xoff.counters/1"), "schema")?;
    Ok(counters["switch"]["ports"][n].clone())
}

fn counters() -> Result<Completion, Failed> {
    let mut bench = Bench::start(&qos(), 4, &[])?;
    announce(&mut bench)?;
    send(&mut bench, 5, 996)?;
    bench.fars[0].send(&pfc(3, 1))?;
    bench.fars[0].send(&control(0x0001, &[0, 1]))?;
    bench.fars[0].send(&ip([0x01, 0x80, 0xc2, 0, 0, 0x0e], station(10, 0, 2), 2, 0, 60))?;
    bench.wait("the frames are in the switch", |switch| {
        let port = &switch.ports[0];
        port.rx_packets == FRAMES + 1 && port.pfc_rx_frames == 1 && port.pause_rx == 1
    })?;
    let (from, to) = (shown(&bench, 0)?, shown(&bench, 1)?);
    same(from["name"].as_str(), Some("Ethernet0"), "name")?;
    same(from["device"].as_str(), Some("v0"), "device")?;
    same(from["backend"].as_str(), Some("packet"), "backend")?;
    let number = |value: &Value, expected: u64, what: &str| same(value.as_u64(), Some(expected), what);
    number(&from["rx_packets"], FRAMES + 1, "received")?;
    number(&from["rx_bytes"], 1000 * FRAMES + 64, "octets received")?;
    number(&from["rx_class_packets"][5], FRAMES, "received of class 5")?;
    number(&from["rx_class_packets"][2], 1, "received of class 2")?;
    number(&from["pfc_rx"][3], 1, "PFC for priority 3")?;
    number(&from["pfc_rx"][4], 0, "PFC for priority 4")?;
    number(&from["drops"]["DMAC_RESERVED"], 1, "reserved addresses")?;
    number(
        &from["drops_by_class"]["DMAC_RESERVED"][2],
        1,
        "reserved addresses of class 2",
    )?;
    number(&from["host_lost"], 0, "lost by the host")?;
    let group = &from["priority_groups"][5];
    number(
        &group["SAI_INGRESS_PRIORITY_GROUP_STAT_PACKETS"],
        FRAMES,
        "frames of the group",
    )?;
    number(
        &group["SAI_INGRESS_PRIORITY_GROUP_STAT_BYTES"],
        1000 * FRAMES,
        "octets of the group",
    )?;
    number(&to["tx_packets"], FRAMES, "sent")?;
    number(&to["tx_class_packets"][5], FRAMES, "sent of class 5")?;
    number(&to["tx_bytes"], 1000 * FRAMES, "octets sent")?;
    number(
        &to["queues"][5]["SAI_QUEUE_STAT_PACKETS"],
        FRAMES,
        "frames of the queue",
    )?;
    number(
        &to["queues"][5]["SAI_QUEUE_STAT_BYTES"],
        1000 * FRAMES,
        "octets of the queue",
    )?;
    number(
        &to["queues"][5]["SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES"],
        0,
        "octets queued",
    )?;
    // The report says the same.
    let ended = bench.end(Signal::SIGTERM)?;
    ended.in_order()?;
    same(ended.report["schema"].as_str(), Some("xoff.report/1"), "schema")?;
    for (n, shown) in [(0, from), (1, to)] {
        for field in [
            "rx_packets",
            "tx_packets",
            "rx_bytes",
            "tx_bytes",
            "drops_by_class",
            "pfc_rx",
        ] {
            let reported = &ended.report["switches"][0]["ports"][n][field];
            same(reported, &shown[field], &format!("{} {field}", port(n)))?;
        }
    }
    same(
        ended.report["totals"]["dropped_frames"].as_u64(),
        Some(1),
        "drops in all",
    )?;
    Ok(Completion::Completed)
}

fn apply() -> Result<Completion, Failed> {
    let mut bench = Bench::start(&qos(), 4, &[])?;
    announce(&mut bench)?;
    send(&mut bench, 1, 100)?;
    same(
        shown(&bench, 1)?["queues"][1]["SAI_QUEUE_STAT_PACKETS"].as_u64(),
        Some(FRAMES),
        "in queue 1",
    )?;
    // Class 1 goes to queue 6 from now on, and one port is faster.
    let mut new = qos();
    new["TC_TO_QUEUE_MAP"]["M"]["1"] = "6".into();
    new["PORT"] = json!({"Ethernet4": {"speed": "10000"}});
    fs::write(bench.path("new.json"), new.to_string())?;
    let mut wrong = new.clone();
    wrong["PORT"]["Ethernet4"]["speed"] = "fast".into();
    wrong["DSCP_TO_TC_MAP"]["M"]["8"] = "99".into();
    fs::write(bench.path("wrong.json"), wrong.to_string())?;

    let refused = bench.ask(&["config", "apply", "wrong.json"])?;
    same(
        refused.status.code(),
        Some(4),
        "exit code of an invalid configuration",
    )?;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    for word in ["wrong.json", "PORT|Ethernet4", "fast", "DSCP_TO_TC_MAP|M", "99"] {
        check(words.contains(word), || format!("no {word:?} in {words}"))?;
    }
    let dry = bench.ask(&["config", "apply", "new.json", "--dry-run"])?;
    let told = String::from_utf8_lossy(&dry.stdout).into_owned();
    check(
        told.contains("TC_TO_QUEUE_MAP|M") && told.contains("none made"),
        || told.clone(),
    )?;
    // Neither has changed anything.
    let current: Value = serde_json::from_slice(&bench.ask(&["config", "get"])?.stdout)?;
    same(
        &current["TC_TO_QUEUE_MAP"]["M"]["1"],
        &json!("1"),
        "queue of class 1",
    )?;
    send(&mut bench, 1, 100)?;
    same(
        shown(&bench, 1)?["queues"][1]["SAI_QUEUE_STAT_PACKETS"].as_u64(),
        Some(2 * FRAMES),
        "in queue 1",
    )?;

    // Applied in the middle of traffic, it costs no frame.
    let before = bench.counters()?.ports[1].tx_packets;
    for id in 0..FRAMES as u32 {
        bench.fars[0].send(&ip(station(10, 1, 0), station(10, 0, 1), 1, id, 100))?;
        if id == 20 {
            let applied = bench.ask(&["config", "apply", "new.json"])?;
            same(applied.status.code(), Some(0), "exit code")?;
            let made = String::from_utf8_lossy(&applied.stdout).into_owned();
            same(
                made.replace("changes made", "changes, none made (--dry-run)"),
                told.clone(),
                "the difference",
            )?;
        }
    }
    let switch = bench.wait("the frames have left", |switch| {
        switch.ports[1].tx_packets == before + FRAMES
    })?;
    let queues = &switch.ports[1].queues;
    same(
        queues[1].packets + queues[6].packets,
        3 * FRAMES,
        "in both queues",
    )?;
    check(queues[6].packets > 0, || "the new map is not in force".to_owned())?;
    same(switch.ports[1].speed_mbps, 10_000, "speed")?;
    let current: Value = serde_json::from_slice(&bench.ask(&["config", "get"])?.stdout)?;
    same(
        &current["TC_TO_QUEUE_MAP"]["M"]["1"],
        &json!("6"),
        "queue of class 1",
    )?;
    let again = bench.ask(&["config", "apply", "new.json"])?;
    same(
        String::from_utf8_lossy(&again.stdout).trim(),
        "nothing changes",
        "applied again",
    )?;
    same(
        switch.ports.iter().map(|port| port.dropped()).sum::<u64>(),
        0,
        "dropped",
    )?;
    bench.end(Signal::SIGTERM)?.in_order()?;
    Ok(Completion::Completed)
}

/// A port's backend tells the switch now and then what it dropped; at the end it is not to be forgotten.
fn last_drops() -> Result<Completion, Failed> {
    for workers in ["1", "3"] {
        xoff_ports::net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut bench = Bench::start(&qos(), 4, &["--workers", workers])?;
            bench.fars[0].send(&ip([0xff; 6], station(10, 0, 0), 0, 0, 1530))?;
            bench.fars[0].send(&ip([0xff; 6], station(10, 0, 0), 0, 0, 60))?;
            bench.wait("the frame behind it is in", |switch| {
                switch.ports[0].rx_packets == 1
            })?;
            let ended = bench.end(Signal::SIGTERM)?;
            ended.in_order()?;
            let port = &ended.switch()?.ports[0];
            same(
                port.drops.get("XOFF_OVERSIZED"),
                Some(&1),
                &format!("oversized frames, {workers} workers"),
            )
        })??;
    }
    Ok(Completion::Completed)
}

fn killed() -> Result<Completion, Failed> {
    let mut bench = Bench::start(&qos(), 4, &[])?;
    announce(&mut bench)?;
    let (folder, fars) = bench.kill()?;
    check(folder.path().join("api").exists(), || {
        "kill -9 leaves the socket's file; this test is to show that it does no harm".to_owned()
    })?;
    check(!folder.path().join("report.json").exists(), || {
        "a killed switch reports nothing".to_owned()
    })?;
    let mut bench = Bench::with(folder, fars, &qos(), 4, &[])?;
    announce(&mut bench)?;
    send(&mut bench, 0, 60)?;
    bench.end(Signal::SIGTERM)?.in_order()?;
    Ok(Completion::Completed)
}
