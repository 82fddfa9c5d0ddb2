//! The CPU port passes frames from the switch to the CPU stack, and passes replies of the stack
//! to the switch.

use xoff_dataplane::config::{LldpConfig, RoutingConfig};
use xoff_dataplane::{
    FrameStore, Outputs, Picos, PortId, PuntReason, PuntedFrame, Switch, SwitchEvent, SwitchEventKind,
};

use crate::cpu::{CpuStack, LldpAgent, PuntedBytes, Reply};

/// Egress queue of LLDP frames. SONiC uses queue 7 for network control.
const LLDP_QUEUE: u8 = 7;

/// Largest number of rounds in one call of [`CpuPort::answer_punts`]. A reply may itself be for the switch,
/// such as a ping between two addresses of the switch. Such an exchange ends after two rounds. Frames to the
/// CPU after the last round are dropped and counted.
const ROUNDS_MAX: usize = 4;

/// The CPU port of a switch, with the CPU stack and the LLDP agent behind it.
#[derive(Debug, Default)]
pub struct CpuPort {
    cpu: Option<CpuStack>,
    lldp: Option<Box<LldpAgent>>,
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

    /// Returns the LLDP agent. Returns `None` if LLDP is off.
    pub fn lldp(&self) -> Option<&LldpAgent> {
        self.lldp.as_deref()
    }

    /// Starts the LLDP agent of a new switch whose links are down. `None`: LLDP is off. Each port starts when its link
    /// comes up.
    pub fn attach_lldp(&mut self, switch: &mut Switch, config: Option<&LldpConfig>) {
        switch.set_protocols_attached(config.is_some());
        self.lldp = config.map(|config| {
            let mut agent = Box::<LldpAgent>::default();
            agent.configure(Picos::ZERO, config);
            agent
        });
    }

    /// Applies a configuration of LLDP at the model time `now`. `None` turns LLDP off. The caller must process
    /// `outputs` afterwards. The new settings take effect at the deadline that the switch requests for `now`.
    pub fn configure_lldp<S: FrameStore>(
        &mut self,
        now: Picos,
        config: Option<&LldpConfig>,
        switch: &mut Switch,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        switch.set_protocols_attached(config.is_some());
        let frames = match (config, self.lldp.take()) {
            (None, None) => return,
            (None, Some(agent)) => {
                let (negotiated, frames) = agent.shut_down();
                for port in negotiated {
                    switch.set_negotiated_pfc(now, port, None, store, outputs);
                    switch.set_negotiated_ets(port, None);
                }
                frames
            }
            (Some(config), agent) => {
                let mut agent = agent.unwrap_or_default();
                let frames = agent.configure(now, config);
                self.lldp = Some(agent);
                switch.request_cpu_timer(now, outputs);
                frames
            }
        };
        for (port, frame) in frames {
            send_lldp_frame(&frame, port, now, switch, outputs, store);
        }
    }

    /// Passes an entry for the LLDP agent to it. Returns false if the entry is for the CPU stack.
    fn pass_to_lldp<S: FrameStore>(&mut self, time: Picos, punt: &PuntedFrame, store: &S) -> bool {
        let Some(agent) = &mut self.lldp else {
            return !punt.reason.has_frame();
        };
        match punt.reason {
            // The deadline of a port is due. `serve_lldp` finds the port.
            PuntReason::Timer => true,
            PuntReason::LinkChange => {
                agent.make_all_due(time);
                true
            }
            PuntReason::Protocol => agent.receive(time, punt.port, store.prefix(punt.frame)),
            _ => false,
        }
    }

    /// Serves all ports whose LLDP deadline is due: sends their frames, reports their events, and applies their
    /// negotiated PFC and ETS.
    fn serve_lldp<S: FrameStore>(
        &mut self,
        time: Picos,
        switch: &mut Switch,
        outputs: &mut Outputs,
        store: &mut S,
        forward_outputs: &mut impl FnMut(&mut Outputs, &mut S),
    ) {
        let Some(mut agent) = self.lldp.take() else {
            return;
        };
        while let Some((port, served)) = agent.serve_next(time, |port| switch.is_up(port)) {
            for event in served.events {
                let kind = SwitchEventKind::Lldp { port, event };
                outputs.events.push(SwitchEvent { at: time, kind });
            }
            if let Some(tables) = served.changed_ets {
                switch.set_negotiated_ets(port, tables);
            }
            if let Some(priorities) = served.changed_pfc {
                switch.set_negotiated_pfc(time, port, priorities, store, outputs);
                forward_outputs(outputs, store);
            }
            for frame in served.frames {
                send_lldp_frame(&frame, port, time, switch, outputs, store);
                forward_outputs(outputs, store);
            }
        }
        switch.request_cpu_timer(agent.next_deadline(), outputs);
        self.lldp = Some(agent);
        forward_outputs(outputs, store);
        self.take_punts(outputs);
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
                let is_done = self.pass_to_lldp(time, &punt, store);
                if !punt.reason.has_frame() {
                    continue;
                }
                if let Some(cpu) = self.cpu.as_mut().filter(|_| !is_done) {
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
            self.serve_lldp(time, switch, outputs, store, &mut forward_outputs);
        }
        for punt in self.punts.drain(..).filter(|punt| punt.reason.has_frame()) {
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

/// Sends an LLDP frame through a port. A frame without a free slot or a port that is down is lost: the agent sends the
/// same information again at its next interval.
fn send_lldp_frame<S: FrameStore>(
    bytes: &[u8],
    port: PortId,
    time: Picos,
    switch: &mut Switch,
    outputs: &mut Outputs,
    store: &mut S,
) {
    let Some(frame) = store.allocate(bytes.len()) else {
        return;
    };
    store.prefix_mut(frame).copy_from_slice(bytes);
    if let Err(frame) = switch.inject_frame(time, port, LLDP_QUEUE, frame, store, outputs) {
        store.release(frame);
    }
}
