//! Tests of refused devices, changed device settings and their restoration.

use std::net::{Ipv4Addr, UdpSocket};

use libtest_mimic::Failed;
use pnet::packet::Packet as _;
use pnet::packet::ethernet::EthernetPacket;
use pnet::packet::ipv4::Ipv4Packet;
use pnet::packet::udp::{self, UdpPacket};
use rtnetlink::{LinkBridge, LinkUnspec};
use xoff_dataplane::{DropReason, FrameStore};
use xoff_ports::net::ethtool::{self, Offloads};
use xoff_ports::net::{self, LinkChange};
use xoff_ports::{Backend, OpenedPort, Port, PortError, PortSpec, is_device_removed};

use crate::far_end::FarEnd;
use crate::support::KernelFeatures::{Netns, Tun, Xdp};
use crate::support::{self, PrivilegedTest, check, check_equal, wait_for};
use crate::testbed::{PortTestbed, arena_store, port_spec, receive_burst, store_frame, test_frame};

pub(crate) const TESTS: &[PrivilegedTest] = &[
    ("a_bridge_member_is_refused", Netns, check_bridge_member),
    ("the_loopback_device_is_refused", Netns, check_loopback_device),
    ("a_device_with_a_small_mtu_is_refused", Netns, check_small_mtu),
    ("a_missing_device_is_refused_by_name", Netns, check_missing_device),
    ("an_mtu_out_of_range_is_refused", Netns, check_mtu_out_of_range),
    (
        "busy_taps_and_devices_that_are_not_taps_are_refused",
        Tun,
        check_refused_taps,
    ),
    (
        "a_missing_privilege_is_reported_by_name",
        Tun,
        check_missing_privilege,
    ),
    (
        "long_frames_use_scatter_gather",
        Netns,
        check_fragmented_long_frames,
    ),
    (
        "device_settings_are_changed_and_restored",
        Netns,
        check_changed_and_restored_settings,
    ),
    (
        "unfinished_checksums_of_an_unreachable_far_end_are_dropped",
        Netns,
        || check_unfinished_checksums(Backend::Packet),
    ),
    (
        "xdp_drops_unfinished_checksums_of_an_unreachable_far_end",
        Xdp,
        || check_unfinished_checksums(Backend::Xdp),
    ),
    (
        "a_reachable_far_end_finishes_its_checksums",
        Netns,
        check_finished_checksums,
    ),
    (
        "a_far_end_in_the_namespace_of_a_process_is_reachable",
        Netns,
        check_far_end_of_a_process,
    ),
    (
        "a_removed_device_is_reported_and_can_be_opened_again",
        Netns,
        || check_removed_device(Backend::Packet),
    ),
    ("a_removed_tap_is_reported_and_can_be_opened_again", Tun, || {
        check_removed_device(Backend::Tap)
    }),
    ("pnet_reports_a_removed_device", Netns, || {
        check_removed_device(Backend::Pnet)
    }),
    ("xdp_reports_a_removed_device", Xdp, || {
        check_removed_device(Backend::Xdp)
    }),
    (
        "packet_reports_a_device_that_is_removed_while_it_is_down",
        Netns,
        || check_removal_while_down(Backend::Packet),
    ),
    (
        "pnet_reports_a_device_that_is_removed_while_it_is_down",
        Netns,
        || check_removal_while_down(Backend::Pnet),
    ),
    (
        "xdp_reports_a_device_that_is_removed_while_it_is_down",
        Xdp,
        || check_removal_while_down(Backend::Xdp),
    ),
    ("xdp_keeps_a_device_that_is_down", Xdp, || {
        check_device_down(Backend::Xdp)
    }),
    ("packet_keeps_a_device_that_is_down", Netns, || {
        check_device_down(Backend::Packet)
    }),
    ("tap_keeps_a_device_that_is_down", Tun, || {
        check_device_down(Backend::Tap)
    }),
    ("pnet_keeps_a_device_that_is_down", Netns, || {
        check_device_down(Backend::Pnet)
    }),
];

/// Checks that opening a port fails with an error that `is_expected` accepts and whose text contains all of
/// these words.
pub(crate) fn assert_open_is_refused(
    spec: &PortSpec,
    is: impl Fn(&PortError) -> bool,
    words: &[&str],
) -> Result<(), Failed> {
    match Port::open(spec) {
        Ok(_) => Err("opened".into()),
        Err(error) => {
            check(is(&error), || format!("another error: {error:?}"))?;
            let text = error.to_string();
            for word in words {
                check(text.contains(word), || format!("'{word}' is missing in: {text}"))?;
            }
            Ok(())
        }
    }
}

/// Runs a netlink request.
pub(crate) fn run_netlink(
    request: impl AsyncFnOnce(rtnetlink::Handle) -> Result<(), rtnetlink::Error>,
) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(request(handle).await?)
    })
}

fn check_bridge_member() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    run_netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    let bridge = nix::net::if_::if_nametoindex("br0")?;
    let join = LinkUnspec::new_with_name("sw0").controller(bridge).build();
    run_netlink(async |handle| handle.link().set(join).execute().await)?;
    for backend in [Backend::Auto, Backend::Packet, Backend::Pnet, Backend::Tap] {
        assert_open_is_refused(
            &port_spec("sw0", backend, 1500),
            |error| matches!(error, PortError::InBridge { .. }),
            &[
                "Ethernet0",
                "'sw0'",
                "'br0'",
                "PFC",
                "ip link set dev sw0 nomaster",
            ],
        )?;
    }
    Ok(())
}

fn check_loopback_device() -> Result<(), Failed> {
    for backend in [Backend::Auto, Backend::Packet, Backend::Pnet, Backend::Xdp] {
        assert_open_is_refused(
            &port_spec("lo", backend, 1500),
            |error| matches!(error, PortError::NotEthernet { .. }),
            &["Ethernet0", "'lo'", "veth", "ip -br link"],
        )?;
    }
    Ok(())
}

fn check_small_mtu() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    for backend in [Backend::Packet, Backend::Pnet] {
        assert_open_is_refused(
            &port_spec("sw0", backend, 9100),
            |error| {
                matches!(
                    error,
                    PortError::MtuTooSmall {
                        device_mtu: 1500,
                        port_mtu: 9100,
                        ..
                    }
                )
            },
            &[
                "Ethernet0",
                "'sw0'",
                "1500",
                "9100",
                "ip link set dev sw0 mtu 9100",
            ],
        )?;
    }
    Ok(())
}

fn check_missing_device() -> Result<(), Failed> {
    for backend in [Backend::Auto, Backend::Packet, Backend::Pnet] {
        assert_open_is_refused(
            &port_spec("nodev", backend, 1500),
            PortError::is_absent,
            &["Ethernet0", "'nodev'", "ip link", "backend=tap"],
        )?;
    }
    assert_open_is_refused(
        &port_spec("a/b", Backend::Auto, 1500),
        |_| true,
        &["Ethernet0", "'a/b'"],
    )
}

fn check_mtu_out_of_range() -> Result<(), Failed> {
    for mtu in [0, 67, 16_107, u32::MAX] {
        assert_open_is_refused(
            &port_spec("lo", Backend::Auto, mtu),
            |error| matches!(error, PortError::MtuOutOfRange { .. }),
            &["Ethernet0", &mtu.to_string(), "68"],
        )?;
    }
    Ok(())
}

fn check_refused_taps() -> Result<(), Failed> {
    let _owner = Port::open(&port_spec("tap0", Backend::Tap, 1500))?;
    assert_open_is_refused(
        &port_spec("tap0", Backend::Tap, 1500),
        |error| matches!(error, PortError::Busy { .. }),
        &["Ethernet0", "'tap0'", "backend=packet"],
    )?;
    net::add_veth("sw0", "h0", None, 1500)?;
    assert_open_is_refused(
        &port_spec("sw0", Backend::Tap, 1500),
        |error| matches!(error, PortError::NotATap { .. }),
        &["Ethernet0", "'sw0'", "backend=packet"],
    )
}

fn check_missing_privilege() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    // The thread belongs to this test and ends with it.
    drop_capabilities_of_this_thread()?;
    for backend in [Backend::Packet, Backend::Pnet] {
        assert_open_is_refused(
            &port_spec("sw0", backend, 1500),
            |error| matches!(error, PortError::NoPrivilege { .. }),
            &["Ethernet0", "'sw0'", "cap_net_raw", "root"],
        )?;
    }
    assert_open_is_refused(
        &port_spec("tap0", Backend::Tap, 1500),
        |error| matches!(error, PortError::NoPrivilege { .. }),
        &["Ethernet0", "'tap0'", "cap_net_admin"],
    )
}

pub(crate) fn drop_capabilities_of_this_thread() -> Result<(), Failed> {
    // `struct __user_cap_header_struct` of version 3 for the calling thread, and its two sets of three words.
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0u32; 6];
    // SAFETY: both values are live and have the sizes of version 3.
    match unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

const ALL_OFFLOADS: Offloads = Offloads {
    rx_csum: true,
    tx_csum: true,
    sg: true,
    tso: true,
    gso: true,
    gro: true,
    lro: false,
};

fn ipv6_is_off(device: &str) -> bool {
    std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"))
        .map_or(true, |text| text.trim() == "1")
}

fn check_changed_and_restored_settings() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    ethtool::set_offloads("sw0", &ALL_OFFLOADS)?;
    let before = ethtool::features("sw0")?;
    let had_ipv6 = std::fs::write("/proc/sys/net/ipv6/conf/sw0/disable_ipv6", "0").is_ok();
    net::set_link(
        "sw0",
        &LinkChange {
            arp: Some(true),
            up: Some(false),
            ..LinkChange::default()
        },
    )?;

    let OpenedPort { port, notes } = Port::open(&port_spec("sw0", Backend::Packet, 1500))?;
    let link = net::read_link("sw0")?;
    check(link.up && link.no_arp, || format!("up and without ARP: {link:?}"))?;
    check(ipv6_is_off("sw0"), || "IPv6 is on".to_owned())?;
    check_equal(ethtool::offloads("sw0")?, Offloads::OFF, "offloads")?;
    for word in ["ip link set dev sw0 up", "arp off", "ethtool -K sw0"] {
        check(notes.iter().any(|note| note.contains(word)), || {
            format!("'{word}' is not told: {notes:#?}")
        })?;
    }

    drop(port);
    check_equal(net::read_link("sw0")?.no_arp, false, "no ARP")?;
    check_equal(net::read_link("sw0")?.up, false, "up")?;
    check_equal(ethtool::features("sw0")?, before, "features")?;
    check(!had_ipv6 || !ipv6_is_off("sw0"), || {
        "IPv6 was not put back".to_owned()
    })?;
    // The promiscuous mode belonged to the socket and ended with it.
    check_equal(net::read_link("sw0")?.promiscuous, false, "promiscuous")
}

/// The kernel would copy packet-socket frames of a page and more once more for a
/// device without scatter-gather.
fn check_fragmented_long_frames() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 9000)?;
    ethtool::set_offloads("sw0", &ALL_OFFLOADS)?;
    let before = ethtool::features("sw0")?;
    let OpenedPort { port, notes } = Port::open(&port_spec("sw0", Backend::Packet, 9000))?;
    let in_pieces = Offloads {
        sg: true,
        ..Offloads::OFF
    };
    check_equal(ethtool::offloads("sw0")?, in_pieces, "offloads")?;
    check(!notes.iter().any(|note| note.contains("sg off")), || {
        format!("told otherwise: {notes:#?}")
    })?;
    drop(port);
    check_equal(ethtool::features("sw0")?, before, "features")
}

/// Adds an address to a device in the namespace of the calling thread, so that the kernel can send from it.
fn add_address(device: &str) -> Result<(), Failed> {
    let index = nix::net::if_::if_nametoindex(device)?;
    let address = Ipv4Addr::new(10, 9, 0, 1).into();
    run_netlink(async |handle| handle.address().add(index, address, 24).execute().await)
}

/// Sends UDP datagrams of the kernel to the broadcast address, which needs no neighbour.
fn send_datagrams(count: usize) -> Result<(), Failed> {
    let socket = UdpSocket::bind("10.9.0.1:4791")?;
    socket.set_broadcast(true)?;
    for i in 0..count {
        socket.send_to(&[i as u8; 100], "10.9.0.255:4791")?;
    }
    Ok(())
}

fn check_unfinished_checksums(backend: Backend) -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    let mut testbed = PortTestbed::open_on_device("h0", &host, backend, 1500)?;
    check(
        testbed
            .notes
            .iter()
            .any(|note| note.contains("another namespace")),
        || format!("{:?}", testbed.notes),
    )?;
    // With an XDP program at the near end, the kernel keeps segmentation off at the far end.
    let on = Offloads {
        tso: backend != Backend::Xdp,
        ..ALL_OFFLOADS
    };
    host.run(|| -> Result<(), Failed> {
        ethtool::set_offloads("h0", &on)?;
        add_address("h0")?;
        send_datagrams(3)
    })??;
    // This frame follows the datagrams: when it arrives, the port has checked them.
    let last = test_frame(&[0x88, 0xb5], 60);
    testbed.far.send(&last)?;
    check_equal(testbed.receive(1)?, vec![last.clone()], "received")?;
    let drops = testbed.port.take_drops();
    check_equal(
        drops.by_reason,
        vec![(DropReason::ChecksumUnfinished, 3)],
        "drops",
    )?;
    check(
        drops
            .notes
            .iter()
            .any(|note| note.contains("ethtool -K") && note.contains("tx off")),
        || format!("{:?}", drops.notes),
    )?;

    // The note appears once. After the command of the note, the port drops no frame.
    host.run(|| -> Result<(), Failed> {
        send_datagrams(1)?;
        ethtool::set_offloads("h0", &Offloads { tx_csum: false, ..on })?;
        send_datagrams(2)
    })??;
    testbed.far.send(&last)?;
    check_equal(testbed.receive(1)?, vec![last], "received")?;
    let drops = testbed.port.take_drops();
    check_equal(
        drops.by_reason,
        vec![(DropReason::ChecksumUnfinished, 1)],
        "drops",
    )?;
    check_equal(drops.notes, vec![], "notes")
}

fn check_finished_checksums() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    ethtool::set_offloads("h0", &ALL_OFFLOADS)?;
    let OpenedPort { mut port, notes } = Port::open(&port_spec("sw0", Backend::Packet, 1500))?;
    check(
        notes.iter().any(|note| note.contains("ethtool -K h0 tx off")),
        || format!("{notes:?}"),
    )?;
    add_address("h0")?;
    send_datagrams(5)?;
    let mut store = arena_store()?;
    let mut valid = 0;
    wait_for("five datagrams", || {
        let mut received = Vec::new();
        port.receive(&mut store, 64, &mut received)?;
        for frame in received {
            valid += usize::from(udp_checksum_is_valid(store.prefix(frame.frame)).unwrap_or(false));
            store.release(frame.frame);
        }
        Ok((valid == 5).then_some(()))
    })?;
    check_equal(port.take_drops().by_reason, vec![], "drops")
}

/// The far end's namespace is found through a process in it, as with `ip netns` or a container.
fn check_far_end_of_a_process() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    let holder = host.run(|| -> Result<_, Failed> {
        ethtool::set_offloads("h0", &ALL_OFFLOADS)?;
        Ok(support::NamespaceHolder::start()?)
    })??;
    let OpenedPort { port, notes } = Port::open(&port_spec("sw0", Backend::Packet, 1500))?;
    check(
        notes.iter().any(|note| note.contains("ethtool -K h0 tx off")),
        || format!("{notes:?}"),
    )?;
    check_equal(host.run(|| ethtool::offloads("h0"))??, Offloads::OFF, "offloads")?;
    drop(port);
    holder.stop()?;
    check_equal(
        host.run(|| ethtool::offloads("h0"))??,
        ALL_OFFLOADS,
        "restored offloads",
    )
}

/// Returns whether the UDP checksum is valid. `None`: not UDP.
fn udp_checksum_is_valid(frame: &[u8]) -> Option<bool> {
    let ethernet = EthernetPacket::new(frame)?;
    let ip = Ipv4Packet::new(ethernet.payload())?;
    let datagram = UdpPacket::new(ip.payload())?;
    let checksum = udp::ipv4_checksum(&datagram, &ip.get_source(), &ip.get_destination());
    Some(datagram.get_destination() == 4791 && datagram.get_checksum() == checksum)
}

/// Polls the port until it reports that its device is gone.
fn wait_until_gone(testbed: &mut PortTestbed) -> Result<(), Failed> {
    wait_for("the port notices that its device is gone", || {
        let mut received = Vec::new();
        match testbed.port.receive(&mut testbed.store, 64, &mut received) {
            Err(error) if is_device_removed(&error) => Ok(Some(())),
            Err(error) => Err(format!("another error: {error}").into()),
            Ok(_) => {
                received
                    .into_iter()
                    .for_each(|frame| testbed.store.release(frame.frame));
                Ok(None)
            }
        }
    })
}

fn check_removed_device(backend: Backend) -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(backend, 1500)?;
    check(testbed.port.is_link_up(), || "down at the start".to_owned())?;
    net::delete_link("sw0")?;
    wait_until_gone(&mut testbed)?;
    check(!testbed.port.is_link_up(), || "up without a device".to_owned())?;
    let handle = store_frame(&mut testbed.store, &test_frame(&[0x88, 0xb5], 60));
    match testbed.port.transmit(&testbed.store.shared_arena(), &[handle]) {
        Err(error) if is_device_removed(&error) => {}
        other => return Err(format!("transmit on a device that is gone: {other:?}").into()),
    }
    testbed.port.take_drops();
    drop(testbed);
    // The device returns under its name, and the port is opened again.
    let mut testbed = PortTestbed::new(backend, 1500)?;
    let sent = test_frame(&[0x88, 0xb5], 60);
    testbed.far.send(&sent)?;
    check_equal(testbed.receive(1)?, vec![sent], "received")
}

/// A device that is deleted goes down first. The kernel sets one error for both events, so a port that has read the
/// error of the first event gets none for the second one.
fn check_removal_while_down(backend: Backend) -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(backend, 1500)?;
    let down = LinkChange {
        up: Some(false),
        ..LinkChange::default()
    };
    net::set_link("sw0", &down)?;
    for _ in 0..200 {
        receive_burst(&mut testbed.port, &mut testbed.store)?;
    }
    check(!testbed.port.is_link_up(), || "up".to_owned())?;
    check(testbed.port.device_exists(), || {
        "a device that is down exists".to_owned()
    })?;
    net::delete_link("sw0")?;
    check(!testbed.port.device_exists(), || "the device is gone".to_owned())
}

fn check_device_down(backend: Backend) -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(backend, 1500)?;
    let set_up = |up| {
        net::set_link(
            "sw0",
            &LinkChange {
                up: Some(up),
                ..LinkChange::default()
            },
        )
    };
    set_up(false)?;
    for _ in 0..200 {
        receive_burst(&mut testbed.port, &mut testbed.store)?;
    }
    check(!testbed.port.is_link_up(), || "up".to_owned())?;
    let handle = store_frame(&mut testbed.store, &test_frame(&[0x88, 0xb5], 60));
    let arena = testbed.store.shared_arena();
    for _ in 0..3 {
        check_equal(testbed.port.transmit(&arena, &[handle])?, 0, "taken while down")?;
    }
    testbed.store.release(handle);
    set_up(true)?;
    wait_for("the link is up", || Ok(testbed.port.is_link_up().then_some(())))?;
    // The far end of a tap is the device itself, so its socket must be opened again.
    if backend == Backend::Tap {
        testbed.far = FarEnd::open(&net::Netns::current()?, "sw0")?;
    }
    let sent = vec![test_frame(&[0x88, 0xb5], 60); 3];
    wait_for("the far end sends", || {
        Ok(testbed.far.send(&sent[0]).is_ok().then_some(()))
    })?;
    check_equal(testbed.receive(1)?, sent[..1].to_vec(), "received")?;
    testbed.transmit(&sent)?;
    check_equal(testbed.far_receive(3)?, sent, "received by the far end")
}
