//! Frames that are almost PFC frames.

use xoff_wire::PRIORITIES;

use crate::check::Check;
use crate::checks::frames::{
    LONGEST_PAUSE, PAUSED_BIT, PAUSED_CLASS, pause, pfc, pfc_with_times, send, with_bytes,
};
use crate::checks::require;
use crate::checks::traffic::{DeviceTraffic, start_traffic};
use crate::instrument::Instrument;
use crate::link_frame::{Defect, LinkFrame};
use crate::step::{FormFailures, Step, Stop};

/// Length in quanta of the window after a frame.
const WINDOW_QUANTA: u64 = 4_000;

/// Sends a frame and checks that class 3 keeps its rate.
async fn require_ignored(i: &Instrument, traffic: &DeviceTraffic, frame: LinkFrame) -> Step {
    let arrival = i.send(frame).await;
    let until = arrival + i.quanta(i.window_quanta(WINDOW_QUANTA));
    let result = traffic.keeps_running(PAUSED_BIT, arrival, until).await;
    if result.is_err() {
        resume(i).await;
    }
    result
}

/// Sends a frame, checks that class 3 pauses, and resumes it.
async fn require_honoured(i: &Instrument, traffic: &DeviceTraffic, frame: Vec<u8>) -> Step {
    let arrival = send(i, frame).await;
    let until = arrival + i.quanta(i.window_quanta(WINDOW_QUANTA));
    let result = traffic.stays_paused(PAUSED_CLASS, arrival, until).await;
    resume(i).await;
    result
}

/// Resumes class 3.
async fn resume(i: &Instrument) {
    pause(i, PAUSED_CLASS, 0).await;
    i.wait(i.quanta(WINDOW_QUANTA)).await;
}

pub(in crate::checks) static A16: Check = Check::new("A16", "other control frames are ignored", |i| {
    Box::pin(a16(i))
})
.stimulus(
    "PFC frames with destination 01-80-C2-00-00-02, type 0x8809, and opcodes 0x0001 and 0x0102, in turn",
)
.observation("the rate of class 3")
.criterion("class 3 keeps 99 % of its rate")
.clause("IEEE 802.3 31.4 and 31.5; UNH-IOL Annex 31B suite")
.forms(&CONTROL_FRAME_FORMS);

const CONTROL_FRAME_FORMS: [&str; 4] = [
    "destination 01-80-C2-00-00-02",
    "type 0x8809",
    "opcode 0x0001",
    "opcode 0x0102",
];

async fn a16(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let changes: [(usize, u8); 4] = [(5, 0x02), (13, 0x09), (14, 0x00), (15, 0x02)];
    let mut failures = FormFailures::default();
    for (form, (at, byte)) in CONTROL_FRAME_FORMS.into_iter().zip(changes) {
        let frame = with_bytes(pfc(PAUSED_BIT, LONGEST_PAUSE), at, &[byte]);
        failures.add(form, require_ignored(&i, &traffic, LinkFrame::new(frame)).await)?;
    }
    failures.finish()?;
    Ok(match i.counters().await {
        Ok(counters) => format!(
            "4 of 4 ignored, counted as unsupported: {}",
            counters.rx_unsupported_control
        ),
        Err(_) => "4 of 4 ignored".to_owned(),
    })
}

pub(in crate::checks) static A17: Check = Check::new(
    "A17",
    "damaged frames are ignored, other lengths are not",
    |i| Box::pin(a17(i)),
)
.stimulus(
    "PFC frames with a wrong FCS, shorter than 64 bytes, with 1518 bytes, and with padding that is not zero",
)
.observation("class 3")
.criterion("the first two are ignored, the last two pause class 3")
.clause("IEEE 802.3 31.5 and 4.2.4; UNH-IOL Annex 31B suite")
.forms(&[WRONG_FCS, RUNT, LONG, PADDING]);

const WRONG_FCS: &str = "wrong FCS";
const RUNT: &str = "50 bytes";
const LONG: &str = "1518 bytes";
const PADDING: &str = "padding 0xFF";

async fn a17(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let frame = pfc(PAUSED_BIT, LONGEST_PAUSE);
    let (mut missing, mut failures) = (Vec::new(), FormFailures::default());
    for (form, bytes, defect) in [
        (WRONG_FCS, &frame[..], Defect::WrongFcs),
        (RUNT, &frame[..46], Defect::Runt),
    ] {
        if i.carries(defect) {
            let damaged = LinkFrame {
                bytes: bytes.to_vec(),
                defect: Some(defect),
            };
            failures.add(form, require_ignored(&i, &traffic, damaged).await)?;
        } else {
            missing.push(form);
        }
    }
    let mut long = frame.clone();
    long.resize(1_514, 0);
    failures.add(LONG, require_honoured(&i, &traffic, long).await)?;
    let padded = with_bytes(frame, 34, &[0xff; 26]);
    failures.add(PADDING, require_honoured(&i, &traffic, padded).await)?;
    failures.finish()?;
    let ignored = 2 - missing.len();
    let found = format!("{ignored} of 2 ignored, 2 of 2 honoured");
    match missing.as_slice() {
        [] => Ok(found),
        forms => Err(Stop::Skip(format!(
            "the port cannot send a frame with this defect: {}; the rest: {found}",
            forms.join(", ")
        ))),
    }
}

pub(in crate::checks) static A18: Check = Check::new("A18", "reserved bits of the vector are ignored", |i| {
    Box::pin(a18(i))
})
.stimulus("bit 3 and all eight reserved bits of the vector, and all times 0xFFFF; classes 0 and 3 run")
.observation("classes 0 and 3")
.criterion("class 3 stops, and class 0 keeps 99 % of its rate")
.clause("IEEE 802.1Q 36.1.3.3: reserved, sent as 0 and ignored")
.requires(&["A2", "A8"]);

async fn a18(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT | 1, 200).await?;
    let times = pfc_with_times(PAUSED_BIT, [LONGEST_PAUSE; PRIORITIES]);
    let frame = with_bytes(times, 16, &[0xff]);
    let from = i.now();
    require_honoured(&i, &traffic, frame).await?;
    traffic.keeps_running(1, from, i.now()).await?;
    Ok("class 3 pauses by the low byte".to_owned())
}

pub(in crate::checks) static A19: Check =
    Check::new("A19", "a tagged PFC frame is ignored", |i| Box::pin(a19(i)))
        .stimulus("bit 3 with time 0xFFFF in a frame with an 802.1Q tag")
        .observation("the rate of class 3")
        .criterion("class 3 keeps 99 % of its rate")
        .clause("IEEE 802.3 31.3: the type follows the addresses, MAC control frames are not tagged");

async fn a19(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let mut frame = pfc(PAUSED_BIT, LONGEST_PAUSE);
    frame.splice(12..12, [0x81, 0x00, 0x60, 0x00]);
    require_ignored(&i, &traffic, LinkFrame::new(frame)).await?;
    Ok("ignored".to_owned())
}

pub(in crate::checks) static A20: Check =
    Check::new("A20", "any source address pauses", |i| Box::pin(a20(i)))
        .stimulus("bit 3 with time 0xFFFF from the source addresses 00-00-00-00-00-00 and 01-00-5E-00-00-01")
        .observation("class 3, and the counter of received PFC frames")
        .criterion("class 3 stops, and the frames are counted")
        .clause("IEEE 802.3 31.4.1; SONiC PFC test plan")
        .forms(&[ZERO_SOURCE, MULTICAST_SOURCE]);

const ZERO_SOURCE: &str = "zero source";
const MULTICAST_SOURCE: &str = "multicast source";

async fn a20(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let mut failures = FormFailures::default();
    for (form, source) in [(ZERO_SOURCE, [0; 6]), (MULTICAST_SOURCE, [1, 0, 0x5e, 0, 0, 1])] {
        let before = i.counters().await.ok();
        let frame = with_bytes(pfc(PAUSED_BIT, LONGEST_PAUSE), 6, &source);
        let paused = require_honoured(&i, &traffic, frame).await;
        let received = |counters: crate::device::Counters| counters.pfc_rx[usize::from(PAUSED_CLASS)];
        let counted = i.counters().await.ok().map(received);
        // The frame and the XON frame after it.
        let expected = before.map(|before| received(before) + 2);
        let is_counted = require(counted == expected, || {
            "the device does not count the frame".to_owned()
        });
        failures.add(form, paused.and(is_counted))?;
    }
    failures.finish()?;
    Ok("2 of 2 honoured".to_owned())
}
