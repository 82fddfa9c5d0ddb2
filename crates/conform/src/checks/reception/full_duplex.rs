//! A pause stops only the sender.

use xoff_units::{Picos, count_noun};

use crate::check::Check;
use crate::checks::frames::{PAUSED_BIT, PAUSED_CLASS, hold_pause};
use crate::checks::require;
use crate::checks::traffic::start_traffic;
use crate::instrument::Instrument;
use crate::step::Step;
use crate::stimulus_port::GeneratorCommand;

pub(in crate::checks) static A24: Check = Check::new("A24", "a paused device receives at link rate", |i| {
    Box::pin(a24(i))
})
.stimulus("a storm that holds class 3, while the instrument sends all eight classes at link rate")
.observation("the frames that the host of the device receives")
.criterion("every frame is received")
.clause("IEEE 802.3 31B.1: a pause inhibits transmission only");

async fn a24(i: Instrument) -> Step<String> {
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let from = i.now();
    let end = hold_pause(&i, 2).await;
    for class in 0..8 {
        i.generate(class, 125).await;
    }
    let until = from + Picos(end.since(from).0 / 2);
    traffic
        .stays_paused(PAUSED_CLASS, from + i.quanta(2), until)
        .await?;
    i.generator(GeneratorCommand::Stop).await;
    i.wait(i.quanta(1_000)).await;
    let sent: u64 = i.generated_frames().await.iter().sum();
    let received: u64 = i.counters().await?.rx_frames.iter().sum();
    require(received == sent, || {
        format!("the device received {received} of {}", count_noun(sent, "frame"))
    })?;
    Ok(format!("{} received", count_noun(received, "frame")))
}
