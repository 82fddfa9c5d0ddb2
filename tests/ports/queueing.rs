//! Tests of devices that delay frames: a queueing discipline between the port and the link.

use libtest_mimic::Failed;
use rtnetlink::packet_core::{DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use xoff_dataplane::{FrameHandle, FrameStore};
use xoff_ports::Backend;
use xoff_ports::net;

use crate::device_checks::run_netlink;
use crate::support::KernelFeatures::Netns;
use crate::support::PrivilegedTest;
use crate::support::check_equal;
use crate::testbed::{PortTestbed, store_frame, test_frame};

pub(crate) const TESTS: &[PrivilegedTest] = &[(
    "frames_delayed_by_the_device_leave_in_order",
    Netns,
    check_delayed_frames,
)];

/// More frames than a transmit ring holds.
const FRAMES: u16 = 400;
const FRAME_BYTES: usize = 1_000;
/// Two frames per millisecond.
const RATE_BPS: u32 = 2_000_000;

fn check_delayed_frames() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    add_token_bucket("sw0")?;
    let mut testbed = PortTestbed::open_on_device("h0", &host, Backend::Packet, 1500)?;
    let frames: Vec<Vec<u8>> = (0..FRAMES)
        .map(|n| test_frame(&[&[0x88, 0xb5][..], &n.to_be_bytes()].concat(), FRAME_BYTES))
        .collect();
    // The test runs twice, because the ring must be usable again after the device has released its frames.
    for _ in 0..2 {
        let handles: Vec<FrameHandle> = frames
            .iter()
            .map(|frame| store_frame(&mut testbed.store, frame))
            .collect();
        let taken = testbed.port.transmit(&testbed.store.shared_arena(), &handles)?;
        check_equal(taken, handles.len(), "taken at once")?;
        handles
            .into_iter()
            .for_each(|handle| testbed.store.release(handle));
        let received = testbed.far_receive(frames.len())?;
        check_equal(received == frames, true, "all of them and in order")?;
    }
    check_equal(testbed.port.take_drops().lost, 0, "lost")
}

/// Adds a token bucket (tc-tbf(8)) of some megabytes to a device.
fn add_token_bucket(device: &str) -> Result<(), Failed> {
    /// `TCA_TBF_PARMS` and `TC_LINKLAYER_ETHERNET` of `linux/pkt_sched.h`.
    const TCA_TBF_PARMS: u16 = 1;
    const TC_LINKLAYER_ETHERNET: u8 = 1;
    /// Bucket size in units of 64 ns: 2 ms, the time of four frames.
    const BUCKET_TICKS: u32 = 2_000_000 / 64;
    const LIMIT_BYTES: u32 = 8 << 20;
    let mut parameters = Vec::new();
    // `struct tc_ratespec`: cell_log, linklayer, overhead, cell_align, mpu, rate.
    parameters.extend([0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]);
    parameters.extend(RATE_BPS.to_ne_bytes());
    // The peak rate is not used.
    parameters.extend([0; 12]);
    for word in [LIMIT_BYTES, BUCKET_TICKS, 0] {
        parameters.extend(word.to_ne_bytes());
    }
    let mut message = TcMessage::with_index(nix::net::if_::if_nametoindex(device)? as i32);
    message.header.parent = TcHandle::ROOT;
    message.attributes = vec![
        TcAttribute::Kind("tbf".to_owned()),
        TcAttribute::Options(vec![TcOption::Other(DefaultNla::new(TCA_TBF_PARMS, parameters))]),
    ];
    run_netlink(async |mut handle| {
        let mut request = NetlinkMessage::from(RouteNetlinkMessage::NewQueueDiscipline(message));
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
        let mut answers = handle.request(request)?;
        while let Some(answer) = futures_util::StreamExt::next(&mut answers).await {
            if let rtnetlink::packet_core::NetlinkPayload::Error(error) = answer.payload
                && error.code.is_some()
            {
                return Err(rtnetlink::Error::NetlinkError(error));
            }
        }
        Ok(())
    })
}
