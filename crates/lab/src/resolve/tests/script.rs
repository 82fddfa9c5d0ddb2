//! Tests of scripts: the steps, and the names that they refer to.

use super::*;
use crate::plan::{
    ActionPlan, EgressBlockPlan, FaultSelectorPlan, LinkDirectionPlan, PausePlan, StepPlan, WorkloadTarget,
};
use xoff_fabric::{Fault, FaultAction, FrameSelector};

const LAB: &str = r#"
name: script
topology:
  fabric: {leaf-spine: {leaves: 2, spines: 1, hosts: 2, speed: 100g}}
workload:
  duration: 1ms
  flows: [{name: bg, from: [h1, h2], to: h3, rate: 10%}]
  jobs: [{name: train, kind: permutation, hosts: all, bytes: 1M}]
script:
  - block: {port: "leaf1:Ethernet8", queue: 3}
  - send: {from: h1, to: h3, frames: 100, size: 1082, dscp: 26, ecn: ect0, rate: 40%, psn: 7, qp: 17, pcp: 5}
  - {name: early, at: 10us, send: {name: probe, from: h2, to: h4}}
  - start: [train, bg]
  - stop: bg
  - pause: {from: h3, class: [3, 4], every: 10us, for: 1ms}
  - pause: {from: h3, global: true, quanta: 0}
  - link: {on: "h2:eth0", up: false}
  - fault: {on: "leaf1:Ethernet8--spine1:Ethernet0", action: drop, probability: 25%, count: 9, spare_up_to: 127}
  - fault: {on: "spine1:Ethernet0", action: corrupt, psn: 5, qp: 3}
  - fault: {on: "leaf1:Ethernet8", action: drop, every: 256}
  - heal: "h1:eth0"
  - configure: {switch: leaf1, config: {XOFF_SWITCH: {localhost: {cell_size: 80}}}}
  - clear: [watermarks, counters]
  - {at: 1ms, wait: 5us}
  - wait: {until: job.train.done == 1, at_most: 10ms}
  - expect: [flow.send1.lost_frames == 0, "sum(h*.out_of_sequence) == 0 and first(leaf1.ce) < first(xoff)"]
  - {name: last, expect: flow.probe.h2.received_frames == 1}
"#;

fn parse_script_lab(text: &str) -> Result<LabPlan, Problems> {
    parse_lab(text, "s.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual)
}

#[test]
fn script_steps_are_resolved() {
    let plan = parse_script_lab(LAB).unwrap_or_else(|problems| panic!("{problems}"));
    let steps = &plan.script.steps;
    let actions: Vec<&ActionPlan> = steps.iter().map(|step| &step.action).collect();
    assert_eq!(actions.len(), 19, "clear is two");
    let port = |queue| EgressBlockPlan {
        switch: 0,
        port: "Ethernet8".into(),
        queue,
    };
    assert_eq!(*actions[0], ActionPlan::Block(port(Some(3))));
    let ActionPlan::Send(send) = actions[1] else {
        panic!("{:?}", actions[1])
    };
    assert_eq!(
        (send.flow.name.as_str(), send.flow.from, send.flow.to, send.frames),
        ("send1", 0, 2, 100)
    );
    assert_eq!(
        (send.flow.dscp, send.flow.class, send.ecn, send.tag),
        (26, 3, 2, Some((5, 0)))
    );
    assert_eq!(
        (send.first_psn, send.dst_qp, send.flow.rate),
        (Some(7), Some(17), OfferedRate::LinkShare(400_000))
    );
    assert_eq!((send.flow.frame_len, send.flow.message_bytes), (1082, 1024));
    let named = |step: &StepPlan| (step.name.clone(), step.at_ns, step.source.clone());
    assert_eq!(
        named(&steps[2]),
        (Some("early".into()), Some(10_000), "s.xoff.yml:12".into())
    );
    let targets = vec![
        WorkloadTarget::Job(0),
        WorkloadTarget::Flow(0),
        WorkloadTarget::Flow(1),
    ];
    assert_eq!(*actions[3], ActionPlan::Start(targets));
    let storm = PausePlan {
        host: 2,
        classes: Some(0b1_1000),
        quanta: 65_535,
        every_ns: Some(10_000),
        for_ns: Some(1_000_000),
    };
    assert_eq!(*actions[5], ActionPlan::Pause(storm));
    let once = PausePlan {
        host: 2,
        classes: None,
        quanta: 0,
        every_ns: None,
        for_ns: None,
    };
    assert_eq!(*actions[6], ActionPlan::Pause(once));
    let link_of = |host: usize| {
        plan.links
            .iter()
            .position(|link| link.far == FarEnd::Host(host))
            .expect("a link")
    };
    assert_eq!(
        *actions[7],
        ActionPlan::Link {
            link: link_of(1),
            up: false
        }
    );
    let heal = LinkDirectionPlan {
        link: link_of(0),
        from_switch: false,
        from_far: true,
    };
    assert_eq!(*actions[11], ActionPlan::Heal(heal));
    assert_eq!(
        (actions[13], actions[14]),
        (&ActionPlan::ClearWatermarkCommand, &ActionPlan::ClearCounters)
    );
    assert_eq!(
        (actions[15], steps[15].at_ns),
        (&ActionPlan::Wait { ns: 5000 }, Some(1_000_000))
    );
    let ActionPlan::WaitUntil {
        condition,
        at_most_ns: 10_000_000,
    } = actions[16]
    else {
        panic!("{:?}", actions[16])
    };
    assert_eq!(condition.to_string(), "job.train.done == 1");
    let ActionPlan::Expect(expected) = actions[17] else {
        panic!("{:?}", actions[17])
    };
    assert_eq!(expected.len(), 2);
}

#[test]
fn fault_steps_become_faults_of_the_fabric() {
    let plan = parse_script_lab(LAB).unwrap_or_else(|problems| panic!("{problems}"));
    let fault = |step: &StepPlan| match step.action {
        ActionPlan::Fault(fault) => Some(fault),
        _ => None,
    };
    let faults: Vec<_> = plan.script.steps.iter().filter_map(fault).collect();
    let directions: Vec<_> = faults
        .iter()
        .map(|fault| (fault.direction.from_switch, fault.direction.from_far))
        .collect();
    assert_eq!(
        directions,
        [(true, true), (false, true), (true, false)],
        "both directions, frames of the spine, frames of the leaf"
    );
    let first = Fault {
        action: FaultAction::Drop,
        selector: FrameSelector::Probability(1 << 30),
        frames_max: 9,
        spares_up_to_len: 127,
    };
    assert_eq!(faults[0].to_fabric_fault(), first);
    assert_eq!(
        faults[1].to_fabric_fault().selector,
        FrameSelector::Psn {
            psn: 5,
            dst_qp: Some(3)
        }
    );
    assert_eq!(
        (faults[1].to_fabric_fault().action, faults[2].selector),
        (FaultAction::Corrupt, FaultSelectorPlan::EveryNth(256))
    );
}

#[test]
fn script_plan_survives_serialization() {
    let plan = parse_script_lab(LAB).unwrap_or_else(|problems| panic!("{problems}"));
    let text = serde_json::to_string(&plan.script).expect("JSON");
    let read: crate::plan::ScriptPlan = serde_json::from_str(&text).expect("the same");
    assert_eq!(read, plan.script);
}

#[test]
fn errors_of_scripts_name_the_line_and_the_fix() {
    let cases: [(&str, &str, &[&str]); 30] = [
        ("stop: bg", "halt: bg", &["s.xoff.yml:14", "halt"]),
        (
            "- stop: bg",
            "- {stop: bg, wait: 1ms}",
            &[
                "s.xoff.yml:14",
                "one action, this step has 2",
                "write one of send",
            ],
        ),
        ("- stop: bg", "- {name: x}", &["one action, this step has 0"]),
        (
            "stop: bg",
            "stop: fg",
            &["s.xoff.yml:14", "no job or flow is called \"fg\"", "train, bg"],
        ),
        (
            "\"leaf1:Ethernet8\", queue: 3",
            "\"leaf1:Ethernet99\"",
            &[
                "leaf1 has no port \"Ethernet99\"",
                "Ethernet0, Ethernet4, Ethernet8",
            ],
        ),
        (
            "\"leaf1:Ethernet8\", queue: 3",
            "\"leaf9:Ethernet8\"",
            &["no switch is called \"leaf9\""],
        ),
        (
            "\"leaf1:Ethernet8\", queue: 3",
            "leaf1",
            &["\"leaf1\" is not a port", "SWITCH:PORT"],
        ),
        ("queue: 3", "queue: 8", &["8 is out of range", "0 to 7"]),
        (
            "from: h1, to: h3, frames",
            "from: h1, to: h9, frames",
            &["no host is called \"h9\""],
        ),
        (
            "from: h1, to: h3, frames",
            "from: h3, to: h3, frames",
            &["h3 sends to itself"],
        ),
        ("ecn: ect0", "ecn: yes", &["not-ect, ect1, ect0, ce"]),
        (
            "ecn: ect0",
            "ecn: ect0, ip: 5",
            &["no IP version 5", "write 4 or 6"],
        ),
        ("size: 1082", "size: 1083", &["1083", "multiple of 4"]),
        ("name: probe", "name: bg", &["\"bg\" is the name of a flow"]),
        (
            "name: probe",
            "name: send1",
            &["two `send` steps are called \"send1\""],
        ),
        ("class: [3, 4]", "class: [3, 8]", &["\"8\" is not a class"]),
        ("class: [3, 4], ", "", &["needs either `class` or `global: true`"]),
        (
            "every: 10us, for",
            "for",
            &["`for` has no effect without `every`"],
        ),
        ("quanta: 0", "quanta: 65536", &["65536 is out of range"]),
        (
            "\"h2:eth0\"",
            "\"h2:eth9\"",
            &["no link \"h2:eth9\"", "h1:eth0--leaf1:Ethernet0"],
        ),
        (
            "action: corrupt",
            "action: delay",
            &["\"delay\"", "drop, corrupt"],
        ),
        (
            "probability: 25%",
            "probability: 25%, every: 3",
            &["selects frames in one way"],
        ),
        (
            "every: 256",
            "every: 256, qp: 3",
            &["`qp` has no effect without `psn`"],
        ),
        ("switch: leaf1", "switch: h1", &["no switch is called \"h1\""]),
        (
            "[watermarks, counters]",
            "everything",
            &["\"everything\" cannot be cleared"],
        ),
        (
            "at: 1ms, wait",
            "at: 1us, wait",
            &["s.xoff.yml:24", "at 1us, before the time of an earlier step"],
        ),
        ("at_most: 10ms", "at_most: 10", &["s.xoff.yml:25", "\"10\""]),
        (
            "job.train.done == 1",
            "job.train.done ==",
            &["\"job.train.done ==\": something is missing at the end"],
        ),
        (
            "job.train.done == 1",
            "job.train.dnoe == 1",
            &[
                "s.xoff.yml:25",
                "nothing is called \"job.train.dnoe\"",
                "did you mean done?",
            ],
        ),
        (
            "flow.probe.h2",
            "flow.probe.h3",
            &["s.xoff.yml:27", "flow.probe has no \"h3\""],
        ),
    ];
    for (from, to, expected) in cases {
        let text = LAB.replacen(from, to, 1);
        assert_ne!(text, LAB, "{from} is in the file");
        let problems =
            parse_script_lab(&text).map_or_else(|problems| problems.to_string(), |_| panic!("{to} is taken"));
        for part in expected {
            assert!(problems.contains(part), "{to}: {part:?} is not in:\n{problems}");
        }
    }
}

/// Returns the text of the lab with other script steps.
fn lab_with_script(steps: &str) -> String {
    let head = LAB.split("script:").next().expect("a script");
    format!("{head}script:\n{steps}")
}

#[test]
fn repeat_steps_are_expanded_with_their_variables() {
    let text = lab_with_script(
        r#"
  - let: {base: 10, port: "leaf1:Ethernet8"}
  - repeat:
      for: {host: [1, 2], row: [{size: 98, n: 1}, {size: 162, n: 2}]}
      steps:
        - let: {frames: $(base*host + row.n - 1)}
        - send: {name: "s$(host)-$(row.size)", from: "h$(host)", to: h3, size: $(row.size), frames: $(frames)}
        - repeat:
            for: {queue: "3..4"}
            steps: [block: {port: $(port), queue: $(queue)}]
  - name: after
    when: $(base) == 10
    expect: flow.s2-162.sent_frames == $(base // 3)
"#,
    );
    let plan = parse_script_lab(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let sends: Vec<_> = plan
        .script
        .send_steps()
        .map(|send| (send.flow.name.as_str(), send.flow.frame_len, send.frames))
        .collect();
    assert_eq!(
        sends,
        [
            ("s1-98", 98, 10),
            ("s1-162", 162, 11),
            ("s2-98", 98, 20),
            ("s2-162", 162, 21)
        ]
    );
    assert_eq!(plan.script.steps.len(), 4 * 3 + 1);
    let last = plan.script.steps.last().expect("a step");
    assert_eq!(
        last.when.as_ref().map(ToString::to_string).as_deref(),
        Some("10 == 10")
    );
    let ActionPlan::Expect(conditions) = &last.action else {
        panic!("{last:?}")
    };
    assert_eq!(conditions[0].to_string(), "flow.s2-162.sent_frames == 3");
    // The source of an expanded step is its line inside the repeat.
    assert_eq!(plan.script.steps[0].source, plan.script.steps[3].source);
}

#[test]
fn inject_step_parses_hexadecimal_bytes() {
    let text = lab_with_script(
        "  - inject: {from: h3, frame: [\"01:80:c2:00:00:01\", \"0011 2233 4455\", 8808], frames: 5, every: 2us}\n  - expect: leaf1.rx_packets == 0\n",
    );
    let plan = parse_script_lab(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let ActionPlan::Inject(inject) = &plan.script.steps[0].action else {
        panic!("{:?}", plan.script.steps[0])
    };
    assert_eq!((inject.host, inject.frames, inject.every_ns), (2, 5, Some(2_000)));
    assert_eq!(
        (inject.frame.len(), &inject.frame[5..8], inject.frame[13]),
        (60, &[1, 0, 0x11][..], 8)
    );
}

#[test]
fn errors_of_repeat_steps_name_the_line_and_the_fix() {
    let cases: [(&str, &[&str]); 12] = [
        (
            "  - expect: a$(x) == 0\n",
            &["s.xoff.yml:10", "nothing is called \"x\"", "no step above has"],
        ),
        (
            "  - let: {a b: 1}\n",
            &["s.xoff.yml:10", "\"a b\" is not a valid name of a constant"],
        ),
        ("  - let: {a: [1]}\n", &["this value has the wrong type"]),
        (
            "  - {let: {a: 1}, wait: 1ms}\n",
            &["`let` must be the only key", "`wait`"],
        ),
        ("  - repeat: {for: {a: [1]}}\n", &["`repeat` has no list `steps`"]),
        ("  - repeat: {steps: []}\n", &["no mapping `for`"]),
        (
            "  - repeat: {for: {a: 1..x}, steps: []}\n",
            &["\"1..x\" is not a range"],
        ),
        (
            "  - repeat: {for: {a: \"1..9999\", b: \"1..9999\"}, steps: [wait: 1ms]}\n",
            &["at most 100000 are possible"],
        ),
        (
            "  - repeat:\n      for: {a: [1]}\n      steps:\n        - wait: 1ms\n        - wiat: 1ms\n",
            &["s.xoff.yml:14", "wiat"],
        ),
        (
            "  - {when: 1 ==, wait: 1ms}\n",
            &["something is missing at the end"],
        ),
        (
            "  - inject: {from: h1, frame: \"01 8\"}\n",
            &["is not a sequence of bytes", "hexadecimal"],
        ),
        (
            "  - inject: {from: h1, frame: \"0180\", size: 59}\n",
            &["59 is out of range", "60 to 9234"],
        ),
    ];
    for (steps, expected) in cases {
        let problems = parse_script_lab(&lab_with_script(steps))
            .map_or_else(|problems| problems.to_string(), |_| panic!("{steps} is taken"));
        for part in expected {
            assert!(
                problems.contains(part),
                "{steps}: {part:?} is not in:\n{problems}"
            );
        }
    }
}

/// Each `configure` step resolves the whole configuration of its switch, with the layers of all steps before it. 200
/// steps of 1 KiB each resolve 20 MiB, and 300 steps 44 MiB.
#[test]
fn the_configurations_of_configure_steps_are_limited() {
    let script = |steps: usize| {
        let text = "v".repeat(1 << 10);
        let config = format!("{{VERSIONS: {{DATABASE: {{VERSION: {text}}}}}}}");
        lab_with_script(&format!(
            "  - repeat: {{for: {{a: '1..{steps}'}}, steps: [{{configure: {{switch: leaf1, config: {config}}}}}]}}\n"
        ))
    };
    assert_eq!(
        parse_script_lab(&script(200))
            .map(|_| ())
            .map_err(|p| p.to_string()),
        Ok(())
    );
    let problems = parse_script_lab(&script(300)).expect_err("too much").to_string();
    for part in [
        "s.xoff.yml:10",
        "apply more than 32 MiB of configuration",
        "use fewer `configure` steps",
    ] {
        assert!(problems.contains(part), "{problems}");
    }
}

/// Returns the number of copied values and the errors of a lab of `hosts` hosts with one `repeat` over all of them.
fn expand_repeat_over_hosts(hosts: usize, inner: usize) -> (usize, Problems) {
    let text = format!(
        "name: x
topology:
  fabric: {{star: {{hosts: {hosts}, speed: 100g}}}}
script:
  - repeat:
      for: {{h: '2..{hosts}', n: '1..{inner}'}}
      steps:
        - let: {{peer: '$(h - 1)'}}
        - send: {{name: 's$(h)-$(n)', from: 'h$(h)', to: 'h$(peer)', frames: 2}}
        - expect: flow.s$(h)-$(n).lost_frames == 0
"
    );
    let lab = xoff_lab_file::parse_lab(&text).expect("well formed");
    let mut resolver = LabResolver::new("x.yml", Path::new(""), TimeMode::Virtual);
    let plan = resolver.resolve_lab(&lab);
    let steps = plan.map_or(0, |plan| plan.script.steps.len());
    if resolver.problems.is_empty() {
        assert_eq!(steps, 2 * (hosts - 1) * inner);
    }
    (resolver.expanded_values, resolver.problems)
}

#[test]
fn the_work_of_repeat_grows_with_the_number_of_steps() {
    let (small, problems) = expand_repeat_over_hosts(65, 1);
    assert!(problems.is_empty(), "{problems}");
    let (large, problems) = expand_repeat_over_hosts(1024, 1);
    assert!(problems.is_empty(), "{problems}");
    // The values of `for` are copied once in both cases.
    assert!(large <= 16 * small && large > 1000 * 8, "{small} and {large}");
}

#[test]
fn the_limit_of_steps_is_checked_before_the_expansion() {
    let (work, problems) = expand_repeat_over_hosts(1001, 51);
    assert_eq!(work, 0, "{problems}");
    assert!(problems.to_string().contains("102000 steps"), "{problems}");
}

/// A `repeat` without steps, or with numbers of formulas, has a limit as well.
#[test]
fn combinations_of_repeat_are_limited() {
    for repeat in [
        "for: {a: '0..99999', b: '0..99999', c: '0..99999', d: []}, steps: []",
        "for: {a: '0..99999', b: '0..99999'}, steps: [{let: {c: 1}}]",
        "for: {n: [99999], a: '0..$(n)', b: '0..$(n)'}, steps: [{let: {c: 1}}]",
    ] {
        let text = format!(
            "{}  - repeat: {{{repeat}}}\n",
            LAB.split_inclusive("script:\n").next().unwrap()
        );
        let problems = parse_script_lab(&text).expect_err(repeat).to_string();
        assert!(problems.contains("combinations"), "{repeat}: {problems}");
    }
}

/// `repeat` copies the texts of its steps and the values of inner lists, and a constant can contain other constants.
#[test]
fn the_length_of_an_expanded_script_is_limited() {
    let long = "(".repeat(100_000);
    let list = vec!["{a: 1, b: 2}"; 2_000].join(", ");
    let chain: String = (1..=9)
        .map(|n| format!("  - let: {{c{n}: '{}'}}\n", format!("$(c{})", n - 1).repeat(10)))
        .collect();
    for (steps, part) in [
        (
            format!("  - repeat: {{for: {{a: '1..5000'}}, steps: [{{expect: '{long}'}}]}}\n"),
            "longer than 128 MiB",
        ),
        (
            format!("  - repeat: {{for: {{a: '1..90000', row: [{list}]}}, steps: []}}\n"),
            "longer than 128 MiB",
        ),
        (
            format!("  - let: {{c0: 'abc'}}\n{chain}"),
            "becomes longer than 1 MiB",
        ),
    ] {
        let text = lab_with_script(&steps);
        let problems = parse_script_lab(&text).expect_err(part).to_string();
        assert!(problems.contains(part), "{:.500}", problems);
    }
}

/// Each error quotes the text of the constant.
#[test]
fn errors_that_quote_a_long_text_are_short() {
    let text = "ä".repeat(100_000);
    let sends: String = (0..60)
        .map(|n| format!("  - send: {{from: h1, to: h2, frames: '$(text + {n})'}}\n"))
        .collect();
    let lab = lab_with_script(&format!("  - let: {{text: '{text}'}}\n{sends}"));
    let problems = parse_script_lab(&lab).expect_err("no number");
    assert_eq!(problems.len(), 60);
    for problem in problems.iter() {
        assert!(problem.what.len() < 4_200, "{}", problem.what.len());
        assert!(problem.what.starts_with("$(text + "), "{}", problem.what);
        assert!(problem.what.ends_with(" bytes)"), "{}", problem.what);
    }
}

/// All errors of a step are found, and each name has a suggestion.
#[test]
fn each_error_of_a_step_is_reported_with_a_near_match() {
    let text = format!(
        "{}  - send: {{frm: h1, to: h3, size: much, dscp: 300}}\n  - block: {{port: 'laef1:Ethernet8'}}\n",
        LAB.split_inclusive("script:\n").next().unwrap()
    );
    let problems = parse_script_lab(&text).expect_err("errors").to_string();
    for part in [
        "unknown field `frm`; did you mean `from`? (the fields are",
        "\"much\"",
        "300",
        "did you mean `leaf1`?",
    ] {
        assert!(problems.contains(part), "{part} is not in:\n{problems}");
    }
}
