//! The steps of the preflight, one for each direction.

use crate::checks::congestion::congest_class;
use crate::checks::frames::{PAUSED_BIT, PAUSED_CLASS, pause};
use crate::checks::traffic::start_traffic;
use crate::instrument::Instrument;
use crate::step::{Step, Stop};

/// Sends a PFC frame to the device. Fails if neither its traffic nor its counters show the frame.
pub(crate) async fn sends_to_device(i: &Instrument) -> Step {
    let before = i.counters().await;
    let traffic = start_traffic(i, PAUSED_BIT, 500).await?;
    let quanta = 4_000;
    let arrival = pause(i, PAUSED_CLASS, quanta).await;
    let until = arrival + i.quanta(u64::from(quanta));
    if traffic.stays_paused(PAUSED_CLASS, arrival, until).await.is_ok() {
        return Ok(());
    }
    let (before, after) = (before?, i.counters().await?);
    let is_counted = after.pfc_rx != before.pfc_rx
        || after.control_frames_to_host != before.control_frames_to_host
        || after.rx_unsupported_control != before.rx_unsupported_control;
    match is_counted {
        true => Ok(()),
        false => Err(Stop::Fail(
            "the device neither pauses nor counts a PFC frame".to_owned(),
        )),
    }
}

/// Congests the device. Fails if it counts PFC frames that do not arrive.
pub(crate) async fn sends_from_device(i: &Instrument) -> Step {
    match congest_class(i, PAUSED_CLASS).await {
        Ok(_) => Ok(()),
        Err(Stop::Fail(reason)) => match i.counters().await?.pfc_tx[usize::from(PAUSED_CLASS)] {
            0 => Err(Stop::Skip(reason)),
            _ => Err(Stop::Fail(
                "the device counts sent PFC frames, and none arrives".to_owned(),
            )),
        },
        Err(stop) => Err(stop),
    }
}
