//! The CPU port: punted frames go to what stands behind it, and its replies into the switch.

use xoff_dataplane::config::RoutingConfig;
use xoff_dataplane::{Picos, Punt, Store, Transmit};

use super::Engine;
use crate::cpu::{Cpu, Punted, Reply};

/// A reply may itself be for the switch: a ping from one of its addresses to another is asked and answered here, and
/// the answer ends it. A round more than that, and whatever comes then is dropped and counted.
const ROUNDS_MAX: usize = 4;

/// Frames between the switch and its CPU; empty between calls.
#[derive(Debug, Default)]
pub(super) struct CpuPort {
    cpu: Option<Cpu>,
    punts: Vec<Punt>,
    replies: Vec<Reply>,
}

impl CpuPort {
    pub(super) fn take(&mut self, punts: impl Iterator<Item = Punt>) {
        self.punts.extend(punts);
    }
}

impl Engine {
    /// Puts something behind the CPU port, or nothing.
    pub fn attach_cpu(&mut self, cpu: Option<Cpu>) {
        self.switch.attach_cpu(cpu.is_some());
        self.cpu_port.cpu = cpu;
    }

    /// What stands behind the CPU port.
    pub fn cpu(&self) -> Option<&Cpu> {
        self.cpu_port.cpu.as_ref()
    }

    /// Follows a configuration that the switch has taken: a switch with router interfaces has a CPU.
    pub fn reconfigure_cpu(&mut self, config: &RoutingConfig) {
        match &mut self.cpu_port.cpu {
            Some(cpu) if !config.interfaces.is_empty() => cpu.reconfigure(config),
            Some(_) => self.attach_cpu(None),
            None if !config.interfaces.is_empty() => self.attach_cpu(Some(Cpu::new(config))),
            None => {}
        }
    }

    /// Answers what was punted. Every punted frame's slot is given back.
    pub(super) fn serve_cpu<S: Store>(
        &mut self,
        now: Picos,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
    ) {
        for _ in 0..ROUNDS_MAX {
            if self.cpu_port.punts.is_empty() {
                return;
            }
            let mut punts = std::mem::take(&mut self.cpu_port.punts);
            let mut replies = std::mem::take(&mut self.cpu_port.replies);
            for punt in punts.drain(..) {
                if let Some(cpu) = &mut self.cpu_port.cpu {
                    let punted = Punted {
                        interface: punt.interface,
                        reason: punt.reason,
                        l3_offset: punt.l3_offset,
                        bytes: store.prefix(punt.frame),
                    };
                    cpu.handle(self.time, &punted, &mut replies);
                }
                store.release(punt.frame);
            }
            // What the replies bring in turn is for the next round.
            self.cpu_port.punts = punts;
            for reply in replies.drain(..) {
                if !self.send_reply(&reply, store)
                    && let Some(cpu) = &mut self.cpu_port.cpu
                {
                    cpu.note_unsent();
                }
                self.pass_on(now, transmit);
            }
            self.cpu_port.replies = replies;
        }
        for punt in self.cpu_port.punts.drain(..) {
            store.release(punt.frame);
            if let Some(cpu) = &mut self.cpu_port.cpu {
                cpu.note_unsent();
            }
        }
    }

    /// Hands a reply to the switch; `false` if there is no slot for it or no way out.
    fn send_reply<S: Store>(&mut self, reply: &Reply, store: &mut S) -> bool {
        let Some(frame) = store.allocate(reply.bytes().len()) else {
            return false;
        };
        store.prefix_mut(frame).copy_from_slice(reply.bytes());
        let (switch, outputs) = (&mut self.switch, &mut self.outputs);
        let sent = match reply {
            Reply::Frame { interface, .. } => switch.send_on(self.time, *interface, frame, store, outputs),
            Reply::Packet { interface, .. } => switch.originate(self.time, *interface, frame, store, outputs),
        };
        sent.map_err(|frame| store.release(frame)).is_ok()
    }
}
