//! Many pauses, long pauses, and settings that change during a pause.

use xoff_units::{Picos, count_noun};

use crate::check::Check;
use crate::checks::frames::{LONGEST_PAUSE, PAUSED_BIT, PAUSED_CLASS, hold_pause, pause, pfc, repeat};
use crate::checks::traffic::start_traffic;
use crate::checks::{format_span, require};
use crate::device::Operation;
use crate::instrument::Instrument;
use crate::step::Step;

/// Longest time in which a class must send again after the cause of its pause has ended.
const RECOVERY_MAX: Picos = Picos::from_millis(1_000);

pub(in crate::checks) static A14: Check =
    Check::new("A14", "disabling PFC ends a pause", |i| Box::pin(a14(i)))
        .stimulus("a storm that holds class 3, then PFC is disabled on the device during the storm")
        .observation("the first frame of class 3 after the change")
        .criterion("class 3 sends within 1 s")
        .clause("state after a change of configuration; no clause")
        .requires(&["A11"]);

async fn a14(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let interval = i.quanta(u64::from(LONGEST_PAUSE / 2));
    let from = i.now();
    repeat(
        &i,
        pfc(PAUSED_BIT, LONGEST_PAUSE),
        interval,
        RECOVERY_MAX.0 / interval.0 + 2,
    )
    .await;
    traffic
        .stays_paused(PAUSED_CLASS, from + i.quanta(2), from + i.quanta(5_000))
        .await?;
    i.operate(Operation::SetPfc { enabled: 0 }).await?;
    let disabled_at = i.now();
    let resumed = i
        .next_data_frame(PAUSED_CLASS, disabled_at, disabled_at + RECOVERY_MAX)
        .await;
    i.cancel_scheduled().await;
    require(resumed.is_some(), || {
        "class 3 sends nothing for 1 s after PFC was disabled".to_owned()
    })?;
    let delay = resumed.unwrap_or_default().since(disabled_at);
    Ok(format!("class 3 resumes after {}", format_span(delay, &i.link())))
}

pub(in crate::checks) static A23: Check = Check::new("A23", "many random transitions lose nothing", |i| {
    Box::pin(a23(i))
})
.stimulus("10 000 PFC frames (1 000 000 with --long) for class 3 at random times, XOFF and XON at random")
.observation("loss, order and liveness of class 3")
.criterion("no frame is lost or reordered, and class 3 sends within 1 s after the end")
.clause("sonic-buildimage issue 19648");

/// Returns the next number of a pseudo-random sequence (splitmix64).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

async fn a23(i: Instrument) -> Step<String> {
    start_traffic(&i, PAUSED_BIT, 1_000).await?;
    let count = if i.is_long() {
        1_000_000
    } else {
        i.scaled(10_000, 500)
    };
    let mut random = 1;
    for _ in 0..count {
        let quanta = match next_random(&mut random) % 2 {
            0 => 0,
            _ => next_random(&mut random) % 200 + 1,
        };
        pause(&i, PAUSED_CLASS, quanta as u16).await;
        i.wait(i.quanta(next_random(&mut random) % 60)).await;
    }
    let end = pause(&i, PAUSED_CLASS, 0).await;
    let resumed = i
        .next_data_frame(PAUSED_CLASS, end + i.response_budget(), end + RECOVERY_MAX)
        .await;
    require(resumed.is_some(), || {
        "class 3 sends nothing for 1 s after the last transition".to_owned()
    })?;
    let (lost, reordered) = i.observations().lost_and_reordered(PAUSED_CLASS);
    require(lost + reordered == 0, || {
        let [lost, reordered] = [lost, reordered].map(|count| count_noun(count, "frame"));
        format!("{lost} lost and {reordered} reordered")
    })?;
    Ok(format!("{}, nothing lost", count_noun(count, "transition")))
}

pub(in crate::checks) static A26: Check =
    Check::new("A26", "the device survives a long storm", |i| Box::pin(a26(i)))
        .stimulus(
            "a storm that holds class 3 for 20 of the longest pauses (60 s with --long); classes 0 and 3 run",
        )
        .observation("class 0, the pause counters, resets of the port, and class 3 after the storm")
        .criterion(
            "only class 3 is paused, the port is not reset, and class 3 sends within 1 s after the storm",
        )
        .clause("SONiC PFC watchdog test plan")
        .requires(&["A2"]);

async fn a26(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT | 1, 50).await?;
    let before = i.counters().await.unwrap_or_default();
    let pauses = Picos::from_millis(60_000).0 / i.quanta(u64::from(LONGEST_PAUSE)).0;
    let refreshes = if i.is_long() { 2 * pauses } else { 40 };
    let from = i.now();
    let end = hold_pause(&i, refreshes).await;
    traffic.keeps_running(1, from, end).await?;
    let after = i.counters().await.unwrap_or_default();
    require(after.link_resets == before.link_resets, || {
        "the port was reset during the storm".to_owned()
    })?;
    let others = (0..8).filter(|class| *class != usize::from(PAUSED_CLASS));
    let is_paused = |class: &usize| after.paused_ns[*class] > before.paused_ns[*class];
    let wrong: Vec<usize> = others.filter(is_paused).collect();
    require(wrong.is_empty(), || {
        format!("the counters report pauses of other classes: {wrong:?}")
    })?;
    let resumed = i.next_data_frame(PAUSED_CLASS, end, end + RECOVERY_MAX).await;
    require(resumed.is_some(), || {
        "class 3 sends nothing for 1 s after the storm".to_owned()
    })?;
    Ok(format!("a storm of {}", format_span(end.since(from), &i.link())))
}
