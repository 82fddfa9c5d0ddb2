//! Runs a lossless 2:1 incast in virtual time over three ports of a configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use super::headroom::{self, LosslessLink};
use super::lossless::{HeadroomSource, LosslessPorts, cable_metres, parse_number};

/// Largest size of the message of a sender in bytes. The run is repeated with larger messages, up to this
/// size, until the switch pauses both senders.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;
/// Largest number of frames in a switch, for `XOFF_SWITCH|localhost frames`.
const FRAMES_MAX: u64 = 1 << 20;
/// Smallest size of the message of a sender in bytes. The size is many times the headroom of a port.
const MESSAGE_BYTES_MIN: u64 = 8 << 20;

/// The result of an incast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IncastResult {
    /// All messages are complete, both senders were paused, and no frame was dropped.
    /// `headroom_used` is the largest headroom that a port used, in bytes.
    Passed { headroom_used: u64 },
    /// Frames were dropped. The reason is a headroom below the required size. Contains the calculation of the
    /// required size.
    Explained(String),
    /// The incast did not run, because the switch has too few ports or no DSCP selects the lossless class.
    /// Contains the reason.
    NotRun(String),
    /// The result contradicts the calculation, or the program failed. Contains the reason.
    Failed(String),
}

/// The values of a report that determine the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RunObservation {
    is_complete: bool,
    dropped_frames: u64,
    /// Drops by reason, as text.
    reasons: String,
    /// Number of changes to XOFF at the port of each sender.
    xoffs: Vec<u64>,
    headroom_used: u64,
    cell_bytes: u64,
    failures: String,
}

/// Runs incasts with the files of one folder.
pub(super) struct IncastRunner<'a> {
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
}

impl IncastRunner<'_> {
    /// Runs the incast over a group of lossless ports. Repeats the incast with larger messages until
    /// the switch has paused both senders or dropped a frame. The largest message has
    /// [`MESSAGE_BYTES_MAX`] bytes.
    pub(super) fn run(
        &self,
        config_file: &str,
        lookup: Option<&str>,
        config: &Value,
        group: &LosslessPorts,
    ) -> Result<IncastResult, String> {
        let Some(dscp) = group.dscp else {
            return Ok(IncastResult::NotRun("no DSCP has a lossless class".to_owned()));
        };
        let Some(ports) = select_ports(config, group) else {
            return Ok(IncastResult::NotRun(
                "two senders of this speed and a receiver that they exceed do not exist".to_owned(),
            ));
        };
        let stem = config_file.trim_end_matches(".json");
        let (lab, report) = (
            self.folder.join(format!("{stem}.xoff.yml")),
            self.folder.join(format!("{stem}.report.json")),
        );
        let mut bytes = first_message_bytes(config, group);
        loop {
            let text = build_lab_file(config_file, lookup, &ports, group, dscp, bytes);
            write_file(&lab, &text.to_string())?;
            let observed = match self.run_lab(&lab, &report, &ports, group.priority)? {
                Ok(observed) => observed,
                Err(message) => return Ok(IncastResult::Failed(message)),
            };
            let is_paused = observed.xoffs.iter().all(|xoffs| *xoffs > 0);
            if is_paused || observed.dropped_frames > 0 || bytes >= MESSAGE_BYTES_MAX {
                return Ok(evaluate_incast(&observed, group, config, bytes));
            }
            bytes = (bytes * 4).min(MESSAGE_BYTES_MAX);
        }
    }

    fn run_lab(
        &self,
        lab: &PathBuf,
        report: &PathBuf,
        ports: &[String; 3],
        priority: u8,
    ) -> Result<Result<RunObservation, String>, String> {
        let mut command = Command::new(self.program);
        command
            .args(["lab", "run", "--virtual", "--until", "20s"])
            .arg(lab);
        command.arg("--report").arg(report);
        let output = command
            .output()
            .map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        if !matches!(output.status.code(), Some(0 | 1)) {
            let message = String::from_utf8_lossy(&output.stderr);
            let line = message
                .lines()
                .find(|line| line.starts_with("error"))
                .unwrap_or("no message");
            return Ok(Err(format!("exit code {:?}: {line}", output.status.code())));
        }
        let text = fs::read_to_string(report).map_err(|error| format!("{}: {error}", report.display()))?;
        let report: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", report.display()))?;
        Ok(Ok(read_observation(&report, ports, priority)))
    }
}

/// Selects the ports of two senders and a receiver. If the group has only two ports, both are senders, and
/// the receiver is the slowest port outside the group. The senders together must be faster than the receiver.
/// Returns `None` if there are no such ports.
fn select_ports(config: &Value, group: &LosslessPorts) -> Option<[String; 3]> {
    if let [first, second, third, ..] = group.ports.as_slice() {
        return Some([first.clone(), second.clone(), third.clone()]);
    }
    let [first, second] = group.ports.as_slice() else {
        return None;
    };
    let is_usable = |(name, fields): &(&String, &Value)| {
        *name != first && *name != second && !matches!(fields["role"].as_str(), Some("Inb" | "Rec" | "Dpc"))
    };
    let others = config["PORT"].as_object()?;
    let slowest = others
        .iter()
        .filter(is_usable)
        .min_by_key(|(_, fields)| parse_number(&fields["speed"]))?;
    if parse_number(&slowest.1["speed"])? >= 2 * group.speed_mbps {
        return None;
    }
    Some([first.clone(), second.clone(), slowest.0.clone()])
}

/// Returns the size of a message in bytes that fills the shared space of both senders' priority groups. Only
/// half of the bytes from the senders stay in the buffer, because the receiver takes the second half at the
/// same time.
fn first_message_bytes(config: &Value, group: &LosslessPorts) -> u64 {
    let (pool, threshold) = match &group.headroom {
        HeadroomSource::Row(sizes) | HeadroomSource::Profile(sizes) => (sizes.pool.as_str(), sizes.threshold),
        _ => ("egress_lossless_pool", 0),
    };
    let pool = &config["BUFFER_POOL"][pool];
    let size = parse_number(&pool["size"]).unwrap_or(64 << 20);
    let limit = match pool["mode"].as_str() {
        Some("static") => u64::try_from(threshold).unwrap_or(0),
        // Two groups share a pool. If their alpha is `a`, each group gets `a / (1 + 2a)` of the pool.
        _ if threshold < 0 => size >> threshold.unsigned_abs().min(63),
        _ => size / 2,
    };
    (3 * limit).clamp(MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX)
}

/// Builds the lab file as JSON, which is valid YAML.
fn build_lab_file(
    config_file: &str,
    lookup: Option<&str>,
    ports: &[String; 3],
    group: &LosslessPorts,
    dscp: u8,
    bytes: u64,
) -> Value {
    // Some SKUs have their ports down. Deep buffers need more frames than the default of an xoff switch.
    let up: Map<String, Value> = ports
        .iter()
        .map(|port| (port.clone(), json!({"admin_status": "up"})))
        .collect();
    let frames = (4 * bytes / 4096).clamp(1 << 17, FRAMES_MAX);
    let layer = json!({"PORT": up, "XOFF_SWITCH": {"localhost": {"frames": frames.to_string()}}});
    let mut switch = json!({"kind": "switch", "config": [config_file, layer]});
    if let Some(lookup) = lookup {
        switch["pg_profiles"] = json!(lookup);
    }
    let delay_ps = headroom::cable_delay_ps(cable_metres(&group.cable).unwrap_or(0));
    let links = ports.iter().enumerate().map(|(host, port)| {
        let endpoints = [format!("h{}:eth0", host + 1), format!("sw1:{port}")];
        let delay = format!("{}.{:03}ns", delay_ps / 1000, delay_ps % 1000);
        json!({"endpoints": endpoints, "delay": delay})
    });
    json!({
        "name": "incast",
        "topology": {
            "nodes": {"sw1": switch, "h1": {"kind": "model"}, "h2": {"kind": "model"}, "h3": {"kind": "model"}},
            "links": links.collect::<Vec<Value>>(),
        },
        "transports": {"default": {
            "mtu": 4096, "dscp": dscp, "class": group.priority, "ack_every": 64, "timeout": 0,
        }},
        "workload": {"jobs": [{"name": "incast", "kind": "incast", "from": ["h1", "h2"], "to": "h3", "bytes": bytes}]},
    })
}

fn read_observation(report: &Value, ports: &[String; 3], priority: u8) -> RunObservation {
    let switch = &report["switches"][0];
    let all = switch["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let mut observed = RunObservation {
        cell_bytes: switch["cell_bytes"].as_u64().unwrap_or(1),
        is_complete: report["jobs"]["jobs"][0]["finished"] == true,
        dropped_frames: report["totals"]["dropped_frames"].as_u64().unwrap_or(0),
        failures: report["failures"].to_string(),
        ..RunObservation::default()
    };
    let mut reasons = Vec::new();
    for port in all {
        for (reason, count) in port["drops"].as_object().into_iter().flatten() {
            reasons.push(format!(
                "{} {count} {reason}",
                port["name"].as_str().unwrap_or("?")
            ));
        }
    }
    observed.reasons = reasons.join(", ");
    let class = usize::from(priority);
    for name in &ports[..2] {
        let Some(port) = all.iter().find(|port| port["name"] == name.as_str()) else {
            continue;
        };
        observed
            .xoffs
            .push(port["xoff_transitions"][class].as_u64().unwrap_or(0));
        let groups = port["priority_groups"].as_array().map_or(&[][..], Vec::as_slice);
        let used = groups
            .iter()
            .filter_map(|group| group["SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES"].as_u64());
        observed.headroom_used = observed.headroom_used.max(used.max().unwrap_or(0));
    }
    observed
}

/// Compares the result of a run with the headroom calculation. `bytes` is the size of the message of
/// each sender.
fn evaluate_incast(
    observed: &RunObservation,
    group: &LosslessPorts,
    config: &Value,
    bytes: u64,
) -> IncastResult {
    let is_paused = observed.xoffs.iter().all(|xoffs| *xoffs > 0);
    if observed.dropped_frames == 0 {
        if !observed.is_complete {
            return IncastResult::Failed(format!("not complete without a drop: {}", observed.failures));
        }
        if !is_paused {
            return IncastResult::Failed(format!("no pause although each sender sent {bytes} bytes"));
        }
        return IncastResult::Passed {
            headroom_used: observed.headroom_used,
        };
    }
    let need = LosslessLink {
        speed_mbps: group.speed_mbps,
        metres: cable_metres(&group.cable).unwrap_or(0),
        cell_bytes: observed.cell_bytes,
    }
    .required_headroom();
    let arithmetic = need.calculation_text(observed.cell_bytes);
    match available_headroom(group, config) {
        Some((available, what)) if available < need.bytes => {
            IncastResult::Explained(format!("{what} {available} B, {arithmetic}"))
        }
        Some((available, what)) => IncastResult::Failed(format!(
            "dropped {} although {what} {available} B is enough: {arithmetic}",
            observed.reasons
        )),
        None => IncastResult::Failed(format!("dropped {}; {arithmetic}", observed.reasons)),
    }
}

/// Returns the headroom of the priority group of one sender in bytes, and a text that names the limit. The
/// limit is `xoff` of the profile, or half of the shared headroom pool if that is smaller. Returns `None` if
/// the dynamic model computes the headroom.
fn available_headroom(group: &LosslessPorts, config: &Value) -> Option<(u64, &'static str)> {
    let (HeadroomSource::Row(sizes) | HeadroomSource::Profile(sizes)) = &group.headroom else {
        return None;
    };
    let shared = parse_number(&config["BUFFER_POOL"][&sizes.pool]["xoff"]).filter(|shared| *shared > 0);
    match shared {
        Some(shared) if shared / 2 < sizes.xoff_bytes => {
            Some((shared / 2, "half of the shared headroom pool is"))
        }
        _ => Some((sizes.xoff_bytes, "xoff is")),
    }
}

fn write_file(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skus::lossless::ProfileSizes;

    fn group(headroom: HeadroomSource, ports: &[&str]) -> LosslessPorts {
        LosslessPorts {
            speed_mbps: 100_000,
            cable: "5m".to_owned(),
            priority: 3,
            dscp: Some(24),
            headroom,
            ports: ports.iter().map(|port| (*port).to_owned()).collect(),
        }
    }

    fn row(xoff_bytes: u64, threshold: i64) -> HeadroomSource {
        HeadroomSource::Row(ProfileSizes {
            xoff_bytes,
            threshold,
            pool: "p".to_owned(),
        })
    }

    #[test]
    fn lab_has_cable_and_class_of_the_configuration() {
        let ports = [
            "Ethernet0".to_owned(),
            "Ethernet4".to_owned(),
            "Ethernet8".to_owned(),
        ];
        let lab = build_lab_file("0.json", Some("0.ini"), &ports, &group(row(1, 0), &[]), 24, 1000);
        assert_eq!(lab["topology"]["nodes"]["sw1"]["pg_profiles"], "0.ini");
        assert_eq!(
            lab["topology"]["links"][2],
            json!({"endpoints": ["h3:eth0", "sw1:Ethernet8"], "delay": "25.252ns"})
        );
        let transport = &lab["transports"]["default"];
        assert_eq!((&transport["dscp"], &transport["class"]), (&json!(24), &json!(3)));
    }

    #[test]
    fn message_fills_the_shared_space() {
        let pool = |mode: &str| json!({"BUFFER_POOL": {"p": {"size": "80000000", "mode": mode}}});
        let bytes = |mode, threshold| first_message_bytes(&pool(mode), &group(row(1, threshold), &[]));
        assert_eq!(bytes("dynamic", 0), 120_000_000);
        assert_eq!(bytes("dynamic", -2), 60_000_000);
        assert_eq!(bytes("static", 10_000_000), 30_000_000);
        assert_eq!(bytes("static", 0), MESSAGE_BYTES_MIN);
    }

    #[test]
    fn slowest_other_port_is_the_receiver_of_two_ports() {
        let config = json!({"PORT": {"a": {"speed": "100000"}, "b": {"speed": "100000"}, "c": {"speed": "50000"}, "d": {"speed": "10000", "role": "Rec"}}});
        let chosen = |ports: &[&str]| select_ports(&config, &group(row(1, 0), ports));
        assert_eq!(chosen(&["a"]), None);
        assert_eq!(
            chosen(&["a", "b"]),
            Some(["a".to_owned(), "b".to_owned(), "c".to_owned()])
        );
        let fast = json!({"PORT": {"a": {}, "b": {}, "c": {"speed": "200000"}}});
        assert_eq!(
            select_ports(&fast, &group(row(1, 0), &["a", "b"])),
            None,
            "c is no bottleneck"
        );
    }

    #[test]
    fn only_short_headroom_explains_drops() {
        let dropped = RunObservation {
            dropped_frames: 4,
            reasons: "a 4 R".to_owned(),
            xoffs: vec![1, 1],
            cell_bytes: 256,
            is_complete: true,
            ..RunObservation::default()
        };
        let judged = |xoff| evaluate_incast(&dropped, &group(row(xoff, 0), &[]), &json!({}), 1);
        assert!(
            matches!(judged(8_703), IncastResult::Explained(why) if why.starts_with("xoff is 8703 B, needs 8704"))
        );
        assert!(
            matches!(judged(8_704), IncastResult::Failed(why) if why.starts_with("dropped a 4 R although"))
        );
        let shared = json!({"BUFFER_POOL": {"p": {"xoff": "10000"}}});
        assert!(
            matches!(evaluate_incast(&dropped, &group(row(9_000, 0), &[]), &shared, 1), IncastResult::Explained(why) if why.starts_with("half"))
        );
        let clean = RunObservation {
            dropped_frames: 0,
            headroom_used: 7,
            ..dropped
        };
        let judged =
            |observed: &RunObservation| evaluate_incast(observed, &group(row(1, 0), &[]), &json!({}), 1);
        assert_eq!(judged(&clean), IncastResult::Passed { headroom_used: 7 });
        let unpaused = RunObservation {
            xoffs: vec![1, 0],
            ..clean.clone()
        };
        assert!(matches!(judged(&unpaused), IncastResult::Failed(_)));
        let incomplete = RunObservation {
            is_complete: false,
            ..clean
        };
        assert!(matches!(judged(&incomplete), IncastResult::Failed(_)));
    }
}
