//! Every backend delivers what was sent, octet for octet and in order.

use libtest_mimic::Failed;
use xoff_dataplane::FrameStore;
use xoff_ports::net;
use xoff_ports::{ArenaStore, Backend, Port, SlotSource};

use crate::support::Needs::{Netns, Tun, Xdp, XdpOnTun};
use crate::support::{Needing, check, same, wait_for};
use crate::testbed::{Bed, attach, frame, receive_burst, spec, store, stored, tagged, untagged};

pub(crate) const TESTS: &[Needing] = &[
    ("packet_delivers_octet_for_octet", Netns, || {
        delivers(Backend::Packet, 1500, true)
    }),
    ("packet_delivers_jumbo_frames", Netns, || {
        delivers(Backend::Packet, 9216, true)
    }),
    ("xdp_delivers_octet_for_octet", Xdp, || {
        delivers(Backend::Xdp, 1500, true)
    }),
    ("xdp_delivers_jumbo_frames", Xdp, || {
        delivers(Backend::Xdp, 9216, true)
    }),
    ("xdp_delivers_frames_of_every_length", Xdp, every_length),
    ("tap_delivers_octet_for_octet", Tun, || {
        delivers(Backend::Tap, 1500, true)
    }),
    ("tap_delivers_jumbo_frames", Tun, || {
        delivers(Backend::Tap, 9216, true)
    }),
    ("pnet_delivers_untagged_frames", Netns, || {
        delivers(Backend::Pnet, 1500, false)
    }),
    ("pnet_loses_tags", Netns, pnet_loses_tags),
    ("backends_equal_the_reference", Tun, backends_equal_the_reference),
    ("link_delivers_octet_for_octet", Netns, link_delivers),
    ("packet_keeps_the_order_of_bursts", Netns, || {
        keeps_order(Backend::Packet, 500)
    }),
    ("xdp_keeps_the_order_of_bursts", Xdp, || {
        keeps_order(Backend::Xdp, 500)
    }),
    ("tap_keeps_the_order_of_bursts", Tun, || {
        keeps_order(Backend::Tap, 500)
    }),
    // Without privilege its socket holds no more.
    ("pnet_keeps_the_order_of_bursts", Netns, || {
        keeps_order(Backend::Pnet, 50)
    }),
    ("copies_with_shared_octets_leave_whole", Tun, || {
        copies_leave_whole(&[Backend::Packet, Backend::Tap, Backend::Pnet])
    }),
    ("copies_with_shared_octets_leave_xdp_whole", Xdp, || {
        copies_leave_whole(&[Backend::Xdp])
    }),
    ("own_frames_are_not_heard", Tun, || {
        own_frames_are_not_heard(&[Backend::Packet, Backend::Tap, Backend::Pnet])
    }),
    ("own_frames_are_not_heard_by_xdp", Xdp, || {
        own_frames_are_not_heard(&[Backend::Xdp])
    }),
    ("a_tap_of_another_owner_is_driven_as_a_netdev", Tun, || {
        tap_of_another_owner(Backend::Packet, 1500)
    }),
    ("a_tap_of_another_owner_is_driven_by_xdp", XdpOnTun, || {
        tap_of_another_owner(Backend::Xdp, 1500)
    }),
    (
        "a_tap_of_another_owner_is_driven_by_xdp_with_jumbo_frames",
        XdpOnTun,
        || tap_of_another_owner(Backend::Xdp, 9216),
    ),
    ("frames_wait_in_the_device_while_slots_are_short", Tun, || {
        frames_wait_for_slots(&[Backend::Packet, Backend::Tap])
    }),
    (
        "frames_wait_in_the_device_while_slots_are_short_for_xdp",
        Xdp,
        || frames_wait_for_slots(&[Backend::Xdp]),
    ),
    ("receive_time_is_that_of_the_kernel", Netns, receive_time),
];

fn delivers(backend: Backend, mtu: u32, tags: bool) -> Result<(), Failed> {
    let mut bed = Bed::new(backend, mtu)?;
    let mut frames = untagged(mtu);
    if tags {
        frames.extend(tagged(mtu));
    }
    for frame in &frames {
        bed.far.send(frame)?;
    }
    for (got, sent) in bed.receive(frames.len())?.iter().zip(&frames) {
        same(got, sent, "received by the port")?;
    }
    bed.transmit(&frames)?;
    for (got, sent) in bed.far_receive(frames.len())?.iter().zip(&frames) {
        same(got, sent, "received by the far end")?;
    }
    let drops = bed.port.take_drops();
    same(drops.by_reason, vec![], "drops")?;
    same(drops.lost, 0, "lost")?;
    bed.leaves_no_slot()
}

/// Around the lengths at which a frame takes one slot more, in both directions.
fn every_length() -> Result<(), Failed> {
    let mut bed = Bed::new(Backend::Xdp, 9216)?;
    let chunks = [1792, 2 * 1792, 3 * 1792, 4 * 1792, 5 * 1792, 2048, 4096, 8192];
    let lengths = chunks.into_iter().flat_map(|len| len - 2..=len + 2);
    let frames: Vec<Vec<u8>> = lengths.map(|len| frame(&[0x88, 0xb5], len)).collect();
    for _ in 0..20 {
        for burst in frames.chunks(8) {
            for frame in burst {
                bed.far.send(frame)?;
            }
            for (got, sent) in bed.receive(burst.len())?.iter().zip(burst) {
                check(got == sent, || {
                    format!("a frame of {} octets came wrong", sent.len())
                })?;
            }
        }
        // No more at once than the far end's socket holds.
        for burst in frames.chunks(8) {
            bed.transmit(burst)?;
            for (got, sent) in bed.far_receive(burst.len())?.iter().zip(burst) {
                check(got == sent, || {
                    format!("a frame of {} octets left wrong", sent.len())
                })?;
            }
        }
    }
    same(bed.port.take_drops().lost, 0, "lost")?;
    bed.leaves_no_slot()
}

/// The reference cannot do better: why it is a reference only.
fn pnet_loses_tags() -> Result<(), Failed> {
    let mut bed = Bed::new(Backend::Pnet, 1500)?;
    let frames = tagged(1500);
    for frame in &frames {
        bed.far.send(frame)?;
    }
    for (got, mut sent) in bed.receive(frames.len())?.into_iter().zip(frames) {
        sent.drain(12..16);
        same(got, sent, "without its outer tag")?;
    }
    Ok(())
}

fn backends_equal_the_reference() -> Result<(), Failed> {
    let mut sent = untagged(1500);
    sent.extend((60..1514).step_by(13).map(|len| frame(&[0x88, 0xb5], len)));
    let receive = |backend| -> Result<Vec<Vec<u8>>, Failed> {
        net::Netns::create()?.run(|| {
            let mut bed = Bed::new(backend, 1500)?;
            for frame in &sent {
                bed.far.send(frame)?;
            }
            bed.receive(sent.len())
        })?
    };
    let reference = receive(Backend::Pnet)?;
    same(receive(Backend::Packet)?, reference.clone(), "packet and pnet")?;
    same(receive(Backend::Auto)?, reference.clone(), "auto and pnet")?;
    same(receive(Backend::Tap)?, reference.clone(), "tap and pnet")?;
    let mut store = store()?;
    let [mut near, mut far] = link_pair(&store, 1500, 512)?;
    receive_burst(&mut near, &mut store)?;
    let handles: Vec<_> = sent.iter().map(|frame| stored(&mut store, frame)).collect();
    same(
        far.transmit(&store.shared_arena(), &handles)?,
        handles.len(),
        "taken",
    )?;
    let mut got = Vec::new();
    while got.len() < sent.len() {
        got.extend(receive_burst(&mut near, &mut store)?);
    }
    same(got, reference, "link and pnet")
}

/// A link whose ends both have their slots in `store`.
fn link_pair(store: &ArenaStore, mtu: u32, frames: usize) -> Result<[Port; 2], Failed> {
    let mut ends = Port::link_pair(["a", "b"], mtu, frames);
    for end in &mut ends {
        end.attach(&store.shared_arena())?;
    }
    Ok(ends)
}

fn link_delivers() -> Result<(), Failed> {
    let mut store = store()?;
    let [mut near, mut far] = link_pair(&store, 9100, 64)?;
    for (from, to) in [(true, 0), (false, 1)] {
        let (sender, receiver) = if from {
            (&mut near, &mut far)
        } else {
            (&mut far, &mut near)
        };
        check(sender.is_link_up(), || format!("end {to} is down"))?;
        receive_burst(receiver, &mut store)?;
        let frames = [untagged(9100), tagged(9100)].concat();
        let handles: Vec<_> = frames.iter().map(|frame| stored(&mut store, frame)).collect();
        same(
            sender.transmit(&store.shared_arena(), &handles)?,
            frames.len(),
            "taken",
        )?;
        handles.into_iter().for_each(|handle| store.release(handle));
        same(receive_burst(receiver, &mut store)?, frames, "received")?;
    }
    near.close(&mut store);
    check(far.close(&mut store), || {
        "the far end still holds slots".to_owned()
    })?;
    check(near.close(&mut store), || {
        "the near end still holds slots".to_owned()
    })?;
    same(store.used_slots(), 0, "slots in use")
}

fn keeps_order(backend: Backend, burst: usize) -> Result<(), Failed> {
    let mut bed = Bed::new(backend, 1500)?;
    let frames: Vec<Vec<u8>> = (0..500u16)
        .map(|i| {
            frame(
                &[&[0x88, 0xb5][..], &i.to_be_bytes()].concat(),
                60 + usize::from(i) % 1000,
            )
        })
        .collect();
    for _ in 0..3 {
        for burst in frames.chunks(burst) {
            for frame in burst {
                bed.far.send(frame)?;
            }
            same(&*bed.receive(burst.len())?, burst, "received by the port")?;
        }
        bed.transmit(&frames)?;
        same(
            bed.far_receive(frames.len())?,
            frames.clone(),
            "received by the far end",
        )?;
    }
    same(bed.port.take_drops().lost, 0, "lost")
}

fn copies_leave_whole(backends: &[Backend]) -> Result<(), Failed> {
    for &backend in backends {
        net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut bed = Bed::new(backend, 1500)?;
            let sent = frame(&[0x88, 0xb5], 1400);
            let original = stored(&mut bed.store, &sent);
            let copy = bed.store.copy(original, 128).ok_or("no slot")?;
            bed.store.push_front(copy, 4);
            let mut addresses = [0; 12];
            addresses.copy_from_slice(&sent[..12]);
            let prefix = bed.store.prefix_mut(copy);
            prefix[..12].copy_from_slice(&addresses);
            prefix[12..16].copy_from_slice(&[0x81, 0x00, 0x20, 0x07]);
            let mut with_tag = sent.clone();
            with_tag.splice(12..12, [0x81, 0x00, 0x20, 0x07]);
            bed.transmit_handles(&[copy, original])?;
            same(
                bed.far_receive(2)?,
                vec![with_tag, sent],
                "received by the far end",
            )?;
            bed.store.release(original);
            bed.store.release(copy);
            bed.leaves_no_slot()
        })??;
    }
    Ok(())
}

fn own_frames_are_not_heard(backends: &[Backend]) -> Result<(), Failed> {
    for &backend in backends {
        net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut bed = Bed::new(backend, 1500)?;
            let own = vec![frame(&[0x88, 0xb5, 1], 60); 10];
            bed.transmit(&own)?;
            same(bed.far_receive(10)?, own, "received by the far end")?;
            // Had they been heard, they would be in front of this one.
            let theirs = frame(&[0x88, 0xb5, 2], 60);
            bed.far.send(&theirs)?;
            same(bed.receive(1)?, vec![theirs], "received by the port")
        })??;
    }
    Ok(())
}

/// A machine's tap, as a virtual machine would own it, and the switch on its netdev.
fn tap_of_another_owner(backend: Backend, mtu: u32) -> Result<(), Failed> {
    let mut store = store()?;
    let mut machine = Port::open(&spec("vm0", Backend::Tap, mtu))?.port;
    let mut switch = Port::open(&spec("vm0", backend, mtu))?.port;
    attach(&mut switch, &mut store)?;
    same(switch.backend_name(), backend.to_string().as_str(), "backend")?;
    let frames = [untagged(mtu), tagged(mtu)].concat();
    for (from, to) in [(&mut machine, &mut switch)] {
        for _ in 0..4 {
            let handles: Vec<_> = frames.iter().map(|frame| stored(&mut store, frame)).collect();
            same(
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
            same(&got, &frames, "received")?;
            std::mem::swap(from, to);
        }
    }
    Ok(())
}

fn frames_wait_for_slots(backends: &[Backend]) -> Result<(), Failed> {
    for &backend in backends {
        net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut bed = Bed::new(backend, 1500)?;
            let (small, large) = bed.store.free_slots();
            let held: Vec<_> = (0..small + large)
                .filter_map(|_| bed.store.take_slot(60))
                .collect();
            same(bed.store.free_slots(), (0, 0), "free slots")?;
            let frames = vec![frame(&[0x88, 0xb5], 100), frame(&[0x88, 0xb5], 200)];
            for frame in &frames {
                bed.far.send(frame)?;
            }
            same(
                receive_burst(&mut bed.port, &mut bed.store)?,
                vec![],
                "without slots",
            )?;
            held.into_iter().for_each(|slot| bed.store.return_slot(slot));
            same(bed.receive(2)?, frames, "with slots")?;
            same(bed.port.take_drops().lost, 0, "lost")
        })??;
    }
    Ok(())
}

/// The kernel's stamp, not the time of the read: frames sent one after the other and read at once keep their distance.
fn receive_time() -> Result<(), Failed> {
    let mut bed = Bed::new(Backend::Packet, 1500)?;
    let now = || -> Result<u64, Failed> {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
        Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
    };
    let mut sent = vec![now()?];
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        bed.far.send(&frame(&[0x88, 0xb5], 60))?;
        sent.push(now()?);
    }
    let mut received = Vec::new();
    bed.port.receive(&mut bed.store, 64, &mut received)?;
    same(received.len(), 3, "frames")?;
    for (frame, window) in received.iter().zip(sent.windows(2)) {
        // A millisecond each way for the conversion of the clocks: they are measured one after the other.
        let [from, to] = [window[0] - 1_000_000, window[1] + 1_000_000];
        check((from..=to).contains(&frame.received_ns), || {
            format!("{} is not within {from}..={to}", frame.received_ns)
        })?;
    }
    net::delete_link("sw0")?;
    Ok(())
}
