//! ACL rules: match the header of a packet, and find packets that are exempt from trimming or load balancing.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::{AclRule, AclTable};
use xoff_wire::parse::Payload;
use xoff_wire::{IPV4_LEN, IPV6_LEN, PROTOCOL_TCP, PROTOCOL_UDP};

/// The header fields that ACL rules match.
struct AclFields {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    dscp: u8,
    /// Source and destination port of a UDP or TCP packet. `None` if the packet is neither UDP nor TCP, or if
    /// it is an IPv4 fragment.
    ports: Option<(u16, u16)>,
}

/// Returns true if a rule of these tables exempts a packet that arrived on `port`. In each table, only the
/// first matching rule applies. `l3` is the stored part of the packet, starting at the IP header.
pub(super) fn is_exempt_packet(tables: &[AclTable], port: u16, l3: &[u8], payload: Payload) -> bool {
    let decides = |table: &AclTable| {
        let hit = |rule: &&AclRule| rule_matches(rule, l3, payload);
        table.ports.contains(&port) && table.rules.iter().find(hit).is_some_and(|rule| rule.exempts)
    };
    tables.iter().any(decides)
}

/// Returns true if `rule` matches an IP packet. `l3` starts at the IP header. Packets that are not IP match
/// no rule.
fn rule_matches(rule: &AclRule, l3: &[u8], payload: Payload) -> bool {
    let Some(packet) = parse_acl_fields(l3, payload) else {
        return false;
    };
    let within = |(first, last): (u16, u16), port: u16| (first..=last).contains(&port);
    let ports_match = match (rule.source_ports, rule.destination_ports) {
        (None, None) => true,
        (source, destination) => packet.ports.is_some_and(|(from, to)| {
            source.is_none_or(|range| within(range, from))
                && destination.is_none_or(|range| within(range, to))
        }),
    };
    ports_match
        && rule.source.is_none_or(|net| net.contains(&packet.source))
        && rule
            .destination
            .is_none_or(|net| net.contains(&packet.destination))
        && rule.protocol.is_none_or(|protocol| protocol == packet.protocol)
        && rule.dscp.is_none_or(|dscp| dscp == packet.dscp)
}

fn parse_acl_fields(l3: &[u8], payload: Payload) -> Option<AclFields> {
    match payload {
        Payload::Ipv4 => {
            let header = l3.first_chunk::<IPV4_LEN>()?;
            let address = |offset: usize| {
                let octets = header[offset..].first_chunk::<4>().copied();
                octets.map(|octets| IpAddr::V4(Ipv4Addr::from(octets)))
            };
            let is_unfragmented = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
            let header_len = usize::from(header[0] & 15) * 4;
            Some(AclFields {
                source: address(12)?,
                destination: address(16)?,
                protocol: header[9],
                dscp: header[1] >> 2,
                ports: parse_ports(l3, header_len, header[9]).filter(|_| is_unfragmented),
            })
        }
        Payload::Ipv6 => {
            let header = l3.first_chunk::<IPV6_LEN>()?;
            let address = |offset: usize| {
                let octets = header[offset..].first_chunk::<16>().copied();
                octets.map(|octets| IpAddr::V6(Ipv6Addr::from(octets)))
            };
            Some(AclFields {
                source: address(8)?,
                destination: address(24)?,
                protocol: header[6],
                dscp: (header[0] << 4 | header[1] >> 4) >> 2,
                ports: parse_ports(l3, IPV6_LEN, header[6]),
            })
        }
        _ => None,
    }
}

fn parse_ports(l3: &[u8], offset: usize, protocol: u8) -> Option<(u16, u16)> {
    if protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP {
        return None;
    }
    let &[a, b, c, d] = l3.get(offset..)?.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}
