//! What is refused, what is repaired, and what is put back.

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

use crate::far::Far;
use crate::support::Needs::{Netns, Tun, Xdp};
use crate::support::{self, Needing, check, same, wait_for};
use crate::testbed::{Bed, frame, receive_burst, spec, store, stored};

pub(crate) const TESTS: &[Needing] = &[
    ("a_bridge_member_is_refused", Netns, bridge_member),
    ("a_device_with_a_small_mtu_is_refused", Netns, small_mtu),
    ("a_missing_device_is_named", Netns, missing_device),
    ("an_mtu_out_of_range_is_refused", Netns, mtu_out_of_range),
    (
        "a_tap_in_use_and_a_device_that_is_no_tap_are_refused",
        Tun,
        taps_refused,
    ),
    ("a_missing_privilege_is_named", Tun, missing_privilege),
    ("long_frames_leave_in_pieces", Netns, long_frames_leave_in_pieces),
    (
        "the_device_is_repaired_and_given_back",
        Netns,
        repaired_and_given_back,
    ),
    (
        "unfinished_checksums_of_a_far_end_out_of_reach_are_dropped",
        Netns,
        || unfinished_checksums(Backend::Packet),
    ),
    (
        "unfinished_checksums_of_a_far_end_out_of_reach_are_dropped_by_xdp",
        Xdp,
        || unfinished_checksums(Backend::Xdp),
    ),
    (
        "a_far_end_within_reach_finishes_its_checksums",
        Netns,
        finished_checksums,
    ),
    (
        "a_far_end_in_the_namespace_of_a_process_is_within_reach",
        Netns,
        far_end_of_a_process,
    ),
    ("a_removed_device_is_gone_and_opens_again", Netns, || {
        removed_device(Backend::Packet)
    }),
    ("a_removed_tap_is_gone_and_opens_again", Tun, || {
        removed_device(Backend::Tap)
    }),
    ("a_removed_device_is_gone_for_pnet_too", Netns, || {
        removed_device(Backend::Pnet)
    }),
    ("a_removed_device_is_gone_for_xdp_too", Xdp, || {
        removed_device(Backend::Xdp)
    }),
    ("a_device_that_is_down_is_not_gone_for_xdp", Xdp, || {
        down_is_not_gone(Backend::Xdp)
    }),
    ("a_device_that_is_down_is_not_gone", Netns, || {
        down_is_not_gone(Backend::Packet)
    }),
    ("a_tap_that_is_down_is_not_gone", Tun, || {
        down_is_not_gone(Backend::Tap)
    }),
    ("a_device_that_is_down_is_not_gone_for_pnet_either", Netns, || {
        down_is_not_gone(Backend::Pnet)
    }),
];

/// Opening is refused with this error, whose text has all of these words.
pub(crate) fn refused(
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
pub(crate) fn netlink(
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

fn bridge_member() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    let bridge = nix::net::if_::if_nametoindex("br0")?;
    let join = LinkUnspec::new_with_name("sw0").controller(bridge).build();
    netlink(async |handle| handle.link().set(join).execute().await)?;
    for backend in [Backend::Auto, Backend::Packet, Backend::Pnet, Backend::Tap] {
        refused(
            &spec("sw0", backend, 1500),
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

fn small_mtu() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    for backend in [Backend::Packet, Backend::Pnet] {
        refused(
            &spec("sw0", backend, 9100),
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

fn missing_device() -> Result<(), Failed> {
    for backend in [Backend::Auto, Backend::Packet, Backend::Pnet] {
        refused(
            &spec("nodev", backend, 1500),
            PortError::is_absent,
            &["Ethernet0", "'nodev'", "ip link", "backend=tap"],
        )?;
    }
    refused(
        &spec("a/b", Backend::Auto, 1500),
        |_| true,
        &["Ethernet0", "'a/b'"],
    )
}

fn mtu_out_of_range() -> Result<(), Failed> {
    for mtu in [0, 67, 16_107, u32::MAX] {
        refused(
            &spec("lo", Backend::Auto, mtu),
            |error| matches!(error, PortError::MtuOutOfRange { .. }),
            &["Ethernet0", &mtu.to_string(), "68"],
        )?;
    }
    Ok(())
}

fn taps_refused() -> Result<(), Failed> {
    let _owner = Port::open(&spec("tap0", Backend::Tap, 1500))?;
    refused(
        &spec("tap0", Backend::Tap, 1500),
        |error| matches!(error, PortError::Busy { .. }),
        &["Ethernet0", "'tap0'", "backend=packet"],
    )?;
    net::add_veth("sw0", "h0", None, 1500)?;
    refused(
        &spec("sw0", Backend::Tap, 1500),
        |error| matches!(error, PortError::NotATap { .. }),
        &["Ethernet0", "'sw0'", "backend=packet"],
    )
}

fn missing_privilege() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    // This thread is the test's own: it ends with the test.
    drop_capabilities_of_this_thread()?;
    for backend in [Backend::Packet, Backend::Pnet] {
        refused(
            &spec("sw0", backend, 1500),
            |error| matches!(error, PortError::NoPrivilege { .. }),
            &["Ethernet0", "'sw0'", "cap_net_raw", "root"],
        )?;
    }
    refused(
        &spec("tap0", Backend::Tap, 1500),
        |error| matches!(error, PortError::NoPrivilege { .. }),
        &["Ethernet0", "'tap0'", "cap_net_admin"],
    )
}

pub(crate) fn drop_capabilities_of_this_thread() -> Result<(), Failed> {
    // `struct __user_cap_header_struct` of version 3 for the calling thread, and its two sets of three words.
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0u32; 6];
    // SAFETY: both are live and as long as version 3 has them.
    match unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

const ALL_ON: Offloads = Offloads {
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

fn repaired_and_given_back() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    ethtool::set_offloads("sw0", &ALL_ON)?;
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

    let OpenedPort { port, notes } = Port::open(&spec("sw0", Backend::Packet, 1500))?;
    let link = net::read_link("sw0")?;
    check(link.up && link.no_arp, || format!("up and without ARP: {link:?}"))?;
    check(ipv6_is_off("sw0"), || "IPv6 is on".to_owned())?;
    same(ethtool::offloads("sw0")?, Offloads::OFF, "offloads")?;
    for word in ["ip link set dev sw0 up", "arp off", "ethtool -K sw0"] {
        check(notes.iter().any(|note| note.contains(word)), || {
            format!("'{word}' is not told: {notes:#?}")
        })?;
    }

    drop(port);
    same(net::read_link("sw0")?.no_arp, false, "no ARP")?;
    same(ethtool::features("sw0")?, before, "features")?;
    check(!had_ipv6 || !ipv6_is_off("sw0"), || {
        "IPv6 was not put back".to_owned()
    })?;
    // Promiscuous was the socket's, and went with it.
    same(net::read_link("sw0")?.promiscuous, false, "promiscuous")
}

/// A packet socket's frames of a page and more would be copied together once more for a device without scatter-gather.
fn long_frames_leave_in_pieces() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 9000)?;
    ethtool::set_offloads("sw0", &ALL_ON)?;
    let before = ethtool::features("sw0")?;
    let OpenedPort { port, notes } = Port::open(&spec("sw0", Backend::Packet, 9000))?;
    let in_pieces = Offloads {
        sg: true,
        ..Offloads::OFF
    };
    same(ethtool::offloads("sw0")?, in_pieces, "offloads")?;
    check(!notes.iter().any(|note| note.contains("sg off")), || {
        format!("told otherwise: {notes:#?}")
    })?;
    drop(port);
    same(ethtool::features("sw0")?, before, "features")
}

/// An address for the kernel to send from, in the namespace of the calling thread.
fn give_address(device: &str) -> Result<(), Failed> {
    let index = nix::net::if_::if_nametoindex(device)?;
    let address = Ipv4Addr::new(10, 9, 0, 1).into();
    netlink(async |handle| handle.address().add(index, address, 24).execute().await)
}

/// Frames of the kernel's own UDP; to the broadcast address, which needs no neighbour.
fn send_datagrams(count: usize) -> Result<(), Failed> {
    let socket = UdpSocket::bind("10.9.0.1:4791")?;
    socket.set_broadcast(true)?;
    for i in 0..count {
        socket.send_to(&[i as u8; 100], "10.9.0.255:4791")?;
    }
    Ok(())
}

fn unfinished_checksums(backend: Backend) -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    let mut bed = Bed::on("h0", &host, backend, 1500)?;
    check(
        bed.notes.iter().any(|note| note.contains("another namespace")),
        || format!("{:?}", bed.notes),
    )?;
    // With an XDP program at our end the kernel keeps segmentation off at the far one.
    let on = Offloads {
        tso: backend != Backend::Xdp,
        ..ALL_ON
    };
    host.run(|| -> Result<(), Failed> {
        ethtool::set_offloads("h0", &on)?;
        give_address("h0")?;
        send_datagrams(3)
    })??;
    // Behind the datagrams, so that they have been looked at when it is here.
    let last = frame(&[0x88, 0xb5], 60);
    bed.far.send(&last)?;
    same(bed.receive(1)?, vec![last.clone()], "received")?;
    let drops = bed.port.take_drops();
    same(
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

    // Said once; and after the command of the note nothing is dropped.
    host.run(|| -> Result<(), Failed> {
        send_datagrams(1)?;
        ethtool::set_offloads("h0", &Offloads { tx_csum: false, ..on })?;
        send_datagrams(2)
    })??;
    bed.far.send(&last)?;
    same(bed.receive(1)?, vec![last], "received")?;
    let drops = bed.port.take_drops();
    same(
        drops.by_reason,
        vec![(DropReason::ChecksumUnfinished, 1)],
        "drops",
    )?;
    same(drops.notes, vec![], "notes")
}

fn finished_checksums() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    ethtool::set_offloads("h0", &ALL_ON)?;
    let OpenedPort { mut port, notes } = Port::open(&spec("sw0", Backend::Packet, 1500))?;
    check(
        notes.iter().any(|note| note.contains("ethtool -K h0 tx off")),
        || format!("{notes:?}"),
    )?;
    give_address("h0")?;
    send_datagrams(5)?;
    let mut store = store()?;
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
    same(port.take_drops().by_reason, vec![], "drops")
}

/// As with `ip netns` or a container: the far end's namespace is found through a process that lives in it.
fn far_end_of_a_process() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    let holder = host.run(|| -> Result<_, Failed> {
        ethtool::set_offloads("h0", &ALL_ON)?;
        Ok(support::Holder::start()?)
    })??;
    let opened = Port::open(&spec("sw0", Backend::Packet, 1500));
    holder.stop()?;
    let notes = opened?.notes;
    check(
        notes.iter().any(|note| note.contains("ethtool -K h0 tx off")),
        || format!("{notes:?}"),
    )?;
    same(host.run(|| ethtool::offloads("h0"))??, Offloads::OFF, "offloads")
}

/// `None`: no UDP.
fn udp_checksum_is_valid(frame: &[u8]) -> Option<bool> {
    let ethernet = EthernetPacket::new(frame)?;
    let ip = Ipv4Packet::new(ethernet.payload())?;
    let datagram = UdpPacket::new(ip.payload())?;
    let checksum = udp::ipv4_checksum(&datagram, &ip.get_source(), &ip.get_destination());
    Some(datagram.get_destination() == 4791 && datagram.get_checksum() == checksum)
}

/// Asks until the port says that its device is gone.
fn wait_until_gone(bed: &mut Bed) -> Result<(), Failed> {
    wait_for("the port notices that its device is gone", || {
        let mut received = Vec::new();
        match bed.port.receive(&mut bed.store, 64, &mut received) {
            Err(error) if is_device_removed(&error) => Ok(Some(())),
            Err(error) => Err(format!("another error: {error}").into()),
            Ok(_) => {
                received
                    .into_iter()
                    .for_each(|frame| bed.store.release(frame.frame));
                Ok(None)
            }
        }
    })
}

fn removed_device(backend: Backend) -> Result<(), Failed> {
    let mut bed = Bed::new(backend, 1500)?;
    check(bed.port.is_link_up(), || "down at the start".to_owned())?;
    net::delete_link("sw0")?;
    wait_until_gone(&mut bed)?;
    check(!bed.port.is_link_up(), || "up without a device".to_owned())?;
    let handle = stored(&mut bed.store, &frame(&[0x88, 0xb5], 60));
    match bed.port.transmit(&bed.store.shared_arena(), &[handle]) {
        Err(error) if is_device_removed(&error) => {}
        other => return Err(format!("transmit on a device that is gone: {other:?}").into()),
    }
    bed.port.take_drops();
    drop(bed);
    // It comes back under its name, and so does the port.
    let mut bed = Bed::new(backend, 1500)?;
    let sent = frame(&[0x88, 0xb5], 60);
    bed.far.send(&sent)?;
    same(bed.receive(1)?, vec![sent], "received")
}

fn down_is_not_gone(backend: Backend) -> Result<(), Failed> {
    let mut bed = Bed::new(backend, 1500)?;
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
        receive_burst(&mut bed.port, &mut bed.store)?;
    }
    check(!bed.port.is_link_up(), || "up".to_owned())?;
    let handle = stored(&mut bed.store, &frame(&[0x88, 0xb5], 60));
    let arena = bed.store.shared_arena();
    for _ in 0..3 {
        same(bed.port.transmit(&arena, &[handle])?, 0, "taken while down")?;
    }
    bed.store.release(handle);
    set_up(true)?;
    wait_for("the link is up", || Ok(bed.port.is_link_up().then_some(())))?;
    // The far end of a tap is the device itself: its socket has to be opened again.
    if backend == Backend::Tap {
        bed.far = Far::open(&net::Netns::current()?, "sw0")?;
    }
    let sent = vec![frame(&[0x88, 0xb5], 60); 3];
    wait_for("the far end sends", || {
        Ok(bed.far.send(&sent[0]).is_ok().then_some(()))
    })?;
    same(bed.receive(1)?, sent[..1].to_vec(), "received")?;
    bed.transmit(&sent)?;
    same(bed.far_receive(3)?, sent, "received by the far end")
}
