//! Rules for the addresses of interfaces, neighbours and next hops.

use std::net::IpAddr;

use ipnet::IpNet;

/// Returns the reason why an address can belong to no host in any network. Returns `None` if the address can
/// belong to a host.
pub(super) fn explain_invalid_host_address(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [0, ..] => Some("addresses that begin with 0 do not belong to a host"),
            [127, ..] => Some("it is a loopback address, which never leaves a host"),
            [224..=239, ..] => Some("it is a multicast address"),
            [240..=255, ..] => Some("it is reserved (class E)"),
            _ => None,
        },
        IpAddr::V6(address) if address.is_unspecified() => Some("it is the unspecified address"),
        IpAddr::V6(address) if address.is_loopback() => {
            Some("it is the loopback address, which never leaves a host")
        }
        IpAddr::V6(address) if address.is_multicast() => Some("it is a multicast address"),
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            Some("it is an IPv4-mapped IPv6 address, which is not used on links")
        }
        IpAddr::V6(_) => None,
    }
}

/// Returns the reason why an address cannot belong to a host in `network`. Returns `None` if the address can
/// belong to such a host.
///
/// The first address of an IPv4 network is the network address, and the last address is the broadcast
/// address. Networks with the prefix lengths 31 (RFC 3021) and 32 have no such addresses.
pub(super) fn explain_invalid_host_of_network(address: IpAddr, network: IpNet) -> Option<String> {
    let (IpNet::V4(network), IpAddr::V4(address)) = (network, address) else {
        return None;
    };
    if network.prefix_len() > 30 {
        return None;
    }
    if address == network.network() {
        Some(format!("it is the network address of {}", network.trunc()))
    } else if address == network.broadcast() {
        Some(format!("it is the broadcast address of {}", network.trunc()))
    } else {
        None
    }
}

/// Returns the reason why packets to a prefix are never routed. Returns `None` if packets to the prefix can
/// be routed.
pub(super) fn explain_unroutable_prefix(prefix: IpNet) -> Option<&'static str> {
    let within = |network: &str| {
        network
            .parse::<IpNet>()
            .is_ok_and(|network| network.contains(&prefix))
    };
    if within("224.0.0.0/4") || within("ff00::/8") {
        Some("multicast is not routed")
    } else if within("127.0.0.0/8") || within("::1/128") {
        Some("loopback addresses never leave a host")
    } else if within("fe80::/10") {
        Some("link-local addresses never leave their link")
    } else if within("::ffff:0:0/96") {
        Some("IPv4-mapped IPv6 addresses are not used on links")
    } else {
        None
    }
}

/// Returns whether the address is an IPv6 link-local address.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Derives the IPv6 link-local address from a MAC address (RFC 4291, appendix A), with prefix length 64.
pub(super) fn link_local_network(mac: [u8; 6]) -> IpNet {
    let [a, b, c, d, e, f] = mac;
    let address = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    IpNet::new_assert(IpAddr::from(address), 64)
}

/// Returns `IPv4` or `IPv6`.
pub(super) fn address_family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    fn net(text: &str) -> IpNet {
        text.parse().expect(text)
    }

    #[test]
    fn addresses_that_cannot_belong_to_a_host_are_found() {
        for host in [
            "10.0.0.1",
            "1.0.0.0",
            "169.254.1.1",
            "223.255.255.255",
            "fe80::1",
            "2001:db8::",
        ] {
            assert_eq!(explain_invalid_host_address(ip(host)), None, "{host}");
        }
        let no_host = [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "224.0.0.5",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "ff02::1",
            "::ffff:10.0.0.1",
        ];
        for address in no_host {
            assert!(explain_invalid_host_address(ip(address)).is_some(), "{address}");
        }
    }

    #[test]
    fn network_and_broadcast_addresses_are_not_hosts() {
        let cases = [
            ("10.0.0.0", "10.0.0.0/24", true),
            ("10.0.0.255", "10.0.0.0/24", true),
            ("10.0.0.1", "10.0.0.0/24", false),
            ("10.0.0.3", "10.0.0.1/30", true),
            ("10.0.0.0", "10.0.0.0/31", false),
            ("10.0.0.1", "10.0.0.0/31", false),
            ("10.0.0.1", "10.0.0.1/32", false),
            ("2001:db8::", "2001:db8::/64", false),
            ("2001:db8::", "2001:db8::/127", false),
        ];
        for (address, network, refused) in cases {
            assert_eq!(
                explain_invalid_host_of_network(ip(address), net(network)).is_some(),
                refused,
                "{address} of {network}"
            );
        }
    }

    #[test]
    fn link_local_addresses_invert_the_universal_bit() {
        assert_eq!(
            link_local_network([0x02, 0, 0, 0, 0x10, 0x01]),
            net("fe80::ff:fe00:1001/64")
        );
        assert_eq!(
            link_local_network([0x00, 0x1b, 0x21, 0x01, 0x02, 0x03]),
            net("fe80::21b:21ff:fe01:203/64")
        );
    }
}
