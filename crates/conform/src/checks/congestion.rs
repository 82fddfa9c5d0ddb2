//! Congestion of the device: its host does not read, so the device must pause the instrument.

use xoff_units::Picos;
use xoff_wire::PRIORITIES;

use crate::device::Operation;
use crate::instrument::Instrument;
use crate::observation::CapturedFrame;
use crate::step::{Step, Stop};
use crate::stimulus_port::GeneratorCommand;

/// Time in quanta in which a congested device must send a PFC frame: the time to fill 12 MB.
const FIRST_PFC_QUANTA: u64 = 200_000;
/// Time in quanta in which a device reads a full buffer and the instrument stops sending.
const DRAIN_QUANTA: u64 = 40_000;

/// Returns whether a frame is a PFC frame that pauses a class.
pub(super) fn is_xoff(frame: &CapturedFrame, class: u8) -> bool {
    frame
        .pfc()
        .is_some_and(|pfc| pfc.enable & (1 << class) != 0 && pfc.quanta[usize::from(class)] != 0)
}

/// Returns whether a frame is a PFC frame that resumes a class.
pub(super) fn is_xon(frame: &CapturedFrame, class: u8) -> bool {
    frame
        .pfc()
        .is_some_and(|pfc| pfc.enable & (1 << class) != 0 && pfc.quanta[usize::from(class)] == 0)
}

/// Sends the classes of a mask to a device that does not read them. Returns the first frame that pauses each of these
/// classes, in the order of the classes.
pub(super) async fn congest(i: &Instrument, classes: u8, share_permille: u32) -> Step<Vec<CapturedFrame>> {
    let start = i.now();
    i.operate(Operation::SetUnread { classes }).await?;
    let congested: Vec<u8> = (0..PRIORITIES as u8)
        .filter(|class| classes & (1 << class) != 0)
        .collect();
    for class in &congested {
        i.generate(*class, share_permille).await;
    }
    let deadline = start + i.traffic_span(FIRST_PFC_QUANTA);
    let mut frames = Vec::new();
    for class in congested {
        let frame = i
            .next_control_frame(start, deadline, |frame| is_xoff(frame, class))
            .await;
        frames.push(frame.ok_or_else(|| {
            Stop::Fail(format!(
                "the device does not pause class {class}, although its host does not read"
            ))
        })?);
    }
    Ok(frames)
}

/// Congests one class at link rate. Returns the first frame that pauses it.
pub(super) async fn congest_class(i: &Instrument, class: u8) -> Step<CapturedFrame> {
    let mut frames = congest(i, 1 << class, 1_000).await?;
    Ok(frames.remove(0))
}

/// Lets the host of the device read all classes.
pub(super) async fn relieve(i: &Instrument) -> Step {
    i.operate(Operation::SetUnread { classes: 0 }).await
}

/// Ends a congestion: the host reads, the instrument stops, and all frames arrive. Returns the time at which the host
/// started to read.
pub(super) async fn end_congestion(i: &Instrument) -> Step<Picos> {
    let relieved_at = i.now();
    relieve(i).await?;
    i.generator(GeneratorCommand::Stop).await;
    i.wait(i.quanta(DRAIN_QUANTA)).await;
    Ok(relieved_at)
}
