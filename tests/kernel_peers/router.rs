//! Tests of the router's own packets: replies to pings, refusals and ICMP errors, and of hosts whose kernels
//! leave checksums to hardware.

use std::net::IpAddr;

use libtest_mimic::{Completion, Failed};
use serde_json::json;
use xoff_ports::net::ethtool::{self, Offloads};

use crate::host::{DEVICE, Host, HostAddress, add_trunk};
use crate::layout::{Forwarding, Layout, LinkTagging, ROUTER_ADDRESSES};
use crate::matrix::repeat_until_undisturbed;
use crate::support::{CompletionTest, KernelFeatures, check, check_equal};
use crate::switch::{SwitchResult, SwitchSpec};
use crate::traffic;

pub(crate) const TESTS: [CompletionTest; 4] = [
    (
        "the_router_replies_to_pings_of_its_addresses",
        KernelFeatures::Netns,
        check_ping_replies,
    ),
    (
        "the_router_sends_icmp_errors_for_refused_packets",
        KernelFeatures::Netns,
        check_icmp_errors,
    ),
    (
        "tcp_discovers_the_mtu_of_the_path",
        KernelFeatures::Netns,
        check_path_mtu_discovery,
    ),
    (
        "unfinished_checksums_of_an_unreachable_far_end_are_dropped_with_a_hint",
        KernelFeatures::Netns,
        check_unfinished_checksums,
    ),
];

const ROUTED_LAYOUT: Layout = Layout {
    forwarding: Forwarding::Routed,
    tagging: LinkTagging::Access,
    mtu: 9_000,
};

fn drops_with_reason(ended: &[SwitchResult], reason: &str) -> u64 {
    let ports = ended.iter().flat_map(|switch| &switch.report.ports);
    ports.filter_map(|port| port.drops.get(reason)).sum()
}

/// Returns the addresses of both router interfaces, IPv4 and IPv6.
fn router_addresses() -> Result<Vec<IpAddr>, Failed> {
    ROUTER_ADDRESSES
        .iter()
        .flatten()
        .map(|address| Ok(address.parse()?))
        .collect()
}

fn check_ping_replies() -> Result<Completion, Failed> {
    let go = |[near, _]: &[Host; 2]| -> Result<(), Failed> {
        // This is the only request that is not routed: the reply leaves by the ingress port.
        traffic::ping(&near.netns, "fe80::1".parse()?, 9_000, 5)?;
        for router in router_addresses()? {
            for len in [84, 1_500, 9_000] {
                traffic::ping(&near.netns, router, len, 5)?;
            }
            traffic::check_closed_port(&near.netns, router)?;
            if router.is_ipv4() {
                // The packets are fragmented in both directions.
                traffic::ping(&near.netns, router, 30_000, 5)?;
            }
        }
        Ok(())
    };
    let mut switch_specs = ROUTED_LAYOUT.switch_specs();
    switch_specs[0].config["INTERFACE"]["Ethernet0|fe80::1/64"] = json!({});
    repeat_until_undisturbed(|| ROUTED_LAYOUT.hosts(true), &switch_specs, go, |_| Ok(()))
}

fn check_icmp_errors() -> Result<Completion, Failed> {
    let go = |[near, _]: &[Host; 2]| -> Result<(), Failed> {
        // Time exceeded at the router, port unreachable at the host behind it, no route, and no such
        // neighbour.
        let cases = [
            ("10.0.20.2", 1, ("10.0.10.1", 11, 0)),
            ("10.0.20.2", 2, ("10.0.20.2", 3, 3)),
            ("10.99.0.1", 9, ("10.0.10.1", 3, 0)),
            ("10.0.20.77", 9, ("10.0.10.1", 3, 1)),
            ("2001:db8:20::2", 1, ("2001:db8:10::1", 3, 0)),
            ("2001:db8:20::2", 2, ("2001:db8:20::2", 1, 4)),
            ("2001:db8:99::1", 9, ("2001:db8:10::1", 1, 0)),
            ("2001:db8:20::77", 9, ("2001:db8:10::1", 1, 3)),
        ];
        for (to, hops, (who, kind, code)) in cases {
            let told = traffic::send_probe(&near.netns, to.parse()?, hops)?;
            check_equal(
                told,
                (who.parse()?, kind, code),
                &format!("{to} within {hops} hops"),
            )?;
        }
        Ok(())
    };
    repeat_until_undisturbed(
        || ROUTED_LAYOUT.hosts(true),
        &ROUTED_LAYOUT.switch_specs(),
        go,
        |ended| check_equal(drops_with_reason(ended, "TTL"), 2, "packets whose time was over"),
    )
}

/// Returns two routers with an MTU of 1500 on the link between them and 9000 on the other links.
fn routers_with_small_mtu_link() -> [SwitchSpec; 2] {
    let plan = |n: usize, device, cable| {
        let (here, there) = (&ROUTER_ADDRESSES[n], [10, 20][1 - n]);
        let (id, peer) = (1 + n, 2 - n);
        let config = json!({
            // The MAC addresses of neighbours on a link must differ.
            "DEVICE_METADATA": {"localhost": {"mac": format!("02:00:00:00:{id:02}:00")}},
            "PORT": {
                "Ethernet0": {"mtu": "9000", "speed": "1000"},
                "Ethernet4": {"mtu": "1500", "speed": "1000"},
            },
            "INTERFACE": {
                "Ethernet0": {},
                format!("Ethernet0|{}/24", here[0]): {},
                format!("Ethernet0|{}/64", here[1]): {},
                "Ethernet4": {},
                format!("Ethernet4|10.0.30.{id}/24"): {},
                format!("Ethernet4|2001:db8:30::{id}/64"): {},
            },
            "STATIC_ROUTE": {
                format!("default|10.0.{there}.0/24"): {"nexthop": format!("10.0.30.{peer}")},
                format!("default|2001:db8:{there}::/64"): {"nexthop": format!("2001:db8:30::{peer}")},
            },
        });
        SwitchSpec {
            config,
            ports: vec![("Ethernet0", device), ("Ethernet4", cable)],
        }
    };
    [plan(0, "v0", "t0"), plan(1, "v1", "t1")]
}

fn check_path_mtu_discovery() -> Result<Completion, Failed> {
    let hosts = || -> Result<[Host; 2], Failed> {
        add_trunk("t0", "t1", 9_000)?;
        ROUTED_LAYOUT.hosts(true)
    };
    let go = |[near, far]: &[Host; 2]| -> Result<(), Failed> {
        for HostAddress { address, .. } in ROUTED_LAYOUT.addresses(1)? {
            traffic::exchange_tcp(&near.netns, &far.netns, address.addr(), 1 << 18)?;
        }
        Ok(())
    };
    repeat_until_undisturbed(hosts, &routers_with_small_mtu_link(), go, |ended| {
        // Each sender learns the path MTU once, in both directions, over IPv4 and IPv6.
        for switch in ended {
            let told = drops_with_reason(std::slice::from_ref(switch), "EXCEEDS_L3_MTU");
            check(told >= 2, || format!("{told} packets were too long for the way"))?;
        }
        Ok(())
    })
}

fn check_unfinished_checksums() -> Result<Completion, Failed> {
    const UNFINISHED: &str = "XOFF_CHECKSUM_UNFINISHED";
    let layout = Layout {
        forwarding: Forwarding::Bridged,
        ..ROUTED_LAYOUT
    };
    let to = layout.addresses(1)?[0].address.addr();
    let go = |[near, far]: &[Host; 2]| -> Result<(), Failed> {
        let lost = traffic::send_udp(&near.netns, &far.netns, to, 1_500);
        check(lost.is_err(), || "unfinished checksums went through".to_owned())?;
        for host in [near, far] {
            host.netns
                .run(|| ethtool::set_offloads(DEVICE, &Offloads::OFF))??;
        }
        traffic::send_udp(&near.netns, &far.netns, to, 1_500)
    };
    repeat_until_undisturbed(
        || layout.hosts(false),
        &layout.switch_specs(),
        go,
        |ended| {
            check(drops_with_reason(ended, UNFINISHED) > 0, || {
                format!("nothing was dropped as {UNFINISHED}")
            })?;
            let said = &ended[0].stderr;
            for word in ["another namespace", "ethtool -K", "tx off"] {
                check(said.contains(word), || format!("'{word}' is missing in: {said}"))?;
            }
            Ok(())
        },
    )
}
