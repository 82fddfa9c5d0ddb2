//! Algorithm names, presets, changed parameters and error messages.

use std::collections::BTreeMap;

use xoff_units::Picos;

use super::super::{
    Algorithm, CongestionConfig, CongestionFeedback, CongestionSignal, ConstantRateParameters,
    ControllerContext, DcqcnNicParameters, DcqcnParameters, DctcpParameters, HpccParameters, ParameterSet,
    ParameterValue, SwiftParameters, TimelyParameters,
};
use super::context;

fn factory_error(choice: CongestionConfig) -> String {
    choice.factory().unwrap_err().to_string()
}

#[test]
fn names_select_algorithms() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
        let control = CongestionConfig::new(algorithm)
            .factory()
            .unwrap()
            .make(&context(25_000_000_000));
        assert_eq!(control.name(), algorithm.name());
        assert_eq!(control.rate_bps(), 25_000_000_000, "all start at line rate");
        assert_eq!(control.telemetry_format().is_some(), algorithm == Algorithm::Hpcc);
    }
    let error = "bbr".parse::<Algorithm>().unwrap_err().to_string();
    assert_eq!(
        error,
        "no congestion control is called \"bbr\"; there are none, dcqcn, dcqcn-nic, dctcp, timely, hpcc, swift"
    );
}

#[test]
fn every_preset_is_in_range_on_every_host() {
    fn check<P: ParameterSet>() {
        let mut names: Vec<_> = P::FIELDS.iter().map(|field| field.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), P::FIELDS.len(), "a name twice");
        for preset in P::PRESETS {
            for line_rate_bps in [10_000_000, 1_000_000_000, 25_000_000_000, 1_600_000_000_000] {
                for base_rtt in [Picos::from_nanos(500), Picos::from_millis(10)] {
                    let parameters = (preset.make)(&ControllerContext {
                        line_rate_bps,
                        base_rtt,
                        packet_bytes: 4178,
                        seed: 0,
                    });
                    let checked = parameters.check();
                    assert_eq!(
                        checked,
                        Ok(()),
                        "{} {} {line_rate_bps}",
                        P::ALGORITHM,
                        preset.name
                    );
                }
            }
        }
    }
    check::<ConstantRateParameters>();
    check::<DcqcnParameters>();
    check::<DcqcnNicParameters>();
    check::<DctcpParameters>();
    check::<TimelyParameters>();
    check::<HpccParameters>();
    check::<SwiftParameters>();
}

#[test]
fn hpcc_ns3_preset_has_the_values_of_the_reference_runs() {
    let parameters = DcqcnNicParameters::hpcc_ns3(100_000_000_000);
    assert_eq!(
        (parameters.rate_ai_bps, parameters.rate_hai_bps),
        (20_000_000, 200_000_000)
    );
    assert_eq!(
        (parameters.min_rate_bps, parameters.g),
        (1_000_000_000, 0.003_906_25)
    );
    assert_eq!(parameters.increase_interval_ns, 300_000);
    let parameters = DcqcnNicParameters::conweave_ns3(100_000_000_000);
    assert_eq!(
        (parameters.rate_ai_bps, parameters.rate_hai_bps),
        (40_000_000, 100_000_000)
    );
    assert_eq!(parameters.min_rate_bps, 100_000_000);
}

#[test]
fn changed_parameters_reach_the_controller() {
    let choice = CongestionConfig::new(Algorithm::None)
        .with_parameter("rate_bps", 4e9)
        .with_parameter("window_bytes", 64e3);
    let control = choice.factory().unwrap().make(&context(25_000_000_000));
    assert_eq!(
        (control.rate_bps(), control.window_bytes()),
        (4_000_000_000, Some(64_000))
    );
    let choice = choice.with_parameter("window_bytes", "none");
    let control = choice.factory().unwrap().make(&context(25_000_000_000));
    assert_eq!(control.window_bytes(), None);
    // A change of a preset: the cut comes at the other period, with the initial alpha of the preset.
    let choice = CongestionConfig::new(Algorithm::DcqcnNic)
        .with_parameter("preset", "conweave-ns3")
        .with_parameter("decrease_interval_ns", 7e3)
        .with_parameter("cut_on_nak", false);
    let mut control = choice.factory().unwrap().make(&context(25_000_000_000));
    control.on_nak(Picos::ZERO);
    assert_eq!(control.next_deadline(), Picos::NEVER);
    control.on_cnp(Picos::ZERO);
    assert_eq!(control.next_deadline(), Picos::from_nanos(7_001));
}

#[test]
fn errors_name_the_parameter_and_its_range() {
    let dctcp = CongestionConfig::new(Algorithm::Dctcp);
    assert_eq!(
        factory_error(dctcp.clone().with_parameter("gain", 0.1)),
        "dctcp has no parameter \"gain\"; it has g (0.0001 to 1), initial_alpha (0 to 1), increase_packets \
         (0.001 to 1000), initial_window_bytes (1 to 1099511627776), min_rate_bps (1000 to 1000000000000)"
    );
    assert_eq!(
        factory_error(dctcp.clone().with_parameter("g", 2.0)),
        "g = 2 is out of range, which is 0.0001 to 1"
    );
    assert_eq!(
        factory_error(dctcp.clone().with_parameter("g", f64::NAN)),
        "g = NaN is out of range, which is 0.0001 to 1"
    );
    assert_eq!(
        factory_error(dctcp.clone().with_parameter("g", "fast")),
        "g = \"fast\" is not a number"
    );
    assert_eq!(
        factory_error(dctcp.clone().with_parameter("min_rate_bps", 1e6 + 0.5)),
        "min_rate_bps = 1000000.5 is not a whole number"
    );
    assert_eq!(
        factory_error(dctcp.clone().with_parameter("initial_window_bytes", true)),
        "initial_window_bytes = true is not a whole number or none"
    );
    assert_eq!(
        factory_error(dctcp.clone().with_parameter("preset", "linux")),
        "dctcp has no preset \"linux\"; it has rfc8257"
    );
    assert_eq!(
        factory_error(dctcp.with_parameter("preset", 8257.0)),
        "preset = 8257 is not a name"
    );
    assert_eq!(
        factory_error(CongestionConfig::new(Algorithm::DcqcnNic).with_parameter("clamp_target", 1.0)),
        "clamp_target = 1 is not true or false"
    );
    assert_eq!(
        factory_error(CongestionConfig::new(Algorithm::Swift).with_parameter("scaling_min_packets", 100.0)),
        "scaling_min_packets = 100 must be below scaling_max_packets = 100"
    );
}

#[test]
fn each_algorithm_has_its_default_feedback() {
    let feedback = |algorithm| CongestionConfig::new(algorithm).default_feedback();
    let cnp = |us| CongestionFeedback::Cnp {
        interval: Picos::from_micros(us),
    };
    assert_eq!(feedback(Algorithm::Dcqcn), cnp(50));
    assert_eq!(feedback(Algorithm::DcqcnNic), cnp(4));
    assert_eq!(feedback(Algorithm::Dctcp), CongestionFeedback::AckEcho);
    for algorithm in [
        Algorithm::None,
        Algorithm::Timely,
        Algorithm::Hpcc,
        Algorithm::Swift,
    ] {
        assert_eq!(feedback(algorithm), CongestionFeedback::None);
    }
    let model = CongestionConfig::new(Algorithm::DcqcnNic).with_parameter("preset", "hpcc-ns3");
    assert_eq!(model.default_feedback(), CongestionFeedback::AckEcho);
}

#[test]
fn controllers_declare_their_signals() {
    for algorithm in Algorithm::ALL {
        let expected: &[CongestionSignal] = match algorithm {
            Algorithm::None => &[],
            Algorithm::Dcqcn | Algorithm::DcqcnNic => &[CongestionSignal::Cnp, CongestionSignal::MarkEcho],
            Algorithm::Dctcp => &[CongestionSignal::MarkEcho],
            Algorithm::Timely | Algorithm::Swift => &[CongestionSignal::RoundTrip],
            Algorithm::Hpcc => &[CongestionSignal::Telemetry],
        };
        let factory = CongestionConfig::new(algorithm).factory().unwrap();
        assert_eq!(factory.signals(), expected, "{algorithm}");
    }
    let window = CongestionConfig::new(Algorithm::None).with_parameter("window_bytes", 65_536.0);
    assert_eq!(
        window.factory().unwrap().signals(),
        [CongestionSignal::Acknowledgement]
    );
}

#[test]
fn values_are_parsed_from_lab_files() {
    let text = r#"{"preset": "hpcc-ns3", "g": 0.5, "increase_interval_ns": 55000, "clamp_target": true}"#;
    let parameters: BTreeMap<String, ParameterValue> = serde_json::from_str(text).unwrap();
    assert_eq!(parameters["g"], ParameterValue::Number(0.5));
    assert_eq!(
        parameters["increase_interval_ns"],
        ParameterValue::Number(55_000.0)
    );
    assert_eq!(parameters["clamp_target"], ParameterValue::Flag(true));
    let choice = CongestionConfig {
        algorithm: Algorithm::DcqcnNic,
        parameters,
    };
    assert!(choice.factory().is_ok());
}

#[test]
fn the_documentation_lists_every_parameter_and_preset() {
    const TEXT: &str = include_str!("../../../../../docs/congestion-control.md");
    fn check<P: ParameterSet>() {
        let section = TEXT
            .split("\n## ")
            .find(|section| section.lines().next() == Some(P::ALGORITHM))
            .unwrap();
        for field in P::FIELDS {
            let (min, max) = field.range();
            let row = format!("| `{}` | {min} to {max}", field.name());
            let flag = format!("| `{}` | true, false", field.name());
            assert!(
                section.contains(&row) || section.contains(&flag),
                "{}: {row}",
                P::ALGORITHM
            );
        }
        for preset in P::PRESETS {
            assert!(
                section.contains(&format!("`{}`", preset.name)),
                "{} {}",
                P::ALGORITHM,
                preset.name
            );
        }
        let rows = section.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, P::FIELDS.len(), "{}", P::ALGORITHM);
    }
    check::<ConstantRateParameters>();
    check::<DcqcnParameters>();
    check::<DcqcnNicParameters>();
    check::<DctcpParameters>();
    check::<TimelyParameters>();
    check::<HpccParameters>();
    check::<SwiftParameters>();
}
