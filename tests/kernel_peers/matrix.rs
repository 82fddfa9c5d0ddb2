//! Everything crosses: {bridged, routed} x {access, trunk} x {1500, 9000}, each with IPv4 and IPv6.

use std::net::IpAddr;

use libtest_mimic::{Completion, Failed};
use xoff_ports::net::Netns;
use xoff_ports::net::ethtool::{self, Offloads};

use crate::host::{DEVICE, Host};
use crate::layout::{Edge, Layout, Way};
use crate::support::{Needs, Reporting, check, same};
use crate::switch::{Ended, Plan, Switch};
use crate::traffic;

pub(crate) const TESTS: [Reporting; 8] = [
    ("bridged_access_1500", Needs::Netns, || {
        crosses(Way::Bridged, Edge::Access, 1_500)
    }),
    ("bridged_access_9000", Needs::Netns, || {
        crosses(Way::Bridged, Edge::Access, 9_000)
    }),
    ("bridged_trunk_1500", Needs::Netns, || {
        crosses(Way::Bridged, Edge::Trunk, 1_500)
    }),
    ("bridged_trunk_9000", Needs::Netns, || {
        crosses(Way::Bridged, Edge::Trunk, 9_000)
    }),
    ("routed_access_1500", Needs::Netns, || {
        crosses(Way::Routed, Edge::Access, 1_500)
    }),
    ("routed_access_9000", Needs::Netns, || {
        crosses(Way::Routed, Edge::Access, 9_000)
    }),
    ("routed_trunk_1500", Needs::Netns, || {
        crosses(Way::Routed, Edge::Trunk, 1_500)
    }),
    ("routed_trunk_9000", Needs::Netns, || {
        crosses(Way::Routed, Edge::Trunk, 9_000)
    }),
];

/// A disturbed run is repeated so often.
const ATTEMPTS: usize = 4;
/// Pings per address and length.
const PINGS: u16 = 10;
/// Octets of a TCP stream, in each direction.
const STREAM: usize = 1 << 20;
/// Group frames that no kernel can be kept from sending (MLD) end at a routed port, or at a trunk's only port.
const CHATTER: [&str; 2] = ["NON_ROUTABLE", "L2_LOOPBACK_FILTER"];

fn crosses(way: Way, edge: Edge, mtu: u32) -> Result<Completion, Failed> {
    let layout = Layout { way, edge, mtu };
    undisturbed(
        || layout.hosts(true),
        &layout.plans(),
        |hosts| exchange(&layout, hosts).and_then(|()| hosts.iter().try_for_each(healthy)),
        |ended| ended.iter().try_for_each(dropped_nothing),
    )
}

/// Runs switches with hosts, does something with the hosts, and looks at what the switches leave; again and again until
/// the switches say that nothing disturbed them.
pub(crate) fn undisturbed(
    hosts: impl Fn() -> Result<[Host; 2], Failed> + Sync,
    plans: &[Plan],
    go: impl Fn(&[Host; 2]) -> Result<(), Failed> + Sync,
    look: impl Fn(&[Ended]) -> Result<(), Failed> + Sync,
) -> Result<Completion, Failed> {
    let run = || -> Result<(Option<String>, Result<(), Failed>), Failed> {
        let hosts = hosts()?;
        let switches = plans.iter().map(Switch::start).collect::<Result<Vec<_>, _>>()?;
        let found = go(&hosts);
        let ended = switches
            .into_iter()
            .map(Switch::end)
            .collect::<Result<Vec<_>, _>>()?;
        hosts.into_iter().try_for_each(Host::stop)?;
        let taint = ended.iter().find_map(|switch| switch.taint.clone());
        let found = found.and_then(|()| look(&ended)).map_err(|failed| {
            let drops = ended.iter().flat_map(|switch| &switch.report.ports);
            let drops: Vec<_> = drops.map(|port| (&port.name, &port.drops)).collect();
            let message = failed.message().unwrap_or_default();
            format!("{message}; the switches dropped {drops:?}").into()
        });
        Ok((taint, found))
    };
    let mut causes = Vec::new();
    for _ in 0..ATTEMPTS {
        // Each in namespaces of its own: names of devices are taken once.
        match Netns::create()?.run(run)?? {
            (None, found) => return found.map(|()| Completion::Completed),
            (Some(cause), _) => causes.push(cause),
        }
    }
    Ok(Completion::ignored_with(format!(
        "inconclusive on this machine: {ATTEMPTS} runs were tainted: {}",
        causes.join(", ")
    )))
}

fn exchange(layout: &Layout, [near, far]: &[Host; 2]) -> Result<(), Failed> {
    for host in [near, far] {
        let offloads = host.netns.run(|| ethtool::offloads(DEVICE))??;
        same(
            offloads,
            Offloads::OFF,
            "what the switch left of the far end's offloads",
        )?;
    }
    for place in layout.places(1)? {
        let to: IpAddr = place.address.addr();
        let len = layout.mtu as usize;
        for len in [84, len] {
            traffic::ping(&near.netns, to, len, PINGS)?;
        }
        traffic::tcp(&near.netns, &far.netns, to, STREAM)?;
        traffic::udp(&near.netns, &far.netns, to, len)?;
    }
    Ok(())
}

/// No packet was damaged on its way to the host, and none of TCP's had to be sent again.
fn healthy(host: &Host) -> Result<(), Failed> {
    let counters = host.counters()?;
    let count = |name: &str| counters.get(name).copied().unwrap_or_default();
    for (name, &value) in &counters {
        let damage = ["InCsumErrors", "InHdrErrors", "InErrors", "InErrs"]
            .iter()
            .any(|kind| name.ends_with(kind));
        check(!damage || value == 0, || {
            format!("the host's kernel counts {name}: {value}")
        })?;
    }
    check(counters.contains_key("Tcp.InCsumErrors"), || {
        format!("no counters of TCP: {counters:?}")
    })?;
    // A probe for a lost tail is sent whenever an answer is some milliseconds late.
    let (again, probes) = (count("Tcp.RetransSegs"), count("TcpExt.TCPLossProbes"));
    check(again <= probes, || {
        format!("TCP sent {again} segments again, of which {probes} were probes")
    })
}

fn dropped_nothing(ended: &Ended) -> Result<(), Failed> {
    for port in &ended.report.ports {
        let mut reasons = port
            .drops
            .iter()
            .filter(|(reason, _)| !CHATTER.contains(&reason.as_str()));
        check(reasons.next().is_none(), || {
            format!("{} dropped {:?}", port.name, port.drops)
        })?;
    }
    Ok(())
}
