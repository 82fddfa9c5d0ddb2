//! The pause timer: length, refresh and release of a pause.

use xoff_units::Picos;

use crate::check::Check;
use crate::checks::frames::{LONGEST_PAUSE, PAUSED_BIT, PAUSED_CLASS, pause, pfc, repeat};
use crate::checks::traffic::start_traffic;
use crate::checks::{format_span, require_in_time, share_of};
use crate::instrument::Instrument;
use crate::link_frame::LinkFrame;
use crate::step::Step;

pub(in crate::checks) static A5: Check = Check::new("A5", "one pause lasts its time", |i| Box::pin(a5(i)))
    .stimulus(
        "bit 3 with the time T once, for T = 100, 1000, 30000 and 65535 (at least twice the response time)",
    )
    .observation("the time from the last bit of the PFC frame to the first bit of the next frame of class 3")
    .criterion("T within 2 % or one quantum, plus the response time")
    .clause("IEEE 802.1Q 36.1.3.3, 802.3 Annex 31B.2; UNH-IOL Annex 31B suite");

async fn a5(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let shortest = 2 * i.response_time().0 / i.quanta(1).0 + 1;
    let shortest = (shortest as u16).max(i.measured_pause(1)?);
    let mut times = [100, 1_000, 30_000, LONGEST_PAUSE]
        .map(|quanta| quanta.max(shortest))
        .to_vec();
    times.dedup();
    let mut texts = Vec::new();
    for quanta in times {
        let expected = i.quanta(u64::from(quanta));
        let pause = async |i: &Instrument| pause(i, PAUSED_CLASS, quanta).await;
        let measured = traffic.requires_silence(PAUSED_CLASS, expected, pause).await?;
        texts.push(format!("T={quanta}: {}", format_span(measured, &i.link())));
        i.wait(i.quanta(2_000)).await;
    }
    Ok(texts.join(", "))
}

pub(in crate::checks) static A6: Check =
    Check::new("A6", "a new time replaces the timer", |i| Box::pin(a6(i)))
        .stimulus("bit 3 with the time T, and again after T/2")
        .observation("the time from the first PFC frame to the first frame of class 3")
        .criterion("T/2 + T: the timer is set again, and times are not added")
        .clause("IEEE 802.1Q 36.1.3.3; verilog-ethernet tests")
        .requires(&["A5"]);

async fn a6(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let quanta = i.measured_pause(8_000)?;
    let half = i.quanta(u64::from(quanta / 2));
    let pause_twice = async |i: &Instrument| {
        let arrival = pause(i, PAUSED_CLASS, quanta).await;
        let frame = LinkFrame::new(pfc(PAUSED_BIT, quanta));
        i.send_at(arrival + half.since(frame.duration(&i.link())), frame)
            .await;
        arrival
    };
    let expected = half + i.quanta(u64::from(quanta));
    let measured = traffic
        .requires_silence(PAUSED_CLASS, expected, pause_twice)
        .await?;
    Ok(format!("silent for {}", format_span(measured, &i.link())))
}

pub(in crate::checks) static A7: Check =
    Check::new("A7", "time 0 resumes a paused class", |i| Box::pin(a7(i)))
        .stimulus("bit 3 with time 0xFFFF, then bit 3 with time 0")
        .observation("the time from the second PFC frame to the first frame of class 3")
        .criterion("the response time, and one quantum")
        .clause("IEEE 802.1Q 36.1.3.3, 802.3 31B.3.7; Windows HLK TxFlowControl");

async fn a7(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let paused = pause(&i, PAUSED_CLASS, LONGEST_PAUSE).await;
    traffic
        .stays_paused(PAUSED_CLASS, paused, paused + i.quanta(4_000))
        .await?;
    let resumed = pause(&i, PAUSED_CLASS, 0).await;
    let deadline = resumed + i.quanta(20_000);
    let start = i.next_data_frame(PAUSED_CLASS, resumed, deadline).await;
    let delay = start.map_or(Picos::NEVER, |start| start.since(resumed));
    let is_in_time = delay <= i.response_budget() + i.quanta(1);
    require_in_time(
        is_in_time,
        [resumed, deadline],
        delay.min(i.quanta(20_000)),
        || match start {
            Some(_) => format!(
                "class 3 resumes {} after the XON frame",
                format_span(delay, &i.link())
            ),
            None => "class 3 ignores the XON frame".to_owned(),
        },
    )?;
    Ok(format!("resumes after {}", format_span(delay, &i.link())))
}

/// Sends `count` pauses of `quanta` at an interval, and compares the throughput of class 3 with the share of the time
/// in which no pause is in effect. Returns the throughput as text.
async fn compare_throughput(
    i: &Instrument,
    label: &str,
    quanta: u16,
    interval: u64,
    count: u64,
) -> Step<String> {
    let traffic = start_traffic(i, PAUSED_BIT, 1_000).await?;
    let from = i.now() + i.response_time();
    let window = i.quanta(interval * count);
    repeat(i, pfc(PAUSED_BIT, quanta), i.quanta(interval), count).await;
    i.wait_until(from + window).await;
    let share = traffic.share(PAUSED_CLASS, from, from + window);
    let expected = 1.0 - f64::from(quanta) / interval as f64;
    // A device that responds at once also resumes at once, so the window ends after its last pause. Each pause may be
    // late by the tolerance of the medium.
    let late = i.response_time().0 + count * i.timing().tolerance.0;
    let tolerance = 0.02 + late as f64 / window.0 as f64;
    let text = format!("{label}: {:.1} %", share * 100.0);
    let is_right = (share - expected).abs() <= tolerance;
    let excess = share_of(window, (share - expected).abs() - tolerance);
    require_in_time(is_right, [from, from + window], excess, || {
        format!("{text} of the rate, expected {:.1} %", expected * 100.0)
    })?;
    i.wait(i.quanta(2 * u64::from(quanta))).await;
    Ok(text)
}

pub(in crate::checks) static A21: Check = Check::new("A21", "throughput follows the rate of pauses", |i| {
    Box::pin(a21(i))
})
.stimulus("pauses of T quanta at A/8, A/4, A/2 and A, where the rate A holds the class without a gap")
.observation("the throughput of class 3")
.criterion("the share of the time without a pause, within 2 % and the response time")
.clause("sonic-mgmt issue 25668")
.requires(&["A5"]);

async fn a21(i: Instrument) -> Step<String> {
    let quanta = i.window_pause(4_000);
    let mut measured = Vec::new();
    for (label, intervals) in [("A/8", 8), ("A/4", 4), ("A/2", 2), ("A", 1)] {
        let interval = u64::from(quanta) * intervals;
        let text = compare_throughput(&i, label, quanta, interval, 4).await?;
        measured.push(text);
    }
    Ok(measured.join(", "))
}

pub(in crate::checks) static A22: Check =
    Check::new("A22", "throughput follows the pause time", |i| Box::pin(a22(i)))
        .stimulus("pauses of 0x1FFF, 0x3FFF and 0x7FFF quanta at an interval of 0xA000 quanta")
        .observation("the throughput of class 3")
        .criterion("the share of the time without a pause, within 2 % and the response time")
        .clause("sonic-mgmt issue 25668")
        .requires(&["A5"]);

async fn a22(i: Instrument) -> Step<String> {
    let interval = 0xa000;
    let mut measured = Vec::new();
    for quanta in [0x1fff, 0x3fff, 0x7fff] {
        let label = format!("{quanta:#06x}");
        let text = compare_throughput(&i, &label, quanta, interval, i.scaled(2, 1)).await?;
        measured.push(text);
    }
    Ok(measured.join(", "))
}
