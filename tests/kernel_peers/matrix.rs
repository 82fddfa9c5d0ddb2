//! Tests of all combinations of bridged and routed, access and trunk, MTU 1500 and 9000, each with
//! IPv4 and IPv6.

use std::net::IpAddr;

use libtest_mimic::{Completion, Failed};
use xoff_ports::net::Netns;
use xoff_ports::net::ethtool::{self, Offloads};

use crate::host::{DEVICE, Host};
use crate::layout::{Forwarding, Layout, LinkTagging};
use crate::support::{CompletionTest, KernelFeatures, check, check_equal};
use crate::switch::{Switch, SwitchResult, SwitchSpec};
use crate::traffic;

pub(crate) const TESTS: [CompletionTest; 8] = [
    ("bridged_access_1500", KernelFeatures::Netns, || {
        check_layout(Forwarding::Bridged, LinkTagging::Access, 1_500)
    }),
    ("bridged_access_9000", KernelFeatures::Netns, || {
        check_layout(Forwarding::Bridged, LinkTagging::Access, 9_000)
    }),
    ("bridged_trunk_1500", KernelFeatures::Netns, || {
        check_layout(Forwarding::Bridged, LinkTagging::Trunk, 1_500)
    }),
    ("bridged_trunk_9000", KernelFeatures::Netns, || {
        check_layout(Forwarding::Bridged, LinkTagging::Trunk, 9_000)
    }),
    ("routed_access_1500", KernelFeatures::Netns, || {
        check_layout(Forwarding::Routed, LinkTagging::Access, 1_500)
    }),
    ("routed_access_9000", KernelFeatures::Netns, || {
        check_layout(Forwarding::Routed, LinkTagging::Access, 9_000)
    }),
    ("routed_trunk_1500", KernelFeatures::Netns, || {
        check_layout(Forwarding::Routed, LinkTagging::Trunk, 1_500)
    }),
    ("routed_trunk_9000", KernelFeatures::Netns, || {
        check_layout(Forwarding::Routed, LinkTagging::Trunk, 9_000)
    }),
];

/// Maximum number of attempts of a disturbed run.
const ATTEMPTS: usize = 4;
/// Pings per address and length.
const PING_COUNT: u16 = 10;
/// Bytes of a TCP stream in each direction.
const STREAM_BYTES: usize = 1 << 20;
/// Drop reasons of multicast frames (MLD) that every kernel sends. These frames end at a routed port or at
/// the only port of a trunk.
const MULTICAST_DROP_REASONS: [&str; 2] = ["NON_ROUTABLE", "L2_LOOPBACK_FILTER"];

fn check_layout(forwarding: Forwarding, tagging: LinkTagging, mtu: u32) -> Result<Completion, Failed> {
    let layout = Layout {
        forwarding,
        tagging,
        mtu,
    };
    repeat_until_undisturbed(
        || layout.hosts(true),
        &layout.switch_specs(),
        |hosts| {
            exchange_traffic(&layout, hosts).and_then(|()| hosts.iter().try_for_each(check_kernel_counters))
        },
        |ended| ended.iter().try_for_each(check_no_drops),
    )
}

/// Runs switches with hosts, calls `exchange` with the hosts, and calls `check_results` with the results of
/// the switches. Repeats a run until the switches report no disturbance.
pub(crate) fn repeat_until_undisturbed(
    hosts: impl Fn() -> Result<[Host; 2], Failed> + Sync,
    switch_specs: &[SwitchSpec],
    go: impl Fn(&[Host; 2]) -> Result<(), Failed> + Sync,
    look: impl Fn(&[SwitchResult]) -> Result<(), Failed> + Sync,
) -> Result<Completion, Failed> {
    let run = || -> Result<(Option<String>, Result<(), Failed>), Failed> {
        let hosts = hosts()?;
        let switches = switch_specs
            .iter()
            .map(Switch::start)
            .collect::<Result<Vec<_>, _>>()?;
        let found = go(&hosts);
        let ended = switches
            .into_iter()
            .map(Switch::stop)
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
        // Each run uses its own namespace, because device names are unique in a namespace.
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

fn exchange_traffic(layout: &Layout, [near, far]: &[Host; 2]) -> Result<(), Failed> {
    for host in [near, far] {
        let offloads = host.netns.run(|| ethtool::offloads(DEVICE))??;
        check_equal(
            offloads,
            Offloads::OFF,
            "what the switch left of the far end's offloads",
        )?;
    }
    for host_address in layout.addresses(1)? {
        let to: IpAddr = host_address.address.addr();
        let len = layout.mtu as usize;
        for len in [84, len] {
            traffic::ping(&near.netns, to, len, PING_COUNT)?;
        }
        traffic::exchange_tcp(&near.netns, &far.netns, to, STREAM_BYTES)?;
        traffic::send_udp(&near.netns, &far.netns, to, len)?;
    }
    Ok(())
}

/// Asserts that no packet arrived damaged at the host and that TCP retransmitted none.
fn check_kernel_counters(host: &Host) -> Result<(), Failed> {
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
    // TCP sends a tail loss probe when an answer is some milliseconds late, so these probes are allowed.
    let (again, probes) = (count("Tcp.RetransSegs"), count("TcpExt.TCPLossProbes"));
    check(again <= probes, || {
        format!("TCP sent {again} segments again, of which {probes} were probes")
    })
}

fn check_no_drops(ended: &SwitchResult) -> Result<(), Failed> {
    for port in &ended.report.ports {
        let mut reasons = port
            .drops
            .iter()
            .filter(|(reason, _)| !MULTICAST_DROP_REASONS.contains(&reason.as_str()));
        check(reasons.next().is_none(), || {
            format!("{} dropped {:?}", port.name, port.drops)
        })?;
    }
    Ok(())
}
