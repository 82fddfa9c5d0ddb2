//! Group B: the device sends pauses.

use xoff_units::{Picos, count_noun};
use xoff_wire::mac_control::{DESTINATION, FRAME_LEN};
use xoff_wire::{PRIORITIES, Pfc};

use crate::check::Check;
use crate::checks::congestion::{congest, congest_class, end_congestion, is_xoff, is_xon, relieve};
use crate::checks::frames::{LONGEST_PAUSE, PAUSED_BIT, PAUSED_CLASS};
use crate::checks::{format_span, require, require_in_time, share_of};
use crate::device::Operation;
use crate::instrument::Instrument;
use crate::step::{Step, Stop};
use crate::stimulus_port::GeneratorCommand;

/// The second congested class of checks with two classes.
const OTHER_CLASS: u8 = 4;

pub(super) static B1: Check = Check::new("B1", "a full receive buffer pauses without loss", |i| {
    Box::pin(b1(i))
})
.stimulus("class 3 at link rate to a device whose host does not read")
.observation("PFC frames of the device, and the frames that its host reads later")
.criterion("a PFC frame with bit 3, and no lost frame")
.clause("IEEE 802.1Q 36.1.3.2; Linux selftest qos_pfc.sh");

async fn b1(i: Instrument) -> Step<String> {
    let start = i.now();
    let first = congest_class(&i, PAUSED_CLASS).await?;
    i.wait(i.quanta(20_000)).await;
    end_congestion(&i).await?;
    let class = usize::from(PAUSED_CLASS);
    let sent = i.generated_frames().await[class];
    let counters = i.counters().await?;
    require(
        counters.rx_frames[class] == sent && counters.rx_discards[class] == 0,
        || {
            let lost = sent.saturating_sub(counters.rx_frames[class]);
            format!("{} of class 3 lost", count_noun(lost, "frame"))
        },
    )?;
    let delay = format_span(first.end.since(start), &i.link());
    Ok(format!(
        "PFC after {delay}, {} received",
        count_noun(sent, "frame")
    ))
}

pub(super) static B2: Check = Check::new("B2", "a lossy class is never paused", |i| Box::pin(b2(i)))
    .stimulus("PFC is disabled for priority 0; class 0 at link rate to a device whose host does not read")
    .observation("PFC frames of the device, and its discards")
    .criterion("no PFC frame has bit 0, and discarded frames are counted")
    .clause("IEEE 802.1Q 36.1.2; sonic-buildimage issue 20590");

async fn b2(i: Instrument) -> Step<String> {
    i.operate(Operation::SetPfc { enabled: 0xfe }).await?;
    i.operate(Operation::SetUnread { classes: 1 }).await?;
    i.generate(0, 1_000).await;
    let mut discards = 0;
    for _ in 0..40 {
        i.wait(i.traffic_span(5_000)).await;
        discards = i.counters().await?.rx_discards[0];
        if discards > 0 {
            break;
        }
    }
    i.wait(i.quanta(5_000)).await;
    let names_class_0 = |pfc: Pfc| pfc.enable & 1 != 0;
    let paused = i
        .observations()
        .control
        .iter()
        .any(|frame| frame.pfc().is_some_and(names_class_0));
    require(!paused, || {
        "the device pauses class 0, which has no PFC".to_owned()
    })?;
    require(discards > 0, || {
        "the buffer is full, and the device counts no discarded frame".to_owned()
    })?;
    Ok("no PFC, discards are counted".to_owned())
}

pub(super) static B3: Check = Check::new("B3", "the form of PFC frames", |i| Box::pin(b3(i)))
    .stimulus("class 3 at link rate to a device whose host does not read")
    .observation("the bytes of the first PFC frame")
    .criterion("01-80-C2-00-00-01, the address of the port, 0x8808, 0x0101, high byte 0, 64 bytes, padding 0")
    .clause("IEEE 802.1Q 36.1.3, 802.3 31.4 and Annex 31D; UNH-IOL Annex 31B suite")
    .requires(&["B1"]);

async fn b3(i: Instrument) -> Step<String> {
    i.operate(Operation::SetUnread { classes: PAUSED_BIT }).await?;
    i.generate(PAUSED_CLASS, 1_000).await;
    let deadline = i.now() + i.traffic_span(200_000);
    let frame = i.next_control_frame(Picos::ZERO, deadline, |_| true).await;
    let Some(frame) = frame else {
        return Err(Stop::Fail("the device sends no MAC control frame".to_owned()));
    };
    let bytes = &frame.bytes;
    let source = i.device_mac();
    let field = |at: usize, expected: &[u8]| bytes.get(at..at + expected.len()) == Some(expected);
    let rules = [
        ("the length is not 64 bytes", bytes.len() == FRAME_LEN),
        ("the destination is not 01-80-C2-00-00-01", field(0, &DESTINATION)),
        ("the source is not the address of the port", field(6, &source)),
        ("the type is not 0x8808 without a tag", field(12, &[0x88, 0x08])),
        ("the opcode is not 0x0101", field(14, &[0x01, 0x01])),
        ("the high byte of the vector is not 0", field(16, &[0])),
        (
            "the padding is not 0",
            bytes.iter().skip(34).all(|byte| *byte == 0),
        ),
    ];
    let broken: Vec<&str> = rules.iter().filter(|rule| !rule.1).map(|rule| rule.0).collect();
    require(broken.is_empty(), || broken.join("; "))?;
    Ok("all fields are right".to_owned())
}

pub(super) static B4: Check = Check::new("B4", "times without their bit are 0", |i| Box::pin(b4(i)))
    .stimulus("class 3 at link rate to a device whose host does not read")
    .observation("the times of the classes whose bit is clear")
    .criterion("all are 0")
    .clause("IEEE 802.1Q 36.1.3.3: the time of a clear bit is ignored; 0 is the usual value")
    .requires(&["B1"]);

async fn b4(i: Instrument) -> Step<String> {
    let frame = congest_class(&i, PAUSED_CLASS).await?;
    let pfc = frame.pfc().unwrap_or_default();
    let is_wrong = |class: &usize| pfc.enable & (1 << class) == 0 && pfc.quanta[*class] != 0;
    let wrong: Vec<usize> = (0..PRIORITIES).filter(is_wrong).collect();
    require(wrong.is_empty(), || {
        format!("the bits of the classes {wrong:?} are clear and their times are not 0")
    })?;
    Ok("all are 0".to_owned())
}

pub(super) static B5: Check = Check::new("B5", "the peer resumes when the host reads again", |i| {
    Box::pin(b5(i))
})
.stimulus("a congested class 3, then the host reads again")
.observation("an XON frame or the end of the pause, and the traffic of the instrument")
.criterion("the traffic continues within one longest pause and the time to read the buffer")
.clause("IEEE 802.1Q 36.1.3.2; UNH-IOL, verilog-ethernet tests")
.requires(&["B1"]);

async fn b5(i: Instrument) -> Step<String> {
    congest_class(&i, PAUSED_CLASS).await?;
    i.wait(i.quanta(5_000)).await;
    let class = usize::from(PAUSED_CLASS);
    let before = i.generated_frames().await[class];
    let relieved_at = i.now();
    relieve(&i).await?;
    let deadline = relieved_at + i.quanta(u64::from(LONGEST_PAUSE) + 20_000);
    let xon = i
        .next_control_frame(relieved_at, deadline, |frame| is_xon(frame, PAUSED_CLASS))
        .await;
    i.wait(i.quanta(2_000)).await;
    let after = i.generated_frames().await[class];
    require(after > before, || {
        "the device keeps pausing class 3, although its host reads".to_owned()
    })?;
    Ok(match xon {
        Some(frame) => format!(
            "XON after {}",
            format_span(frame.end.since(relieved_at), &i.link())
        ),
        None => "the pause expires without an XON frame".to_owned(),
    })
}

pub(super) static B6: Check = Check::new("B6", "a long pause is refreshed in time", |i| Box::pin(b6(i)))
    .stimulus("class 3 at link rate to a device whose host does not read for five of the longest pauses")
    .observation("the times between PFC frames")
    .criterion("each pause is refreshed at 80 % of its time or earlier")
    .clause("IEEE 802.1Q 36.1.3.2; verilog-ethernet tests")
    .requires(&["B1"]);

async fn b6(i: Instrument) -> Step<String> {
    let first = congest_class(&i, PAUSED_CLASS).await?;
    i.wait_until(first.end + i.quanta(5 * u64::from(LONGEST_PAUSE)))
        .await;
    let pauses: Vec<(Picos, u16)> = i
        .observations()
        .control_since(first.end)
        .iter()
        .filter(|frame| is_xoff(frame, PAUSED_CLASS))
        .map(|frame| {
            (
                frame.end,
                frame.pfc().unwrap_or_default().quanta[usize::from(PAUSED_CLASS)],
            )
        })
        .collect();
    let mut latest = 0.0_f64;
    for (at, (end, quanta)) in pauses.iter().enumerate() {
        let next = pauses.get(at + 1).map_or(i.now(), |next| next.0);
        let share = next.since(*end).0 as f64 / i.quanta(u64::from(*quanta)).0 as f64;
        latest = latest.max(share);
    }
    let excess = share_of(i.quanta(u64::from(LONGEST_PAUSE)), latest - 0.8);
    require_in_time(latest <= 0.8, [first.end, i.now()], excess, || {
        format!("a pause is refreshed after {:.0} % of its time", latest * 100.0)
    })?;
    Ok(format!("refreshed after {:.0} % of the time", latest * 100.0))
}

pub(super) static B7: Check = Check::new("B7", "one of two congested classes resumes", |i| Box::pin(b7(i)))
    .stimulus("classes 3 and 4 are congested, then the host reads class 3 only")
    .observation("PFC frames of the device")
    .criterion("an XON for class 3; class 4 stays paused")
    .clause("IEEE 802.1Q 36.1.3.3; verilog-ethernet tests")
    .requires(&["B1", "B5"]);

async fn b7(i: Instrument) -> Step<String> {
    congest(&i, PAUSED_BIT | 1 << OTHER_CLASS, 450).await?;
    i.wait(i.quanta(2_000)).await;
    let released_at = i.now();
    let classes = 1 << OTHER_CLASS;
    i.operate(Operation::SetUnread { classes }).await?;
    let deadline = released_at + i.quanta(u64::from(LONGEST_PAUSE) + 20_000);
    let xon = i
        .next_control_frame(released_at, deadline, |frame| is_xon(frame, PAUSED_CLASS))
        .await;
    require(xon.is_some(), || "the device does not resume class 3".to_owned())?;
    i.wait(i.quanta(10_000)).await;
    let is_resumed = i
        .observations()
        .control_since(released_at)
        .iter()
        .any(|frame| is_xon(frame, OTHER_CLASS));
    require(!is_resumed, || {
        "the device resumes class 4, which its host does not read".to_owned()
    })?;
    Ok("class 3 resumes, class 4 stays paused".to_owned())
}

pub(super) static B8: Check = Check::new("B8", "a peer that ignores PFC", |i| Box::pin(b8(i)))
    .stimulus("class 3 at link rate to a device whose host does not read; the instrument ignores PFC")
    .observation("the bytes until the first discard, the counter of discards, and the state afterwards")
    .criterion(
        "the device discards after its headroom only, counts the discards, and receives again afterwards",
    )
    .clause("SONiC PFC test plan")
    .requires(&["B1", "B5"]);

async fn b8(i: Instrument) -> Step<String> {
    let class = usize::from(PAUSED_CLASS);
    i.generator(GeneratorCommand::SetPfc(0)).await;
    congest_class(&i, PAUSED_CLASS).await?;
    let xoff_at = i.now();
    let at_xoff = i.generated_frames().await[class];
    let mut discards = 0;
    for _ in 0..2_000 {
        i.wait(i.traffic_span(200)).await;
        discards = i.counters().await?.rx_discards[class];
        if discards > 0 {
            break;
        }
    }
    require(discards > 0, || {
        "the device counts no discarded frame, although its buffer must be full".to_owned()
    })?;
    let stored = i.generated_frames().await[class] - at_xoff;
    let frame_bytes = u64::from(i.link().mac_len(crate::traffic::DATA_FRAME_LEN));
    let headroom = i.settings().await.map_or(0, |settings| settings.headroom_bytes);
    // Up to two frames were in flight when the PFC frame arrived, and more were sent until the instrument saw it.
    let in_flight = 2 + i.timing().tolerance.0 / i.frame_time().0;
    let is_stored = (stored + in_flight) * frame_bytes >= headroom;
    let missing = headroom.saturating_sub((stored + in_flight) * frame_bytes) / frame_bytes;
    let excess = Picos(missing * i.traffic_span(1).0 / i.quanta(1).0 * i.frame_time().0);
    require_in_time(is_stored, [xoff_at, i.now()], excess, || {
        let stored = count_noun(stored * frame_bytes, "byte");
        format!("the device discards {stored} after its PFC frame, its headroom is {headroom}")
    })?;
    end_congestion(&i).await?;
    let before = i.counters().await?.rx_frames[class];
    i.generate(PAUSED_CLASS, 100).await;
    i.wait(i.traffic_span(4_000)).await;
    require(i.counters().await?.rx_frames[class] > before, || {
        "the device receives nothing after the discards".to_owned()
    })?;
    Ok(format!(
        "{} stored after XOFF",
        count_noun(stored * frame_bytes, "byte")
    ))
}

pub(super) static B9: Check = Check::new("B9", "headroom in quanta of delay", |i| Box::pin(b9(i)))
    .stimulus(
        "a congested class 3; the instrument honours PFC after a delay that doubles from 64 to 32768 quanta",
    )
    .observation("the discards of the device")
    .criterion("informational: the longest delay without a discard")
    .clause("sonic-mgmt snappi tests (pfc_delay)")
    .requires(&["B1"])
    .informational();

async fn b9(i: Instrument) -> Step<String> {
    let class = usize::from(PAUSED_CLASS);
    let mut longest = 0;
    for delay in (6..16).map(|power| 1_u64 << power) {
        let response = i.quanta(delay);
        i.generator(GeneratorCommand::SetResponseTime(response)).await;
        congest_class(&i, PAUSED_CLASS).await?;
        i.wait(response + i.quanta(2_000)).await;
        if i.counters().await?.rx_discards[class] > 0 {
            return Ok(format!(
                "no loss up to a delay of {longest}, loss at {delay} (quanta)"
            ));
        }
        longest = delay;
        end_congestion(&i).await?;
    }
    Ok(format!("no loss up to a delay of {longest} (quanta)"))
}

pub(super) static B10: Check = Check::new("B10", "a stuck host does not pause for ever", |i| {
    Box::pin(b10(i))
})
.stimulus("a congested class 3 beyond the storm prevention limit of the device")
.observation("PFC frames after the limit, and the counter of storms")
.criterion("no PFC frame after the limit, and the storm is counted; SKIP if the device has no limit")
.clause("mlx5 tx_pause_storm_error_events")
.requires(&["B1"]);

async fn b10(i: Instrument) -> Step<String> {
    let Some(limit) = i.settings().await?.storm_limit else {
        return Err(Stop::Skip("the device has no storm prevention".to_owned()));
    };
    let first = congest(&i, PAUSED_BIT, 100).await?.remove(0);
    let end = first.end + limit + i.quanta(1_000);
    i.wait_until(end + i.quanta(u64::from(LONGEST_PAUSE))).await;
    let late = i
        .observations()
        .control_since(end)
        .iter()
        .filter(|frame| is_xoff(frame, PAUSED_CLASS))
        .count();
    let last = i
        .observations()
        .control_since(end)
        .last()
        .map_or(end, |frame| frame.end);
    require_in_time(late == 0, [first.end + limit, i.now()], last.since(end), || {
        format!(
            "{} after the limit of {}",
            count_noun(late as u64, "PFC frame"),
            format_span(limit, &i.link())
        )
    })?;
    let storms = i.counters().await?.storm_events;
    require(storms > 0, || "the storm is not counted".to_owned())?;
    Ok(format!("PFC ends after {}", format_span(limit, &i.link())))
}

pub(super) static B11: Check = Check::new("B11", "no PFC without congestion", |i| Box::pin(b11(i)))
    .stimulus("an idle link, then all eight classes at link rate to a device whose host reads")
    .observation("PFC frames of the device")
    .criterion("none")
    .clause("SONiC PFC test plan");

async fn b11(i: Instrument) -> Step<String> {
    let idle = i.quanta(20_000);
    i.wait(idle).await;
    for class in 0..PRIORITIES as u8 {
        i.generate(class, 125).await;
    }
    let window = match i.is_long() {
        true => Picos::from_millis(60_000),
        false => i.quanta(i.scaled(100_000, 20_000)),
    };
    i.wait(window).await;
    let frames = i.observations().control.len() as u64;
    require(frames == 0, || {
        format!(
            "the device sends {} without congestion",
            count_noun(frames, "PFC frame")
        )
    })?;
    Ok(format!("none in {}", format_span(idle + window, &i.link())))
}
