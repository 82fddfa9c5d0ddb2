//! Priorities with and without PFC, and 802.3x PAUSE.

use xoff_units::{Picos, count_noun};

use crate::check::Check;
use crate::checks::frames::{
    LONGEST_PAUSE, PAUSED_BIT, PAUSED_CLASS, link_pause, pause, pfc, repeat, send, with_bytes,
};
use crate::checks::traffic::start_traffic;
use crate::checks::{format_span, require_in_time};
use crate::device::Operation;
use crate::instrument::Instrument;
use crate::step::{Step, Stop};

/// Length in quanta of a window in which a class must keep its rate.
const WINDOW_QUANTA: u64 = 8_000;

/// Disables PFC and enables 802.3x.
async fn use_link_pause(i: &Instrument) -> Step {
    i.operate(Operation::SetPfc { enabled: 0 }).await?;
    i.operate(Operation::SetLinkPause { is_honoured: true }).await
}

pub(in crate::checks) static A10: Check = Check::new("A10", "a priority without PFC does not pause", |i| {
    Box::pin(a10(i))
})
.stimulus("PFC is disabled for priority 3 alone; bit 3 with time 0xFFFF")
.observation("the rate of class 3, and the counter of received PFC frames")
.criterion("class 3 keeps 99 % of its rate")
.clause("IEEE 802.1Q 36.1.2; sonic-buildimage issue 23441");

async fn a10(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    i.operate(Operation::SetPfc { enabled: !PAUSED_BIT }).await?;
    let arrival = pause(&i, PAUSED_CLASS, LONGEST_PAUSE).await;
    traffic
        .keeps_running(
            PAUSED_BIT,
            arrival,
            arrival + i.quanta(i.window_quanta(WINDOW_QUANTA)),
        )
        .await?;
    Ok(match i.counters().await {
        Ok(counters) if counters.pfc_rx[usize::from(PAUSED_CLASS)] == 1 => {
            "not paused, and counted".to_owned()
        }
        Ok(_) => "not paused, and not counted".to_owned(),
        Err(_) => "not paused".to_owned(),
    })
}

pub(in crate::checks) static A11: Check =
    Check::new("A11", "a device without PFC does not pause", |i| Box::pin(a11(i)))
        .stimulus("PFC is disabled; all eight bits with time 0xFFFF")
        .observation("the rate of class 3")
        .criterion("class 3 keeps 99 % of its rate")
        .clause("IEEE 802.1Q 36.1.2; Windows HLK QosPriorityFlowControl");

async fn a11(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    i.operate(Operation::SetPfc { enabled: 0 }).await?;
    let arrival = send(&i, pfc(0xff, LONGEST_PAUSE)).await;
    traffic
        .keeps_running(
            PAUSED_BIT,
            arrival,
            arrival + i.quanta(i.window_quanta(WINDOW_QUANTA)),
        )
        .await?;
    Ok("not paused".to_owned())
}

pub(in crate::checks) static A12: Check =
    Check::new("A12", "802.3x PAUSE is ignored in PFC mode", |i| Box::pin(a12(i)))
        .stimulus("802.3x PAUSE frames with time 0xFFFF, while PFC is enabled; classes 0 and 3 run")
        .observation("the rates of classes 0 and 3")
        .criterion("both keep 99 % of their rates")
        .clause("IEEE 802.1Q 36.1.1; SONiC PFC test plan");

async fn a12(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT | 1, 200).await?;
    let from = i.now();
    repeat(&i, link_pause(LONGEST_PAUSE), i.quanta(2_000), 3).await;
    traffic
        .keeps_running(
            PAUSED_BIT | 1,
            from,
            from + i.quanta(i.window_quanta(WINDOW_QUANTA)),
        )
        .await?;
    Ok("classes 0 and 3 keep their rates".to_owned())
}

pub(in crate::checks) static A13: Check =
    Check::new("A13", "802.3x PAUSE pauses the whole link", |i| Box::pin(a13(i)))
        .stimulus("802.3x is enabled and PFC disabled; one PAUSE frame; classes 0, 3 and 7 run")
        .observation("the silent time of the link")
        .criterion("no class sends for the pause time, within 2 % and the response time")
        .clause("IEEE 802.3 Annex 31B; Windows HLK TxFlowControl");

async fn a13(i: Instrument) -> Step<String> {
    let classes = [0, PAUSED_CLASS, 7];
    let traffic = start_traffic(&i, PAUSED_BIT | 1 | 0x80, 300).await?;
    use_link_pause(&i).await?;
    let quanta = 8_000;
    let arrival = send(&i, link_pause(quanta)).await;
    let expected = i.quanta(u64::from(quanta));
    let resumed_at = arrival + expected.since(i.timing().tolerance);
    for class in classes {
        traffic.stays_paused(class, arrival, resumed_at).await?;
    }
    let mut first = Picos::NEVER;
    for class in classes {
        first = first.min(traffic.silence(class, arrival, expected + expected).await?);
    }
    let latest = expected + i.response_budget() + Picos(expected.0 / 50);
    require_in_time(
        first <= latest,
        [arrival, arrival + first],
        first.since(latest),
        || format!("the link is silent for {}", format_span(first, &i.link())),
    )?;
    Ok(format!(
        "the link is silent for {}",
        format_span(first, &i.link())
    ))
}

pub(in crate::checks) static A15: Check =
    Check::new("A15", "pauses to the address of the port", |i| Box::pin(a15(i)))
        .stimulus("802.3x PAUSE and PFC frames whose destination is the MAC address of the device")
        .observation("whether class 3 pauses")
        .criterion("informational: 802.3 permits PAUSE to the own address, PFC needs the group address")
        .clause("IEEE 802.3 31B.3.3 and Annex 31D")
        .informational();

/// Sends a frame and returns whether class 3 is silent in the window after it.
async fn is_paused_by(i: &Instrument, frame: Vec<u8>) -> bool {
    let arrival = send(i, frame).await;
    i.wait(i.quanta(4_000)).await;
    let silent_from = arrival + i.response_budget();
    i.observations()
        .started_between(PAUSED_CLASS, silent_from, i.now())
        .is_empty()
}

async fn a15(i: Instrument) -> Step<String> {
    let own_mac = i.device_mac();
    start_traffic(&i, PAUSED_BIT, 500).await?;
    let pfc = is_paused_by(&i, with_bytes(pfc(PAUSED_BIT, LONGEST_PAUSE), 0, &own_mac)).await;
    let pause = match use_link_pause(&i).await {
        Ok(()) => is_paused_by(&i, with_bytes(link_pause(LONGEST_PAUSE), 0, &own_mac)).await,
        Err(Stop::Skip(reason)) => return Ok(format!("PFC: {}; {reason}", accepted(pfc))),
        Err(stop) => return Err(stop),
    };
    Ok(format!("PFC: {}, 802.3x: {}", accepted(pfc), accepted(pause)))
}

fn accepted(is_paused: bool) -> &'static str {
    match is_paused {
        true => "pauses",
        false => "ignored",
    }
}

pub(in crate::checks) static A25: Check = Check::new("A25", "data after a PFC frame", |i| Box::pin(a25(i)))
    .stimulus("bit 3 with time 0xFFFF, while the device sends class 3 at link rate")
    .observation("the bytes of class 3 that end after the arrival of the PFC frame")
    .criterion("informational: the bytes of the response time and one frame are expected at most")
    .clause("IEEE 802.3 31B.3.7")
    .informational();

async fn a25(i: Instrument) -> Step<String> {
    start_traffic(&i, PAUSED_BIT, 1_000).await?;
    let arrival = pause(&i, PAUSED_CLASS, LONGEST_PAUSE).await;
    i.wait(i.quanta(10_000)).await;
    let duration = |start: Picos, end: Picos| end.since(start.max(arrival)).0;
    let late: u64 = i.observations().data[usize::from(PAUSED_CLASS)]
        .iter()
        .filter(|frame| frame.end > arrival)
        .map(|frame| duration(frame.start, frame.end))
        .sum();
    let bytes = |picos: u64| picos * u64::from(i.link().speed_mbps) / 8_000_000;
    let expected = bytes(i.response_budget().0 + i.frame_time().0);
    let [late, expected] = [bytes(late), expected].map(|bytes| count_noun(bytes, "byte"));
    Ok(format!("{late}, at most {expected} expected"))
}
