//! The CPU port: punted frames go to what stands behind it, and its replies into the switch.

use xoff_dataplane::config::RoutingConfig;
use xoff_dataplane::{FrameStore, Outputs, Picos, PuntedFrame, Switch};

use crate::cpu::{Cpu, Punted, Reply};

/// A reply may itself be for the switch: a ping from one of its addresses to another is asked and answered here, and
/// the answer ends it. A round more than that, and whatever comes then is dropped and counted.
const ROUNDS_MAX: usize = 4;

/// Frames between a switch and its CPU, if it has one; empty between calls.
#[derive(Debug, Default)]
pub struct CpuPort {
    cpu: Option<Cpu>,
    punts: Vec<PuntedFrame>,
    replies: Vec<Reply>,
}

impl CpuPort {
    /// The stack behind the CPU port, if one is attached.
    pub fn cpu(&self) -> Option<&Cpu> {
        self.cpu.as_ref()
    }

    /// Puts something behind the CPU port of a switch, or nothing.
    pub fn attach(&mut self, switch: &mut Switch, cpu: Option<Cpu>) {
        switch.set_cpu_attached(cpu.is_some());
        self.cpu = cpu;
    }

    /// Follows a configuration that the switch has taken: a switch with router interfaces has a CPU.
    pub fn reconfigure(&mut self, switch: &mut Switch, config: &RoutingConfig) {
        match &mut self.cpu {
            Some(cpu) if !config.interfaces.is_empty() => cpu.reconfigure(config),
            Some(_) => self.attach(switch, None),
            None if !config.interfaces.is_empty() => self.attach(switch, Some(Cpu::new(config))),
            None => {}
        }
    }

    /// Takes the frames that the switch has punted.
    #[inline]
    pub fn take(&mut self, outputs: &mut Outputs) {
        self.punts.append(&mut outputs.punts);
    }

    /// Answers what was punted. Every punted frame's slot is given back. `pass_on` empties the outputs after each reply, but
    /// for what was punted by it.
    pub fn serve<S: FrameStore>(
        &mut self,
        time: Picos,
        switch: &mut Switch,
        outputs: &mut Outputs,
        store: &mut S,
        mut pass_on: impl FnMut(&mut Outputs, &mut S),
    ) {
        for _ in 0..ROUNDS_MAX {
            if self.punts.is_empty() {
                return;
            }
            let mut punts = std::mem::take(&mut self.punts);
            let mut replies = std::mem::take(&mut self.replies);
            for punt in punts.drain(..) {
                if let Some(cpu) = &mut self.cpu {
                    let punted = Punted {
                        interface: punt.interface,
                        reason: punt.reason,
                        l3_offset: punt.l3_offset,
                        bytes: store.prefix(punt.frame),
                    };
                    cpu.handle(time, &punted, &mut replies);
                }
                store.release(punt.frame);
            }
            // What the replies bring in turn is for the next round.
            self.punts = punts;
            for reply in replies.drain(..) {
                if !send_reply(&reply, time, switch, outputs, store)
                    && let Some(cpu) = &mut self.cpu
                {
                    cpu.note_unsent();
                }
                pass_on(outputs, store);
                self.take(outputs);
            }
            self.replies = replies;
        }
        for punt in self.punts.drain(..) {
            store.release(punt.frame);
            if let Some(cpu) = &mut self.cpu {
                cpu.note_unsent();
            }
        }
    }
}

/// Hands a reply to the switch; `false` if there is no slot for it or no way out.
fn send_reply<S: FrameStore>(
    reply: &Reply,
    time: Picos,
    switch: &mut Switch,
    outputs: &mut Outputs,
    store: &mut S,
) -> bool {
    let Some(frame) = store.allocate(reply.bytes().len()) else {
        return false;
    };
    store.prefix_mut(frame).copy_from_slice(reply.bytes());
    let sent = match reply {
        Reply::Frame { interface, .. } => switch.send_by_interface(time, *interface, frame, store, outputs),
        Reply::Packet { interface, .. } => switch.originate_packet(time, *interface, frame, store, outputs),
    };
    sent.map_err(|frame| store.release(frame)).is_ok()
}
