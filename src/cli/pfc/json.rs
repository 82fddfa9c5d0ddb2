//! The JSON output of `xoff pfc` (docs/pfc.md).

use serde_json::{Map, Value, json};
use xoff_measure::pfc::{
    ControlDevice, DecodedFrame, PauseEvent, PauseScope, ScopeCounters, ScopeEvent, SendResult, WatchSummary,
    WatchedEvent,
};
use xoff_wire::{DisplayMac, MacControl};

/// Returns the result of `send` or `storm`.
pub(super) fn send_document(
    command: &str,
    device: &ControlDevice,
    bytes: &[u8],
    frame: Option<&DecodedFrame>,
    result: &SendResult,
) -> Value {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "schema": format!("xoff.pfc-{command}/1"),
        "device": device.properties.name,
        "frame": hex,
        "decoded": frame.map(frame_fields),
        "sent_frames": result.sent_frames,
        "lost_frames": result.lost_frames,
        "missed_frames": result.missed_frames,
        "elapsed_ns": result.elapsed_ns,
        "resumed": result.is_resumed,
        "interrupted": result.is_interrupted,
    })
}

/// Returns the first line of `watch`.
pub(super) fn ready_line(device: &str, speed_mbps: u32) -> Value {
    json!({"event": "ready", "schema": "xoff.pfc-watch/1", "device": device, "speed_mbps": speed_mbps})
}

/// Returns the line of an event of `watch`.
pub(super) fn event_line(event: &WatchedEvent) -> Value {
    match event {
        WatchedEvent::Frame {
            time_ns,
            frame,
            changes,
        } => {
            let mut line = Map::new();
            line.insert("event".to_owned(), json!("frame"));
            line.insert("time_ns".to_owned(), json!(time_ns));
            if let Value::Object(fields) = frame_fields(frame) {
                line.extend(fields);
            }
            let changes: Vec<Value> = changes.iter().map(change_fields).collect();
            line.insert("changes".to_owned(), json!(changes));
            Value::Object(line)
        }
        WatchedEvent::Expired(change) => {
            let mut line = change_fields(change);
            line["event"] = json!("expired");
            line
        }
        WatchedEvent::Lost { time_ns, frames } => {
            json!({"event": "lost", "time_ns": time_ns, "frames": frames})
        }
    }
}

/// Returns the last line of `watch`.
pub(super) fn summary_line(summary: &WatchSummary) -> Value {
    let classes: Vec<Value> = summary.classes.iter().map(counter_fields).collect();
    json!({
        "event": "summary",
        "duration_ns": summary.duration_ns,
        "frames": summary.frames,
        "ignored_frames": summary.ignored_frames,
        "deviating_frames": summary.deviating_frames,
        "lost_frames": summary.lost_frames,
        "classes": classes,
        "pause": counter_fields(&summary.port),
    })
}

fn frame_fields(frame: &DecodedFrame) -> Value {
    let deviations: Vec<String> = frame.deviations.iter().map(ToString::to_string).collect();
    let (kind, enable, quanta) = match frame.effect {
        Some(MacControl::Pfc(pfc)) => ("pfc", json!(pfc.enable), json!(pfc.quanta)),
        Some(MacControl::Pause { quanta }) => ("pause", Value::Null, json!(quanta)),
        None => ("ignored", json!(frame.enable), Value::Null),
    };
    json!({
        "source": DisplayMac(frame.source).to_string(),
        "destination": DisplayMac(frame.destination).to_string(),
        "opcode": frame.opcode,
        "kind": kind,
        "enable": enable,
        "quanta": quanta,
        "frame_bytes": frame.frame_len,
        "deviations": deviations,
    })
}

fn change_fields(change: &ScopeEvent) -> Value {
    let class = match change.scope {
        PauseScope::Class(class) => json!(class),
        PauseScope::Port => Value::Null,
    };
    let mut fields = match change.event {
        PauseEvent::Paused {
            quanta,
            duration_ns,
            until_ns,
        } => json!({"change": "paused", "quanta": quanta, "duration_ns": duration_ns, "until_ns": until_ns}),
        PauseEvent::Refreshed {
            quanta,
            duration_ns,
            until_ns,
            left_ns,
        } => json!({
            "change": "refreshed", "quanta": quanta, "duration_ns": duration_ns, "until_ns": until_ns,
            "left_ns": left_ns,
        }),
        PauseEvent::Resumed { paused_ns, left_ns } => {
            json!({"change": "resumed", "paused_ns": paused_ns, "left_ns": left_ns})
        }
        PauseEvent::AlreadyResumed => json!({"change": "already resumed"}),
        PauseEvent::Expired { paused_ns } => json!({"change": "expired", "paused_ns": paused_ns}),
    };
    fields["class"] = class;
    fields["time_ns"] = json!(change.time_ns);
    fields
}

fn counter_fields(counters: &ScopeCounters) -> Value {
    json!({
        "xoff_frames": counters.xoff_frames,
        "xon_frames": counters.xon_frames,
        "pauses": counters.pauses,
        "expired": counters.expired,
        "paused_ns": counters.paused_ns,
    })
}
