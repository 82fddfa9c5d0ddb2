//! The workload of a lab file: one flow per sender.

use std::collections::HashSet;

use serde_saphyr::{Location, Spanned};

use super::super::file::{Flow, Workload};
use super::super::plan::{FarEnd, FlowPlan, IpVersion, LinkPlan, RatePlan, TransportPlan, WorkloadPlan};
use super::super::units;
use super::{NodeIndex, Resolver, listed};
use xoff_workload::WorkloadSpec;

/// Time for the switch to empty itself after the senders have stopped.
const DRAIN_NS: u64 = 500_000_000;
/// What a frame carries around its payload: Ethernet, IPv4, UDP, BTH, ICRC.
const HEADERS_IPV4: u32 = 14 + 20 + 8 + 12 + 4;
/// The same with IPv6.
const HEADERS_IPV6: u32 = HEADERS_IPV4 + 20;
/// Payload of a frame unless the file says otherwise: the RDMA MTU of 1024 bytes.
const PAYLOAD_DEFAULT: u32 = 1024;
/// Room for the receiver's checks in every payload.
const PAYLOAD_MIN: u32 = 40;
/// What a jumbo frame holds.
const PAYLOAD_MAX: u32 = 8192;
/// Hop limit of frames (RFC 1700's recommendation).
const TTL_DEFAULT: u8 = 64;
const MESSAGE_DEFAULT: u32 = 1 << 20;
const MESSAGE_MAX: u32 = 1 << 31;

impl Resolver<'_> {
    pub(super) fn workload(
        &mut self,
        workload: Option<&Workload>,
        links: &[LinkPlan],
        transports: &[TransportPlan],
    ) -> WorkloadPlan {
        let Some(workload) = workload else {
            return WorkloadPlan {
                duration_ns: 0,
                drain_ns: 0,
                flows: Vec::new(),
                jobs: WorkloadSpec::default(),
            };
        };
        let duration_ns = self.duration(workload);
        let drain_ns = self.quantity(
            workload.drain.as_ref(),
            DRAIN_NS,
            units::duration_ns,
            units::DURATION,
        );
        let mut flows = Vec::new();
        let mut names = HashSet::new();
        for flow in &workload.flows {
            if !names.insert(&flow.value.name.value) {
                let what = format!("there are two flows called \"{}\"", flow.value.name.value);
                self.wrong(
                    flow.value.name.referenced,
                    what,
                    "the report tells flows apart by name: use another one",
                );
            }
            self.name(&flow.value.name, "flow");
            self.flow(&flow.value, links, &mut flows);
        }
        WorkloadPlan {
            duration_ns,
            drain_ns,
            flows,
            jobs: self.jobs(&workload.jobs, links, transports),
        }
    }

    /// Flows end after a time; jobs end by themselves.
    fn duration(&mut self, workload: &Workload) -> u64 {
        let Some(duration) = &workload.duration else {
            if workload.jobs.is_empty() || !workload.flows.is_empty() {
                let at = workload
                    .flows
                    .first()
                    .map_or(Location::UNKNOWN, |flow| flow.referenced);
                let fix = format!("add `duration` to the workload: {}", units::DURATION);
                self.wrong(
                    at,
                    "the workload has no `duration`, and flows do not end by themselves",
                    fix,
                );
            }
            return 0;
        };
        let duration_ns = self.quantity(Some(duration), 1, units::duration_ns, units::DURATION);
        if duration_ns == 0 {
            let fix = format!("write {}", units::DURATION);
            self.wrong(duration.referenced, "the workload lasts no time", fix);
        }
        duration_ns
    }

    fn flow(&mut self, flow: &Flow, links: &[LinkPlan], flows: &mut Vec<FlowPlan>) {
        let lossless = flow.lossless.unwrap_or(false);
        let dscp = self.number(flow.dscp.as_ref(), if lossless { 26 } else { 0 }, 0..=63);
        let ip = match self.number(flow.ip.as_ref(), 4, 4..=6) {
            6 => IpVersion::V6,
            4 => IpVersion::V4,
            _ => {
                let at = flow.ip.as_ref().map_or(Location::UNKNOWN, |ip| ip.referenced);
                self.wrong(at, "there is no IP version 5 here", "write 4 or 6");
                IpVersion::V4
            }
        };
        if let (IpVersion::V6, Some(_), Some(ip)) = (ip, &self.island, &flow.ip) {
            let fix = "write ip: 4, or `routes: none` and routes of your own";
            self.wrong(ip.referenced, "`routes: auto` routes no IPv6", fix);
        }
        let to = self.flow_end(&flow.to.value, flow.to.referenced);
        let frame_len = self.frame_len(flow.frame.as_ref(), ip);
        let template = FlowPlan {
            name: flow.name.value.clone(),
            from: 0,
            to: to.unwrap_or(0),
            rate: self.quantity(
                flow.rate.as_ref(),
                RatePlan::LinkShare(1_000_000),
                units::rate,
                units::RATE,
            ),
            dscp,
            ecn_capable: flow.ecn.unwrap_or(lossless),
            // What NICs do that trust DSCP and have no map of their own: its upper three bits.
            class: self.number(flow.class.as_ref(), dscp >> 3, 0..=7),
            lossless,
            frame_len,
            message_bytes: self.message_bytes(flow.message_bytes.as_ref(), frame_len, ip),
            ip,
            ttl: self.number(flow.ttl.as_ref(), TTL_DEFAULT, 1..=255),
            start_ns: self.quantity(flow.start.as_ref(), 0, units::duration_ns, units::DURATION),
        };
        let mut senders = HashSet::new();
        for sender in &flow.from.value.0 {
            let at = if sender.referenced == Location::UNKNOWN {
                flow.from.referenced
            } else {
                sender.referenced
            };
            let Some(from) = self.flow_end(&sender.value, at) else {
                continue;
            };
            if !senders.insert(from) {
                self.wrong(
                    at,
                    format!("{} is named twice", sender.value),
                    "name each sender once; raise the rate instead",
                );
            }
            if Some(from) == to {
                self.wrong(
                    at,
                    format!("{} sends to itself", sender.value),
                    "choose another receiver",
                );
            }
            self.reachable(from, to, at);
            for host in [Some(from), to].into_iter().flatten() {
                self.fits(
                    frame_len,
                    host,
                    links,
                    flow.frame.as_ref().map_or(at, |frame| frame.referenced),
                );
            }
            flows.push(FlowPlan {
                from,
                ..template.clone()
            });
        }
        if flow.from.value.0.is_empty() {
            self.wrong(
                flow.from.referenced,
                "the flow has no sender",
                "write from: [h1, h2]",
            );
        }
    }

    pub(super) fn flow_end(&mut self, name: &str, at: Location) -> Option<usize> {
        let host = match self.nodes.get(name) {
            Some(&NodeIndex::Host(host)) => Some(host),
            _ => None,
        };
        let is_model = host.is_some() && self.models.iter().any(|model| model == name);
        if !is_model {
            let what = match host {
                None => format!("no host is called \"{name}\""),
                Some(_) => {
                    format!("\"{name}\" is no model host: it sends and receives what its own programs do")
                }
            };
            let fix = match self.models.as_slice() {
                [] => "add nodes of kind model".to_owned(),
                models => format!("the model hosts are {}", listed(models)),
            };
            self.wrong(at, what, fix);
        }
        host.filter(|_| is_model)
    }

    /// Where routes are made, a path of links has to join the two hosts.
    pub(super) fn reachable(&mut self, from: usize, to: Option<usize>, at: Location) {
        let (Some(island), Some(to)) = (&self.island, to) else {
            return;
        };
        if island[from] != island[to] {
            let what = format!(
                "no path of links leads from {} to {}",
                self.hosts[from], self.hosts[to]
            );
            self.wrong(at, what, "add a link that joins their parts of the topology");
        }
    }

    pub(super) fn frame_len(&mut self, frame: Option<&Spanned<u32>>, ip: IpVersion) -> u32 {
        let headers = headers(ip);
        let frame_len = self.number(
            frame,
            headers + PAYLOAD_DEFAULT,
            headers + PAYLOAD_MIN..=headers + PAYLOAD_MAX,
        );
        if let Some(frame) = frame.filter(|_| !(frame_len - headers).is_multiple_of(4)) {
            let what = format!(
                "a frame of {frame_len} bytes would carry {} bytes",
                frame_len - headers
            );
            let fix = format!(
                "RDMA counts in words of four: write {headers} plus a multiple of 4, such as {}",
                headers + PAYLOAD_DEFAULT
            );
            self.wrong(frame.referenced, what, fix);
        }
        frame_len
    }

    fn message_bytes(&mut self, message: Option<&Spanned<u32>>, frame_len: u32, ip: IpVersion) -> u32 {
        let payload = frame_len - headers(ip);
        let bytes = self.number(message, MESSAGE_DEFAULT, PAYLOAD_MIN..=MESSAGE_MAX);
        let tail = bytes % payload;
        if tail == 0 || tail >= PAYLOAD_MIN {
            return bytes;
        }
        if let Some(message) = message {
            let what = format!("the last frame of a message of {bytes} bytes would carry {tail}");
            self.wrong(message.referenced, what, format!("write a multiple of {payload}"));
        }
        // The default need not be 1 MiB to the byte.
        bytes - tail
    }

    pub(super) fn fits(&mut self, frame_len: u32, host: usize, links: &[LinkPlan], at: Location) {
        let Some(link) = links.iter().find(|link| link.far == FarEnd::Host(host)) else {
            return;
        };
        if frame_len - 14 > link.mtu {
            let what = format!(
                "a frame of {frame_len} bytes does not fit through the link of {} with its MTU of {}",
                self.hosts[host], link.mtu
            );
            self.wrong(
                at,
                what,
                format!(
                    "make the frame smaller, or the MTU at least {} ({})",
                    frame_len - 14,
                    link.source
                ),
            );
        }
    }
}

pub(super) fn headers(ip: IpVersion) -> u32 {
    match ip {
        IpVersion::V4 => HEADERS_IPV4,
        IpVersion::V6 => HEADERS_IPV6,
    }
}
