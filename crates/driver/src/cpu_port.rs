//! The CPU port passes frames from the switch to the CPU stack, and passes replies of the stack
//! to the switch.

use xoff_dataplane::config::RoutingConfig;
use xoff_dataplane::{FrameStore, Outputs, Picos, PuntedFrame, Switch};

use crate::cpu::{CpuStack, PuntedBytes, Reply};

/// Largest number of rounds in one call of [`CpuPort::answer_punts`]. A reply may itself be for the switch,
/// such as a ping between two addresses of the switch. Such an exchange ends after two rounds. Frames to the
/// CPU after the last round are dropped and counted.
const ROUNDS_MAX: usize = 4;

/// The CPU port of a switch, with the CPU stack behind it.
#[derive(Debug, Default)]
pub struct CpuPort {
    cpu: Option<CpuStack>,
    punts: Vec<PuntedFrame>,
    replies: Vec<Reply>,
}

impl CpuPort {
    /// Returns the CPU stack. Returns `None` if no CPU stack is attached.
    pub fn cpu(&self) -> Option<&CpuStack> {
        self.cpu.as_ref()
    }

    /// Attaches a CPU stack to the CPU port of a switch. `None` detaches the CPU stack. The switch then drops
    /// frames to its own addresses.
    pub fn attach(&mut self, switch: &mut Switch, cpu: Option<CpuStack>) {
        switch.set_cpu_attached(cpu.is_some());
        self.cpu = cpu;
    }

    /// Applies a new configuration. If `config` has router interfaces, this method creates a CPU stack or
    /// changes the attached CPU stack. Otherwise, it detaches the CPU stack.
    pub fn reconfigure(&mut self, switch: &mut Switch, config: &RoutingConfig) {
        match &mut self.cpu {
            Some(cpu) if !config.interfaces.is_empty() => cpu.reconfigure(config),
            Some(_) => self.attach(switch, None),
            None if !config.interfaces.is_empty() => self.attach(switch, Some(CpuStack::new(config))),
            None => {}
        }
    }

    /// Moves the frames for the CPU from `outputs` to this CPU port. [`CpuPort::answer_punts`] then
    /// answers them.
    #[inline]
    pub fn take_punts(&mut self, outputs: &mut Outputs) {
        self.punts.append(&mut outputs.punts);
    }

    /// Answers the frames from [`CpuPort::take_punts`] at the model time `time`, and releases their slots.
    /// After each reply, the function calls `forward_outputs`. The caller's `forward_outputs` must remove
    /// deadlines and transmissions from `outputs`, and leave frames for the CPU there. These frames are
    /// answered in the next round. After four rounds, further frames are dropped and counted as unsent.
    pub fn answer_punts<S: FrameStore>(
        &mut self,
        time: Picos,
        switch: &mut Switch,
        outputs: &mut Outputs,
        store: &mut S,
        mut forward_outputs: impl FnMut(&mut Outputs, &mut S),
    ) {
        for _ in 0..ROUNDS_MAX {
            if self.punts.is_empty() {
                return;
            }
            let mut punts = std::mem::take(&mut self.punts);
            let mut replies = std::mem::take(&mut self.replies);
            for punt in punts.drain(..) {
                if let Some(cpu) = &mut self.cpu {
                    let bytes = PuntedBytes {
                        interface: punt.interface,
                        reason: punt.reason,
                        l3_offset: punt.l3_offset,
                        bytes: store.prefix(punt.frame),
                    };
                    cpu.handle_punt(time, &bytes, &mut replies);
                }
                store.release(punt.frame);
            }
            // Replies can cause new frames for the CPU. The next round answers these frames.
            self.punts = punts;
            for reply in replies.drain(..) {
                if !send_reply(&reply, time, switch, outputs, store)
                    && let Some(cpu) = &mut self.cpu
                {
                    cpu.count_unsent_reply();
                }
                forward_outputs(outputs, store);
                self.take_punts(outputs);
            }
            self.replies = replies;
        }
        for punt in self.punts.drain(..) {
            store.release(punt.frame);
            if let Some(cpu) = &mut self.cpu {
                cpu.count_unsent_reply();
            }
        }
    }
}

/// Passes a reply to the switch. Returns false if no frame slot is available, or if the switch does not
/// accept the reply.
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
