//! Random events and parameters: rates stay in their bounds, and nothing panics.

use proptest::prelude::*;
use xoff_units::Picos;

use super::super::{
    Ack, Algorithm, CongestionConfig, CongestionControl, ConstantRateParameters, ControllerContext,
    DcqcnNicParameters, DcqcnParameters, DctcpParameters, HpccParameters, ParameterError, ParameterSet,
    SwiftParameters, TimelyParameters,
};
use crate::{HopTelemetry, Telemetry};

#[derive(Clone, Debug)]
enum Event {
    Sent(u32),
    Acknowledged(RandomAck),
    Notified,
    Missed,
    TimedOut,
    /// The deadline, if it is before the next event.
    Expire,
}

#[derive(Clone, Debug)]
struct RandomAck {
    acked_bytes: u64,
    inflight_bytes: u64,
    rtt_ns: Option<u64>,
    marked: bool,
    hop: Option<(u64, u64)>,
}

fn event() -> impl Strategy<Value = Event> {
    let random_ack = (
        0..100_000_u64,
        0..1_000_000_u64,
        prop::option::of(0..2_000_000_u64),
        any::<bool>(),
        prop::option::of((0..1_000_000_u64, 0..1_000_000_u64)),
    );
    let random_ack = random_ack.prop_map(|(acked_bytes, inflight_bytes, rtt_ns, marked, hop)| RandomAck {
        acked_bytes,
        inflight_bytes,
        rtt_ns,
        marked,
        hop,
    });
    prop_oneof![
        3 => (0..10_000_u32).prop_map(Event::Sent),
        6 => random_ack.prop_map(Event::Acknowledged),
        3 => Just(Event::Notified),
        1 => Just(Event::Missed),
        1 => Just(Event::TimedOut),
        4 => Just(Event::Expire),
    ]
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    prop::collection::vec(
        (prop_oneof![4 => 0..2_000_u64, 1 => 0..400_000_u64], event()),
        1..200,
    )
}

/// Passes events to a controller. Returns its lowest and highest rate.
fn apply_events(control: &mut dyn CongestionControl, events: &[(u64, Event)]) -> (u64, u64) {
    let mut now = Picos::ZERO;
    let mut acked_total = 0;
    let mut tx_bytes = 0;
    let mut rates = (control.rate_bps(), control.rate_bps());
    for (gap_ns, event) in events {
        now += Picos::from_nanos(*gap_ns);
        match event {
            Event::Sent(bytes) => control.on_packet_sent(now, *bytes),
            Event::Acknowledged(random_ack) => {
                acked_total += random_ack.acked_bytes;
                let mut telemetry = Telemetry::default();
                if let Some((sent_bytes, queue_bytes)) = random_ack.hop {
                    tx_bytes += sent_bytes;
                    telemetry.push(HopTelemetry {
                        at: now,
                        tx_bytes,
                        queue_bytes,
                        speed_mbps: 10_000,
                    });
                }
                let ack = Ack {
                    acked_bytes: random_ack.acked_bytes,
                    inflight_bytes: random_ack.inflight_bytes,
                    acked_total,
                    sent_total: acked_total + random_ack.inflight_bytes,
                    rtt: random_ack.rtt_ns.map(Picos::from_nanos),
                    marked: random_ack.marked,
                    telemetry: random_ack.hop.map(|_| &telemetry),
                };
                control.on_ack(now, &ack);
            }
            Event::Notified => control.on_cnp(now),
            Event::Missed => control.on_nak(now),
            Event::TimedOut => control.on_timeout(now),
            Event::Expire if control.next_deadline() <= now => {
                control.on_deadline(now);
                assert!(control.next_deadline() > now, "{control:?}");
            }
            Event::Expire => {}
        }
        assert!(
            control.window_bytes().is_none_or(|window| window > 0),
            "{control:?}"
        );
        rates.0 = rates.0.min(control.rate_bps());
        rates.1 = rates.1.max(control.rate_bps());
    }
    rates
}

/// Sets every parameter to a limit of its range. Bit *n* of `ends` selects the upper limit of parameter *n*.
fn config_at_limits<P: ParameterSet>(algorithm: Algorithm, ends: u64) -> CongestionConfig {
    let mut choice = CongestionConfig::new(algorithm);
    for (i, field) in P::FIELDS.iter().enumerate() {
        let upper = ends >> i & 1 == 1;
        let (min, max) = field.range();
        let number =
            CongestionConfig::new(algorithm).with_parameter(field.name(), if upper { max } else { min });
        let flag = CongestionConfig::new(algorithm).with_parameter(field.name(), upper);
        let is_flag = matches!(number.factory(), Err(ParameterError::WrongKind { .. }));
        let value = if is_flag { flag } else { number };
        choice.parameters.extend(value.parameters);
    }
    choice
}

fn config_at_limits_of(algorithm: Algorithm, ends: u64) -> CongestionConfig {
    match algorithm {
        Algorithm::None => config_at_limits::<ConstantRateParameters>(algorithm, ends),
        Algorithm::Dcqcn => config_at_limits::<DcqcnParameters>(algorithm, ends),
        Algorithm::DcqcnNic => config_at_limits::<DcqcnNicParameters>(algorithm, ends),
        Algorithm::Dctcp => config_at_limits::<DctcpParameters>(algorithm, ends),
        Algorithm::Timely => config_at_limits::<TimelyParameters>(algorithm, ends),
        Algorithm::Hpcc => config_at_limits::<HpccParameters>(algorithm, ends),
        Algorithm::Swift => config_at_limits::<SwiftParameters>(algorithm, ends),
    }
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(Algorithm::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rates_stay_between_minimum_and_line_rate(
        algorithm in algorithm(),
        events in events(),
        line_mbps in 10_u64..1_000_000,
        base_rtt_ns in 100..100_000_u64,
    ) {
        let line_rate_bps = line_mbps * 1_000_000;
        let context = ControllerContext { line_rate_bps, base_rtt: Picos::from_nanos(base_rtt_ns), packet_bytes: 1082, seed: 7 };
        let mut choice = CongestionConfig::new(algorithm);
        let lowest = if algorithm == Algorithm::None { line_rate_bps } else {
            choice = choice.with_parameter("min_rate_bps", 5e6);
            5_000_000
        };
        let mut control = choice.factory().unwrap().make(&context);
        let (min, max) = apply_events(control.as_mut(), &events);
        prop_assert!(min >= lowest && max <= line_rate_bps, "{} {} of {:?}", min, max, control);
    }

    #[test]
    fn parameters_at_their_limits_cause_no_panic(
        algorithm in algorithm(),
        events in events(),
        ends in any::<u64>(),
        line_rate_bps in prop::sample::select(vec![0, 1, 10_000_000, 400_000_000_000, u64::MAX]),
        base_rtt in prop::sample::select(vec![0, 1, 10_000_000, u64::MAX]),
        packet_bytes in prop::sample::select(vec![0, 64, 1082, u32::MAX]),
    ) {
        let choice = config_at_limits_of(algorithm, ends);
        // Limits of Timely and Swift can be in the wrong order, which is an error.
        prop_assume!(choice.factory().is_ok());
        let context = ControllerContext { line_rate_bps, base_rtt: Picos(base_rtt), packet_bytes, seed: 7 };
        let mut control = choice.factory().unwrap().make(&context);
        let (min, max) = apply_events(control.as_mut(), &events);
        prop_assert!(min >= 1 && max <= line_rate_bps.max(1), "{} {} of {:?}", min, max, control);
    }

    #[test]
    fn the_same_events_give_the_same_state(algorithm in algorithm(), events in events()) {
        let factory = CongestionConfig::new(algorithm).factory().unwrap();
        let context = super::context(10_000_000_000);
        let mut states = [factory.make(&context), factory.make(&context)].map(|mut control| {
            apply_events(control.as_mut(), &events);
            format!("{control:?}")
        });
        states.sort();
        prop_assert_eq!(&states[0], &states[1]);
    }
}

#[test]
fn values_out_of_range_are_clamped() {
    let wild = DcqcnNicParameters {
        alpha_interval_ns: 0,
        decrease_interval_ns: 0,
        increase_interval_ns: 0,
        g: f64::NAN,
        min_rate_bps: 0,
        ..DcqcnNicParameters::nvidia_firmware()
    };
    assert!(wild.check().is_err());
    let clamped = wild.clamped();
    assert_eq!(clamped.check(), Ok(()));
    assert_eq!(
        (clamped.alpha_interval_ns, clamped.g, clamped.min_rate_bps),
        (100, 1e-4, 1_000)
    );
}
