//! What is particular to AF_XDP: devices it cannot drive, tags that a kernel keeps beside the frame, devices that stop
//! taking frames, and slots that come back.

use libtest_mimic::Failed;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::{LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth};
use xoff_dataplane::FrameStore;
use xoff_ports::net::ethtool::{self, Channels};
use xoff_ports::net::{self, LinkChange};
use xoff_ports::{Backend, Port, PortError, SlotSource};

use crate::far::Far;
use crate::guards::{drop_capabilities_of_this_thread, netlink, refused};
use crate::support::Needs::Xdp;
use crate::support::{Needing, check, same, wait_for};
use crate::testbed::{Bed, attach, frame, receive_burst, spec, store, stored};

pub(crate) const TESTS: &[Needing] = &[
    ("xdp_refuses_a_device_with_several_queues", Xdp, several_queues),
    ("xdp_refuses_a_device_that_is_taken", Xdp, taken),
    ("xdp_refuses_a_device_without_native_mode", Xdp, not_native),
    ("xdp_names_a_missing_privilege", Xdp, missing_privilege),
    ("xdp_refuses_what_every_backend_refuses", Xdp, refused_by_all),
    (
        "xdp_gets_tags_that_the_far_kernel_kept_beside_the_frame",
        Xdp,
        tags_of_a_bridge,
    ),
    (
        "xdp_says_how_tags_are_kept_where_it_cannot_reach",
        Xdp,
        tags_out_of_reach,
    ),
    ("xdp_sends_nothing_that_was_taken_back", Xdp, taken_back),
    ("xdp_gives_all_slots_back", Xdp, gives_slots_back),
    ("xdp_loses_no_slot_while_frames_come", Xdp, while_frames_come),
    ("xdp_keeps_frames_of_two_slots_apart", Xdp, mixed_lengths),
];

fn no_xdp(error: &PortError) -> bool {
    matches!(error, PortError::NoXdp { .. })
}

/// A pair whose near end has two queues to receive.
fn several_queues() -> Result<(), Failed> {
    let queues = |message: LinkMessageBuilder<LinkVeth>| {
        message
            .append_extra_attribute(LinkAttribute::NumTxQueues(2))
            .append_extra_attribute(LinkAttribute::NumRxQueues(2))
    };
    let pair = queues(LinkVeth::new("sw0", "h0")).build();
    netlink(async |handle| handle.link().add(pair).execute().await)?;
    let two = Channels {
        rx: 2,
        tx: 2,
        combined: 0,
    };
    same(ethtool::channels("sw0")?, Some(two), "queues")?;
    refused(
        &spec("sw0", Backend::Xdp, 1500),
        no_xdp,
        &[
            "Ethernet0",
            "'sw0'",
            "2 queues",
            "ethtool -L sw0 rx 1 tx 1",
            "backend=packet",
        ],
    )
}

fn taken() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    let first = Port::open(&spec("sw0", Backend::Xdp, 1500))?;
    refused(
        &spec("sw0", Backend::Xdp, 1500),
        no_xdp,
        &[
            "Ethernet0",
            "'sw0'",
            "another XDP program",
            "ip link set dev sw0 xdp off",
        ],
    )?;
    drop(first);
    // It goes with the port.
    Port::open(&spec("sw0", Backend::Xdp, 1500)).map(drop)?;
    Ok(())
}

fn not_native() -> Result<(), Failed> {
    netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    refused(
        &spec("br0", Backend::Xdp, 1500),
        no_xdp,
        &[
            "Ethernet0",
            "'br0'",
            "'bridge'",
            "no native XDP",
            "backend=packet",
        ],
    )
}

fn missing_privilege() -> Result<(), Failed> {
    net::add_veth("sw0", "h0", None, 1500)?;
    // This thread is the test's own: it ends with the test.
    drop_capabilities_of_this_thread()?;
    refused(
        &spec("sw0", Backend::Xdp, 1500),
        |_| true,
        &["Ethernet0", "'sw0'", "cap_net_raw", "root"],
    )
}

fn refused_by_all() -> Result<(), Failed> {
    refused(
        &spec("nodev", Backend::Xdp, 1500),
        PortError::is_absent,
        &["Ethernet0", "'nodev'"],
    )?;
    net::add_veth("sw0", "h0", None, 1500)?;
    refused(
        &spec("sw0", Backend::Xdp, 9100),
        |error| matches!(error, PortError::MtuTooSmall { .. }),
        &["Ethernet0", "9100", "1500"],
    )?;
    netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    let bridge = nix::net::if_::if_nametoindex("br0")?;
    let join = LinkUnspec::new_with_name("sw0").controller(bridge).build();
    netlink(async |handle| handle.link().set(join).execute().await)?;
    refused(
        &spec("sw0", Backend::Xdp, 1500),
        |error| matches!(error, PortError::InBridge { .. }),
        &["Ethernet0", "'sw0'", "'br0'"],
    )
}

/// The far end is a port of a bridge: the kernel takes the tag off on its way in, and has it beside the frame on its way out.
fn tags_of_a_bridge() -> Result<(), Failed> {
    net::add_veth("x0", "x1", None, 1500)?;
    net::add_veth("sw0", "h0", None, 1500)?;
    netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    let bridge = nix::net::if_::if_nametoindex("br0")?;
    for member in ["x1", "h0"] {
        let join = LinkUnspec::new_with_name(member).controller(bridge).build();
        netlink(async |handle| handle.link().set(join).execute().await)?;
    }
    net::disable_ipv6("br0")?;
    let up = LinkChange {
        up: Some(true),
        ..LinkChange::default()
    };
    net::set_link("br0", &up)?;
    let mut store = store()?;
    let opened = Port::open(&spec("sw0", Backend::Xdp, 1500))?;
    check(
        opened
            .notes
            .iter()
            .any(|note| note.contains("ethtool -K h0 txvlan off")),
        || format!("{:?}", opened.notes),
    )?;
    let mut port = opened.port;
    attach(&mut port, &mut store)?;
    let mut far = Far::open(&net::Netns::current()?, "x0")?;
    for tag in [
        [0x81, 0x00, 0x60, 0x0a],
        [0x88, 0xa8, 0x20, 0x14],
        [0x81, 0x00, 0, 0],
    ] {
        let sent = frame(&[&tag[..], &[0x88, 0xb5]].concat(), 100);
        wait_for("a tagged frame", || {
            far.send(&sent)?;
            let got = receive_burst(&mut port, &mut store)?;
            check(got.iter().all(|got| *got == sent), || {
                format!("{got:02x?} instead of {sent:02x?}")
            })?;
            Ok((!got.is_empty()).then_some(()))
        })?;
        // Those that were sent while the bridge was not ready, or are still on their way.
        std::thread::sleep(std::time::Duration::from_millis(20));
        receive_burst(&mut port, &mut store)?;
    }
    Ok(())
}

fn tags_out_of_reach() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    let notes = Port::open(&spec("sw0", Backend::Xdp, 1500))?.notes;
    for words in ["ethtool -K DEV tx off", "ethtool -K DEV txvlan off"] {
        check(notes.iter().any(|note| note.contains(words)), || {
            format!("'{words}' is missing in {notes:?}")
        })?;
    }
    Ok(())
}

/// Frames that a device which is down has not taken are not sent later, when their slots hold others.
fn taken_back() -> Result<(), Failed> {
    let mut bed = Bed::new(Backend::Xdp, 9216)?;
    let set_up = |up| {
        let change = LinkChange {
            up: Some(up),
            ..LinkChange::default()
        };
        net::set_link("sw0", &change)
    };
    let arena = bed.store.shared_arena();
    for round in 0..5 {
        set_up(false)?;
        let old: Vec<_> = [60, 1500, 9000, 60]
            .map(|len| stored(&mut bed.store, &frame(&[0x88, 0xb5, 1], len)))
            .into();
        same(bed.port.transmit(&arena, &old)?, 0, "taken while down")?;
        old.into_iter().for_each(|handle| bed.store.release(handle));
        set_up(true)?;
        wait_for("the link is up", || Ok(bed.port.is_link_up().then_some(())))?;
        // These take the same slots.
        let new: Vec<Vec<u8>> = [60, 1500, 9000, 60, 61]
            .map(|len| frame(&[0x88, 0xb5, 2, round], len))
            .into();
        bed.transmit(&new)?;
        same(bed.far_receive(new.len())?, new, "received by the far end")?;
    }
    same(bed.port.take_drops().lost, 0, "lost")?;
    bed.leaves_no_slot()
}

fn gives_slots_back() -> Result<(), Failed> {
    let mut bed = Bed::new(Backend::Xdp, 9216)?;
    let before = bed.store.used_slots();
    same(
        before,
        bed.port.reserved_slots(),
        "slots that the port says it holds",
    )?;
    for len in [60, 1500, 4000, 9000] {
        let frames = vec![frame(&[0x88, 0xb5], len); 6];
        for _ in 0..500 {
            for frame in &frames {
                bed.far.send(frame)?;
            }
            same(bed.receive(frames.len())?.len(), frames.len(), "received")?;
            bed.transmit(&frames)?;
            bed.far_receive(frames.len())?;
            same(bed.store.used_slots(), before, "slots in use")?;
        }
    }
    // Some of them wait in the ring when it ends.
    for len in [60, 9000, 60] {
        bed.far.send(&frame(&[0x88, 0xb5], len))?;
    }
    same(bed.port.take_drops().lost, 0, "lost")?;
    bed.leaves_no_slot()
}

/// Frames of one slot and of several in turn, received with few large slots.
fn mixed_lengths() -> Result<(), Failed> {
    let mut bed = Bed::new(Backend::Xdp, 9216)?;
    let (_, large) = bed.store.free_slots();
    let held: Vec<_> = (1..large)
        .filter_map(|_| bed.store.take_slot_of(xoff_ports::SlotClass::Large))
        .collect();
    let frames: Vec<_> = [60, 9000, 61, 9001, 62]
        .map(|len| frame(&[0x88, 0xb5], len))
        .into();
    for frame in &frames {
        bed.far.send(frame)?;
    }
    // With one large slot, which is free again after each burst, the rest waits in its order.
    same(bed.receive(frames.len())?, frames, "received")?;
    held.into_iter().for_each(|slot| bed.store.return_slot(slot));
    bed.leaves_no_slot()
}

/// The kernel fills slots at the same time as the port empties them.
fn while_frames_come() -> Result<(), Failed> {
    const COUNT: usize = 30_000;
    let Bed {
        mut store,
        mut port,
        mut far,
        ..
    } = Bed::new(Backend::Xdp, 9216)?;
    let frames: Vec<_> = [60, 1000, 4000, 60, 60, 1514]
        .map(|len| frame(&[0x88, 0xb5], len))
        .into();
    let before = store.used_slots();
    let (mut received, mut lost) = (0, 0);
    std::thread::scope(|scope| -> Result<(), Failed> {
        // What its own device drops is no loss of the port.
        let sender = scope.spawn(move || {
            let frames = frames.iter().cycle().take(COUNT);
            let sent = frames.filter(|frame| far.send(frame).is_ok()).count();
            // With the far end its namespace would go, and the device with that.
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
    same(store.used_slots(), before, "slots in use")?;
    check(port.close(&mut store), || "the port keeps slots".to_owned())?;
    same(store.used_slots(), 0, "slots in use in the end")
}
