//! Tests of AF_XDP: unsupported devices, tags that the kernel keeps outside the frame, devices that stop
//! taking frames, and the return of slots.

use libtest_mimic::Failed;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::{LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth};
use xoff_dataplane::FrameStore;
use xoff_ports::net::ethtool::{self, Channels};
use xoff_ports::net::{self, LinkChange};
use xoff_ports::{Backend, Port, PortError, SlotSource};

use crate::device_checks::{assert_open_is_refused, drop_capabilities_of_this_thread, run_netlink};
use crate::far_end::FarEnd;
use crate::support::KernelFeatures::Xdp;
use crate::support::{PrivilegedTest, check, check_equal, wait_for};
use crate::testbed::{
    PortTestbed, arena_store, port_spec, prepare_port, receive_burst, store_frame, test_frame,
};

pub(crate) const TESTS: &[PrivilegedTest] = &[
    (
        "xdp_refuses_a_device_with_several_queues",
        Xdp,
        check_several_queues,
    ),
    (
        "xdp_refuses_a_device_with_another_program",
        Xdp,
        check_occupied_device,
    ),
    (
        "xdp_refuses_a_device_without_native_mode",
        Xdp,
        check_missing_native_mode,
    ),
    ("xdp_reports_a_missing_privilege", Xdp, check_missing_privilege),
    (
        "xdp_makes_the_checks_of_every_backend",
        Xdp,
        check_common_refusals,
    ),
    (
        "xdp_receives_tags_that_the_far_kernel_stores_outside_the_frame",
        Xdp,
        check_tags_of_a_bridge,
    ),
    (
        "xdp_reports_the_tag_setting_of_an_unreachable_far_end",
        Xdp,
        check_unreachable_tag_setting,
    ),
    ("xdp_never_sends_recalled_frames", Xdp, check_recalled_frames),
    ("xdp_returns_all_slots", Xdp, check_slot_return),
    ("xdp_loses_no_slot_under_traffic", Xdp, check_slots_under_traffic),
    (
        "xdp_receives_frames_of_one_and_several_slots",
        Xdp,
        check_mixed_lengths,
    ),
];

fn is_xdp_unsupported(error: &PortError) -> bool {
    matches!(error, PortError::NoXdp { .. })
}

/// Creates a veth pair whose near end has two receive queues.
fn check_several_queues() -> Result<(), Failed> {
    let queues = |message: LinkMessageBuilder<LinkVeth>| {
        message
            .append_extra_attribute(LinkAttribute::NumTxQueues(2))
            .append_extra_attribute(LinkAttribute::NumRxQueues(2))
    };
    let pair = queues(LinkVeth::new("sw0", "h0")).build();
    run_netlink(async |handle| handle.link().add(pair).execute().await)?;
    let two = Channels {
        rx: 2,
        tx: 2,
        combined: 0,
    };
    check_equal(ethtool::channels("sw0")?, Some(two), "queues")?;
    assert_open_is_refused(
        &port_spec("sw0", Backend::Xdp, 1500),
        is_xdp_unsupported,
        &[
            "Ethernet0",
            "'sw0'",
            "2 queues",
            "ethtool -L sw0 rx 1 tx 1",
            "backend=packet",
        ],
    )
}

fn check_occupied_device() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    let first = Port::open(&port_spec("sw0", Backend::Xdp, 1500))?;
    assert_open_is_refused(
        &port_spec("sw0", Backend::Xdp, 1500),
        |error| matches!(error, PortError::InUse { .. }),
        &["Ethernet0", "'sw0'", &format!("process {} ", std::process::id())],
    )?;
    drop(first);
    // The program is detached when the port is closed.
    Port::open(&port_spec("sw0", Backend::Xdp, 1500)).map(drop)?;
    Ok(())
}

fn check_missing_native_mode() -> Result<(), Failed> {
    run_netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    assert_open_is_refused(
        &port_spec("br0", Backend::Xdp, 1500),
        is_xdp_unsupported,
        &[
            "Ethernet0",
            "'br0'",
            "'bridge'",
            "no native XDP",
            "backend=packet",
        ],
    )
}

fn check_missing_privilege() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    // The thread belongs to this test and ends with it.
    drop_capabilities_of_this_thread()?;
    assert_open_is_refused(
        &port_spec("sw0", Backend::Xdp, 1500),
        |_| true,
        &["Ethernet0", "'sw0'", "cap_net_raw", "root"],
    )
}

fn check_common_refusals() -> Result<(), Failed> {
    assert_open_is_refused(
        &port_spec("nodev", Backend::Xdp, 1500),
        PortError::is_absent,
        &["Ethernet0", "'nodev'"],
    )?;
    net::add_veth("sw0", "h0", None, 1500)?;
    assert_open_is_refused(
        &port_spec("sw0", Backend::Xdp, 9100),
        |error| matches!(error, PortError::MtuTooSmall { .. }),
        &["Ethernet0", "9100", "1500"],
    )?;
    run_netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    let bridge = nix::net::if_::if_nametoindex("br0")?;
    let join = LinkUnspec::new_with_name("sw0").controller(bridge).build();
    run_netlink(async |handle| handle.link().set(join).execute().await)?;
    assert_open_is_refused(
        &port_spec("sw0", Backend::Xdp, 1500),
        |error| matches!(error, PortError::InBridge { .. }),
        &["Ethernet0", "'sw0'", "'br0'"],
    )
}

/// The far end is a bridge port. The kernel removes the tag at its ingress and keeps it outside the frame at
/// its egress.
fn check_tags_of_a_bridge() -> Result<(), Failed> {
    net::add_veth("x0", "x1", None, 1500)?;
    net::add_veth("sw0", "h0", None, 1500)?;
    run_netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    let bridge = nix::net::if_::if_nametoindex("br0")?;
    for member in ["x1", "h0"] {
        let join = LinkUnspec::new_with_name(member).controller(bridge).build();
        run_netlink(async |handle| handle.link().set(join).execute().await)?;
    }
    net::disable_ipv6("br0")?;
    let up = LinkChange {
        up: Some(true),
        ..LinkChange::default()
    };
    net::set_link("br0", &up)?;
    let mut store = arena_store()?;
    let opened = Port::open(&port_spec("sw0", Backend::Xdp, 1500))?;
    check(
        opened
            .notes
            .iter()
            .any(|note| note.contains("ethtool -K h0 txvlan off")),
        || format!("{:?}", opened.notes),
    )?;
    let mut port = opened.port;
    prepare_port(&mut port, &mut store)?;
    let mut far = FarEnd::open(&net::Netns::current()?, "x0")?;
    for tag in [
        [0x81, 0x00, 0x60, 0x0a],
        [0x88, 0xa8, 0x20, 0x14],
        [0x81, 0x00, 0, 0],
    ] {
        let sent = test_frame(&[&tag[..], &[0x88, 0xb5]].concat(), 100);
        wait_for("a tagged frame", || {
            far.send(&sent)?;
            let got = receive_burst(&mut port, &mut store)?;
            check(got.iter().all(|got| *got == sent), || {
                format!("{got:02x?} instead of {sent:02x?}")
            })?;
            Ok((!got.is_empty()).then_some(()))
        })?;
        // Frames that were sent before the bridge was ready, or are still in flight.
        std::thread::sleep(std::time::Duration::from_millis(20));
        receive_burst(&mut port, &mut store)?;
    }
    Ok(())
}

fn check_unreachable_tag_setting() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    let notes = Port::open(&port_spec("sw0", Backend::Xdp, 1500))?.notes;
    for words in ["ethtool -K DEV tx off", "ethtool -K DEV txvlan off"] {
        check(notes.iter().any(|note| note.contains(words)), || {
            format!("'{words}' is missing in {notes:?}")
        })?;
    }
    Ok(())
}

/// A device that is down does not take frames. These frames must not be sent later, when their slots hold
/// other frames.
fn check_recalled_frames() -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(Backend::Xdp, 9216)?;
    let set_up = |up| {
        let change = LinkChange {
            up: Some(up),
            ..LinkChange::default()
        };
        net::set_link("sw0", &change)
    };
    let arena = testbed.store.shared_arena();
    for round in 0..5 {
        set_up(false)?;
        let old: Vec<_> = [60, 1500, 9000, 60]
            .map(|len| store_frame(&mut testbed.store, &test_frame(&[0x88, 0xb5, 1], len)))
            .into();
        check_equal(testbed.port.transmit(&arena, &old)?, 0, "taken while down")?;
        old.into_iter().for_each(|handle| testbed.store.release(handle));
        set_up(true)?;
        wait_for("the link is up", || Ok(testbed.port.is_link_up().then_some(())))?;
        // The next frames use the same slots.
        let new: Vec<Vec<u8>> = [60, 1500, 9000, 60, 61]
            .map(|len| test_frame(&[0x88, 0xb5, 2, round], len))
            .into();
        testbed.transmit(&new)?;
        check_equal(testbed.far_receive(new.len())?, new, "received by the far end")?;
    }
    check_equal(testbed.port.take_drops().lost, 0, "lost")?;
    testbed.close_and_check_slots()
}

fn check_slot_return() -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(Backend::Xdp, 9216)?;
    let before = testbed.store.used_slots();
    check_equal(
        before,
        testbed.port.reserved_slots(),
        "slots that the port says it holds",
    )?;
    for len in [60, 1500, 4000, 9000] {
        let frames = vec![test_frame(&[0x88, 0xb5], len); 6];
        for _ in 0..500 {
            for frame in &frames {
                testbed.far.send(frame)?;
            }
            check_equal(testbed.receive(frames.len())?.len(), frames.len(), "received")?;
            testbed.transmit(&frames)?;
            testbed.far_receive(frames.len())?;
            check_equal(testbed.store.used_slots(), before, "slots in use")?;
        }
    }
    // Some frames are still in the ring when the port is closed.
    for len in [60, 9000, 60] {
        testbed.far.send(&test_frame(&[0x88, 0xb5], len))?;
    }
    check_equal(testbed.port.take_drops().lost, 0, "lost")?;
    testbed.close_and_check_slots()
}

/// Frames of one slot and of several slots alternate. Only few large slots are free to receive.
fn check_mixed_lengths() -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(Backend::Xdp, 9216)?;
    let (_, large) = testbed.store.free_slots();
    let held: Vec<_> = (1..large)
        .filter_map(|_| testbed.store.take_slot_of(xoff_ports::SlotClass::Large))
        .collect();
    let frames: Vec<_> = [60, 9000, 61, 9001, 62]
        .map(|len| test_frame(&[0x88, 0xb5], len))
        .into();
    for frame in &frames {
        testbed.far.send(frame)?;
    }
    // With one large slot, which is free again after each burst, the other frames wait in order.
    check_equal(testbed.receive(frames.len())?, frames, "received")?;
    held.into_iter().for_each(|slot| testbed.store.return_slot(slot));
    testbed.close_and_check_slots()
}

/// The kernel fills slots while the port empties them.
fn check_slots_under_traffic() -> Result<(), Failed> {
    const FRAME_COUNT: usize = 30_000;
    let PortTestbed {
        mut store,
        mut port,
        mut far,
        ..
    } = PortTestbed::new(Backend::Xdp, 9216)?;
    let frames: Vec<_> = [60, 1000, 4000, 60, 60, 1514]
        .map(|len| test_frame(&[0x88, 0xb5], len))
        .into();
    let before = store.used_slots();
    let (mut received, mut lost) = (0, 0);
    std::thread::scope(|scope| -> Result<(), Failed> {
        // Drops of the device itself are no losses of the port.
        let sender = scope.spawn(move || {
            let frames = frames.iter().cycle().take(FRAME_COUNT);
            let sent = frames.filter(|frame| far.send(frame).is_ok()).count();
            // The end of the far end would remove its namespace and the device.
            (sent, far)
        });
        while !sender.is_finished() {
            received += receive_burst(&mut port, &mut store)?.len();
        }
        let (sent, _far) = sender.join().map_err(|_| "the sender died")?;
        wait_for("every frame is received or lost", || {
            received += receive_burst(&mut port, &mut store)?.len();
            lost += port.take_drops().lost as usize;
            Ok((received + lost == sent).then_some(()))
        })
    })?;
    check_equal(store.used_slots(), before, "slots in use")?;
    check(port.close(&mut store), || "the port keeps slots".to_owned())?;
    check_equal(store.used_slots(), 0, "slots in use in the end")
}
