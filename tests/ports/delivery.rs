//! Tests that every backend delivers all bytes of all frames in order.

use libtest_mimic::Failed;
use xoff_dataplane::FrameStore;
use xoff_ports::net;
use xoff_ports::{ArenaStore, Backend, Port, SlotSource};

use crate::support::KernelFeatures::{Netns, Tun, Xdp, XdpOnTun};
use crate::support::{PrivilegedTest, check, check_equal, wait_for};
use crate::testbed::{
    PortTestbed, arena_store, port_spec, prepare_port, receive_burst, store_frame, tagged_frames, test_frame,
    untagged_frames,
};

pub(crate) const TESTS: &[PrivilegedTest] = &[
    ("packet_delivers_all_bytes", Netns, || {
        check_delivery(Backend::Packet, 1500, true)
    }),
    ("packet_delivers_jumbo_frames", Netns, || {
        check_delivery(Backend::Packet, 9216, true)
    }),
    ("xdp_delivers_all_bytes", Xdp, || {
        check_delivery(Backend::Xdp, 1500, true)
    }),
    ("xdp_delivers_jumbo_frames", Xdp, || {
        check_delivery(Backend::Xdp, 9216, true)
    }),
    ("xdp_delivers_frames_of_every_length", Xdp, check_every_length),
    ("tap_delivers_all_bytes", Tun, || {
        check_delivery(Backend::Tap, 1500, true)
    }),
    ("tap_delivers_jumbo_frames", Tun, || {
        check_delivery(Backend::Tap, 9216, true)
    }),
    ("pnet_delivers_untagged_frames", Netns, || {
        check_delivery(Backend::Pnet, 1500, false)
    }),
    ("pnet_loses_tags", Netns, check_pnet_loses_tags),
    (
        "backends_receive_the_frames_of_the_reference",
        Tun,
        backends_receive_the_frames_of_the_reference,
    ),
    ("link_delivers_all_bytes", Netns, check_link_delivery),
    ("packet_keeps_the_order_of_bursts", Netns, || {
        check_order(Backend::Packet, 500)
    }),
    ("xdp_keeps_the_order_of_bursts", Xdp, || {
        check_order(Backend::Xdp, 500)
    }),
    ("tap_keeps_the_order_of_bursts", Tun, || {
        check_order(Backend::Tap, 500)
    }),
    // Without privileges, the socket of the far end holds no more frames.
    ("pnet_keeps_the_order_of_bursts", Netns, || {
        check_order(Backend::Pnet, 50)
    }),
    ("copies_with_shared_bytes_are_sent_complete", Tun, || {
        check_shared_copies(&[Backend::Packet, Backend::Tap, Backend::Pnet])
    }),
    ("xdp_sends_copies_with_shared_bytes_complete", Xdp, || {
        check_shared_copies(&[Backend::Xdp])
    }),
    ("own_frames_are_not_received", Tun, || {
        check_own_frames_are_not_received(&[Backend::Packet, Backend::Tap, Backend::Pnet])
    }),
    ("xdp_does_not_receive_own_frames", Xdp, || {
        check_own_frames_are_not_received(&[Backend::Xdp])
    }),
    ("a_tap_of_another_owner_is_used_as_a_network_device", Tun, || {
        check_tap_of_another_owner(Backend::Packet, 1500)
    }),
    ("xdp_uses_a_tap_of_another_owner", XdpOnTun, || {
        check_tap_of_another_owner(Backend::Xdp, 1500)
    }),
    (
        "xdp_uses_a_tap_of_another_owner_with_jumbo_frames",
        XdpOnTun,
        || check_tap_of_another_owner(Backend::Xdp, 9216),
    ),
    ("frames_wait_in_the_device_for_free_slots", Tun, || {
        check_frames_wait_for_slots(&[Backend::Packet, Backend::Tap])
    }),
    ("frames_of_xdp_wait_in_the_device_for_free_slots", Xdp, || {
        check_frames_wait_for_slots(&[Backend::Xdp])
    }),
    (
        "the_receive_time_is_the_kernel_timestamp",
        Netns,
        check_receive_time,
    ),
];

fn check_delivery(backend: Backend, mtu: u32, tags: bool) -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(backend, mtu)?;
    let mut frames = untagged_frames(mtu);
    if tags {
        frames.extend(tagged_frames(mtu));
    }
    for frame in &frames {
        testbed.far.send(frame)?;
    }
    for (got, sent) in testbed.receive(frames.len())?.iter().zip(&frames) {
        check_equal(got, sent, "received by the port")?;
    }
    testbed.transmit(&frames)?;
    for (got, sent) in testbed.far_receive(frames.len())?.iter().zip(&frames) {
        check_equal(got, sent, "received by the far end")?;
    }
    let drops = testbed.port.take_drops();
    check_equal(drops.by_reason, vec![], "drops")?;
    check_equal(drops.lost, 0, "lost")?;
    testbed.close_and_check_slots()
}

/// Tests frame lengths around each additional frame slot, in both directions.
fn check_every_length() -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(Backend::Xdp, 9216)?;
    let chunks = [1792, 2 * 1792, 3 * 1792, 4 * 1792, 5 * 1792, 2048, 4096, 8192];
    let lengths = chunks.into_iter().flat_map(|len| len - 2..=len + 2);
    let frames: Vec<Vec<u8>> = lengths.map(|len| test_frame(&[0x88, 0xb5], len)).collect();
    for _ in 0..20 {
        for burst in frames.chunks(8) {
            for frame in burst {
                testbed.far.send(frame)?;
            }
            for (got, sent) in testbed.receive(burst.len())?.iter().zip(burst) {
                check(got == sent, || {
                    format!("a frame of {} octets came wrong", sent.len())
                })?;
            }
        }
        // Each burst must fit into the socket of the far end.
        for burst in frames.chunks(8) {
            testbed.transmit(burst)?;
            for (got, sent) in testbed.far_receive(burst.len())?.iter().zip(burst) {
                check(got == sent, || {
                    format!("a frame of {} octets left wrong", sent.len())
                })?;
            }
        }
    }
    check_equal(testbed.port.take_drops().lost, 0, "lost")?;
    testbed.close_and_check_slots()
}

/// `pnet` loses VLAN tags. For this reason it is only a reference.
fn check_pnet_loses_tags() -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(Backend::Pnet, 1500)?;
    let frames = tagged_frames(1500);
    for frame in &frames {
        testbed.far.send(frame)?;
    }
    for (got, mut sent) in testbed.receive(frames.len())?.into_iter().zip(frames) {
        sent.drain(12..16);
        check_equal(got, sent, "without its outer tag")?;
    }
    Ok(())
}

fn backends_receive_the_frames_of_the_reference() -> Result<(), Failed> {
    let mut sent = untagged_frames(1500);
    sent.extend((60..1514).step_by(13).map(|len| test_frame(&[0x88, 0xb5], len)));
    let receive = |backend| -> Result<Vec<Vec<u8>>, Failed> {
        net::Netns::create()?.run(|| {
            let mut testbed = PortTestbed::new(backend, 1500)?;
            for frame in &sent {
                testbed.far.send(frame)?;
            }
            testbed.receive(sent.len())
        })?
    };
    let reference = receive(Backend::Pnet)?;
    check_equal(receive(Backend::Packet)?, reference.clone(), "packet and pnet")?;
    check_equal(receive(Backend::Auto)?, reference.clone(), "auto and pnet")?;
    check_equal(receive(Backend::Tap)?, reference.clone(), "tap and pnet")?;
    let mut store = arena_store()?;
    let [mut near, mut far] = link_pair(&store, 1500, 512)?;
    receive_burst(&mut near, &mut store)?;
    let handles: Vec<_> = sent.iter().map(|frame| store_frame(&mut store, frame)).collect();
    check_equal(
        far.transmit(&store.shared_arena(), &handles)?,
        handles.len(),
        "taken",
    )?;
    let mut got = Vec::new();
    while got.len() < sent.len() {
        got.extend(receive_burst(&mut near, &mut store)?);
    }
    check_equal(got, reference, "link and pnet")
}

/// Creates a link whose two ends have their slots in `store`.
fn link_pair(store: &ArenaStore, mtu: u32, frames: usize) -> Result<[Port; 2], Failed> {
    let mut ends = Port::link_pair(["a", "b"], mtu, frames);
    for end in &mut ends {
        end.attach(&store.shared_arena())?;
    }
    Ok(ends)
}

fn check_link_delivery() -> Result<(), Failed> {
    let mut store = arena_store()?;
    let [mut near, mut far] = link_pair(&store, 9100, 64)?;
    for (from, to) in [(true, 0), (false, 1)] {
        let (sender, receiver) = if from {
            (&mut near, &mut far)
        } else {
            (&mut far, &mut near)
        };
        check(sender.is_link_up(), || format!("end {to} is down"))?;
        receive_burst(receiver, &mut store)?;
        let frames = [untagged_frames(9100), tagged_frames(9100)].concat();
        let handles: Vec<_> = frames
            .iter()
            .map(|frame| store_frame(&mut store, frame))
            .collect();
        check_equal(
            sender.transmit(&store.shared_arena(), &handles)?,
            frames.len(),
            "taken",
        )?;
        handles.into_iter().for_each(|handle| store.release(handle));
        check_equal(receive_burst(receiver, &mut store)?, frames, "received")?;
    }
    near.close(&mut store);
    check(far.close(&mut store), || {
        "the far end still holds slots".to_owned()
    })?;
    check(near.close(&mut store), || {
        "the near end still holds slots".to_owned()
    })?;
    check_equal(store.used_slots(), 0, "slots in use")
}

fn check_order(backend: Backend, burst: usize) -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(backend, 1500)?;
    let frames: Vec<Vec<u8>> = (0..500u16)
        .map(|i| {
            test_frame(
                &[&[0x88, 0xb5][..], &i.to_be_bytes()].concat(),
                60 + usize::from(i) % 1000,
            )
        })
        .collect();
    for _ in 0..3 {
        for burst in frames.chunks(burst) {
            for frame in burst {
                testbed.far.send(frame)?;
            }
            check_equal(&*testbed.receive(burst.len())?, burst, "received by the port")?;
        }
        testbed.transmit(&frames)?;
        check_equal(
            testbed.far_receive(frames.len())?,
            frames.clone(),
            "received by the far end",
        )?;
    }
    check_equal(testbed.port.take_drops().lost, 0, "lost")
}

fn check_shared_copies(backends: &[Backend]) -> Result<(), Failed> {
    for &backend in backends {
        net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut testbed = PortTestbed::new(backend, 1500)?;
            let sent = test_frame(&[0x88, 0xb5], 1400);
            let original = store_frame(&mut testbed.store, &sent);
            let copy = testbed.store.copy(original, 128).ok_or("no slot")?;
            testbed.store.push_front(copy, 4);
            let mut addresses = [0; 12];
            addresses.copy_from_slice(&sent[..12]);
            let prefix = testbed.store.prefix_mut(copy);
            prefix[..12].copy_from_slice(&addresses);
            prefix[12..16].copy_from_slice(&[0x81, 0x00, 0x20, 0x07]);
            let mut with_tag = sent.clone();
            with_tag.splice(12..12, [0x81, 0x00, 0x20, 0x07]);
            testbed.transmit_handles(&[copy, original])?;
            check_equal(
                testbed.far_receive(2)?,
                vec![with_tag, sent],
                "received by the far end",
            )?;
            testbed.store.release(original);
            testbed.store.release(copy);
            testbed.close_and_check_slots()
        })??;
    }
    Ok(())
}

fn check_own_frames_are_not_received(backends: &[Backend]) -> Result<(), Failed> {
    for &backend in backends {
        net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut testbed = PortTestbed::new(backend, 1500)?;
            let own = vec![test_frame(&[0x88, 0xb5, 1], 60); 10];
            testbed.transmit(&own)?;
            check_equal(testbed.far_receive(10)?, own, "received by the far end")?;
            // A received own frame would precede this one.
            let theirs = test_frame(&[0x88, 0xb5, 2], 60);
            testbed.far.send(&theirs)?;
            check_equal(testbed.receive(1)?, vec![theirs], "received by the port")
        })??;
    }
    Ok(())
}

/// Creates a tap that belongs to a virtual machine, with the switch on its network device.
fn check_tap_of_another_owner(backend: Backend, mtu: u32) -> Result<(), Failed> {
    let mut store = arena_store()?;
    let mut machine = Port::open(&port_spec("vm0", Backend::Tap, mtu))?.port;
    let mut switch = Port::open(&port_spec("vm0", backend, mtu))?.port;
    prepare_port(&mut switch, &mut store)?;
    check_equal(switch.backend_name(), backend.to_string().as_str(), "backend")?;
    let frames = [untagged_frames(mtu), tagged_frames(mtu)].concat();
    for (from, to) in [(&mut machine, &mut switch)] {
        for _ in 0..4 {
            let handles: Vec<_> = frames
                .iter()
                .map(|frame| store_frame(&mut store, frame))
                .collect();
            check_equal(
                from.transmit(&store.shared_arena(), &handles)?,
                frames.len(),
                "taken",
            )?;
            handles.into_iter().for_each(|handle| store.release(handle));
            let mut got = Vec::new();
            wait_for("the frames", || {
                got.extend(receive_burst(to, &mut store)?);
                Ok((got.len() >= frames.len()).then_some(()))
            })?;
            check_equal(&got, &frames, "received")?;
            std::mem::swap(from, to);
        }
    }
    Ok(())
}

fn check_frames_wait_for_slots(backends: &[Backend]) -> Result<(), Failed> {
    for &backend in backends {
        net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut testbed = PortTestbed::new(backend, 1500)?;
            let (small, large) = testbed.store.free_slots();
            let held: Vec<_> = (0..small + large)
                .filter_map(|_| testbed.store.take_slot(60))
                .collect();
            check_equal(testbed.store.free_slots(), (0, 0), "free slots")?;
            let frames = vec![test_frame(&[0x88, 0xb5], 100), test_frame(&[0x88, 0xb5], 200)];
            for frame in &frames {
                testbed.far.send(frame)?;
            }
            check_equal(
                receive_burst(&mut testbed.port, &mut testbed.store)?,
                vec![],
                "without slots",
            )?;
            held.into_iter().for_each(|slot| testbed.store.return_slot(slot));
            check_equal(testbed.receive(2)?, frames, "with slots")?;
            check_equal(testbed.port.take_drops().lost, 0, "lost")
        })??;
    }
    Ok(())
}

/// The receive time is the kernel's timestamp and not the time of the read: frames that were sent one after
/// the other and read together keep their distance.
fn check_receive_time() -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(Backend::Packet, 1500)?;
    let now = || -> Result<u64, Failed> {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
        Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
    };
    let mut sent = vec![now()?];
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        testbed.far.send(&test_frame(&[0x88, 0xb5], 60))?;
        sent.push(now()?);
    }
    let mut received = Vec::new();
    testbed.port.receive(&mut testbed.store, 64, &mut received)?;
    check_equal(received.len(), 3, "frames")?;
    for (frame, window) in received.iter().zip(sent.windows(2)) {
        // One millisecond of tolerance on each side, because the two clocks are read one after the other.
        let [from, to] = [window[0] - 1_000_000, window[1] + 1_000_000];
        check((from..=to).contains(&frame.received_ns), || {
            format!("{} is not within {from}..={to}", frame.received_ns)
        })?;
    }
    net::delete_link("sw0")?;
    Ok(())
}
