//! A switch with its event queue in model time, for the real-time driver. The engine reads no clock.

mod deadline_heap;

use xoff_dataplane::config::{LldpConfig, RoutingConfig, SwitchConfig};
use xoff_dataplane::{
    Deadline, FrameStore, LinkTiming, Outputs, Picos, PortId, ReceivedFrame, Switch, TimerId, Transmit,
};

use deadline_heap::EventHeap;

use crate::cpu::{CpuStack, LldpAgent};
use crate::cpu_port::CpuPort;
use crate::ingress_pacer::{IN_FLIGHT_FRAMES_MAX, IngressPacer};
use crate::journal::Journal;
use crate::lldp_report::with_lldp_report;
use crate::snapshot::{PortDeviceInfo, take_snapshot};
use xoff_telemetry::SwitchSnapshot;

/// Largest number of frames that one port sends at once after the worker was late. A longer burst would
/// differ too much from the frames on a real link. After this number of frames, the link stays idle until the
/// current time, and the idle time is added to the transmit deficit of the port.
pub const CATCH_UP_FRAMES_MAX: u32 = 32;

/// Prefetch distance in frames. While the engine handles a frame, it prefetches the frame that arrives this
/// number of frames later. A whole burst of frames does not fit into the first-level cache.
const PREFETCH_DISTANCE: usize = 4;

/// Bit in the timer ids of the engine. Such a timer expires at the next arrival at a port. No timer id of the
/// switch has this bit.
const ARRIVAL_TIMER: u32 = 1 << 31;

/// A switch with its event queue, its CPU port and the frames in flight to its ports. The caller supplies the
/// model time.
#[derive(Debug)]
pub struct Engine {
    switch: Switch,
    cpu_port: CpuPort,
    outputs: Outputs,
    journal: Journal,
    events: EventHeap,
    pacer: IngressPacer,
    /// Indexed by port. Number of late departures in this call of [`Engine::run_until`].
    catch_up_frames: Vec<u32>,
    /// Time of the latest event. The time of the switch never decreases.
    time: Picos,
    /// Largest delay between a deadline and its handling since the last call of
    /// [`Engine::take_max_event_delay`].
    lateness: Picos,
}

impl Engine {
    /// Creates an engine at model time zero for a new switch. `links` contains the link timing of each port,
    /// in the order of the ports. No CPU stack is attached.
    pub fn new(switch: Switch, links: &[LinkTiming]) -> Engine {
        Engine {
            switch,
            cpu_port: CpuPort::default(),
            outputs: Outputs::with_capacity(IN_FLIGHT_FRAMES_MAX),
            journal: Journal::default(),
            events: EventHeap::with_capacity(links.len() * 8 + 64),
            pacer: IngressPacer::new(links.iter().copied()),
            catch_up_frames: vec![0; links.len()],
            time: Picos::ZERO,
            lateness: Picos::ZERO,
        }
    }

    /// Returns the switch for reading.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Returns the journal of the switch's events.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns how many more frames the caller may add to the frames in flight to a port. The limit
    /// is [`IN_FLIGHT_FRAMES_MAX`].
    pub fn free_ingress_frames(&self, port: PortId) -> usize {
        self.pacer.free_frames(port)
    }

    /// Returns the number of delayed frames of a port. A frame is delayed if it arrives before its link
    /// is free.
    pub fn delayed_frames(&self, port: PortId) -> u64 {
        self.pacer.delayed_frames(port)
    }

    /// Copies the state of the switch at the model time `now`. `config` is the configuration of the switch.
    /// `facts` has one entry for each port of `config`.
    pub fn snapshot(&self, config: &SwitchConfig, facts: &[PortDeviceInfo], now: Picos) -> SwitchSnapshot {
        let delayed_frames = |port| self.delayed_frames(port);
        let counters = |port| self.switch.port_counters(now, port);
        let snapshot = take_snapshot(
            &self.switch,
            &self.journal,
            counters,
            delayed_frames,
            config,
            facts,
            now,
        );
        with_lldp_report(snapshot, self.lldp(), config, now)
    }

    /// Changes the timing of the link of a port for frames that arrive later.
    pub fn set_link_timing(&mut self, port: PortId, link: LinkTiming) {
        self.pacer.set_link_timing(port, link);
    }

    /// Adds a received frame to the frames in flight to a port. The frame reaches the switch at
    /// `arrival.received_at`. If the link is still busy with earlier frames, the frame arrives when the link
    /// is free.
    #[inline(always)]
    pub fn receive_paced(&mut self, port: PortId, arrival: ReceivedFrame) {
        if let Some(at) = self.pacer.add_paced(self.time, port, arrival) {
            self.schedule_arrival(port, at);
        }
    }

    /// Adds a frame that the link has already carried, as at a link inside a lab. The frame reaches the
    /// switch at `arrival.received_at`, which may be in the future, but not before earlier frames of
    /// the port.
    #[inline]
    pub fn receive_after_link_delay(&mut self, port: PortId, arrival: ReceivedFrame) {
        if let Some(at) = self.pacer.add_after_link_delay(self.time, port, arrival) {
            self.schedule_arrival(port, at);
        }
    }

    #[inline(always)]
    fn schedule_arrival(&mut self, port: PortId, at: Picos) {
        self.events.push(Deadline {
            at,
            timer: TimerId(ARRIVAL_TIMER | u32::from(port.0)),
        });
    }

    /// Handles all events up to the model time `now`, in order. Calls `transmit` for each frame that starts
    /// to leave. The caller owns this frame and must release it. Frames for the CPU go to the CPU stack, if
    /// one is attached.
    pub fn run_until<S: FrameStore>(
        &mut self,
        now: Picos,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
    ) {
        self.catch_up_frames.fill(0);
        while let Some(event) = self.events.take_due(now) {
            if event.timer.0 & ARRIVAL_TIMER != 0 {
                let port = PortId((event.timer.0 & !ARRIVAL_TIMER) as u16);
                self.handle_arrivals(now, port, store, transmit);
            } else {
                self.handle_deadline(now, event, store, transmit);
            }
        }
    }

    /// Returns the model time of the next event. Returns `None` if no event is pending.
    pub fn next_event(&self) -> Option<Picos> {
        self.events.first().map(|event| event.at)
    }

    /// Returns the largest delay between a deadline and its handling since the last call, in model time. The
    /// result is zero if no deadline was late.
    pub fn take_max_event_delay(&mut self) -> Picos {
        std::mem::take(&mut self.lateness)
    }

    /// Calls `change` with the switch at the model time `now`, and returns the result of `change`. Then
    /// forwards the outputs of the switch, as [`Engine::run_until`] does.
    pub fn with_switch<S: FrameStore, R>(
        &mut self,
        now: Picos,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
        change: impl FnOnce(&mut Switch, Picos, &mut S, &mut Outputs) -> R,
    ) -> R {
        self.time = self.time.max(now);
        let result = change(&mut self.switch, self.time, store, &mut self.outputs);
        self.forward_outputs(now, store, transmit);
        result
    }

    /// Passes the arrived frames of a port to the switch until an event of the engine is due, such as a
    /// timer. The departures are forwarded together at the end. If the engine read each departure immediately
    /// after the switch wrote it, the processor would wait for the stores.
    fn handle_arrivals<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
    ) {
        let timer = TimerId(ARRIVAL_TIMER | u32::from(port.0));
        while let Some(&(at, arrival)) = self.pacer.first(port) {
            let next = Deadline { at, timer };
            if at > now || self.events.first().is_some_and(|other| other < next) {
                self.events.push(next);
                break;
            }
            if let Some((_, later)) = self.pacer.nth(port, PREFETCH_DISTANCE) {
                store.prefetch_frame(later.frame);
            }
            self.pacer.pop(port);
            self.time = self.time.max(at);
            self.switch
                .receive(self.time, port, &arrival, store, &mut self.outputs);
            let Outputs {
                deadlines,
                punts,
                events,
                ..
            } = &self.outputs;
            if !(deadlines.is_empty() && punts.is_empty() && events.is_empty()) {
                self.forward_outputs(now, store, transmit);
            }
        }
        self.forward_outputs(now, store, transmit);
    }

    fn handle_deadline<S: FrameStore>(
        &mut self,
        now: Picos,
        event: Deadline,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
    ) {
        self.lateness = self.lateness.max(now.since(event.at));
        if event.at < now
            && let Some(port) = self.switch.port_of_transmit_timer(event.timer)
            && self.catch_up_frames[port.index()] >= CATCH_UP_FRAMES_MAX
        {
            // The link stays idle until `now`. Otherwise, a late arrival would start another late departure.
            self.switch.keep_link_idle(port, event.at, now);
            self.events.push(Deadline {
                at: now,
                timer: event.timer,
            });
            return;
        }
        self.time = self.time.max(event.at);
        self.switch
            .expire(self.time, event.timer, store, &mut self.outputs);
        self.forward_outputs(now, store, transmit);
    }

    fn forward_outputs<S: FrameStore>(
        &mut self,
        now: Picos,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
    ) {
        let Engine {
            switch,
            cpu_port,
            outputs,
            journal,
            events,
            catch_up_frames,
            ..
        } = self;
        let mut forward = |outputs: &mut Outputs, _: &mut S| {
            for &deadline in &outputs.deadlines {
                events.push(deadline);
            }
            outputs.deadlines.clear();
            for &departure in &outputs.transmits {
                catch_up_frames[departure.port.index()] += u32::from(departure.start < now);
                transmit(departure);
            }
            outputs.transmits.clear();
        };
        forward(outputs, store);
        if !outputs.punts.is_empty() {
            cpu_port.take_punts(outputs);
            cpu_port.answer_punts(self.time, switch, outputs, store, forward);
        }
        journal.record_events(&mut outputs.events, switch);
    }

    /// Attaches a CPU stack to the CPU port. `None` detaches the CPU stack. The switch then drops frames to
    /// its own addresses.
    pub fn attach_cpu(&mut self, cpu: Option<CpuStack>) {
        self.cpu_port.attach(&mut self.switch, cpu);
    }

    /// Returns the CPU stack. Returns `None` if no CPU stack is attached.
    pub fn cpu(&self) -> Option<&CpuStack> {
        self.cpu_port.cpu()
    }

    /// Returns the LLDP agent. Returns `None` if LLDP is off.
    pub fn lldp(&self) -> Option<&LldpAgent> {
        self.cpu_port.lldp()
    }

    /// Starts the LLDP agent of a new switch whose links are down ([`CpuPort::attach_lldp`]).
    pub fn attach_lldp(&mut self, config: Option<&LldpConfig>) {
        self.cpu_port.attach_lldp(&mut self.switch, config);
    }

    /// Applies a configuration of LLDP at the model time `now` ([`CpuPort::configure_lldp`]). Then forwards the
    /// outputs of the switch, as [`Engine::run_until`] does.
    pub fn configure_lldp<S: FrameStore>(
        &mut self,
        now: Picos,
        config: Option<&LldpConfig>,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
    ) {
        self.time = self.time.max(now);
        let Engine {
            switch,
            cpu_port,
            outputs,
            time,
            ..
        } = self;
        cpu_port.configure_lldp(*time, config, switch, store, outputs);
        self.forward_outputs(now, store, transmit);
    }

    /// Applies a new configuration to the CPU port ([`CpuPort::reconfigure`]). A switch with router
    /// interfaces has a CPU stack. A switch without router interfaces has none.
    pub fn reconfigure_cpu(&mut self, config: &RoutingConfig) {
        self.cpu_port.reconfigure(&mut self.switch, config);
    }
}

#[cfg(test)]
mod tests;
