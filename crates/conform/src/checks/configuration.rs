//! Group C: configuration and counters.

use xoff_units::count_noun;
use xoff_wire::PRIORITIES;

use crate::check::Check;
use crate::checks::congestion::{congest_class, end_congestion, relieve};
use crate::checks::frames::{LONGEST_PAUSE, PAUSED_BIT, PAUSED_CLASS, pause};
use crate::checks::require;
use crate::checks::traffic::start_traffic;
use crate::device::{ClassTrust, Operation};
use crate::instrument::Instrument;
use crate::observation::CapturedFrame;
use crate::step::Step;

pub(super) static C3: Check = Check::new("C3", "PFC can be switched under traffic", |i| Box::pin(c3(i)))
    .stimulus("PFC of priority 3 is disabled and enabled 1000 times; classes 0 and 3 run")
    .observation("resets of the port, and loss and order of class 0")
    .criterion("no reset, and no frame of class 0 lost or reordered")
    .clause("no clause: a change of one priority must not disturb others");

async fn c3(i: Instrument) -> Step<String> {
    start_traffic(&i, PAUSED_BIT | 1, 100).await?;
    let resets = i.counters().await.map_or(0, |counters| counters.link_resets);
    let count = i.scaled(1_000, 200);
    for _ in 0..count {
        for enabled in [!PAUSED_BIT, 0xff] {
            i.operate(Operation::SetPfc { enabled }).await?;
            i.wait(i.traffic_span(50)).await;
        }
    }
    i.wait(i.quanta(1_000)).await;
    let (lost, reordered) = i.observations().lost_and_reordered(0);
    require(lost + reordered == 0, || {
        let [lost, reordered] = [lost, reordered].map(|count| count_noun(count, "frame"));
        format!("class 0: {lost} lost and {reordered} reordered")
    })?;
    let now = i.counters().await.map_or(0, |counters| counters.link_resets);
    require(now == resets, || "the port was reset".to_owned())?;
    Ok(format!(
        "{}, class 0 undisturbed",
        count_noun(2 * count, "change")
    ))
}

pub(super) static C4: Check = Check::new("C4", "settings after a reset", |i| Box::pin(c4(i)))
    .stimulus("a reset of the device, then bit 3 with time 0xFFFF")
    .observation("the PFC settings, and whether class 3 pauses")
    .criterion("informational: whether PFC survives the reset")
    .clause("Windows HLK: survives a reset")
    .informational();

async fn c4(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let before = i.settings().await?.pfc;
    i.operate(Operation::Reset).await?;
    i.wait(i.quanta(4_000)).await;
    let after = i.settings().await?.pfc;
    let arrival = pause(&i, PAUSED_CLASS, LONGEST_PAUSE).await;
    let result = traffic
        .stays_paused(PAUSED_CLASS, arrival, arrival + i.quanta(4_000))
        .await;
    let pauses = if result.is_ok() {
        "pauses"
    } else {
        "does not pause"
    };
    Ok(format!(
        "PFC {before:#04x} before, {after:#04x} after the reset; class 3 {pauses}"
    ))
}

pub(super) static C5: Check = Check::new("C5", "counters agree with the link", |i| Box::pin(c5(i)))
    .stimulus(
        "five XOFF and five XON frames of class 3, three XOFF frames of class 5, then a congested class 3",
    )
    .observation("the counters of the device, and the frames on the link")
    .criterion("received and sent PFC frames agree exactly for each priority, the paused time within 5 %")
    .clause("Linux selftest ethtool_std_stats.sh; mlx5 counters")
    .requires(&["A2", "A5", "A9", "B1"]);

async fn c5(i: Instrument) -> Step<String> {
    start_traffic(&i, PAUSED_BIT, 500).await?;
    let before = i.counters().await?;
    let pause_quanta = 1_000;
    for (class, quanta, count) in [(3, pause_quanta, 5), (3, 0, 5), (5, pause_quanta, 3)] {
        for _ in 0..count {
            pause(&i, class, quanta).await;
            i.wait(i.quanta(2_000)).await;
        }
    }
    let after = i.counters().await?;
    let received: [u64; PRIORITIES] = std::array::from_fn(|class| after.pfc_rx[class] - before.pfc_rx[class]);
    require(received == [0, 0, 0, 10, 0, 3, 0, 0], || {
        format!("received PFC frames by priority: {received:?} counted, [0, 0, 0, 10, 0, 3, 0, 0] sent")
    })?;
    let class = usize::from(PAUSED_CLASS);
    let paused_ns = after.paused_ns[class] - before.paused_ns[class];
    let expected_ns = i.quanta(5 * u64::from(pause_quanta)).as_nanos();
    require(paused_ns.abs_diff(expected_ns) * 20 <= expected_ns, || {
        format!("paused time of class 3: {paused_ns} ns counted, {expected_ns} ns sent")
    })?;
    congest_class(&i, PAUSED_CLASS).await?;
    end_congestion(&i).await?;
    let counted = i.counters().await?.pfc_tx;
    let names =
        |frame: &CapturedFrame, class: usize| frame.pfc().is_some_and(|pfc| pfc.enable & (1 << class) != 0);
    let seen: [u64; PRIORITIES] = std::array::from_fn(|class| {
        let control = &i.observations().control;
        control.iter().filter(|frame| names(frame, class)).count() as u64
    });
    require(counted == seen, || {
        format!("sent PFC frames by priority: {counted:?} counted, {seen:?} seen")
    })?;
    Ok(format!(
        "13 received, {} sent, {paused_ns} ns paused",
        seen[class]
    ))
}

pub(super) static C6: Check = Check::new("C6", "the trusted field selects the class", |i| Box::pin(c6(i)))
    .stimulus(
        "frames with DSCP 26 and PCP 5, and untagged ones, to a congested device that trusts DSCP, then PCP",
    )
    .observation("the priority of its PFC frames")
    .criterion("DSCP 26 is class 3; PCP 5 is class 5; an untagged frame is class 0 if PCP is trusted")
    .clause("IEEE 802.1Q 6.9.3; IEEE 802.1Qcd (DSCP)")
    .requires(&["B1", "B5"]);

/// Sends frames to a device that reads no class. Returns the enable vector of its first PFC frame.
async fn paused_classes(i: &Instrument, class: u8, is_tagged: bool) -> Step<u8> {
    i.operate(Operation::SetUnread { classes: 0xff }).await?;
    let from = i.now();
    i.generate_frames(class, 1_000, is_tagged).await;
    let deadline = from + i.traffic_span(200_000);
    let is_pause = |frame: &CapturedFrame| frame.pfc().is_some_and(|pfc| pfc.is_xoff());
    let frame = i.next_control_frame(from, deadline, is_pause).await;
    relieve(i).await?;
    end_congestion(i).await?;
    Ok(frame.and_then(|frame| frame.pfc()).map_or(0, |pfc| pfc.enable))
}

async fn c6(i: Instrument) -> Step<String> {
    let cases = [
        (ClassTrust::Dscp, true, 3),
        (ClassTrust::Pcp, true, 5),
        (ClassTrust::Pcp, false, 0),
    ];
    for (trust, is_tagged, expected) in cases {
        i.operate(Operation::SetTrust(trust)).await?;
        // Untagged frames of the instrument have the DSCP of their class.
        let class = if is_tagged { 5 } else { 3 };
        let paused = paused_classes(&i, class, is_tagged).await?;
        require(paused == 1 << expected, || {
            let form = if is_tagged {
                "DSCP 26 and PCP 5"
            } else {
                "DSCP 26 and no tag"
            };
            format!("trust {trust:?}, {form}: the PFC frame has the vector {paused:#04x}, not bit {expected}")
        })?;
    }
    Ok("3 of 3 classes are right".to_owned())
}
