//! The enable vector: the classes that a PFC frame changes.

use xoff_units::Picos;
use xoff_wire::PRIORITIES;

use crate::check::Check;
use crate::checks::frames::{
    LONGEST_PAUSE, PAUSED_BIT, PAUSED_CLASS, hold_pause, pause, pfc, pfc_with_times, repeat, send,
};
use crate::checks::traffic::{DeviceTraffic, start_traffic};
use crate::checks::{format_span, require, require_in_time};
use crate::instrument::Instrument;
use crate::step::Step;

/// Length in quanta of a window in which a class must keep its rate.
const WINDOW_QUANTA: u64 = 8_000;

pub(in crate::checks) static A1: Check = Check::new("A1", "null PFC does not pause", |i| Box::pin(a1(i)))
    .stimulus("20 PFC frames with the vector 0 and all times 0, while the device sends class 3")
    .observation("the rate of class 3, and the MAC control frames that reach the host")
    .criterion("class 3 keeps 99 % of its rate, and no MAC control frame reaches the host of the device")
    .clause("IEEE 802.1Q 36.1.3.3, 802.3 31.3; Windows HLK QosPriorityFlowControl");

async fn a1(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let from = i.now();
    repeat(&i, pfc(0, 0), i.quanta(1_000), 20).await;
    traffic
        .keeps_running(PAUSED_BIT, from, from + i.quanta(i.window_quanta(20_000)))
        .await?;
    let to_host = i
        .counters()
        .await
        .map_or(0, |counters| counters.control_frames_to_host);
    require(to_host == 0, || {
        "the device passes MAC control frames to its host: they must end at the MAC".to_owned()
    })?;
    Ok(describe_share(&traffic, from, i.now()))
}

fn describe_share(traffic: &DeviceTraffic, from: Picos, until: Picos) -> String {
    let percent = traffic.share(PAUSED_CLASS, from, until) * 100.0;
    format!("class {PAUSED_CLASS} keeps {percent:.1} % of its rate")
}

pub(in crate::checks) static A2: Check = Check::new("A2", "a storm pauses one class", |i| Box::pin(a2(i)))
    .stimulus("bit 3 with time 0xFFFF, repeated at half of that time; the device sends all eight classes")
    .observation("frames of class 3, and the rates of the other classes")
    .criterion("class 3 stops within the response time, all others keep 99 % of their rates")
    .clause("IEEE 802.1Q 36.1.3.3; Windows HLK, SONiC PFC test plan")
    .requires(&["A6"]);

async fn a2(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, 0xff, 100).await?;
    let from = i.now();
    let end = hold_pause(&i, 4).await;
    let until = end.since(i.quanta(u64::from(LONGEST_PAUSE)));
    traffic
        .stays_paused(PAUSED_CLASS, from + i.quanta(2), until)
        .await?;
    traffic.keeps_running(!PAUSED_BIT, from, until).await?;
    Ok(format!(
        "class 3 sends nothing for {}",
        format_span(until.since(from), &i.link())
    ))
}

pub(in crate::checks) static A3: Check =
    Check::new("A3", "each of the eight classes can pause", |i| Box::pin(a3(i)))
        .stimulus("bit k with time 8000 for each class k in turn; the device sends all eight classes")
        .observation("frames of class k, and the rates of the other classes")
        .criterion("only class k stops, for all eight classes")
        .clause("IEEE 802.1Q 36.1.3.3; one of the two most common failures at UNH-IOL")
        .requires(&["A2"]);

async fn a3(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, 0xff, 100).await?;
    let quanta = i.window_pause(WINDOW_QUANTA as u16);
    for class in 0..PRIORITIES as u8 {
        let arrival = pause(&i, class, quanta).await;
        let until = arrival + i.quanta(u64::from(quanta) * 3 / 4);
        traffic.stays_paused(class, arrival, until).await?;
        traffic.keeps_running(!(1 << class), arrival, until).await?;
        i.wait(i.quanta(u64::from(quanta / 2))).await;
    }
    Ok("8 of 8 classes pause alone".to_owned())
}

pub(in crate::checks) static A4: Check = Check::new("A4", "each class has its own timer", |i| {
    Box::pin(a4(i))
})
.stimulus("one PFC frame with all eight bits and a different time for each class")
.observation("the first frame of each class after the pause")
.criterion(
    "the classes resume in the order of their times, each within the response time and a frame of each class",
)
.clause("IEEE 802.1Q 36.1.3.3; verilog-ethernet tests")
.requires(&["A3", "A5"]);

async fn a4(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, 0xff, 100).await?;
    let budget = i.response_budget();
    let step = (2 * budget.0 / i.quanta(1).0 + 1).max(400);
    let times: [u16; PRIORITIES] = std::array::from_fn(|class| ((class as u64 + 1) * step) as u16);
    let arrival = send(&i, pfc_with_times(0xff, times)).await;
    let mut previous = Picos::ZERO;
    for (class, time) in times.into_iter().enumerate() {
        let pause = i.quanta(u64::from(time));
        let silence = traffic.silence(class as u8, arrival, i.quanta(100_000)).await?;
        let latest = pause + budget + Picos(i.frame_time().0 * (PRIORITIES as u64 + 1));
        require_in_time(
            silence + i.timing().tolerance >= pause && silence <= latest && silence > previous,
            [arrival, arrival + silence],
            pause.since(silence).max(silence.since(latest)),
            || {
                let [silence, pause, latest] =
                    [silence, pause, latest].map(|span| format_span(span, &i.link()));
                format!("class {class} resumes after {silence}, permitted are {pause} to {latest}")
            },
        )?;
        previous = silence;
    }
    Ok(format!("8 classes resume in order (interval in quanta: {step})"))
}

pub(in crate::checks) static A8: Check =
    Check::new("A8", "a clear enable bit means no pause", |i| Box::pin(a8(i)))
        .stimulus("all times 0xFFFF, first with no enable bit, then with all bits except bit 3")
        .observation("the rate of class 3")
        .criterion("class 3 keeps 99 % of its rate")
        .clause("IEEE 802.1Q 36.1.3.3; one of the two most common failures at UNH-IOL");

async fn a8(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let from = i.now();
    for enable in [0, !PAUSED_BIT] {
        let sent = send(&i, pfc_with_times(enable, [LONGEST_PAUSE; PRIORITIES])).await;
        traffic
            .keeps_running(PAUSED_BIT, sent, sent + i.quanta(i.window_quanta(WINDOW_QUANTA)))
            .await?;
    }
    Ok(describe_share(&traffic, from, i.now()))
}

pub(in crate::checks) static A9: Check =
    Check::new("A9", "time 0 does not pause a running class", |i| Box::pin(a9(i)))
        .stimulus("bit 3 with time 0, while class 3 runs")
        .observation("the rate of class 3")
        .criterion("class 3 keeps 99 % of its rate")
        .clause("IEEE 802.1Q 36.1.3.3; Windows HLK QosPriorityFlowControl");

async fn a9(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let from = i.now();
    repeat(&i, pfc(PAUSED_BIT, 0), i.quanta(500), 5).await;
    traffic
        .keeps_running(PAUSED_BIT, from, from + i.quanta(i.window_quanta(WINDOW_QUANTA)))
        .await?;
    Ok(describe_share(&traffic, from, i.now()))
}
