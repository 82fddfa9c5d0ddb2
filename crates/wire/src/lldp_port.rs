//! The LLDP agent of one port (IEEE 802.1AB clause 9): sends LLDP frames, keeps the neighbours, and negotiates PFC
//! and ETS (DCBX).
//!
//! [`LldpPort`] does no I/O and has no clock. The caller passes the state of the link, received frames and the time
//! in nanoseconds. It sends the frames of [`LldpPort::poll_frame`], reads the events of [`LldpPort::poll_event`],
//! and calls [`LldpPort::advance`] at [`LldpPort::next_deadline_ns`].
//!
//! A port sends a frame when its link comes up, at each interval ([`LldpPortSettings::interval_s`]), when its own
//! information changes, and four times at intervals of one second after a new neighbour appeared (9.2.5.5,
//! `txFastInit`). It sends at most five frames at once and one frame per second afterwards (9.2.5.15, `txCreditMax`).
//!
//! The table of neighbours has at most [`NEIGHBOURS_MAX`] entries. An entry ends with its time to live, with a
//! shutdown LLDPDU of the neighbour, and when the link goes down.
//!
//! # Examples
//!
//! Two ports exchange frames, and the willing port adopts PFC:
//!
//! ```
//! use xoff_wire::dcbx::DcbxConfiguration;
//! use xoff_wire::lldp::{ChassisId, PortId};
//! use xoff_wire::lldp_port::{LldpPort, LldpPortSettings};
//!
//! let settings = |last: u8, is_willing: bool, enabled: u8| {
//!     let mac = [2, 0, 0, 0, 0, last];
//!     let mut dcbx = DcbxConfiguration::default();
//!     (dcbx.pfc.is_willing, dcbx.pfc.enabled) = (is_willing, enabled);
//!     let mut settings = LldpPortSettings::new(mac, ChassisId::mac(mac), PortId::interface_name("Ethernet0"));
//!     settings.dcbx = Some(dcbx);
//!     settings
//! };
//! let mut one = LldpPort::new(settings(1, false, 1 << 3));
//! let mut other = LldpPort::new(settings(2, true, 0));
//! one.set_link(0, true);
//! other.set_link(0, true);
//!
//! let frame = one.poll_frame(0).expect("the first frame is due when the link comes up");
//! other.receive(1_000, &frame);
//! assert_eq!(other.operational().map(|operational| operational.pfc_enabled), Some(1 << 3));
//! assert_eq!(other.neighbours()[0].pdu.port_id, PortId::interface_name("Ethernet0"));
//! ```

mod neighbour;
mod transmission;

use std::collections::VecDeque;

pub use neighbour::{LldpNeighbour, NEIGHBOURS_MAX};
use neighbour::{NeighbourTable, Update};
use transmission::TransmitTimer;

use crate::dcbx::{ConfigurationSource, DcbxConfiguration, DcbxPort, Mismatch, Operational};
use crate::lldp::{ChassisId, Lldpdu, PortId, TlvProblem};

/// A time that never comes, in nanoseconds.
pub const NEVER_NS: u64 = u64::MAX;
/// Default of [`LldpPortSettings::interval_s`] (IEEE 802.1AB 9.2.5.7, `msgTxInterval`).
const INTERVAL_S: u16 = 30;
/// Default of [`LldpPortSettings::hold`] (IEEE 802.1AB 9.2.5.6, `msgTxHold`).
const HOLD: u16 = 4;

/// The settings of the LLDP agent of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LldpPortSettings {
    /// MAC address of the port: the source address of its frames.
    pub mac: [u8; 6],
    /// The TLVs of the frames. The agent sets the time to live and the DCBX TLVs.
    pub information: Lldpdu,
    /// Whether the port sends LLDP frames.
    pub transmits: bool,
    /// Whether the port processes received LLDP frames.
    pub receives: bool,
    /// Time between two frames in seconds, at least 1 (`msgTxInterval`).
    pub interval_s: u16,
    /// The time to live of the frames as a multiple of the interval, at least 1 (`msgTxHold`).
    pub hold: u16,
    /// Configuration of DCBX. `None`: the port sends no DCBX TLVs and ignores those of its neighbours.
    pub dcbx: Option<DcbxConfiguration>,
}

impl LldpPortSettings {
    /// Returns the settings of a port that sends and receives frames with the mandatory TLVs only. The interval
    /// is 30 s, and the time to live is 121 s.
    pub fn new(mac: [u8; 6], chassis_id: ChassisId, port_id: PortId) -> LldpPortSettings {
        LldpPortSettings {
            mac,
            information: Lldpdu::new(chassis_id, port_id, 0),
            transmits: true,
            receives: true,
            interval_s: INTERVAL_S,
            hold: HOLD,
            dcbx: None,
        }
    }

    /// Returns the time to live of the frames in seconds: `min(65535, interval * hold + 1)` (9.2.5.22, `txTTL`).
    pub fn ttl_s(&self) -> u16 {
        let ttl = u32::from(self.interval_s) * u32::from(self.hold) + 1;
        u16::try_from(ttl).unwrap_or(u16::MAX)
    }
}

/// A change that the user should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LldpEvent {
    /// A neighbour has sent its first frame.
    NeighbourAdded,
    /// The information of a neighbour has ended.
    NeighbourRemoved,
    /// The priorities with PFC in operation have changed to this mask. Bit *n* is priority *n*.
    PfcChanged(u8),
    /// The port uses another ETS recommendation of its peer, or its own configuration again. The value is the end of
    /// the link whose configuration is in operation.
    EtsChanged(ConfigurationSource),
    /// The negotiation has found a difference between both ends that it does not remove.
    Mismatch(Mismatch),
    /// All differences have ended.
    MismatchesEnded,
    /// A received frame, or one of its TLVs, was rejected. This is the name of the TLV ([`TlvProblem::tlv`]). The
    /// problem is in [`LldpNeighbour::rejected`] or [`LldpPort::last_problem`]. Repeated frames of a neighbour with
    /// the same problems cause no further event.
    Rejected(&'static str),
}

/// Counters of a port since its creation, with the names of IEEE 802.1AB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LldpCounters {
    /// Frames sent (`statsFramesOutTotal`).
    pub frames_sent: u64,
    /// Frames received while the port receives (`statsFramesInTotal`).
    pub frames_received: u64,
    /// Received frames that were discarded because they are not valid, or because the table of neighbours was full
    /// (`statsFramesDiscardedTotal`).
    pub frames_discarded: u64,
    /// Received frames with at least one problem (`statsFramesInErrorsTotal`).
    pub frames_with_errors: u64,
    /// TLVs that were discarded (`statsTLVsDiscardedTotal`).
    pub tlvs_discarded: u64,
    /// Neighbours whose time to live has expired (`statsAgeoutsTotal`).
    pub ageouts: u64,
}

/// The LLDP agent of a port.
#[derive(Clone, Debug)]
pub struct LldpPort {
    settings: LldpPortSettings,
    dcbx: Option<DcbxPort>,
    neighbours: NeighbourTable,
    is_up: bool,
    timer: TransmitTimer,
    counters: LldpCounters,
    operational: Option<Operational>,
    /// Problem of the latest frame that was rejected as a whole.
    last_problem: Option<TlvProblem>,
    events: VecDeque<LldpEvent>,
}

impl LldpPort {
    /// Returns a port whose link is down.
    pub fn new(settings: LldpPortSettings) -> LldpPort {
        let dcbx = settings
            .dcbx
            .clone()
            .map(|configuration| DcbxPort::new(settings.mac, configuration));
        LldpPort {
            operational: dcbx.as_ref().map(DcbxPort::operational),
            settings,
            dcbx,
            neighbours: NeighbourTable::default(),
            is_up: false,
            timer: TransmitTimer::default(),
            counters: LldpCounters::default(),
            last_problem: None,
            events: VecDeque::new(),
        }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &LldpPortSettings {
        &self.settings
    }

    /// Changes the settings. The neighbours remain, unless the port no longer receives. The port sends the new
    /// information immediately.
    pub fn set_settings(&mut self, now_ns: u64, settings: LldpPortSettings) {
        if settings == self.settings {
            return;
        }
        let same_dcbx_port =
            self.dcbx.is_some() && settings.dcbx.is_some() && self.settings.mac == settings.mac;
        match (&mut self.dcbx, &settings.dcbx) {
            (Some(port), Some(configuration)) if same_dcbx_port => {
                port.set_configuration(configuration.clone())
            }
            (port, configuration) => {
                *port = configuration
                    .clone()
                    .map(|configuration| DcbxPort::new(settings.mac, configuration));
                // The new DCBX port knows the present neighbours.
                if let Some(port) = port {
                    self.neighbours
                        .iter()
                        .for_each(|known| known.announce_to(now_ns, port));
                }
            }
        }
        self.settings = settings;
        if !self.settings.receives {
            self.remove_neighbours();
        }
        if self.sends() {
            self.timer.send_soon(now_ns);
        }
        self.update_operational(now_ns);
    }

    /// Changes the state of the link. A link that comes up sends a frame immediately. A link that goes down removes all
    /// neighbours of the port.
    pub fn set_link(&mut self, now_ns: u64, is_up: bool) {
        if is_up == self.is_up {
            return;
        }
        self.is_up = is_up;
        self.timer.reset();
        if self.sends() {
            self.timer.send_soon(now_ns);
        }
        if !is_up {
            self.remove_neighbours();
        }
        self.update_operational(now_ns);
    }

    fn sends(&self) -> bool {
        self.is_up && self.settings.transmits
    }

    fn remove_neighbours(&mut self) {
        for _ in 0..self.neighbours.clear() {
            self.events.push_back(LldpEvent::NeighbourRemoved);
        }
        if let Some(dcbx) = &mut self.dcbx {
            dcbx.remove_neighbours();
        }
    }

    /// Processes a received LLDP frame without FCS. A port with a link that is down, and a port that does not
    /// receive, ignore the frame.
    pub fn receive(&mut self, now_ns: u64, frame: &[u8]) {
        if !self.is_up || !self.settings.receives {
            return;
        }
        self.advance(now_ns);
        self.counters.frames_received += 1;
        let received = match Lldpdu::parse(frame) {
            Ok(received) => received,
            Err(problem) => {
                self.counters.frames_discarded += 1;
                self.counters.frames_with_errors += 1;
                if self.last_problem.replace(problem) != Some(problem) {
                    self.events.push_back(LldpEvent::Rejected(problem.tlv));
                }
                return;
            }
        };
        self.counters.frames_with_errors += u64::from(!received.rejected.is_empty());
        self.counters.tlvs_discarded += received.rejected.len() as u64;
        if let Some(dcbx) = &mut self.dcbx {
            dcbx.receive(now_ns, &received);
        }
        let old_problems = self.neighbours.rejected_of(&received.pdu);
        let new_problems = received
            .rejected
            .iter()
            .filter(|problem| !old_problems.contains(problem));
        let rejections: Vec<LldpEvent> = new_problems
            .map(|problem| LldpEvent::Rejected(problem.tlv))
            .collect();
        match self.neighbours.update(now_ns, received) {
            Update::Added => {
                self.events.push_back(LldpEvent::NeighbourAdded);
                if self.sends() {
                    self.timer.start_fast(now_ns);
                }
            }
            Update::Removed => self.events.push_back(LldpEvent::NeighbourRemoved),
            Update::Full => self.counters.frames_discarded += 1,
            Update::Refreshed | Update::Unknown => {}
        }
        self.events.extend(rejections);
        self.update_operational(now_ns);
    }

    /// Removes the neighbours whose time to live has expired.
    pub fn advance(&mut self, now_ns: u64) {
        let expired = self.neighbours.remove_expired(now_ns);
        if expired == 0 {
            return;
        }
        self.counters.ageouts += expired as u64;
        for _ in 0..expired {
            self.events.push_back(LldpEvent::NeighbourRemoved);
        }
        if let Some(dcbx) = &mut self.dcbx {
            dcbx.advance(now_ns);
        }
        self.update_operational(now_ns);
    }

    /// Computes the configuration in operation. If it changes, reports the changes and sends a frame.
    fn update_operational(&mut self, now_ns: u64) {
        let operational = self.dcbx.as_ref().map(DcbxPort::operational);
        if operational == self.operational {
            return;
        }
        let old = std::mem::replace(&mut self.operational, operational);
        let old_mismatches = old.as_ref().map_or(&[][..], |old| &old.mismatches);
        let old_pfc = old.as_ref().map_or(0, |old| old.pfc_enabled);
        let (pfc, mismatches) = match &self.operational {
            Some(operational) => (operational.pfc_enabled, &operational.mismatches[..]),
            None => (0, &[][..]),
        };
        if pfc != old_pfc {
            self.events.push_back(LldpEvent::PfcChanged(pfc));
        }
        let adopted_ets = |of: Option<&Operational>| {
            of.filter(|of| of.ets_source == ConfigurationSource::Peer)
                .map(|of| of.ets)
        };
        let new_ets = adopted_ets(self.operational.as_ref());
        if new_ets != adopted_ets(old.as_ref()) {
            let source = match new_ets {
                Some(_) => ConfigurationSource::Peer,
                None => ConfigurationSource::Local,
            };
            self.events.push_back(LldpEvent::EtsChanged(source));
        }
        let new = mismatches
            .iter()
            .filter(|mismatch| !old_mismatches.contains(mismatch));
        self.events.extend(new.copied().map(LldpEvent::Mismatch));
        if mismatches.is_empty() && !old_mismatches.is_empty() {
            self.events.push_back(LldpEvent::MismatchesEnded);
        }
        let configuration = |of: &Option<Operational>| of.as_ref().map(|of| (of.pfc_enabled, of.ets));
        if configuration(&old) != configuration(&self.operational) && self.sends() {
            self.timer.send_soon(now_ns);
        }
    }

    /// Returns the LLDP frame that is due, without FCS. The caller sends it and calls this method again.
    pub fn poll_frame(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if !self.sends() || !self.timer.is_due(now_ns) {
            return None;
        }
        self.timer.record_sent(now_ns, self.settings.interval_s);
        let frame = self.frame(self.settings.ttl_s())?;
        self.counters.frames_sent += 1;
        Some(frame)
    }

    /// Returns the frame that tells the neighbours to delete the information of this port (shutdown LLDPDU, 9.1.2.2).
    /// Returns `None` if the port does not send.
    pub fn shutdown_frame(&self) -> Option<Vec<u8>> {
        self.sends().then(|| self.frame(0)).flatten()
    }

    fn frame(&self, ttl_s: u16) -> Option<Vec<u8>> {
        let mut pdu = self.settings.information.clone();
        pdu.ttl_s = ttl_s;
        if let Some(dcbx) = &self.dcbx {
            pdu.dcbx = dcbx.tlvs_to_send();
        }
        let frame = pdu.to_frame(self.settings.mac);
        debug_assert!(frame.is_ok(), "{frame:?}");
        frame.ok()
    }

    /// Returns the time of the next frame or of the next expiry in nanoseconds, or [`NEVER_NS`].
    pub fn next_deadline_ns(&self) -> u64 {
        let frame = if self.sends() {
            self.timer.due_ns()
        } else {
            NEVER_NS
        };
        frame.min(self.neighbours.next_expiry_ns())
    }

    /// Removes and returns the oldest event.
    pub fn poll_event(&mut self) -> Option<LldpEvent> {
        self.events.pop_front()
    }

    /// Returns the neighbours in the order of their first frames.
    pub fn neighbours(&self) -> &[LldpNeighbour] {
        self.neighbours.entries()
    }

    /// Returns the configuration in operation, and its differences from the neighbour. Returns `None` without DCBX.
    pub fn operational(&self) -> Option<&Operational> {
        self.operational.as_ref()
    }

    /// Returns the counters.
    pub fn counters(&self) -> &LldpCounters {
        &self.counters
    }

    /// Returns the problem of the latest frame that was rejected as a whole.
    pub fn last_problem(&self) -> Option<TlvProblem> {
        self.last_problem
    }
}

#[cfg(test)]
mod tests;
