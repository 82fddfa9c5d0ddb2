//! Tests of `xoff host run` at the ports of a running switch.

use super::*;

pub(crate) fn a_host_that_awaits_frames_and_receives_none_is_not_clean() -> Result<(), Failed> {
    add_veth("v0", "h0", None, 1500)?;
    let receive = [
        "host",
        "run",
        "--dev",
        "h0",
        "--ip",
        "10.0.0.2",
        "--duration",
        "200ms",
        "--receive",
    ];
    for (more, code, words) in [
        (&[][..], 5, "verdict: no traffic: no frame arrived"),
        (
            &["--expect", "frames>=1000"],
            1,
            "h0: expected frames>=1000, and 0 arrived",
        ),
        (&["--expect", "1"], 1, "expected frames>=1"),
    ] {
        let output = xoff_command().args(receive).args(more).output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        // A tainted run has the code 5 in all cases.
        let is_tainted = printed.contains("verdict: tainted");
        check(is_tainted || output.status.code() == Some(code), || {
            format!("{more:?}: {output:?}")
        })?;
        check(is_tainted || printed.contains(words), || {
            format!("no {words:?} in {printed}")
        })?;
        check(!printed.contains("clean"), || printed.clone())?;
    }
    Ok(())
}

pub(crate) fn a_host_whose_receivers_do_not_answer_fails() -> Result<(), Failed> {
    add_veth("v0", "h0", None, 1500)?;
    let base = ["host", "run", "--dev", "h0", "--duration", "200ms"];
    let answered = "10.0.0.7,mac=02:00:00:00:00:07,frames=5";
    type Case<'a> = (&'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 4] = [
        (&["--send", "10.0.0.9"], &["10.0.0.9 answered no ARP request"]),
        (
            &["--send", "10.0.0.9,frames=10", "--send", "10.0.0.8"],
            &[
                "10.0.0.9 answered no ARP request",
                "10.0.0.8 answered no ARP request",
            ],
        ),
        (
            &["--ip", "fd00::1", "--send", "fd00::2"],
            &["fd00::2 answered no neighbour solicitation"],
        ),
        // One of the flows is sent.
        (
            &["--send", "10.0.0.9", "--send", answered],
            &["10.0.0.9 answered no ARP request"],
        ),
    ];
    for (options, words) in cases {
        for format in ["text", "json"] {
            let mut command = xoff_command();
            command.args(base).args(options);
            if format == "json" {
                command.arg("--json");
            }
            let output = command.output()?;
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            // A tainted run has the code 5 in all cases.
            let is_tainted = printed.contains("tainted:") || printed.contains("\"verdict\": \"tainted\"");
            check(is_tainted || output.status.code() == Some(1), || {
                format!("{options:?}: {output:?}")
            })?;
            for word in words {
                check(is_tainted || printed.contains(word), || {
                    format!("no {word:?} in {printed}")
                })?;
                check(errors.contains(word), || format!("no {word:?} in {errors}"))?;
            }
            for part in [
                "error: no frame was sent to",
                "where: --dev h0 --send",
                "fix:",
                "mac=",
            ] {
                check(errors.contains(part), || format!("no {part:?} in {errors}"))?;
            }
        }
    }
    Ok(())
}

pub(crate) fn hosts_at_both_ports_exchange_frames() -> Result<(), Failed> {
    let switch = RunningSwitch::start()?;
    let mut receiver = xoff_command()
        .current_dir(switch.folder.path())
        .args([
            "host",
            "run",
            "--dev",
            "h1",
            "--ip",
            "10.0.0.2",
            "--receive",
            "--report",
            "received.json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(receiver.stdout.as_mut().ok_or("no standard output")?).read_line(&mut line)?;
    let sender = xoff_command()
        .args([
            "host",
            "run",
            "--dev",
            "h0",
            "--ip",
            "10.0.0.1",
            "--send",
            "10.0.0.2,rate=10%,frames=200",
        ])
        .output();
    // Stop the receiver before any check, so that it never outlives the test.
    kill(Pid::from_raw(receiver.id() as i32), Signal::SIGTERM)?;
    let code = receiver.wait()?.code();
    check(line.starts_with("ready"), || {
        format!("the receiver was not ready: {line:?}")
    })?;
    let sender = sender?;
    check(matches!(sender.status.code(), Some(0 | 5)), || {
        format!("{sender:?}")
    })?;
    let report: Value = serde_json::from_slice(&fs::read(switch.path("received.json"))?)?;
    check_equal(code, expected_exit_code(&report), "the receiver's exit code")?;
    if report["verdict"] == "clean" {
        let flow = &report["flows"][0];
        check_equal(flow["received_frames"].as_u64(), Some(200), "received")?;
        check_equal(flow["icrc_errors"].as_u64(), Some(0), "damaged")?;
    }
    let sent = wait_for("the switch counts what it forwarded", || {
        let counters = switch.run_json_command(&["show", "counters", "--json"])?;
        let port = &counters["switch"]["ports"][1];
        Ok(port["tx_packets"].as_u64().filter(|&count| count > 0))
    })?;
    check(sent > 0, || "nothing was forwarded".to_owned())?;
    switch.stop().map(|_| ())
}
