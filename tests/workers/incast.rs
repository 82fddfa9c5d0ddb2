//! Tests of shortened incast labs: lossless flows lose no frame, and without PFC they lose frames for a
//! stated reason.

use std::fs;
use std::path::Path;

use libtest_mimic::{Completion, Failed};
use serde_json::Value;

use crate::support::{CompletionTest, KernelFeatures, check, check_equal};
use crate::switch_process::xoff_command;

pub(crate) const TESTS: &[CompletionTest] = &[
    ("a_short_incast_loses_no_frame", KernelFeatures::Netns, || {
        check_no_loss("auto")
    }),
    (
        "a_short_incast_over_taps_loses_no_frame",
        KernelFeatures::Tun,
        || check_no_loss("tap"),
    ),
    (
        "real_time_and_virtual_time_agree",
        KernelFeatures::Netns,
        real_time_and_virtual_time_agree,
    ),
    (
        "an_incast_without_pfc_reports_place_and_reason_of_drops",
        KernelFeatures::Netns,
        check_loss_without_pfc,
    ),
];

/// Maximum number of attempts of a disturbed run.
const ATTEMPTS: usize = 5;

/// Runs a lab of `testbeds/` for two seconds in real time. Returns its exit code and report.
fn run_lab(lab: &str, backend: &str) -> Result<(Option<i32>, Value), Failed> {
    run_lab_with_options(lab, &["--backend", backend])
}

/// Runs a lab with these options. Returns its exit code and report.
fn run_lab_with_options(lab: &str, options: &[&str]) -> Result<(Option<i32>, Value), Failed> {
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
    // The tests of two builds may run at the same time, and the name of a lab is unique on a machine.
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
    let output = xoff_command()
        .current_dir(folder.path())
        .args(["lab", "run", "lab.xoff.yml", "--report", "report.json"])
        .args(options)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = fs::read(folder.path().join("report.json"))
        .map_err(|_| format!("no report, exit code {:?}: {said}", output.status.code()))?;
    Ok((output.status.code(), serde_json::from_slice(&report)?))
}

fn lossless_flows(report: &Value) -> impl Iterator<Item = &Value> {
    let flows = report["flows"].as_array().into_iter().flatten();
    flows.filter(|flow| flow["lossless"] == true)
}

fn check_no_loss(backend: &str) -> Result<Completion, Failed> {
    let mut causes = Vec::new();
    for _ in 0..ATTEMPTS {
        let (code, report) = run_lab("incast.xoff.yml", backend)?;
        if code == Some(5) {
            check_equal(
                report["verdict"].as_str(),
                Some("tainted"),
                "verdict of an inconclusive run",
            )?;
            causes.push(report["taints"][0]["cause"].to_string());
            continue;
        }
        check_equal(report["verdict"].as_str(), Some("clean"), "verdict")?;
        check_equal(
            code,
            Some(0),
            &format!("exit code, failures {}", report["failures"]),
        )?;
        check_equal(lossless_flows(&report).count(), 4, "lossless flows")?;
        for flow in lossless_flows(&report) {
            for fault in ["lost_frames", "reordered_frames", "icrc_errors"] {
                check_equal(flow[fault].as_u64(), Some(0), fault)?;
            }
            check(flow["sent_frames"].as_u64() > Some(0), || {
                "nothing was sent".to_owned()
            })?;
            check_equal(&flow["received_frames"], &flow["sent_frames"], "received")?;
        }
        return Ok(Completion::Completed);
    }
    Ok(Completion::ignored_with(format!(
        "inconclusive on this machine: {ATTEMPTS} runs were tainted: {}",
        causes.join(", ")
    )))
}

/// Switch and hosts use the same code in both modes. Only the delivery of frames and the wake-up
/// of threads differ.
fn real_time_and_virtual_time_agree() -> Result<Completion, Failed> {
    let (code, ideal) = run_lab_with_options("incast.xoff.yml", &["--virtual"])?;
    check_equal(code, Some(0), &format!("virtual time: {}", ideal["failures"]))?;
    let mut causes = Vec::new();
    for _ in 0..ATTEMPTS {
        let (code, real) = run_lab("incast.xoff.yml", "auto")?;
        if code == Some(5) {
            causes.push(real["taints"][0]["cause"].to_string());
            continue;
        }
        check_equal(code, Some(0), &format!("real time: {}", real["failures"]))?;
        return compare_reports(&real, &ideal).map(|()| Completion::Completed);
    }
    Ok(Completion::ignored_with(format!(
        "inconclusive on this machine: {ATTEMPTS} runs were tainted: {}",
        causes.join(", ")
    )))
}

/// Checks that the shares of lossless flows differ by at most 5 %, that no frame is lost, and that the
/// numbers of XOFF transitions are of one order.
fn compare_reports(real: &Value, ideal: &Value) -> Result<(), Failed> {
    let goodputs = |report: &Value| -> Vec<f64> {
        lossless_flows(report)
            .filter_map(|flow| flow["goodput_bps"].as_f64())
            .collect()
    };
    let shares = |goodputs: Vec<f64>| -> Vec<f64> {
        let sum: f64 = goodputs.iter().sum();
        goodputs.into_iter().map(|goodput| goodput / sum).collect()
    };
    let (real_shares, ideal_shares) = (shares(goodputs(real)), shares(goodputs(ideal)));
    check_equal((real_shares.len(), ideal_shares.len()), (4, 4), "lossless flows")?;
    for (flow, (real, ideal)) in real_shares.iter().zip(&ideal_shares).enumerate() {
        check((real / ideal - 1.0).abs() <= 0.05, || {
            format!("flow {flow} has a share of {real:.4} in real time, {ideal:.4} in virtual time")
        })?;
    }
    for (report, time) in [(real, "real"), (ideal, "virtual")] {
        let lost: u64 = lossless_flows(report)
            .filter_map(|flow| flow["lost_frames"].as_u64())
            .sum();
        check_equal(lost, 0, &format!("frames lost in {time} time"))?;
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

fn check_loss_without_pfc() -> Result<Completion, Failed> {
    let (code, report) = run_lab("incast-nopfc.xoff.yml", "auto")?;
    check(matches!(code, Some(1 | 5)), || format!("exit code {code:?}"))?;
    let lost: u64 = lossless_flows(&report)
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
    check_equal(pfc, 0, "PFC frames")?;
    // The text names the place and the reason of the drops.
    let failures = report["failures"].to_string();
    check(code == Some(5) || failures.contains(reason), || failures.clone())?;
    Ok(Completion::Completed)
}
