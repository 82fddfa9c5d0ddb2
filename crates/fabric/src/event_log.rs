//! Event log of a run in virtual time, with one JSON object per line. The same plan and seed give the same
//! bytes on every machine.
//!
//! `docs/events.md` documents the format.

use std::io::{self, Write};
use std::sync::Arc;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ForwardingResult, Picos, PortId, QueueId, SwitchEvent, SwitchEventKind};
use xoff_wire::{LinkQuality, MacControl};

use super::deadlock_report::LastingDeadlock;
use super::observer::{FrameView, ObservedEvents, Observer};
use super::plan::{FabricPlan, LinkEnd};
use xoff_rdma::{Completion, CompletionKind};
use xoff_telemetry::{action_name, describe_lldp_event, event_name};

/// Name and version of the log format, in the first line of each log. The version changes when a field is
/// removed or when the meaning of a field changes.
pub const EVENTS_SCHEMA: &str = "xoff.events/1";

/// Observer that writes events to `out`, as one JSON object per line. `docs/events.md` lists the events.
#[derive(Debug)]
pub struct EventLog<W> {
    out: W,
    /// Name of each switch and the names of its ports. All names are JSON-escaped, without quotes.
    switches: Vec<(String, Vec<String>)>,
    hosts: Vec<String>,
    links: Vec<String>,
    /// True if the log contains each departure and arrival of a frame. Pauses, drops and faults are
    /// always logged.
    frames: bool,
    /// The first write error. Nothing is written after an error.
    error: Option<io::Error>,
}

impl<W: Write> EventLog<W> {
    /// Creates an event log for a plan and writes the first line. The first line contains the schema, the
    /// name `lab`, the seed and `frames`. If `frames` is true, the log contains each departure and each
    /// arrival of a frame. A write error is stored, and [`EventLog::finish`] returns it.
    pub fn new(plan: &FabricPlan, lab: &str, seed: u64, frames: bool, out: W) -> EventLog<W> {
        let switch = |config: &Arc<SwitchConfig>| {
            let ports = config.ports.iter().map(|port| json_escaped(&port.name)).collect();
            (json_escaped(&config.name), ports)
        };
        let mut log = EventLog {
            out,
            switches: plan.switches.iter().map(switch).collect(),
            hosts: plan.hosts.iter().map(|host| json_escaped(&host.name)).collect(),
            links: plan.links.iter().map(|link| json_escaped(&link.name)).collect(),
            frames,
            error: None,
        };
        let lab = json_escaped(lab);
        log.write_line(format_args!(
            r#"{{"schema":"{EVENTS_SCHEMA}","lab":"{lab}","seed":{seed},"frames":{frames}}}"#
        ));
        log
    }

    /// Flushes the log and returns the writer.
    ///
    /// # Errors
    /// Returns the first write error, or the error of the flush. The log ends before the first write error.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => {
                self.out.flush()?;
                Ok(self.out)
            }
        }
    }

    fn write_line(&mut self, line: std::fmt::Arguments<'_>) {
        if self.error.is_none()
            && let Err(error) = writeln!(self.out, "{line}")
        {
            self.error = Some(error);
        }
    }

    fn end_name(&self, end: LinkEnd) -> String {
        match end {
            LinkEnd::Host(host) => self.hosts[host as usize].clone(),
            LinkEnd::Switch { switch, port } => {
                let (name, ports) = &self.switches[switch as usize];
                format!("{name}:{}", ports[usize::from(port)])
            }
        }
    }

    fn write_frame(&mut self, at: Picos, what: &str, end: LinkEnd, frame: &FrameView<'_>) {
        let name = self.end_name(end);
        let (ps, len, ecn) = (at.0, frame.frame_len, frame.ecn());
        match frame.bth() {
            Some(bth) => {
                let (opcode, qp, psn) = (bth.opcode().name(), bth.dest_qp(), bth.psn());
                self.write_line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{name}","len":{len},"ecn":{ecn},"opcode":"{opcode}","qp":{qp},"psn":{psn}}}"#
                ));
            }
            None => match LinkQuality::parse(frame.prefix) {
                Ok(message) => {
                    let (sequence, sites) = (message.sequence, format_link_quality_sites(&message));
                    self.write_line(format_args!(
                        r#"{{"ps":{ps},"event":"{what}","at":"{name}","len":{len},"ecn":{ecn},"sequence":{sequence},"sites":[{sites}]}}"#
                    ));
                }
                Err(_) => self.write_line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{name}","len":{len},"ecn":{ecn}}}"#
                )),
            },
        }
    }

    fn write_pause(&mut self, at: Picos, end: LinkEnd, frame: &FrameView<'_>) -> bool {
        let Ok(control) = MacControl::parse(frame.prefix) else {
            return false;
        };
        let (ps, name) = (at.0, self.end_name(end));
        match control {
            MacControl::Pfc(pfc) => self.write_line(format_args!(
                r#"{{"ps":{ps},"event":"pfc","at":"{name}","enable":{},"quanta":{:?}}}"#,
                pfc.enable, pfc.quanta
            )),
            MacControl::Pause { quanta, .. } => self.write_line(format_args!(
                r#"{{"ps":{ps},"event":"pause","at":"{name}","quanta":{quanta}}}"#
            )),
        }
        true
    }
}

/// Formats the sites of a link quality message. A site is the leaf behind which some destinations are. Each
/// site has a number, a capacity in Mb/s, a load and a utilisation. Values that were not measured are `null`.
fn format_link_quality_sites(message: &LinkQuality<'_>) -> String {
    let mut text = String::new();
    for entry in message.entries() {
        let comma = if text.is_empty() { "" } else { "," };
        let (site, mbps) = (entry.site, entry.capacity_mbps);
        text += &match entry.load {
            Some(path) => format!("{comma}[{site},{mbps},{},{}]", path.load, path.utilisation),
            None => format!("{comma}[{site},{mbps},null,null]"),
        };
    }
    text
}

/// Returns a name as a JSON string without the quotes.
fn json_escaped(name: &str) -> String {
    let quoted = serde_json::Value::from(name).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

impl<W: Write> Observer for EventLog<W> {
    fn observed_events(&self) -> ObservedEvents {
        ObservedEvents {
            marks: false,
            host_counters: false,
            ..ObservedEvents::ALL
        }
    }

    fn frame_departed(&mut self, at: Picos, _: Picos, from: LinkEnd, frame: FrameView<'_>) {
        if self.write_pause(at, from, &frame) || !self.frames {
            return;
        }
        self.write_frame(at, "depart", from, &frame);
    }

    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        if self.frames {
            self.write_frame(at, "arrive", to, &frame);
        }
    }

    fn admission_decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &ForwardingResult) {
        if let ForwardingResult::Dropped(drop) = verdict {
            let name = self.end_name(LinkEnd::Switch { switch, port: port.0 });
            let counted = self.end_name(LinkEnd::Switch {
                switch,
                port: drop.port.0,
            });
            self.write_line(format_args!(
                r#"{{"ps":{},"event":"drop","at":"{name}","by":"{counted}","reason":"{}","tc":{},"len":{}}}"#,
                at.0,
                drop.reason.name(),
                drop.tc,
                drop.mac_len
            ));
        }
    }

    fn fault_applied(&mut self, at: Picos, from: LinkEnd, frame: FrameView<'_>, lost: bool) {
        self.write_frame(at, if lost { "lost" } else { "damaged" }, from, &frame);
    }

    fn link_changed(&mut self, at: Picos, link: usize, up: bool) {
        let name = self.links[link].clone();
        self.write_line(format_args!(
            r#"{{"ps":{},"event":"link","link":"{name}","up":{up}}}"#,
            at.0
        ));
    }

    fn deadlocked(&mut self, at: Picos, lasting: &LastingDeadlock) {
        let ports = serde_json::Value::from(lasting.deadlock.ports.clone());
        self.write_line(format_args!(
            r#"{{"ps":{},"event":"deadlock","since_ps":{},"queue":{},"ports":{ports}}}"#,
            at.0, lasting.since.0, lasting.deadlock.queue
        ));
    }

    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        let (ps, what) = (event.at.0, event_name(&event.kind));
        let place = |queue: QueueId| {
            self.end_name(LinkEnd::Switch {
                switch,
                port: queue.port().0,
            })
        };
        match event.kind {
            SwitchEventKind::StormDetected {
                queue,
                action,
                paused,
            } => {
                let (at, number) = (place(queue), queue.number());
                let (action, paused_ps) = (action_name(action), paused.0);
                self.write_line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{at}","queue":{number},"action":"{action}","paused_ps":{paused_ps}}}"#
                ));
            }
            SwitchEventKind::StormRestored { queue } => {
                let (at, number) = (place(queue), queue.number());
                self.write_line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{at}","queue":{number}}}"#
                ));
            }
            SwitchEventKind::MacMoves {
                address: [a, b, c, d, e, f],
                vlan,
                ports,
            } => {
                let end_name = |port: PortId| self.end_name(LinkEnd::Switch { switch, port: port.0 });
                let (previous, at) = (end_name(ports[0]), end_name(ports[1]));
                self.write_line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{at}","previous":"{previous}","mac":"{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}","vlan":{vlan}}}"#
                ));
            }
            SwitchEventKind::Lldp { port, event } => {
                let at = self.end_name(LinkEnd::Switch { switch, port: port.0 });
                let detail = describe_lldp_event(event);
                self.write_line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{at}","detail":"{detail}"}}"#
                ));
            }
            SwitchEventKind::BigRedSwitch { on } => {
                let name = self.switches[switch as usize].0.clone();
                self.write_line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{name}","on":{on}}}"#
                ));
            }
        }
    }

    fn request_completed(&mut self, host: usize, completion: &Completion) {
        let (ps, qp) = (completion.at.0, completion.qp.0);
        let name = self.hosts[host].clone();
        match completion.kind {
            CompletionKind::Acked { id } => self.write_line(format_args!(
                r#"{{"ps":{ps},"event":"acked","at":"{name}","qp_index":{qp},"id":{id}}}"#
            )),
            CompletionKind::Failed { id, why } => self.write_line(format_args!(
                r#"{{"ps":{ps},"event":"failed","at":"{name}","qp_index":{qp},"id":{id},"why":"{why:?}"}}"#
            )),
            CompletionKind::Received { message, bytes, .. } => self.write_line(format_args!(
                r#"{{"ps":{ps},"event":"received","at":"{name}","qp_index":{qp},"message":{message},"bytes":{bytes}}}"#
            )),
        }
    }
}
