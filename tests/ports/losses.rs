//! Tests that frames which are lost or refused outside the model are counted.

use libtest_mimic::Failed;
use xoff_dataplane::DropReason;
use xoff_ports::Backend;
use xoff_ports::net::{self, LinkChange};

use crate::far_end::FarEnd;
use crate::support::KernelFeatures::{Netns, Tun, Xdp};
use crate::support::{PrivilegedTest, check, check_equal, wait_for};
use crate::testbed::{PortTestbed, receive_burst, test_frame};

pub(crate) const TESTS: &[PrivilegedTest] = &[
    ("a_full_ring_is_counted", Netns, || {
        check_overflow(Backend::Packet, 60, 5_000)
    }),
    ("a_full_ring_of_xdp_is_counted", Xdp, || {
        check_overflow(Backend::Xdp, 60, 5_000)
    }),
    ("a_full_socket_of_pnet_is_counted", Netns, || {
        check_overflow(Backend::Pnet, 1514, 40_000)
    }),
    ("a_full_tap_is_counted", Tun, check_full_tap),
    (
        "a_full_tap_in_another_namespace_is_counted",
        Tun,
        check_full_tap_in_namespace,
    ),
    ("frames_beyond_the_mtu_of_the_far_end_are_counted", Netns, || {
        check_small_far_mtu(Backend::Packet)
    }),
    (
        "frames_of_xdp_beyond_the_mtu_of_the_far_end_are_counted",
        Xdp,
        || check_small_far_mtu(Backend::Xdp),
    ),
    (
        "frames_beyond_a_reduced_device_mtu_are_refused",
        Netns,
        check_reduced_mtu,
    ),
    ("frames_beyond_the_port_mtu_are_dropped", Netns, || {
        check_frames_beyond_port_mtu(&[Backend::Packet, Backend::Pnet])
    }),
    ("frames_beyond_the_port_mtu_are_dropped_by_xdp", Xdp, || {
        check_frames_beyond_port_mtu(&[Backend::Xdp])
    }),
    ("refused_frames_are_counted_and_skipped", Netns, || {
        check_refused_frames(&[Backend::Packet, Backend::Pnet])
    }),
    ("refused_frames_of_xdp_are_counted_and_skipped", Xdp, || {
        check_refused_frames(&[Backend::Xdp])
    }),
];

/// Sends frames without receiving. Then checks that every frame was received or is counted as lost.
fn check_overflow(backend: Backend, len: usize, count: usize) -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(backend, 1500)?;
    let sent = test_frame(&[0x88, 0xb5], len);
    for _ in 0..count {
        testbed.far.send(&sent)?;
    }
    let (received, lost) = receive_until_accounted(&mut testbed, count)?;
    check(lost > 0, || {
        format!("{received} of {count} fit: the test sends too few")
    })?;
    check_equal(received + lost, count, "received and lost")?;
    check_equal(testbed.port.take_drops().lost, 0, "told twice")
}

/// Receives until all frames are accounted for. Returns the received and the lost frames.
fn receive_until_accounted(testbed: &mut PortTestbed, count: usize) -> Result<(usize, usize), Failed> {
    let (mut received, mut lost) = (0, 0);
    wait_for(&format!("{count} frames, received or lost"), || {
        received += receive_burst(&mut testbed.port, &mut testbed.store)?.len();
        if received + lost < count {
            lost += testbed.port.take_drops().lost as usize;
        }
        Ok((received + lost >= count).then_some(()))
    })?;
    Ok((received, lost))
}

/// Fills the tap. A kernel may drop silently or block the sender, so both are counted.
fn fill_tap(testbed: &mut PortTestbed) -> usize {
    let sent = test_frame(&[0x88, 0xb5], 60);
    (0..12_000).filter(|_| testbed.far.send(&sent).is_ok()).count()
}

fn check_full_tap() -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(Backend::Tap, 1500)?;
    let sent = fill_tap(&mut testbed);
    let (received, lost) = receive_until_accounted(&mut testbed, sent)?;
    // Without the backend's setting, the queue length would be 1000.
    check(received >= 10_000, || format!("only {received} frames were kept"))?;
    check_equal(received + lost, sent, "received and lost")
}

fn check_full_tap_in_namespace() -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(Backend::Tap, 1500)?;
    let host = net::Netns::create()?;
    net::move_link("sw0", &host, "sw0")?;
    check(!testbed.port.is_link_up(), || {
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
    wait_for("the link is up", || Ok(testbed.port.is_link_up().then_some(())))?;
    testbed.far = FarEnd::open(&host, "sw0")?;
    let sent = fill_tap(&mut testbed);
    let (received, lost) = receive_until_accounted(&mut testbed, sent)?;
    check_equal(received + lost, sent, "received and lost")?;
    let back = vec![test_frame(&[0x81, 0x00, 0, 0, 0x88, 0xb5], 64); 3];
    testbed.transmit(&back)?;
    check_equal(testbed.far_receive(3)?, back, "received by the far end")
}

fn check_small_far_mtu(backend: Backend) -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 9100)?;
    let mut testbed = PortTestbed::open_on_device("h0", &host, backend, 9100)?;
    host.run(|| {
        net::set_link(
            "h0",
            &LinkChange {
                mtu: Some(1500),
                ..LinkChange::default()
            },
        )
    })??;
    let fits = test_frame(&[0x88, 0xb5], 1514);
    let long = test_frame(&[0x88, 0xb5], 9000);
    // Each frame is lost once, also behind frames that are sent.
    testbed.transmit(&[&long, &fits, &fits, &long, &long, &fits].map(Vec::clone))?;
    check_equal(testbed.far_receive(3)?, vec![fits; 3], "received by the far end")?;
    check_equal(testbed.port.take_drops().lost, 3, "lost")
}

fn check_reduced_mtu() -> Result<(), Failed> {
    let mut testbed = PortTestbed::new(Backend::Packet, 9100)?;
    let change = LinkChange {
        mtu: Some(1500),
        ..LinkChange::default()
    };
    net::set_link("sw0", &change)?;
    // The worker polls the MTU several times per second.
    check(testbed.port.is_link_up(), || "the link is down".to_owned())?;
    let fits = test_frame(&[0x88, 0xb5], 1514);
    testbed.transmit(&[fits.clone(), test_frame(&[0x88, 0xb5], 9000), fits.clone()])?;
    check_equal(testbed.far_receive(2)?, vec![fits; 2], "received by the far end")?;
    let drops = testbed.port.take_drops().by_reason;
    check_equal(drops, vec![(DropReason::BackendRefused, 1)], "drops")
}

fn check_frames_beyond_port_mtu(backends: &[Backend]) -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 9216)?;
    for &backend in backends {
        let mut testbed = PortTestbed::open_on_device("h0", &host, backend, 1500)?;
        // With two tags, a frame of this MTU has 1522 bytes.
        let longest = test_frame(&[0x88, 0xb5], 1522);
        for len in [1523, 1978, 1979, 4000, 9000] {
            testbed.far.send(&test_frame(&[0x88, 0xb5], len))?;
        }
        testbed.far.send(&longest)?;
        check_equal(testbed.receive(1)?, vec![longest], "received")?;
        check_equal(
            testbed.port.take_drops().by_reason,
            vec![(DropReason::Oversized, 5)],
            "drops",
        )?;
        testbed.close_and_check_slots()?;
    }
    Ok(())
}

fn check_refused_frames(backends: &[Backend]) -> Result<(), Failed> {
    for &backend in backends {
        net::Netns::create()?.run(|| -> Result<(), Failed> {
            let mut testbed = PortTestbed::new(backend, 1500)?;
            let good: Vec<Vec<u8>> = (0..4).map(|i| test_frame(&[0x88, 0xb5, i], 100)).collect();
            let long = test_frame(&[0x88, 0xb5], 1519);
            // The kernel allows the additional length of a tag for 802.1Q only.
            let long_802_1ad = test_frame(&[0x88, 0xa8, 0, 1, 0x88, 0xb5], 1518);
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| good[i].clone());
            testbed.transmit(&[a, long.clone(), b, c, long_802_1ad, long, d])?;
            check_equal(testbed.far_receive(4)?, good, "received by the far end")?;
            check_equal(
                testbed.port.take_drops().by_reason,
                vec![(DropReason::BackendRefused, 3)],
                "drops",
            )
        })??;
    }
    Ok(())
}
