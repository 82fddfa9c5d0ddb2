//! The event log: one JSON object a line, the same bytes for the same plan and seed on every machine.
//!
//! The form is in `docs/events.md`.

use std::io::{self, Write};

use xoff_dataplane::{Picos, PortId, QueueId, SwitchEvent, SwitchEventKind, Verdict};
use xoff_wire::{LinkQuality, MacControl};

use super::observer::{FrameView, Observer};
use super::plan::{End, FabricPlan};
use super::simulation::LastingDeadlock;
use xoff_rdma::{Completion, CompletionKind};
use xoff_telemetry::{action_name, event_name};

/// Name and version of the log's form. The number changes when a field changes its meaning or goes.
pub const EVENTS_SCHEMA: &str = "xoff.events/1";

/// Writes events to `out`. Names are kept as JSON writes them, without the quotes.
#[derive(Debug)]
pub struct EventLog<W> {
    out: W,
    switches: Vec<(String, Vec<String>)>,
    hosts: Vec<String>,
    links: Vec<String>,
    /// Every frame on every link too, not only what is special.
    frames: bool,
    error: Option<io::Error>,
}

impl<W: Write> EventLog<W> {
    /// A log of a plan's events; with `frames` also of every frame that begins to leave or arrives. Its first line says what
    /// it is, of which lab and with which seed.
    pub fn new(plan: &FabricPlan, lab: &str, seed: u64, frames: bool, out: W) -> EventLog<W> {
        let switch = |config: &xoff_dataplane::config::SwitchConfig| {
            let ports = config.ports.iter().map(|port| escaped(&port.name)).collect();
            (escaped(&config.name), ports)
        };
        let mut log = EventLog {
            out,
            switches: plan.switches.iter().map(switch).collect(),
            hosts: plan.hosts.iter().map(|host| escaped(&host.name)).collect(),
            links: plan.links.iter().map(|link| escaped(&link.name)).collect(),
            frames,
            error: None,
        };
        let lab = escaped(lab);
        log.line(format_args!(
            r#"{{"schema":"{EVENTS_SCHEMA}","lab":"{lab}","seed":{seed},"frames":{frames}}}"#
        ));
        log
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The first failure to write; nothing was written behind it.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => {
                self.out.flush()?;
                Ok(self.out)
            }
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        if self.error.is_none()
            && let Err(error) = writeln!(self.out, "{line}")
        {
            self.error = Some(error);
        }
    }

    fn name(&self, end: End) -> String {
        match end {
            End::Host(host) => self.hosts[host as usize].clone(),
            End::Switch { switch, port } => {
                let (name, ports) = &self.switches[switch as usize];
                format!("{name}:{}", ports[usize::from(port)])
            }
        }
    }

    fn frame(&mut self, at: Picos, what: &str, end: End, frame: &FrameView<'_>) {
        let name = self.name(end);
        let (ps, len, ecn) = (at.0, frame.frame_len, frame.ecn());
        match frame.bth() {
            Some(bth) => {
                let (opcode, qp, psn) = (bth.opcode().name(), bth.dest_qp(), bth.psn());
                self.line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{name}","len":{len},"ecn":{ecn},"opcode":"{opcode}","qp":{qp},"psn":{psn}}}"#
                ));
            }
            None => match LinkQuality::parse(frame.prefix) {
                Ok(message) => {
                    let (sequence, sites) = (message.sequence, sites(&message));
                    self.line(format_args!(
                        r#"{{"ps":{ps},"event":"{what}","at":"{name}","len":{len},"ecn":{ecn},"sequence":{sequence},"sites":[{sites}]}}"#
                    ));
                }
                Err(_) => self.line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{name}","len":{len},"ecn":{ecn}}}"#
                )),
            },
        }
    }

    fn pause(&mut self, at: Picos, end: End, frame: &FrameView<'_>) -> bool {
        let Ok(control) = MacControl::parse(frame.prefix) else {
            return false;
        };
        let (ps, name) = (at.0, self.name(end));
        match control {
            MacControl::Pfc(pfc) => self.line(format_args!(
                r#"{{"ps":{ps},"event":"pfc","at":"{name}","enable":{},"quanta":{:?}}}"#,
                pfc.enable, pfc.quanta
            )),
            MacControl::Pause { quanta, .. } => self.line(format_args!(
                r#"{{"ps":{ps},"event":"pause","at":"{name}","quanta":{quanta}}}"#
            )),
        }
        true
    }
}

/// What a link quality message says: of each site its number, Mb/s, load and utilisation, the latter `null` if not measured.
fn sites(message: &LinkQuality<'_>) -> String {
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

/// A name as JSON writes it, without the quotes around it.
fn escaped(name: &str) -> String {
    let quoted = serde_json::Value::from(name).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

impl<W: Write> Observer for EventLog<W> {
    fn departed(&mut self, at: Picos, _: Picos, from: End, frame: FrameView<'_>) {
        if self.pause(at, from, &frame) || !self.frames {
            return;
        }
        self.frame(at, "depart", from, &frame);
    }

    fn arrived(&mut self, at: Picos, to: End, frame: FrameView<'_>) {
        if self.frames {
            self.frame(at, "arrive", to, &frame);
        }
    }

    fn decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &Verdict) {
        if let Verdict::Dropped(drop) = verdict {
            let name = self.name(End::Switch { switch, port: port.0 });
            let counted = self.name(End::Switch {
                switch,
                port: drop.port.0,
            });
            self.line(format_args!(
                r#"{{"ps":{},"event":"drop","at":"{name}","by":"{counted}","reason":"{}","tc":{},"len":{}}}"#,
                at.0,
                drop.reason.name(),
                drop.tc,
                drop.mac_len
            ));
        }
    }

    fn struck(&mut self, at: Picos, from: End, frame: FrameView<'_>, lost: bool) {
        self.frame(at, if lost { "lost" } else { "damaged" }, from, &frame);
    }

    fn link_changed(&mut self, at: Picos, link: usize, up: bool) {
        let name = self.links[link].clone();
        self.line(format_args!(
            r#"{{"ps":{},"event":"link","link":"{name}","up":{up}}}"#,
            at.0
        ));
    }

    fn deadlocked(&mut self, at: Picos, lasting: &LastingDeadlock) {
        let ports = serde_json::Value::from(lasting.deadlock.ports.clone());
        self.line(format_args!(
            r#"{{"ps":{},"event":"deadlock","since_ps":{},"queue":{},"ports":{ports}}}"#,
            at.0, lasting.since.0, lasting.deadlock.queue
        ));
    }

    fn told(&mut self, switch: u32, event: &SwitchEvent) {
        let (ps, what) = (event.at.0, event_name(&event.kind));
        let place = |queue: QueueId| {
            self.name(End::Switch {
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
                self.line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{at}","queue":{number},"action":"{action}","paused_ps":{paused_ps}}}"#
                ));
            }
            SwitchEventKind::StormRestored { queue } => {
                let (at, number) = (place(queue), queue.number());
                self.line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{at}","queue":{number}}}"#
                ));
            }
            SwitchEventKind::BigRedSwitch { on } => {
                let name = self.switches[switch as usize].0.clone();
                self.line(format_args!(
                    r#"{{"ps":{ps},"event":"{what}","at":"{name}","on":{on}}}"#
                ));
            }
        }
    }

    fn completed(&mut self, host: usize, completion: &Completion) {
        let (ps, qp) = (completion.at.0, completion.qp.0);
        let name = self.hosts[host].clone();
        match completion.kind {
            CompletionKind::Acked { id } => self.line(format_args!(
                r#"{{"ps":{ps},"event":"acked","at":"{name}","qp_index":{qp},"id":{id}}}"#
            )),
            CompletionKind::Failed { id, why } => self.line(format_args!(
                r#"{{"ps":{ps},"event":"failed","at":"{name}","qp_index":{qp},"id":{id},"why":"{why:?}"}}"#
            )),
            CompletionKind::Received { message, bytes, .. } => self.line(format_args!(
                r#"{{"ps":{ps},"event":"received","at":"{name}","qp_index":{qp},"message":{message},"bytes":{bytes}}}"#
            )),
        }
    }
}
