//! Tests of the control socket of a running switch and of its end.

use std::fs;

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::frames::{ipv6_frame, mac_control_frame, pfc_frame, ports_of_mtu, qos_tables, station_mac};
use crate::support::curl::{curl_examples, curl_refusal};
use crate::support::{CompletionTest, KernelFeatures, check, check_equal};
use crate::switch_process::{SwitchProcess, port_name};

pub(crate) const TESTS: &[CompletionTest] = &[
    (
        "the_report_contains_the_last_drops",
        KernelFeatures::Netns,
        check_last_drops,
    ),
    (
        "counters_equal_the_sent_frames",
        KernelFeatures::Netns,
        check_counters,
    ),
    (
        "a_configuration_changes_under_traffic",
        KernelFeatures::Netns,
        check_configuration_change,
    ),
    (
        "the_curl_examples_of_the_documentation_work",
        KernelFeatures::Netns,
        check_curl_examples,
    ),
    (
        "ports_are_shut_down_and_fields_are_set_at_run_time",
        KernelFeatures::Netns,
        check_partial_changes,
    ),
    (
        "a_switch_starts_after_another_was_killed",
        KernelFeatures::Netns,
        check_restart_after_kill,
    ),
];

/// Number of frames of a test.
const FRAMES: u64 = 40;

/// Sends frames of a class from port 0 to the station at port 1 and waits until they have left.
fn send_and_wait(switch_process: &mut SwitchProcess, class: u8, len: usize) -> Result<(), Failed> {
    let before = switch_process.counters()?.ports[1].tx_packets;
    for id in 0..FRAMES as u32 {
        switch_process.far_ends[0].send(&ipv6_frame(
            station_mac(10, 1, 0),
            station_mac(10, 0, class),
            class,
            id,
            len,
        ))?;
    }
    switch_process.wait_for_counters("the frames have left", |switch| {
        switch.ports[1].tx_packets == before + FRAMES
    })?;
    let mut received = 0;
    crate::support::wait_for("the frames arrive", || {
        while let Some(frame) = switch_process.far_ends[1].receive()? {
            received += u64::from(frame[6..12] == station_mac(10, 0, class));
        }
        Ok((received == FRAMES).then_some(()))
    })
}

fn send_announcements(switch_process: &mut SwitchProcess) -> Result<(), Failed> {
    switch_process.far_ends[1].send(&ipv6_frame([0xff; 6], station_mac(10, 1, 0), 0, 0, 60))?;
    switch_process.wait_for_counters("the station is known", |switch| switch.ports[0].tx_packets == 1)?;
    Ok(())
}

/// Returns the output of `show counters --json` for a port.
fn show_counters(switch_process: &SwitchProcess, n: usize) -> Result<Value, Failed> {
    let output = switch_process.run_command(&["show", "counters", "--json"])?;
    check_equal(output.status.code(), Some(0), "exit code of show counters")?;
    let counters: Value = serde_json::from_slice(&output.stdout)?;
    check_equal(counters["schema"].as_str(), Some("xoff.counters/1"), "schema")?;
    Ok(counters["switch"]["ports"][n].clone())
}

fn check_counters() -> Result<Completion, Failed> {
    let mut switch_process = SwitchProcess::start(&qos_tables(), 4, &[])?;
    send_announcements(&mut switch_process)?;
    send_and_wait(&mut switch_process, 5, 996)?;
    switch_process.far_ends[0].send(&pfc_frame(3, 1))?;
    switch_process.far_ends[0].send(&mac_control_frame(0x0001, &[0, 1]))?;
    switch_process.far_ends[0].send(&ipv6_frame(
        [0x01, 0x80, 0xc2, 0, 0, 0x0e],
        station_mac(10, 0, 2),
        2,
        0,
        60,
    ))?;
    switch_process.wait_for_counters("the frames are in the switch", |switch| {
        let port = &switch.ports[0];
        port.rx_packets == FRAMES + 1 && port.pfc_rx_frames == 1 && port.pause_rx == 1
    })?;
    let (from, to) = (
        show_counters(&switch_process, 0)?,
        show_counters(&switch_process, 1)?,
    );
    check_equal(from["name"].as_str(), Some("Ethernet0"), "name")?;
    check_equal(from["device"].as_str(), Some("v0"), "device")?;
    check_equal(from["backend"].as_str(), Some("packet"), "backend")?;
    let number = |value: &Value, expected: u64, what: &str| check_equal(value.as_u64(), Some(expected), what);
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
    // The report has the same values.
    let ended = switch_process.stop(Signal::SIGTERM)?;
    ended.check_exit_code()?;
    check_equal(ended.report["schema"].as_str(), Some("xoff.report/1"), "schema")?;
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
            check_equal(reported, &shown[field], &format!("{} {field}", port_name(n)))?;
        }
    }
    check_equal(
        ended.report["totals"]["dropped_frames"].as_u64(),
        Some(1),
        "drops in all",
    )?;
    Ok(Completion::Completed)
}

fn check_configuration_change() -> Result<Completion, Failed> {
    let mut switch_process = SwitchProcess::start(&qos_tables(), 4, &[])?;
    send_announcements(&mut switch_process)?;
    send_and_wait(&mut switch_process, 1, 100)?;
    check_equal(
        show_counters(&switch_process, 1)?["queues"][1]["SAI_QUEUE_STAT_PACKETS"].as_u64(),
        Some(FRAMES),
        "in queue 1",
    )?;
    // The new configuration maps class 1 to queue 6 and raises the speed of one port.
    let mut new = qos_tables();
    new["TC_TO_QUEUE_MAP"]["M"]["1"] = "6".into();
    new["PORT"] = json!({"Ethernet4": {"speed": "10000"}});
    fs::write(switch_process.path("new.json"), new.to_string())?;
    let mut wrong = new.clone();
    wrong["PORT"]["Ethernet4"]["speed"] = "fast".into();
    wrong["DSCP_TO_TC_MAP"]["M"]["8"] = "99".into();
    fs::write(switch_process.path("wrong.json"), wrong.to_string())?;

    let refused = switch_process.run_command(&["config", "apply", "wrong.json"])?;
    check_equal(
        refused.status.code(),
        Some(4),
        "exit code of an invalid configuration",
    )?;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    for word in ["wrong.json", "PORT|Ethernet4", "fast", "DSCP_TO_TC_MAP|M", "99"] {
        check(words.contains(word), || format!("no {word:?} in {words}"))?;
    }
    let dry = switch_process.run_command(&["config", "apply", "new.json", "--dry-run"])?;
    let told = String::from_utf8_lossy(&dry.stdout).into_owned();
    check(
        told.contains("TC_TO_QUEUE_MAP|M") && told.contains("none made"),
        || told.clone(),
    )?;
    // Neither of the refused configurations has changed anything.
    let current: Value = serde_json::from_slice(&switch_process.run_command(&["config", "get"])?.stdout)?;
    check_equal(
        &current["TC_TO_QUEUE_MAP"]["M"]["1"],
        &json!("1"),
        "queue of class 1",
    )?;
    send_and_wait(&mut switch_process, 1, 100)?;
    check_equal(
        show_counters(&switch_process, 1)?["queues"][1]["SAI_QUEUE_STAT_PACKETS"].as_u64(),
        Some(2 * FRAMES),
        "in queue 1",
    )?;

    // A configuration change during traffic loses no frame.
    let before = switch_process.counters()?.ports[1].tx_packets;
    for id in 0..FRAMES as u32 {
        switch_process.far_ends[0].send(&ipv6_frame(
            station_mac(10, 1, 0),
            station_mac(10, 0, 1),
            1,
            id,
            100,
        ))?;
        if id == 20 {
            let applied = switch_process.run_command(&["config", "apply", "new.json"])?;
            check_equal(applied.status.code(), Some(0), "exit code")?;
            let made = String::from_utf8_lossy(&applied.stdout).into_owned();
            check_equal(
                made.replace("changes made", "changes, none made (--dry-run)"),
                told.clone(),
                "the difference",
            )?;
        }
    }
    let switch = switch_process.wait_for_counters("the frames have left", |switch| {
        switch.ports[1].tx_packets == before + FRAMES
    })?;
    let queues = &switch.ports[1].queues;
    check_equal(
        queues[1].packets + queues[6].packets,
        3 * FRAMES,
        "in both queues",
    )?;
    check(queues[6].packets > 0, || "the new map is not in force".to_owned())?;
    check_equal(switch.ports[1].speed_mbps, 10_000, "speed")?;
    let current: Value = serde_json::from_slice(&switch_process.run_command(&["config", "get"])?.stdout)?;
    check_equal(
        &current["TC_TO_QUEUE_MAP"]["M"]["1"],
        &json!("6"),
        "queue of class 1",
    )?;
    let again = switch_process.run_command(&["config", "apply", "new.json"])?;
    check_equal(
        String::from_utf8_lossy(&again.stdout).trim(),
        "nothing changes",
        "applied again",
    )?;
    check_equal(
        switch.ports.iter().map(|port| port.dropped()).sum::<u64>(),
        0,
        "dropped",
    )?;
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}

/// Runs the examples of docs/control-api.md for a socket with a path.
fn check_curl_examples() -> Result<Completion, Failed> {
    if let Some(reason) = curl_refusal() {
        return Ok(Completion::ignored_with(reason));
    }
    let mut switch_process = SwitchProcess::start(&qos_tables(), 4, &[])?;
    let socket = switch_process.path("api").display().to_string();
    let examples = curl_examples();
    let with_path: Vec<_> = examples
        .iter()
        .filter(|example| example.command.contains("--unix-socket /tmp/sw.sock"))
        .collect();
    check(with_path.len() >= 9, || format!("{} examples", with_path.len()))?;
    for example in with_path {
        example.run(switch_process.folder.path(), ("/tmp/sw.sock", &socket))?;
    }
    let ended = switch_process.stop(Signal::SIGTERM)?;
    ended.check_exit_code()?;
    let use_of_api = &ended.report["environment"]["control_api"];
    check(
        use_of_api["requests"].as_u64() >= Some(10) && use_of_api["cpu_ns"].as_u64() > Some(0),
        || format!("the use of the API is not in the report: {use_of_api}"),
    )?;
    Ok(Completion::Completed)
}

/// `config set`, `config patch` and `config interface` change what they name and nothing else.
fn check_partial_changes() -> Result<Completion, Failed> {
    let mut switch_process = SwitchProcess::start(&qos_tables(), 4, &[])?;
    let config = |switch_process: &SwitchProcess| -> Result<Value, Failed> {
        Ok(serde_json::from_slice(
            &switch_process.run_command(&["config", "get"])?.stdout,
        )?)
    };
    let run = |switch_process: &SwitchProcess, words: &[&str]| -> Result<String, Failed> {
        let output = switch_process.run_command(words)?;
        check_equal(output.status.code(), Some(0), &format!("exit code of {words:?}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let before = config(&switch_process)?;
    run(&switch_process, &["config", "interface", "shutdown", "Ethernet4"])?;
    switch_process.wait_for_counters("the port is down", |switch| !switch.ports[1].up)?;
    let mut expected = before.clone();
    expected["PORT"]["Ethernet4"]["admin_status"] = "down".into();
    check_equal(
        config(&switch_process)?,
        expected.clone(),
        "only the state of the port has changed",
    )?;
    run(&switch_process, &["config", "interface", "startup", "Ethernet4"])?;
    switch_process.wait_for_counters("the port is up", |switch| switch.ports[1].up)?;

    let dry = run(
        &switch_process,
        &["config", "set", "PORT|Ethernet0", "speed=10000", "--dry-run"],
    )?;
    check(dry.contains("PORT|Ethernet0") && dry.contains("10000"), || {
        dry.clone()
    })?;
    run(
        &switch_process,
        &["config", "set", "PORT|Ethernet0", "speed=10000", "alias=first"],
    )?;
    expected["PORT"]["Ethernet4"]["admin_status"] = "up".into();
    expected["PORT"]["Ethernet0"]["speed"] = "10000".into();
    expected["PORT"]["Ethernet0"]["alias"] = "first".into();
    check_equal(config(&switch_process)?, expected.clone(), "two fields were set")?;

    let patch = json!({"PORT": {"Ethernet0": {"alias": null}}});
    fs::write(switch_process.path("patch.json"), patch.to_string())?;
    run(&switch_process, &["config", "patch", "patch.json"])?;
    if let Some(port) = expected["PORT"]["Ethernet0"].as_object_mut() {
        port.remove("alias");
    }
    check_equal(config(&switch_process)?, expected, "null has removed a field")?;

    let unknown = switch_process.run_command(&["config", "interface", "shutdown", "Ethernet9"])?;
    check_equal(unknown.status.code(), Some(2), "exit code of an unknown port")?;
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}

/// Port backends report their drops at intervals. The report at the end must include the last drops.
fn check_last_drops() -> Result<Completion, Failed> {
    for workers in ["1", "3"] {
        xoff_ports::net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut config = qos_tables();
            config["PORT"] = ports_of_mtu(1500);
            let mut switch_process = SwitchProcess::start(&config, 4, &["--workers", workers])?;
            switch_process.far_ends[0].send(&ipv6_frame([0xff; 6], station_mac(10, 0, 0), 0, 0, 1530))?;
            switch_process.far_ends[0].send(&ipv6_frame([0xff; 6], station_mac(10, 0, 0), 0, 0, 60))?;
            switch_process.wait_for_counters("the frame behind it is in", |switch| {
                switch.ports[0].rx_packets == 1
            })?;
            let ended = switch_process.stop(Signal::SIGTERM)?;
            ended.check_exit_code()?;
            let port = &ended.switch()?.ports[0];
            check_equal(
                port.drops.get("XOFF_OVERSIZED"),
                Some(&1),
                &format!("oversized frames, {workers} workers"),
            )
        })??;
    }
    Ok(Completion::Completed)
}

fn check_restart_after_kill() -> Result<Completion, Failed> {
    let mut switch_process = SwitchProcess::start(&qos_tables(), 4, &[])?;
    send_announcements(&mut switch_process)?;
    let (folder, far_ends) = switch_process.kill()?;
    check(folder.path().join("api").exists(), || {
        "kill -9 leaves the socket's file; this test is to show that it does no harm".to_owned()
    })?;
    check(!folder.path().join("report.json").exists(), || {
        "a killed switch reports nothing".to_owned()
    })?;
    let mut switch_process = SwitchProcess::start_on_cables(folder, far_ends, &qos_tables(), 4, &[])?;
    send_announcements(&mut switch_process)?;
    send_and_wait(&mut switch_process, 0, 60)?;
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}
