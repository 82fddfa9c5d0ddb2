//! The lab that xoff is for, cut short: lossless flows lose nothing, and without PFC they do, for a named reason.

use std::fs;
use std::path::Path;

use libtest_mimic::{Completion, Failed};
use serde_json::Value;

use crate::bench::xoff;
use crate::support::{Needs, Reporting, check, same};

pub(crate) const TESTS: &[Reporting] = &[
    ("a_short_incast_loses_nothing", Needs::Netns, || {
        loses_nothing("auto")
    }),
    ("a_short_incast_over_taps_loses_nothing", Needs::Tun, || {
        loses_nothing("tap")
    }),
    (
        "real_time_and_virtual_time_agree",
        Needs::Netns,
        real_time_and_virtual_time_agree,
    ),
    (
        "without_pfc_it_loses_and_says_where_and_why",
        Needs::Netns,
        without_pfc,
    ),
];

/// A disturbed run is repeated so often.
const ATTEMPTS: usize = 5;

/// A lab of `testbeds/`, two seconds long, in real time; its code and report.
fn run(lab: &str, backend: &str) -> Result<(Option<i32>, Value), Failed> {
    run_with(lab, &["--backend", backend])
}

/// The same with these options.
fn run_with(lab: &str, options: &[&str]) -> Result<(Option<i32>, Value), Failed> {
    let beds = Path::new(env!("CARGO_MANIFEST_DIR")).join("testbeds");
    let folder = tempfile::tempdir()?;
    let text = fs::read_to_string(beds.join(lab))?;
    check(text.contains("duration: 20s"), || {
        format!("{lab} does not last 20 s")
    })?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("name: "))
        .ok_or("no name")?
        .to_owned();
    // Two tests of two builds may run at once, and a lab has its name for itself.
    let text = text.replace("duration: 20s", "duration: 2s").replace(
        &format!("name: {name}\n"),
        &format!("name: {name}-{}\n", std::process::id()),
    );
    fs::write(folder.path().join("lab.xoff.yml"), text)?;
    for entry in fs::read_dir(&beds)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "json") {
            let name = path.file_name().ok_or("no name")?;
            fs::copy(&path, folder.path().join(name))?;
        }
    }
    let output = xoff()
        .current_dir(folder.path())
        .args(["lab", "run", "lab.xoff.yml", "--report", "report.json"])
        .args(options)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = fs::read(folder.path().join("report.json"))
        .map_err(|_| format!("no report, exit code {:?}: {said}", output.status.code()))?;
    Ok((output.status.code(), serde_json::from_slice(&report)?))
}

fn lossless(report: &Value) -> impl Iterator<Item = &Value> {
    let flows = report["flows"].as_array().into_iter().flatten();
    flows.filter(|flow| flow["lossless"] == true)
}

fn loses_nothing(backend: &str) -> Result<Completion, Failed> {
    let mut causes = Vec::new();
    for _ in 0..ATTEMPTS {
        let (code, report) = run("incast.xoff.yml", backend)?;
        if code == Some(5) {
            same(
                report["verdict"].as_str(),
                Some("tainted"),
                "verdict of an inconclusive run",
            )?;
            causes.push(report["taints"][0]["cause"].to_string());
            continue;
        }
        same(report["verdict"].as_str(), Some("clean"), "verdict")?;
        same(
            code,
            Some(0),
            &format!("exit code, failures {}", report["failures"]),
        )?;
        same(lossless(&report).count(), 4, "lossless flows")?;
        for flow in lossless(&report) {
            for fault in ["lost_frames", "reordered_frames", "icrc_errors"] {
                same(flow[fault].as_u64(), Some(0), fault)?;
            }
            check(flow["sent_frames"].as_u64() > Some(0), || {
                "nothing was sent".to_owned()
            })?;
            same(&flow["received_frames"], &flow["sent_frames"], "received")?;
        }
        return Ok(Completion::Completed);
    }
    Ok(Completion::ignored_with(format!(
        "inconclusive on this machine: {ATTEMPTS} runs were tainted: {}",
        causes.join(", ")
    )))
}

/// The switch and the hosts are the same code in both; what differs is who moves the frames, and when a thread wakes up.
fn real_time_and_virtual_time_agree() -> Result<Completion, Failed> {
    let (code, ideal) = run_with("incast.xoff.yml", &["--virtual"])?;
    same(code, Some(0), &format!("virtual time: {}", ideal["failures"]))?;
    let mut causes = Vec::new();
    for _ in 0..ATTEMPTS {
        let (code, real) = run("incast.xoff.yml", "auto")?;
        if code == Some(5) {
            causes.push(real["taints"][0]["cause"].to_string());
            continue;
        }
        same(code, Some(0), &format!("real time: {}", real["failures"]))?;
        return compare(&real, &ideal).map(|()| Completion::Completed);
    }
    Ok(Completion::ignored_with(format!(
        "inconclusive on this machine: {ATTEMPTS} runs were tainted: {}",
        causes.join(", ")
    )))
}

/// Shares of the lossless flows within 5 %, nothing lost, transitions to XOFF of one order.
fn compare(real: &Value, ideal: &Value) -> Result<(), Failed> {
    let goodputs = |report: &Value| -> Vec<f64> {
        lossless(report)
            .filter_map(|flow| flow["goodput_bps"].as_f64())
            .collect()
    };
    let shares = |goodputs: Vec<f64>| -> Vec<f64> {
        let sum: f64 = goodputs.iter().sum();
        goodputs.into_iter().map(|goodput| goodput / sum).collect()
    };
    let (real_shares, ideal_shares) = (shares(goodputs(real)), shares(goodputs(ideal)));
    same((real_shares.len(), ideal_shares.len()), (4, 4), "lossless flows")?;
    for (flow, (real, ideal)) in real_shares.iter().zip(&ideal_shares).enumerate() {
        check((real / ideal - 1.0).abs() <= 0.05, || {
            format!("flow {flow} has a share of {real:.4} in real time, {ideal:.4} in virtual time")
        })?;
    }
    for (report, time) in [(real, "real"), (ideal, "virtual")] {
        let lost: u64 = lossless(report)
            .filter_map(|flow| flow["lost_frames"].as_u64())
            .sum();
        same(lost, 0, &format!("frames lost in {time} time"))?;
    }
    let pauses = |report: &Value| report["totals"]["pfc_tx_frames"].as_f64().unwrap_or(0.0);
    let ratio = pauses(real) / pauses(ideal);
    check((0.1..=10.0).contains(&ratio), || {
        format!(
            "{} PFC frames in real time, {} in virtual time",
            pauses(real),
            pauses(ideal)
        )
    })
}

fn without_pfc() -> Result<Completion, Failed> {
    let (code, report) = run("incast-nopfc.xoff.yml", "auto")?;
    check(matches!(code, Some(1 | 5)), || format!("exit code {code:?}"))?;
    let lost: u64 = lossless(&report)
        .filter_map(|flow| flow["lost_frames"].as_u64())
        .sum();
    check(lost > 0, || "nothing was lost".to_owned())?;
    let reason = "INGRESS_PRIORITY_GROUP_DROPPED_PACKETS";
    let ports = report["switches"][0]["ports"].as_array().ok_or("no ports")?;
    let dropped: u64 = ports
        .iter()
        .filter_map(|port| port["drops"][reason].as_u64())
        .sum();
    check(dropped > 0, || format!("no port says {reason}"))?;
    let pfc: u64 = ports
        .iter()
        .filter_map(|port| port["pfc_tx_frames"].as_u64())
        .sum();
    same(pfc, 0, "PFC frames")?;
    // Where and why, in words.
    let failures = report["failures"].to_string();
    check(code == Some(5) || failures.contains(reason), || failures.clone())?;
    Ok(Completion::Completed)
}
