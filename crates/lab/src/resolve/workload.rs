//! Resolves the workload of a lab file. If an open-loop flow has several senders, the plan contains one flow
//! for each sender.

use std::collections::HashSet;

use serde_saphyr::{Location, Spanned};

use super::super::plan::{FarEnd, FlowPlan, IpVersion, LinkPlan, OfferedRate, TransportPlan, WorkloadPlan};
use super::super::units;
use super::{LabResolver, NodeIndex};
use xoff_lab_file::{FlowFields, OneOrMore, WorkloadFields};
use xoff_telemetry::verdict::{Expectation, ExpectationError};
use xoff_workload::WorkloadSpec;

/// Default time in nanoseconds for the queues to empty after the senders have stopped.
const DRAIN_NS_DEFAULT: u64 = 500_000_000;
/// Bytes that Ethernet, IPv4, UDP, BTH and ICRC add to a payload.
pub(crate) const HEADER_BYTES_IPV4: u32 = 14 + 20 + 8 + 12 + 4;
/// Bytes that Ethernet, IPv6, UDP, BTH and ICRC add to a payload.
const HEADER_BYTES_IPV6: u32 = HEADER_BYTES_IPV4 + 20;
/// Default payload of a frame in bytes. The value is an RDMA MTU of 1024 bytes.
const PAYLOAD_DEFAULT: u32 = 1024;
/// Smallest payload in bytes. The payload starts with fields of this length, which the receiver checks.
const PAYLOAD_MIN: u32 = 40;
/// Largest payload in bytes. The payload fits into a jumbo frame.
const PAYLOAD_MAX: u32 = 8192;
/// Default TTL or hop limit of frames, as RFC 1700 recommends.
const TTL_DEFAULT: u8 = 64;
/// Default message size in bytes.
const MESSAGE_BYTES_DEFAULT: u32 = 1 << 20;
/// Largest message size in bytes.
const MESSAGE_BYTES_MAX: u32 = 1 << 31;

impl LabResolver<'_> {
    /// Resolves the workload. A lab file without a workload has an empty one.
    pub(super) fn resolve_workload(
        &mut self,
        workload: Option<&WorkloadFields>,
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
        let duration_ns = self.workload_duration_ns(workload);
        let drain_ns = self.parse_quantity(
            workload.drain.as_ref(),
            DRAIN_NS_DEFAULT,
            units::parse_duration_ns,
            units::DURATION,
        );
        let host_links = HostLinks::new(self.hosts.len(), links);
        let mut flows = Vec::new();
        let mut names = HashSet::new();
        for flow in &workload.flows {
            if !names.insert(&flow.value.name.value) {
                let what = format!("there are two flows called \"{}\"", flow.value.name.value);
                self.report_problem(
                    flow.value.name.referenced,
                    what,
                    "the report identifies flows by name: use another name",
                );
            }
            self.check_name(&flow.value.name, "flow");
            self.check_flow_start(&flow.value, workload);
            let flows_before = flows.len();
            self.add_flows(&flow.value, &host_links, &mut flows);
            if flows.len() == flows_before {
                self.rejected_traffic.insert(flow.value.name.value.clone());
            }
        }
        WorkloadPlan {
            duration_ns,
            drain_ns,
            flows,
            jobs: self.resolve_jobs(&workload.jobs, links, transports),
        }
    }

    /// Returns the duration of the workload in nanoseconds. Returns 0 if the workload consists of jobs only.
    ///
    /// Open-loop flows end after the duration. Jobs end by themselves.
    fn workload_duration_ns(&mut self, workload: &WorkloadFields) -> u64 {
        let Some(duration) = &workload.duration else {
            // Only an error of these fields themselves can be the reason for which `duration` is missing.
            let lost =
                |field: &str| self.left_out.fields.contains(field) || self.left_out.lists.contains(field);
            let has_flows = !workload.flows.is_empty() || lost("flows");
            let has_jobs = !workload.jobs.is_empty() || lost("jobs");
            if !lost("duration") && (has_flows || !has_jobs) {
                let location = workload
                    .flows
                    .first()
                    .map_or(Location::UNKNOWN, |flow| flow.referenced);
                let fix = format!("add `duration` to the workload: {}", units::DURATION);
                self.report_problem(
                    location,
                    "the workload has no `duration`, and flows do not end by themselves",
                    fix,
                );
            }
            return 0;
        };
        let duration_ns = self.parse_quantity(Some(duration), 1, units::parse_duration_ns, units::DURATION);
        if duration_ns == 0 {
            let fix = "write a duration above 0, such as 10ms";
            self.report_problem(duration.referenced, "the duration of the workload is 0", fix);
        }
        duration_ns
    }

    /// Returns the IP version of a flow or of a `send` step, 4 or 6. The default is 4.
    pub(super) fn parse_ip_version(&mut self, ip: Option<&Spanned<u8>>) -> IpVersion {
        match self.number_in_range(ip, 4, 4..=6, "") {
            6 => IpVersion::V6,
            4 => IpVersion::V4,
            _ => {
                let location = ip.map_or(Location::UNKNOWN, |ip| ip.referenced);
                self.report_problem(location, "there is no IP version 5", "write 4 or 6");
                IpVersion::V4
            }
        }
    }

    /// Reports a flow that starts at the end of the workload or later, and would therefore send nothing.
    fn check_flow_start(&mut self, flow: &FlowFields, workload: &WorkloadFields) {
        let (Some(start), Some(duration)) = (&flow.start, &workload.duration) else {
            return;
        };
        let parse = |text: &Spanned<String>| units::parse_duration_ns(&text.value);
        let (Some(start_ns), Some(duration_ns)) = (parse(start), parse(duration)) else {
            return;
        };
        if start_ns >= duration_ns && duration_ns > 0 {
            let what = format!(
                "{} starts after {}, and flows end after {}",
                flow.name.value,
                start.value.trim(),
                duration.value.trim()
            );
            let fix = "write a shorter `start`, or a longer `duration` of the workload";
            self.report_problem(start.referenced, what, fix);
        }
    }

    /// Adds a flow plan for each sender of a flow.
    fn add_flows(&mut self, flow: &FlowFields, links: &HostLinks<'_>, flows: &mut Vec<FlowPlan>) {
        let lossless = flow.lossless.unwrap_or(false);
        let dscp = self.number_in_range(flow.dscp.as_ref(), if lossless { 26 } else { 0 }, 0..=63, "");
        let ip = self.parse_ip_version(flow.ip.as_ref());
        if let (IpVersion::V6, Some(_), Some(ip)) = (ip, &self.component_of_host, &flow.ip) {
            let fix = "write ip: 4, or `routes: none` and routes of your own";
            self.report_problem(ip.referenced, "`routes: auto` routes no IPv6", fix);
        }
        let to = self.find_model_host(&flow.to.value, flow.to.referenced);
        let frame_len = self.parse_frame_len(flow.frame.as_ref(), ip);
        let template = FlowPlan {
            name: flow.name.value.clone(),
            from: 0,
            to: to.unwrap_or(0),
            rate: self.parse_quantity(
                flow.rate.as_ref(),
                OfferedRate::LinkShare(1_000_000),
                units::parse_rate,
                units::RATE,
            ),
            dscp,
            ecn_capable: flow.ecn.unwrap_or(lossless),
            // The upper three bits of the DSCP. NICs that trust DSCP and have no map do the same.
            class: self.number_in_range(flow.class.as_ref(), dscp >> 3, 0..=7, ""),
            lossless,
            frame_len,
            message_bytes: self.parse_message_bytes(flow.message_bytes.as_ref(), frame_len, ip),
            ip,
            ttl: self.number_in_range(flow.ttl.as_ref(), TTL_DEFAULT, 1..=255, ""),
            start_ns: self.parse_quantity(flow.start.as_ref(), 0, units::parse_duration_ns, units::DURATION),
            expect: self.parse_expectations(flow.expect.as_ref()),
        };
        let mut senders = HashSet::new();
        for sender in &flow.from.value.0 {
            // This holds for hosts with errors too, so the names are compared.
            let sends_to_itself = sender.value == flow.to.value;
            let location = if sender.referenced == Location::UNKNOWN {
                flow.from.referenced
            } else {
                sender.referenced
            };
            if sends_to_itself {
                self.report_problem(
                    location,
                    format!("{} sends to itself", sender.value),
                    "choose another receiver",
                );
            }
            let Some(from) = self.find_model_host(&sender.value, location) else {
                continue;
            };
            if !senders.insert(from) {
                self.report_problem(
                    location,
                    format!("{} is named twice", sender.value),
                    "name each sender once; raise the rate instead",
                );
            }
            self.check_reachable(from, to, location);
            for host in [Some(from), to].into_iter().flatten() {
                self.check_frame_size(
                    frame_len,
                    host,
                    links,
                    flow.frame.as_ref().map_or(location, |frame| frame.referenced),
                );
            }
            flows.push(FlowPlan {
                from,
                ..template.clone()
            });
        }
        if flow.from.value.0.is_empty() && !self.left_out.has_list_elements {
            self.report_problem(
                flow.from.referenced,
                "the flow has no sender",
                "write from: [h1, h2]",
            );
        }
    }

    /// Returns the expectations of a flow. Reports an error for each text that is no expectation.
    fn parse_expectations(&mut self, expect: Option<&Spanned<OneOrMore>>) -> Vec<Expectation> {
        let Some(expect) = expect else {
            return Vec::new();
        };
        let mut parsed = Vec::new();
        for text in &expect.value.0 {
            match text.value.parse() {
                Ok(expectation) => parsed.push(expectation),
                Err(_) => {
                    let location = match text.referenced == Location::UNKNOWN {
                        true => expect.referenced,
                        false => text.referenced,
                    };
                    let what = format!("\"{}\" is not an expectation", text.value);
                    self.report_problem(location, what, ExpectationError::FORM);
                }
            }
        }
        parsed
    }

    /// Returns the index of the model host with the given name. Reports an error if the name is unknown or
    /// belongs to another kind of node.
    pub(super) fn find_model_host(&mut self, name: &str, location: Location) -> Option<usize> {
        self.find_host_or_word(name, &[], location)
    }

    /// Returns the index of the model host with the given name like [`Self::find_model_host`]. `words` are other
    /// words that the field can contain. They are proposed for a misspelt name too.
    pub(super) fn find_host_or_word(
        &mut self,
        name: &str,
        words: &[&str],
        location: Location,
    ) -> Option<usize> {
        let host = match self.nodes.get(name) {
            Some(&NodeIndex::Host(host)) => Some(host),
            _ => None,
        };
        let is_model = host.is_some_and(|host| self.is_model.get(host) == Some(&true));
        let is_consequence = self.left_out.keys.contains(name) || self.is_topology_unknown && host.is_none();
        if !is_model && !is_consequence {
            let what = match host {
                None => format!("no host is called \"{name}\""),
                Some(_) => {
                    format!("\"{name}\" is not a model host: its own programs send and receive its traffic")
                }
            };
            let fix = match self.models.as_slice() {
                [] => "add nodes of kind model".to_owned(),
                // A host of another kind is not misspelt.
                models if host.is_some() => format!(
                    "the model hosts are {}",
                    self.list_names(models.iter().map(String::as_str))
                ),
                models => {
                    let models = models.iter().map(String::as_str);
                    let word = xoff_units::nearest_name(name, words.iter().copied());
                    match word.filter(|_| !self.problems.is_next_hidden()) {
                        Some(word) => format!(
                            "did you mean `{word}`? (the model hosts are {})",
                            self.list_names(models)
                        ),
                        None => self.suggest(name, models, "model hosts"),
                    }
                }
            };
            self.report_problem(location, what, fix);
        }
        host.filter(|_| is_model)
    }

    /// Reports an error if no path of links exists between two hosts. Only labs with computed
    /// routes are checked.
    pub(super) fn check_reachable(&mut self, from: usize, to: Option<usize>, location: Location) {
        let (Some(component_of_host), Some(to)) = (&self.component_of_host, to) else {
            return;
        };
        if component_of_host[from] != component_of_host[to] {
            let what = format!(
                "no path of links leads from {} to {}",
                self.hosts[from], self.hosts[to]
            );
            self.report_problem(location, what, "add a link between their parts of the topology");
        }
    }

    /// Returns the frame length in bytes, without FCS. Reports an error if the payload is not a multiple
    /// of 4 bytes.
    pub(super) fn parse_frame_len(&mut self, frame: Option<&Spanned<u32>>, ip: IpVersion) -> u32 {
        let header_bytes = header_bytes(ip);
        let frame_len = self.number_in_range(
            frame,
            header_bytes + PAYLOAD_DEFAULT,
            header_bytes + PAYLOAD_MIN..=header_bytes + PAYLOAD_MAX,
            "bytes",
        );
        if let Some(frame) = frame.filter(|_| !(frame_len - header_bytes).is_multiple_of(4)) {
            let what = format!(
                "a frame of {frame_len} bytes would carry {} bytes",
                frame_len - header_bytes
            );
            let fix = format!(
                "RDMA payloads consist of 4-byte words: write {header_bytes} plus a multiple of 4, such as {}",
                header_bytes + PAYLOAD_DEFAULT
            );
            self.report_problem(frame.referenced, what, fix);
        }
        frame_len
    }

    /// Returns the message size in bytes. Reports an error if the last frame of a message would have a
    /// payload below [`PAYLOAD_MIN`].
    fn parse_message_bytes(&mut self, message: Option<&Spanned<u32>>, frame_len: u32, ip: IpVersion) -> u32 {
        let payload = frame_len - header_bytes(ip);
        let bytes = self.number_in_range(
            message,
            MESSAGE_BYTES_DEFAULT,
            PAYLOAD_MIN..=MESSAGE_BYTES_MAX,
            "bytes",
        );
        let tail = bytes % payload;
        if tail == 0 || tail >= PAYLOAD_MIN {
            return bytes;
        }
        if let Some(message) = message {
            let what = format!("the last frame of a message of {bytes} bytes would carry {tail}");
            self.report_problem(message.referenced, what, format!("write a multiple of {payload}"));
        }
        // The default is rounded down to whole frames.
        bytes - tail
    }

    /// Reports an error if a frame is larger than the MTU of the link of a host.
    pub(super) fn check_frame_size(
        &mut self,
        frame_len: u32,
        host: usize,
        links: &HostLinks<'_>,
        location: Location,
    ) {
        let Some(link) = links.link_of_host(host) else {
            return;
        };
        if frame_len - 14 > link.mtu {
            let what = format!(
                "a frame of {frame_len} bytes does not fit through the link of {} with its MTU of {}",
                self.hosts[host], link.mtu
            );
            self.report_problem(
                location,
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

/// The link of each host.
pub(super) struct HostLinks<'a>(Vec<Option<&'a LinkPlan>>);

impl<'a> HostLinks<'a> {
    pub(super) fn new(host_count: usize, links: &'a [LinkPlan]) -> HostLinks<'a> {
        let mut links_of_hosts = vec![None; host_count];
        for link in links {
            if let FarEnd::Host(host) = link.far {
                links_of_hosts[host].get_or_insert(link);
            }
        }
        HostLinks(links_of_hosts)
    }

    /// Returns the link of a host. Returns `None` if the host has no link.
    pub(super) fn link_of_host(&self, host: usize) -> Option<&'a LinkPlan> {
        *self.0.get(host)?
    }
}

/// Returns the bytes that the headers and the ICRC add to a payload.
pub(super) fn header_bytes(ip: IpVersion) -> u32 {
    match ip {
        IpVersion::V4 => HEADER_BYTES_IPV4,
        IpVersion::V6 => HEADER_BYTES_IPV6,
    }
}
