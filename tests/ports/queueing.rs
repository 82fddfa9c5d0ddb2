//! Devices that keep what they are given for a while: a queueing discipline between the port and the wire.

use libtest_mimic::Failed;
use rtnetlink::packet_core::{DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use xoff_dataplane::{FrameHandle, FrameStore};
use xoff_ports::Backend;
use xoff_ports::net;

use crate::guards::netlink;
use crate::support::Needing;
use crate::support::Needs::Netns;
use crate::support::same;
use crate::testbed::{Bed, frame, stored};

pub(crate) const TESTS: &[Needing] = &[(
    "frames_that_the_device_keeps_waiting_leave_in_order",
    Netns,
    kept_waiting,
)];

/// More than a transmit ring holds.
const FRAMES: u16 = 400;
const FRAME_BYTES: usize = 1_000;
/// Two frames a millisecond.
const RATE_BPS: u32 = 2_000_000;

fn kept_waiting() -> Result<(), Failed> {
    let host = net::Netns::create()?;
    net::add_veth("sw0", "h0", Some(&host), 1500)?;
    pace("sw0")?;
    let mut bed = Bed::on("h0", &host, Backend::Packet, 1500)?;
    let frames: Vec<Vec<u8>> = (0..FRAMES)
        .map(|n| frame(&[&[0x88, 0xb5][..], &n.to_be_bytes()].concat(), FRAME_BYTES))
        .collect();
    // Twice, since the ring has to be as good as new once the device has let go of it.
    for _ in 0..2 {
        let handles: Vec<FrameHandle> = frames.iter().map(|frame| stored(&mut bed.store, frame)).collect();
        let taken = bed.port.transmit(&bed.store.shared_arena(), &handles)?;
        same(taken, handles.len(), "taken at once")?;
        handles.into_iter().for_each(|handle| bed.store.release(handle));
        let received = bed.far_receive(frames.len())?;
        same(received == frames, true, "all of them and in order")?;
    }
    same(bed.port.take_drops().lost, 0, "lost")
}

/// Gives a device a token bucket (tc-tbf(8)) that holds megabytes.
fn pace(device: &str) -> Result<(), Failed> {
    /// `TCA_TBF_PARMS` and `TC_LINKLAYER_ETHERNET` of `linux/pkt_sched.h`.
    const TCA_TBF_PARMS: u16 = 1;
    const TC_LINKLAYER_ETHERNET: u8 = 1;
    /// In units of 64 ns: 2 ms, so four frames.
    const BUCKET_TICKS: u32 = 2_000_000 / 64;
    const LIMIT_BYTES: u32 = 8 << 20;
    let mut parameters = Vec::new();
    // `struct tc_ratespec`: cell_log, linklayer, overhead, cell_align, mpu, rate.
    parameters.extend([0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]);
    parameters.extend(RATE_BPS.to_ne_bytes());
    // No peak rate.
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
    netlink(async |mut handle| {
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
