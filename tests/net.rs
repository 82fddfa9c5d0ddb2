//! Tests of namespaces, links and offloads with the running kernel, in network namespaces.
//!
//! The tests have no standard harness, because the process must enter a user namespace before it has a second
//! thread. A machine that does not allow namespaces is reported as skipped.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nix::sched::CloneFlags;
use xoff_ports::net::ethtool::{self, Offloads};
use xoff_ports::net::{self, Error, LinkChange, Netns, PeerChange};

type Test = fn() -> Result<(), Failed>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = nix::unistd::geteuid().is_root();
    let refusal = if root {
        None
    } else {
        net::enter_user_namespace(CloneFlags::CLONE_NEWNET).err()
    }
    .or_else(|| Netns::create().err());
    let refusal = refusal.map(|error| error.to_string());
    let tests: [(&str, Test); 9] = [
        (
            "namespaces_differ_and_can_be_entered",
            namespaces_differ_and_can_be_entered,
        ),
        (
            "a_namespace_is_removed_with_its_last_descriptor",
            a_namespace_is_removed_with_its_last_descriptor,
        ),
        (
            "veth_ends_are_up_without_ipv6_in_their_namespaces",
            veth_ends_are_up_without_ipv6_in_their_namespaces,
        ),
        (
            "links_can_be_changed_and_removed",
            links_can_be_changed_and_removed,
        ),
        (
            "a_link_can_move_to_another_namespace",
            a_link_can_move_to_another_namespace,
        ),
        ("offloads_are_set_and_restored", offloads_are_set_and_restored),
        (
            "offloads_of_a_reachable_far_end_are_disabled",
            offloads_of_a_reachable_far_end_are_disabled,
        ),
        (
            "a_bridge_member_reports_its_bridge",
            a_bridge_member_reports_its_bridge,
        ),
        (
            "errors_name_the_cause_and_a_hint",
            errors_name_the_cause_and_a_hint,
        ),
    ];
    let trials = tests.into_iter().map(|(name, test)| {
        let refusal = refusal.clone();
        Trial::ignorable_test(name, move || match refusal {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            // Each trial has its own namespace and does not see the links of the others.
            None => Netns::create()?.run(test)?.map(|()| Completion::Completed),
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn check(condition: bool, what: &str) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(what.into()) }
}

fn namespaces_differ_and_can_be_entered() -> Result<(), Failed> {
    let here = Netns::current()?.id()?;
    let other = Netns::create()?;
    check(other.id()? != here, "a new namespace is another one")?;
    check(
        other.run(|| Netns::current()?.id())?? == other.id()?,
        "run() is inside",
    )?;
    check(Netns::current()?.id()? == here, "the caller has not moved")?;
    check(
        other.try_clone()?.id()? == other.id()?,
        "a second descriptor is of the same namespace",
    )
}

fn a_namespace_is_removed_with_its_last_descriptor() -> Result<(), Failed> {
    let other = Netns::create()?;
    net::add_veth("near", "far", Some(&other), 1500)?;
    drop(other);
    // The kernel removes namespaces in a work queue, so the test waits for a limited time.
    for _ in 0..500 {
        if net::read_link("near")
            == Err(Error::NoSuchLink {
                name: "near".to_owned(),
            })
        {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err("the near end of a veth outlived the namespace of its far end".into())
}

fn veth_ends_are_up_without_ipv6_in_their_namespaces() -> Result<(), Failed> {
    let host = Netns::create()?;
    net::add_veth("sw0", "eth0", Some(&host), 9216)?;
    let near = net::read_link("sw0")?;
    check(
        near.up && near.carrier && near.no_arp && near.mtu == 9216,
        &format!("near end: {near:?}"),
    )?;
    check(
        near.kind.as_deref() == Some("veth") && near.peer_netns.is_some(),
        &format!("near end: {near:?}"),
    )?;
    check(net::read_link("eth0").is_err(), "the far end is not here")?;
    let (far, quiet) =
        host.run(|| -> net::Result<_> { Ok((net::read_link("eth0")?, has_no_ipv6("eth0"))) })??;
    check(
        far.up && far.carrier && far.mtu == 9216 && quiet,
        &format!("far end: {far:?}"),
    )?;
    check(
        near.peer_index == Some(far.index) && far.peer_index == Some(near.index),
        "they name each other",
    )?;
    check(has_no_ipv6("sw0"), "no IPv6 on the near end")?;
    check(
        net::list_links()?.iter().any(|link| link.name == "sw0"),
        "it is in the list",
    )
}

/// Returns true if the kernel lists no IPv6 address on the link. Also true for a kernel without IPv6.
fn has_no_ipv6(name: &str) -> bool {
    std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"))
        .map_or(true, |text| text.trim() == "1")
}

fn links_can_be_changed_and_removed() -> Result<(), Failed> {
    net::add_veth("a", "b", None, 1500)?;
    let mac = [2, 0, 0, 0, 0, 7];
    let change = LinkChange {
        up: Some(false),
        mtu: Some(4200),
        tx_queue_len: Some(33),
        mac: Some(mac),
        arp: Some(true),
        promiscuous: Some(true),
    };
    net::set_link("a", &change)?;
    let link = net::read_link("a")?;
    check(
        !link.up && !link.carrier && !link.no_arp && link.promiscuous,
        &format!("{link:?}"),
    )?;
    check(
        link.mtu == 4200 && link.tx_queue_len == 33 && link.mac == mac,
        &format!("{link:?}"),
    )?;
    net::set_link(
        "a",
        &LinkChange {
            up: Some(true),
            ..LinkChange::default()
        },
    )?;
    let link = net::read_link("a")?;
    check(
        link.up && link.mtu == 4200 && link.promiscuous,
        "what is not asked for stays",
    )?;
    net::delete_link("a")?;
    check(
        net::read_link("a").is_err() && net::read_link("b").is_err(),
        "both ends are gone",
    )
}

fn a_link_can_move_to_another_namespace() -> Result<(), Failed> {
    net::add_veth("a", "b", None, 1500)?;
    let other = Netns::create()?;
    net::move_link("b", &other, "eth0")?;
    check(net::read_link("b").is_err(), "gone from here")?;
    check(
        !other.run(|| net::read_link("eth0"))??.up,
        "arrived under its new name, and down",
    )
}

fn offloads_are_set_and_restored() -> Result<(), Failed> {
    net::add_veth("a", "b", None, 1500)?;
    check(
        ethtool::offloads("a")? == Offloads::OFF,
        "add_veth leaves none on",
    )?;
    let before = ethtool::features("a")?;
    let some = Offloads {
        tx_csum: true,
        sg: true,
        gso: true,
        ..Offloads::OFF
    };
    ethtool::set_offloads("a", &some)?;
    check(
        ethtool::offloads("a")? == some,
        &format!("{:?}", ethtool::offloads("a")?),
    )?;
    ethtool::restore_features("a", &before)?;
    check(ethtool::features("a")? == before, "every feature is as it was")?;
    check(
        ethtool::offloads("a")? == Offloads::OFF,
        "and so are the offloads",
    )?;
    check(ethtool::driver_name("a")? == "veth", "the driver has a name")?;
    check(
        net::read_link_speed_mbps("a")? == Some(10_000),
        "a veth has a nominal speed",
    )?;
    check(
        ethtool::pause_parameters("a")?.is_none(),
        "a veth has no pause parameters",
    )
}

fn offloads_of_a_reachable_far_end_are_disabled() -> Result<(), Failed> {
    let loud = Offloads {
        tx_csum: true,
        sg: true,
        tso: true,
        gso: true,
        ..Offloads::OFF
    };
    net::add_veth("a", "b", None, 1500)?;
    ethtool::set_offloads("b", &loud)?;
    let changed = |change: PeerChange| match change {
        PeerChange::Applied { peer, previous } if peer == "b" => Some(previous.is_some()),
        _ => None,
    };
    check(
        changed(net::disable_peer_offloads("a", &[])?) == Some(true),
        "in the same namespace",
    )?;
    check(ethtool::offloads("b")? == Offloads::OFF, "they are off")?;
    check(
        changed(net::disable_peer_offloads("a", &[])?) == Some(false),
        "nothing left to change",
    )?;

    let (stranger, host) = (Netns::create()?, Netns::create()?);
    net::move_link("b", &host, "b")?;
    host.run(|| ethtool::set_offloads("b", &loud))??;
    let out = net::disable_peer_offloads("a", &[&stranger])?;
    check(matches!(out, PeerChange::Unreachable { .. }), &format!("{out:?}"))?;
    check(
        changed(net::disable_peer_offloads("a", &[&stranger, &host])?) == Some(true),
        "in a namespace we hold",
    )?;
    check(
        host.run(|| ethtool::offloads("b"))?? == Offloads::OFF,
        "they are off there",
    )?;
    check(
        net::disable_peer_offloads("lo", &[])? == PeerChange::NotVeth,
        "loopback has no far end",
    )
}

fn a_bridge_member_reports_its_bridge() -> Result<(), Failed> {
    use rtnetlink::{LinkBridge, LinkUnspec};
    net::add_veth("a", "b", None, 1500)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        handle
            .link()
            .add(LinkBridge::new("br7").build())
            .execute()
            .await?;
        let bridge = nix::net::if_::if_nametoindex("br7")?;
        let join = LinkUnspec::new_with_name("a").controller(bridge).build();
        handle.link().set(join).execute().await?;
        Ok::<(), Failed>(())
    })?;
    check(net::read_link("a")?.master.as_deref() == Some("br7"), "by name")?;
    check(
        net::list_links()?
            .iter()
            .any(|link| link.master.as_deref() == Some("br7")),
        "and in the list",
    )?;
    check(net::read_link("b")?.master.is_none(), "its peer is free")
}

fn errors_name_the_cause_and_a_hint() -> Result<(), Failed> {
    net::add_veth("a", "b", None, 1500)?;
    let message = |result: net::Result<()>| result.err().map(|error| error.to_string()).unwrap_or_default();
    let text = message(net::add_veth("a", "c", None, 1500));
    check(
        text.contains("already exists") && text.contains("ip link del a"),
        &text,
    )?;
    let text = message(net::set_link("none", &LinkChange::default()));
    check(text.contains("'none'") && text.contains("ip link"), &text)?;
    for bad in ["", "sixteen-bytes-xx", "a/b", "a b", "..", "a:b"] {
        let text = message(net::delete_link(bad));
        check(text.contains("cannot be the name"), &format!("{bad:?}: {text}"))?;
    }
    let text = message(net::add_veth("d", "e", None, 7));
    check(text.contains("MTU 7"), &text)?;
    check(net::read_link("d").is_err(), "nothing is left of what failed")
}
