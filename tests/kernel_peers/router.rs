//! What a router says itself: answers to pings, refusals, and why a packet went no further. And what it does about a kernel
//! that leaves its checksums to hardware.

use std::net::IpAddr;

use libtest_mimic::{Completion, Failed};
use serde_json::json;
use xoff_ports::net::ethtool::{self, Offloads};

use crate::host::{DEVICE, Host, Place, trunk};
use crate::layout::{Edge, Layout, ROUTER, Way};
use crate::matrix::undisturbed;
use crate::support::{Needs, Reporting, check, same};
use crate::switch::{Ended, Plan};
use crate::traffic;

pub(crate) const TESTS: [Reporting; 4] = [
    (
        "the_router_answers_for_its_addresses",
        Needs::Netns,
        answers_for_its_addresses,
    ),
    (
        "the_router_says_why_a_packet_went_no_further",
        Needs::Netns,
        says_why,
    ),
    ("tcp_finds_the_mtu_of_a_narrow_way", Needs::Netns, narrow_way),
    (
        "a_far_end_out_of_reach_is_told_what_to_do",
        Needs::Netns,
        out_of_reach,
    ),
];

const ROUTED: Layout = Layout {
    way: Way::Routed,
    edge: Edge::Access,
    mtu: 9_000,
};

fn drops(ended: &[Ended], reason: &str) -> u64 {
    let ports = ended.iter().flat_map(|switch| &switch.report.ports);
    ports.filter_map(|port| port.drops.get(reason)).sum()
}

/// Of both interfaces, from the first host: v4 and v6.
fn routers() -> Result<Vec<IpAddr>, Failed> {
    ROUTER
        .iter()
        .flatten()
        .map(|address| Ok(address.parse()?))
        .collect()
}

fn answers_for_its_addresses() -> Result<Completion, Failed> {
    let go = |[near, _]: &[Host; 2]| -> Result<(), Failed> {
        // The only question that is not routed: it is answered where it came from.
        traffic::ping(&near.netns, "fe80::1".parse()?, 9_000, 5)?;
        for router in routers()? {
            for len in [84, 1_500, 9_000] {
                traffic::ping(&near.netns, router, len, 5)?;
            }
            traffic::refused(&near.netns, router)?;
            if router.is_ipv4() {
                // In fragments, both ways.
                traffic::ping(&near.netns, router, 30_000, 5)?;
            }
        }
        Ok(())
    };
    let mut plans = ROUTED.plans();
    plans[0].config["INTERFACE"]["Ethernet0|fe80::1/64"] = json!({});
    undisturbed(|| ROUTED.hosts(true), &plans, go, |_| Ok(()))
}

fn says_why() -> Result<Completion, Failed> {
    let go = |[near, _]: &[Host; 2]| -> Result<(), Failed> {
        // Time exceeded at the router; at the host behind it, port unreachable; no route; no such neighbour.
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
            let told = traffic::probe(&near.netns, to.parse()?, hops)?;
            same(
                told,
                (who.parse()?, kind, code),
                &format!("{to} within {hops} hops"),
            )?;
        }
        Ok(())
    };
    undisturbed(
        || ROUTED.hosts(true),
        &ROUTED.plans(),
        go,
        |ended| same(drops(ended, "TTL"), 2, "packets whose time was over"),
    )
}

/// Two routers with 1500 octets between them, and 9000 on either side.
fn narrow() -> [Plan; 2] {
    let plan = |n: usize, device, cable| {
        let (here, there) = (&ROUTER[n], [10, 20][1 - n]);
        let (id, peer) = (1 + n, 2 - n);
        let config = json!({
            // Neighbours on a link are told apart by it.
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
        Plan {
            config,
            ports: vec![("Ethernet0", device), ("Ethernet4", cable)],
        }
    };
    [plan(0, "v0", "t0"), plan(1, "v1", "t1")]
}

fn narrow_way() -> Result<Completion, Failed> {
    let hosts = || -> Result<[Host; 2], Failed> {
        trunk("t0", "t1", 9_000)?;
        ROUTED.hosts(true)
    };
    let go = |[near, far]: &[Host; 2]| -> Result<(), Failed> {
        for Place { address, .. } in ROUTED.places(1)? {
            traffic::tcp(&near.netns, &far.netns, address.addr(), 1 << 18)?;
        }
        Ok(())
    };
    undisturbed(hosts, &narrow(), go, |ended| {
        // In either direction, over IPv4 and IPv6: each sender learns it once.
        for switch in ended {
            let told = drops(std::slice::from_ref(switch), "EXCEEDS_L3_MTU");
            check(told >= 2, || format!("{told} packets were too long for the way"))?;
        }
        Ok(())
    })
}

fn out_of_reach() -> Result<Completion, Failed> {
    const UNFINISHED: &str = "XOFF_CHECKSUM_UNFINISHED";
    let layout = Layout {
        way: Way::Bridged,
        ..ROUTED
    };
    let to = layout.places(1)?[0].address.addr();
    let go = |[near, far]: &[Host; 2]| -> Result<(), Failed> {
        let lost = traffic::udp(&near.netns, &far.netns, to, 1_500);
        check(lost.is_err(), || "unfinished checksums went through".to_owned())?;
        for host in [near, far] {
            host.netns
                .run(|| ethtool::set_offloads(DEVICE, &Offloads::OFF))??;
        }
        traffic::udp(&near.netns, &far.netns, to, 1_500)
    };
    undisturbed(
        || layout.hosts(false),
        &layout.plans(),
        go,
        |ended| {
            check(drops(ended, UNFINISHED) > 0, || {
                format!("nothing was dropped as {UNFINISHED}")
            })?;
            let said = &ended[0].said;
            for word in ["another namespace", "ethtool -K", "tx off"] {
                check(said.contains(word), || format!("'{word}' is missing in: {said}"))?;
            }
            Ok(())
        },
    )
}
