//! Sends and receives link quality messages. The module [`crate::balance`] decides when a message is sent,
//! and which path qualities the message contains.

use super::Switch;
use super::control_frames::CONTROL_FRAMES_MAX;
use crate::balance::RemoteAdvertisement;
use crate::drops::DropReason;
use crate::frame::{FrameHandle, FrameStore, ReceivedFrame};
use crate::ids::PortId;
use crate::outputs::{ForwardingResult, Outputs};
use xoff_units::Picos;
use xoff_wire::link_quality::{self, LinkQuality};

impl Switch {
    /// Handles an expired deadline for link quality messages.
    #[cold]
    pub(super) fn advertise_loads<S: FrameStore>(
        &mut self,
        now: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let news = self.balance.update_advertised_sites(now, &self.frames);
        self.send_advertisements_if_due(now, news, store, outputs);
    }

    /// Advertises the loss or the return of paths, after a change of links, routes or
    /// received advertisements.
    pub(super) fn advertise_path_changes<S: FrameStore>(
        &mut self,
        now: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        if self.balance.update_advertised_sites(now, &self.frames) {
            self.send_advertisements_if_due(now, true, store, outputs);
        }
    }

    /// Advertises all unreachable sites (destination leaves) after a port came up: the new peer at this port
    /// has no information yet.
    pub(super) fn advertise_to_new_peer<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        if self.balance.remote().accepts_messages(port)
            && self.balance.advertiser_mut().repeat_unreachable_sites()
        {
            self.send_advertisements_if_due(now, true, store, outputs);
        }
    }

    /// Advertises again that no path to a destination exists, after a packet for this destination arrived.
    /// These messages are sent at most as often as load advertisements.
    #[cold]
    pub(super) fn readvertise_missing_path(&mut self, now: Picos, outputs: &mut Outputs) {
        let at = self.balance.advertiser_mut().handle_packet_without_path(now);
        if at != Picos::NEVER {
            self.timers.arm_link_quality(at, outputs);
        }
    }

    fn send_advertisements_if_due<S: FrameStore>(
        &mut self,
        now: Picos,
        news: bool,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let due = self.balance.advertiser_mut().next_action(now, news);
        if due.send {
            for index in 0..self.balance.advertiser().ports().len() {
                let port = PortId(self.balance.advertiser().ports()[index]);
                if self.ports.get(port.index()).is_some_and(|state| state.up) {
                    self.queue_link_quality_messages(port, store);
                    self.try_transmit_control(now, port, store, outputs);
                }
            }
            self.balance.advertiser_mut().record_sent();
        }
        if due.next != Picos::NEVER {
            self.timers.arm_link_quality(due.next, outputs);
        }
    }

    /// Adds link quality messages to the send queue of a port, ahead of data frames. The MTU of the port
    /// limits the number of entries in one message.
    fn queue_link_quality_messages<S: FrameStore>(&mut self, port: PortId, store: &mut S) {
        let most = link_quality::max_entries_for_mtu(self.ports[port.index()].mtu as usize);
        let entries = self.balance.advertiser().entries(port).count();
        let mut told = 0;
        while told < entries && most > 0 {
            let count = most.min(entries - told);
            let Some(frame) = self.build_link_quality_message(port, told, count, store) else {
                return;
            };
            let state = &mut self.ports[port.index()];
            if state.control_frames().queue.len() >= CONTROL_FRAMES_MAX {
                return store.release(frame);
            }
            state.change_control_frames(|frames| frames.queue.push_back(frame));
            state.counters.link_quality_tx += 1;
            told += count;
        }
    }

    /// Builds a message with `count` entries, starting at entry `first`. Returns `None` if no frame
    /// slot is free.
    fn build_link_quality_message<S: FrameStore>(
        &mut self,
        port: PortId,
        first: usize,
        count: usize,
        store: &mut S,
    ) -> Option<FrameHandle> {
        let frame = store.allocate(link_quality::frame_len(count))?;
        let sequence = self.balance.advertiser_mut().next_sequence();
        let teller = self.balance.advertiser();
        link_quality::emit(
            store.prefix_mut(frame),
            self.ports[port.index()].mac,
            sequence,
            teller.hold_us(),
            teller.entries(port).skip(first).take(count),
        );
        Some(frame)
    }

    /// Receives a link quality message.
    #[cold]
    pub(super) fn receive_link_quality<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &ReceivedFrame,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        let understood = match LinkQuality::parse(store.prefix(arrival.frame)) {
            _ if !self.ports[port.index()].up => Err(DropReason::PortDown),
            _ if !self.balance.remote().accepts_messages(port) => Err(DropReason::LinkQualityUnexpected),
            Err(_) => Err(DropReason::LinkQualityMalformed),
            Ok(message) => Ok(self.balance.remote_mut().receive(now, port, &message)),
        };
        store.release(arrival.frame);
        match understood {
            Ok(changed) => {
                self.ports[port.index()].counters.link_quality_rx += 1;
                if changed {
                    self.update_group_members();
                    self.advertise_path_changes(now, store, outputs);
                }
                ForwardingResult::Control
            }
            Err(reason) => {
                ForwardingResult::Dropped(self.drop_control_frame(port, arrival.frame_len, reason))
            }
        }
    }

    /// Returns the path qualities that the switch at the other end of `port` has advertised, in ascending
    /// order of the site number (a site is a group of destinations behind one leaf). Sites without an
    /// advertisement are left out. If an advertised load has expired at `now`, its `load` is `None`.
    pub fn remote_advertisements(
        &self,
        now: Picos,
        port: PortId,
    ) -> impl Iterator<Item = RemoteAdvertisement> {
        self.balance.remote().advertisements(now, port)
    }
}
