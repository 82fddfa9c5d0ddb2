//! What is lost or refused outside the model is counted.

use libtest_mimic::Failed;
use xoff_dataplane::DropReason;
use xoff_ports::Backend;
use xoff_ports::net::{self, LinkChange};

use crate::far::Far;
use crate::support::Needs::{Netns, Tun, Xdp};
use crate::support::{Needing, check, same, wait_for};
use crate::testbed::{Bed, frame, receive_burst};

pub(crate) const TESTS: &[Needing] = &[
    ("a_full_ring_is_counted", Netns, || {
        overflow(Backend::Packet, 60, 5_000)
    }),
    ("a_full_ring_of_xdp_is_counted", Xdp, || {
        overflow(Backend::Xdp, 60, 5_000)
    }),
    ("a_full_socket_of_pnet_is_counted", Netns, || {
        overflow(Backend::Pnet, 1514, 40_000)
    }),
    ("a_full_tap_is_counted", Tun, full_tap),
    (
        "a_full_tap_in_another_namespace_is_counted",
        Tun,
        full_tap_elsewhere,
    ),
    ("frames_the_far_end_cannot_take_are_counted", Netns, || {
        far_mtu_too_small(Backend::Packet)
    }),
    ("frames_the_far_end_of_xdp_cannot_take_are_counted", Xdp, || {
        far_mtu_too_small(Backend::Xdp)
    }),
    (
        "frames_longer_than_what_the_device_was_made_to_carry_are_refused",
        Netns,
        own_mtu_becomes_smaller,
    ),
    ("frames_longer_than_the_ports_mtu_are_dropped", Netns, || {
        too_long_for_the_port(&[Backend::Packet, Backend::Pnet])
    }),
    ("frames_longer_than_the_mtu_of_xdp_are_dropped", Xdp, || {
        too_long_for_the_port(&[Backend::Xdp])
    }),
    (
        "frames_the_device_refuses_are_counted_and_passed_over",
        Netns,
        || device_refuses(&[Backend::Packet, Backend::Pnet]),
    ),
    (
        "frames_the_device_refuses_are_counted_and_passed_over_by_xdp",
        Xdp,
        || device_refuses(&[Backend::Xdp]),
    ),
];

/// Sends without receiving; then every frame was received or is counted as lost.
fn overflow(backend: Backend, len: usize, count: usize) -> Result<(), Failed> {
    let mut bed = Bed::new(backend, 1500)?;
    let sent = frame(&[0x88, 0xb5], len);
    for _ in 0..count {
        bed.far.send(&sent)?;
    }
    let (received, lost) = drain(&mut bed, count)?;
    check(lost > 0, || {
        format!("{received} of {count} fit: the test sends too few")
    })?;
    same(received + lost, count, "received and lost")?;
    same(bed.port.take_drops().lost, 0, "told twice")
}

/// Receives until all frames are accounted for: received, lost.
fn drain(bed: &mut Bed, count: usize) -> Result<(usize, usize), Failed> {
    let (mut received, mut lost) = (0, 0);
    wait_for(&format!("{count} frames, received or lost"), || {
        received += receive_burst(&mut bed.port, &mut bed.store)?.len();
        if received + lost < count {
            lost += bed.port.take_drops().lost as usize;
        }
        Ok((received + lost >= count).then_some(()))
    })?;
    Ok((received, lost))
}

/// A kernel may drop silently or hold the sender back: both add up.
fn fill(bed: &mut Bed) -> usize {
    let sent = frame(&[0x88, 0xb5], 60);
    (0..12_000).filter(|_| bed.far.send(&sent).is_ok()).count()
}

fn full_tap() -> Result<(), Failed> {
    let mut bed = Bed::new(Backend::Tap, 1500)?;
    let sent = fill(&mut bed);
    let (received, lost) = drain(&mut bed, sent)?;
    // Without our care it would be 1000.
    check(received >= 10_000, || format!("only {received} frames were kept"))?;
    same(received + lost, sent, "received and lost")
}

fn full_tap_elsewhere() -> Result<(), Failed> {
    let mut bed = Bed::new(Backend::Tap, 1500)?;
    let host = net::Netns::create()?;
    net::move_link("sw0", &host, "sw0")?;
    check(!bed.port.is_link_up(), || {
        "a device that was moved is down at first".to_owned()
    })?;
    host.run(|| -> Result<(), Failed> {
        net::disable_ipv6("sw0")?;
        Ok(net::set_link(
            "sw0",
            &LinkChange {
                up: Some(true),
                ..LinkChange::default()
            },
        )?)
    })??;
    wait_for("the link is up", || Ok(bed.port.is_link_up().then_some(())))?;
    bed.far = Far::open(&host, "sw0")?;
    let sent = fill(&mut bed);
    let (received, lost) = drain(&mut bed, sent)?;
    same(received + lost, sent, "received and lost")?;
    let back = vec![frame(&[0x81, 0x00, 0, 0, 0x88, 0xb5], 64); 3];
    bed.transmit(&back)?;
    same(bed.far_receive(3)?, back, "received by the far end")
}

fn far_mtu_too_small(backend: Backend) -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 9100)?;
    let mut bed = Bed::on("h0", &host, backend, 9100)?;
    host.run(|| {
        net::set_link(
            "h0",
            &LinkChange {
                mtu: Some(1500),
                ..LinkChange::default()
            },
        )
    })??;
    let fits = frame(&[0x88, 0xb5], 1514);
    let long = frame(&[0x88, 0xb5], 9000);
    // Each is lost once, also one behind frames that are not.
    bed.transmit(&[&long, &fits, &fits, &long, &long, &fits].map(Vec::clone))?;
    same(bed.far_receive(3)?, vec![fits; 3], "received by the far end")?;
    same(bed.port.take_drops().lost, 3, "lost")
}

fn own_mtu_becomes_smaller() -> Result<(), Failed> {
    let mut bed = Bed::new(Backend::Packet, 9100)?;
    let change = LinkChange {
        mtu: Some(1500),
        ..LinkChange::default()
    };
    net::set_link("sw0", &change)?;
    // The worker asks several times a second.
    check(bed.port.is_link_up(), || "the link is down".to_owned())?;
    let fits = frame(&[0x88, 0xb5], 1514);
    bed.transmit(&[fits.clone(), frame(&[0x88, 0xb5], 9000), fits.clone()])?;
    same(bed.far_receive(2)?, vec![fits; 2], "received by the far end")?;
    let drops = bed.port.take_drops().by_reason;
    same(drops, vec![(DropReason::BackendRefused, 1)], "drops")
}

fn too_long_for_the_port(backends: &[Backend]) -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 9216)?;
    for &backend in backends {
        let mut bed = Bed::on("h0", &host, backend, 1500)?;
        // With two tags a frame of this MTU has 1522 octets.
        let longest = frame(&[0x88, 0xb5], 1522);
        for len in [1523, 1978, 1979, 4000, 9000] {
            bed.far.send(&frame(&[0x88, 0xb5], len))?;
        }
        bed.far.send(&longest)?;
        same(bed.receive(1)?, vec![longest], "received")?;
        same(
            bed.port.take_drops().by_reason,
            vec![(DropReason::Oversized, 5)],
            "drops",
        )?;
        bed.leaves_no_slot()?;
    }
    Ok(())
}

fn device_refuses(backends: &[Backend]) -> Result<(), Failed> {
    for &backend in backends {
        net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut bed = Bed::new(backend, 1500)?;
            let good: Vec<Vec<u8>> = (0..4).map(|i| frame(&[0x88, 0xb5, i], 100)).collect();
            let long = frame(&[0x88, 0xb5], 1519);
            // The kernel grants the length of a tag to 802.1Q only.
            let long_802_1ad = frame(&[0x88, 0xa8, 0, 1, 0x88, 0xb5], 1518);
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| good[i].clone());
            bed.transmit(&[a, long.clone(), b, c, long_802_1ad, long, d])?;
            same(bed.far_receive(4)?, good, "received by the far end")?;
            same(
                bed.port.take_drops().by_reason,
                vec![(DropReason::BackendRefused, 3)],
                "drops",
            )
        })??;
    }
    Ok(())
}
