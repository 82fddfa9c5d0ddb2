//! A congestion control outside xoff: additive increase, multiplicative decrease by echoed congestion marks.

use xoff_rdma::congestion::{Ack, CongestionControl, ControllerContext, ControllerFactory, CongestionSignal};
use xoff_dataplane::Picos;

/// Adds to its rate in each round trip, and halves it in one with a mark.
#[derive(Debug)]
struct Aimd {
    rate_bps: u64,
    line_rate_bps: u64,
    /// Added per round trip: 1/100 of the line rate.
    step_bps: u64,
    /// The present round trip ends when this position of the stream is acknowledged.
    round_end: u64,
    /// A mark was seen in it.
    marked: bool,
}

impl Aimd {
    fn new(context: &ControllerContext) -> Aimd {
        let line_rate_bps = context.line_rate_bps.max(1);
        Aimd {
            rate_bps: line_rate_bps,
            line_rate_bps,
            step_bps: line_rate_bps / 100,
            round_end: 0,
            marked: false,
        }
    }
}

impl CongestionControl for Aimd {
    fn name(&self) -> &'static str {
        "aimd"
    }

    fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    fn signals(&self) -> &'static [CongestionSignal] {
        &[CongestionSignal::MarkEcho]
    }

    fn on_ack(&mut self, _now: Picos, ack: &Ack<'_>) {
        self.marked |= ack.marked;
        if ack.acked_total <= self.round_end {
            return;
        }
        self.rate_bps = if self.marked {
            (self.rate_bps / 2).max(1)
        } else {
            (self.rate_bps + self.step_bps).min(self.line_rate_bps)
        };
        self.marked = false;
        self.round_end = ack.sent_total;
    }
}

/// Makes one for each queue pair.
fn factory() -> ControllerFactory {
    ControllerFactory::new(|context| Box::new(Aimd::new(context)))
}

/// Round trips of ten packets; says the rate after each. In those of `marked` the fifth packet carries a mark.
fn play(control: &mut dyn CongestionControl, rounds: u64, marked: &[u64]) -> Vec<u64> {
    const PACKET_BYTES: u64 = 1024;
    const PACKETS: u64 = 10;
    let mut rates = Vec::new();
    for round in 0..rounds {
        for packet in 1..=PACKETS {
            let acked_total = (round * PACKETS + packet) * PACKET_BYTES;
            let ack = Ack {
                acked_bytes: PACKET_BYTES,
                inflight_bytes: (PACKETS - 1) * PACKET_BYTES,
                acked_total,
                sent_total: acked_total + (PACKETS - 1) * PACKET_BYTES,
                rtt: Some(Picos::from_micros(10)),
                marked: packet == 5 && marked.contains(&round),
                telemetry: None,
            };
            control.on_ack(Picos::from_micros(round * PACKETS + packet), &ack);
        }
        rates.push(control.rate_bps());
    }
    rates
}

/// 100 Gb/s and 10 us.
fn context() -> ControllerContext {
    ControllerContext {
        line_rate_bps: 100_000_000_000,
        base_rtt: Picos::from_micros(10),
        packet_bytes: 1082,
        seed: 0,
    }
}

fn main() {
    let mut control = factory().make(&context());
    let marked = [2, 3, 12];
    println!("round   mark   rate, Gb/s");
    for (round, rate_bps) in play(control.as_mut(), 20, &marked).iter().enumerate() {
        let mark = if marked.contains(&(round as u64)) {
            "yes"
        } else {
            ""
        };
        println!("{round:>5}   {mark:>4}   {:>10.3}", *rate_bps as f64 / 1e9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_halves_the_rate_and_round_trips_without_one_add_to_it() {
        let mut control = factory().make(&context());
        let rates = play(control.as_mut(), 8, &[1]);
        // The mark in the middle of a round trip is acted upon at its end, which the next acknowledgements are.
        assert_eq!(rates[1], 100_000_000_000);
        assert_eq!(rates[2], 50_000_000_000);
        assert_eq!(rates[7], 55_000_000_000);
    }
}
