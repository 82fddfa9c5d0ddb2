//! ARP, IPv6 neighbour discovery, echo replies and LLDP of a host.
//!
//! The host announces its addresses, answers requests and resolves the addresses of its destinations. With LLDP, it
//! sends LLDP frames and keeps its neighbours. These frames are rare, so memory may be allocated for each frame.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use xoff_units::Picos;
use xoff_wire::lldp;
use xoff_wire::lldp_port::{LldpPort, LldpPortSettings, NEVER_NS};
use xoff_wire::parse::{ParsedHeaders, Payload};
use xoff_wire::{EchoRequest, NeighbourFrame, NeighbourMessage, VlanTag};

use super::config::HostConfig;

/// Largest number of frames that wait for the link. Further frames are dropped. This loses nothing, because
/// the peer that sent an ARP or ND request repeats the request.
const OUTBOX_MAX: usize = 64;
/// Longest echo reply in bytes. Longer echo requests get no reply.
pub(super) const REPLY_LEN_MAX: usize = 1518;
/// Largest number of addresses that the host resolves at the same time. Further addresses are not resolved.
const UNRESOLVED_MAX: usize = 4096;
/// Interval between requests until a reply arrives (RFC 4861 `RETRANS_TIMER`). The first announcement is
/// repeated once after this interval, because a port may still be coming up.
const RETRY_INTERVAL: Picos = Picos::from_millis(1_000);

/// A frame of the host itself, with the time at which it was created.
#[derive(Clone, Debug)]
pub(super) struct ControlFrame {
    pub(super) created: Picos,
    pub(super) bytes: Vec<u8>,
}

/// An IP address whose MAC address has become known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResolvedAddress {
    pub(super) ip: IpAddr,
    pub(super) mac: [u8; 6],
}

/// State of ARP and neighbour discovery, and the frames that wait for the link.
///
/// Each frame of a host reads the first two fields.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Neighbours {
    /// Time of the next announcement or request, or of the next work of LLDP.
    deadline: Picos,
    outbox: VecDeque<ControlFrame>,
    mac: [u8; 6],
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    vlan: Option<VlanTag>,
    announce_interval: Picos,
    next_announcement: Picos,
    has_announced: bool,
    unresolved: Vec<(IpAddr, Picos)>,
    lldp: Option<Box<LldpPort>>,
    /// Number of frames that were not sent. Either too many frames waited, or an echo request was too long.
    pub(super) dropped_frames: u64,
}

impl Neighbours {
    pub(super) fn new(config: &HostConfig) -> Neighbours {
        Neighbours {
            mac: config.mac,
            ipv4: config.ipv4,
            ipv6: config.ipv6,
            vlan: config.vlan,
            announce_interval: config.announce_interval,
            next_announcement: Picos::ZERO,
            has_announced: false,
            unresolved: Vec::new(),
            lldp: config.lldp.clone().map(start_lldp),
            deadline: Picos::ZERO,
            outbox: VecDeque::new(),
            dropped_frames: 0,
        }
    }

    /// Starts to resolve the address `ip`. The host repeats its request until a reply arrives.
    pub(super) fn resolve(&mut self, ip: IpAddr) {
        let is_pending = self.unresolved.iter().any(|(other, _)| *other == ip);
        if !is_pending && self.unresolved.len() < UNRESOLVED_MAX {
            self.unresolved.push((ip, Picos::ZERO));
            self.update_deadline();
        }
    }

    /// Restarts the announcements at `now`, as at the start of the host.
    pub(super) fn announce_again(&mut self, now: Picos) {
        self.next_announcement = now;
        self.has_announced = false;
        self.update_deadline();
    }

    /// Returns the addresses for which the host waits for a reply.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = IpAddr> {
        self.unresolved.iter().map(|(ip, _)| *ip)
    }

    /// Returns the LLDP agent.
    pub(super) fn lldp(&self) -> Option<&LldpPort> {
        self.lldp.as_deref()
    }

    /// Changes the settings of LLDP. `None` turns LLDP off.
    pub(super) fn set_lldp(&mut self, now: Picos, settings: Option<LldpPortSettings>) {
        match (&mut self.lldp, settings) {
            (Some(port), Some(settings)) => port.set_settings(now.as_nanos(), settings),
            (lldp, settings) => *lldp = settings.map(start_lldp),
        }
        self.serve_lldp(now);
        self.update_deadline();
    }

    /// Tells the LLDP agent that the link has come up or gone down.
    pub(super) fn set_lldp_link(&mut self, now: Picos, is_up: bool) {
        if let Some(port) = &mut self.lldp {
            port.set_link(now.as_nanos(), is_up);
            self.serve_lldp(now);
            self.update_deadline();
        }
    }

    /// Returns whether [`Neighbours::queue_due_frames`] must be called at `now`.
    #[inline]
    pub(super) fn is_due(&self, now: Picos) -> bool {
        self.deadline <= now
    }

    /// Appends the LLDP frames that are due at `now` to the outbox. The events of the agent are not reported.
    fn serve_lldp(&mut self, now: Picos) {
        let Some(mut port) = self.lldp.take() else {
            return;
        };
        port.advance(now.as_nanos());
        while let Some(frame) = port.poll_frame(now.as_nanos()) {
            self.queue_frame(now, frame);
        }
        while port.poll_event().is_some() {}
        self.lldp = Some(port);
    }

    /// Appends the frames that are due at `now` to the outbox.
    pub(super) fn queue_due_frames(&mut self, now: Picos) {
        self.serve_lldp(now);
        if now >= self.next_announcement {
            self.announce(now);
            self.next_announcement = match (self.has_announced, self.announce_interval) {
                (false, _) => now.saturating_add(RETRY_INTERVAL),
                (true, Picos::ZERO) => Picos::NEVER,
                (true, interval) => now.saturating_add(interval),
            };
            self.has_announced = true;
        }
        let mut due = Vec::new();
        for (ip, retry_at) in &mut self.unresolved {
            if *retry_at <= now {
                *retry_at = now.saturating_add(RETRY_INTERVAL);
                due.push(*ip);
            }
        }
        for ip in due {
            self.send_request(now, ip);
        }
        self.update_deadline();
    }

    /// Returns the time at which [`Neighbours::queue_due_frames`] must be called next. [`Picos::NEVER`] if nothing
    /// is due.
    #[inline]
    pub(super) fn next_deadline(&self) -> Picos {
        self.deadline
    }

    fn update_deadline(&mut self) {
        let retry_at = self.unresolved.iter().map(|(_, retry_at)| *retry_at).min();
        let lldp_ns = self
            .lldp
            .as_ref()
            .map_or(NEVER_NS, |port| port.next_deadline_ns());
        let lldp = match lldp_ns {
            NEVER_NS => Picos::NEVER,
            due_ns => Picos::from_nanos(due_ns),
        };
        let retry_at = retry_at.unwrap_or(Picos::NEVER);
        self.deadline = self.next_announcement.min(retry_at).min(lldp);
    }

    /// Returns the frame that has waited longest. Returns `None` if no frame waits.
    #[inline]
    pub(super) fn front(&self) -> Option<&ControlFrame> {
        self.outbox.front()
    }

    /// Removes and returns the frame that has waited longest.
    pub(super) fn pop(&mut self) -> Option<ControlFrame> {
        self.outbox.pop_front()
    }

    fn queue_frame(&mut self, now: Picos, bytes: Vec<u8>) {
        match self.outbox.len() < OUTBOX_MAX && bytes.len() <= REPLY_LEN_MAX {
            true => self.outbox.push_back(ControlFrame { created: now, bytes }),
            false => self.dropped_frames += 1,
        }
    }

    /// Processes a received frame that is not RoCE. Queues a reply if the frame is a request for this host.
    /// Returns the address that the frame resolved. Returns `None` if the host did not wait for this address.
    pub(super) fn receive(
        &mut self,
        now: Picos,
        frame: &[u8],
        parsed: &ParsedHeaders,
    ) -> Option<ResolvedAddress> {
        if frame.get(12..14) == Some(&lldp::ETHERTYPE.to_be_bytes()) {
            if let Some(port) = &mut self.lldp {
                port.receive(now.as_nanos(), frame);
                self.serve_lldp(now);
                self.update_deadline();
            }
            return None;
        }
        let l3_offset = usize::from(parsed.l3_offset);
        if let Some(message) = NeighbourMessage::parse(frame, l3_offset) {
            return self.receive_neighbour_message(now, frame, &message);
        }
        if matches!(parsed.payload, Payload::Ipv4 | Payload::Ipv6)
            && let Some(request) = EchoRequest::parse(frame, l3_offset)
            && self.has_address(request.destination())
        {
            let mut reply = frame.to_vec();
            request.turn_into_reply(self.mac, &mut reply);
            self.queue_frame(now, reply);
        }
        None
    }

    /// Handles an ARP or ND message. If the message requests an address of the host, the host answers.
    /// Otherwise, returns the address that the message resolves. Messages that RFC 4861 declares invalid are
    /// also accepted.
    fn receive_neighbour_message(
        &mut self,
        now: Picos,
        frame: &[u8],
        message: &NeighbourMessage,
    ) -> Option<ResolvedAddress> {
        // For IPv6, the MAC address is the source address of the frame. The link-layer address option
        // is ignored.
        let sender_mac = match message.sender {
            IpAddr::V4(_) => message.link_address?,
            IpAddr::V6(_) => *frame.get(6..12)?.first_chunk()?,
        };
        if message.is_request && self.has_address(message.target) {
            self.queue_neighbour_frame(now, message.reply(sender_mac, false));
        }
        // A solicitation does not resolve its sender.
        match message.is_request && message.sender.is_ipv6() {
            true => None,
            false => self.resolve_address(message.sender, sender_mac),
        }
    }

    fn has_address(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => self.ipv4 == Some(ip),
            IpAddr::V6(ip) => self.ipv6 == Some(ip),
        }
    }

    fn resolve_address(&mut self, ip: IpAddr, mac: [u8; 6]) -> Option<ResolvedAddress> {
        let at = self.unresolved.iter().position(|(other, _)| *other == ip)?;
        let unicast = mac[0] & 1 == 0 && mac != [0; 6];
        unicast.then(|| {
            self.unresolved.swap_remove(at);
            self.update_deadline();
            ResolvedAddress { ip, mac }
        })
    }

    fn announce(&mut self, now: Picos) {
        let (ipv4, ipv6) = (self.ipv4.map(IpAddr::V4), self.ipv6.map(IpAddr::V6));
        for address in ipv4.into_iter().chain(ipv6) {
            self.queue_neighbour_frame(now, NeighbourFrame::announcement(address));
        }
    }

    fn send_request(&mut self, now: Picos, target: IpAddr) {
        let source = match target {
            IpAddr::V4(_) => IpAddr::V4(self.ipv4.unwrap_or(Ipv4Addr::UNSPECIFIED)),
            IpAddr::V6(_) => IpAddr::V6(self.ipv6.unwrap_or(Ipv6Addr::UNSPECIFIED)),
        };
        self.queue_neighbour_frame(now, NeighbourFrame::request(source, target, None));
    }

    fn queue_neighbour_frame(&mut self, now: Picos, frame: Option<NeighbourFrame>) {
        if let Some(frame) = frame {
            let mut bytes = vec![0; frame.frame_len(self.vlan)];
            frame.emit(self.mac, self.vlan, &mut bytes);
            self.queue_frame(now, bytes);
        }
    }
}

/// Returns an LLDP agent whose link is up.
fn start_lldp(settings: LldpPortSettings) -> Box<LldpPort> {
    let mut port = Box::new(LldpPort::new(settings));
    port.set_link(0, true);
    port
}
