//! Scripts: what steps may say, and that everything they name is there.

use super::*;
use crate::fabric::{Fault, FaultAction, Selector};
use crate::lab::plan::{ActionPlan, BlockPlan, DirectionPlan, PausePlan, SelectorPlan, StepPlan, TargetPlan};

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

fn checked(text: &str) -> Result<LabPlan, Problems> {
    parse(text, "s.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual)
}

#[test]
fn a_script_becomes_a_plan() {
    let plan = checked(LAB).unwrap_or_else(|problems| panic!("{problems}"));
    let steps = &plan.script.steps;
    let actions: Vec<&ActionPlan> = steps.iter().map(|step| &step.action).collect();
    assert_eq!(actions.len(), 19, "clear is two");
    let port = |queue| BlockPlan {
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
        (Some(7), Some(17), RatePlan::LinkShare(400_000))
    );
    assert_eq!((send.flow.frame_len, send.flow.message_bytes), (1082, 1024));
    let named = |step: &StepPlan| (step.name.clone(), step.at_ns, step.source.clone());
    assert_eq!(
        named(&steps[2]),
        (Some("early".into()), Some(10_000), "s.xoff.yml:12".into())
    );
    let targets = vec![TargetPlan::Job(0), TargetPlan::Flow(0), TargetPlan::Flow(1)];
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
    let heal = DirectionPlan {
        link: link_of(0),
        from_switch: false,
        from_far: true,
    };
    assert_eq!(*actions[11], ActionPlan::Heal(heal));
    assert_eq!(
        (actions[13], actions[14]),
        (&ActionPlan::ClearWatermarks, &ActionPlan::ClearCounters)
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
fn faults_are_those_of_the_fabric() {
    let plan = checked(LAB).unwrap_or_else(|problems| panic!("{problems}"));
    let fault = |step: &StepPlan| match step.action {
        ActionPlan::Fault(fault) => Some(fault),
        _ => None,
    };
    let faults: Vec<_> = plan.script.steps.iter().filter_map(fault).collect();
    let ways: Vec<_> = faults
        .iter()
        .map(|fault| (fault.direction.from_switch, fault.direction.from_far))
        .collect();
    assert_eq!(
        ways,
        [(true, true), (false, true), (true, false)],
        "both, what the spine sends, what the leaf sends"
    );
    let first = Fault {
        action: FaultAction::Drop,
        selector: Selector::Probability(1 << 30),
        frames_max: 9,
        spares_up_to_len: 127,
    };
    assert_eq!(faults[0].fault(), first);
    assert_eq!(
        faults[1].fault().selector,
        Selector::Psn {
            psn: 5,
            dst_qp: Some(3)
        }
    );
    assert_eq!(
        (faults[1].fault().action, faults[2].selector),
        (FaultAction::Corrupt, SelectorPlan::EveryNth(256))
    );
}

#[test]
fn a_plan_with_a_script_can_be_written_and_read() {
    let plan = checked(LAB).unwrap_or_else(|problems| panic!("{problems}"));
    let text = serde_json::to_string(&plan.script).expect("JSON");
    let read: crate::lab::plan::ScriptPlan = serde_json::from_str(&text).expect("the same");
    assert_eq!(read, plan.script);
}

#[test]
fn what_is_wrong_with_a_script_is_named() {
    let cases: [(&str, &str, &[&str]); 29] = [
        ("stop: bg", "halt: bg", &["s.xoff.yml:14", "halt"]),
        (
            "- stop: bg",
            "- {stop: bg, wait: 1ms}",
            &["s.xoff.yml:14", "one thing, this one 2", "write one of send"],
        ),
        ("- stop: bg", "- {name: x}", &["one thing, this one 0"]),
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
            &["\"leaf1\" is no port", "SWITCH:PORT"],
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
        ("size: 1082", "size: 1083", &["1083", "multiple of 4"]),
        ("name: probe", "name: bg", &["\"bg\" is the name of a flow"]),
        ("name: probe", "name: send1", &["two sends called \"send1\""]),
        ("class: [3, 4]", "class: [3, 8]", &["\"8\" is no class"]),
        ("class: [3, 4], ", "", &["either for classes or global"]),
        ("every: 10us, for", "for", &["`for` without `every`"]),
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
            &["chooses frames in one way"],
        ),
        ("every: 256", "every: 256, qp: 3", &["`qp` goes with `psn`"]),
        ("switch: leaf1", "switch: h1", &["no switch is called \"h1\""]),
        (
            "[watermarks, counters]",
            "everything",
            &["\"everything\" cannot be cleared"],
        ),
        (
            "at: 1ms, wait",
            "at: 1us, wait",
            &["s.xoff.yml:24", "at 1us, before one that stands above it"],
        ),
        ("at_most: 10ms", "at_most: 10", &["s.xoff.yml:25", "\"10\""]),
        (
            "job.train.done == 1",
            "job.train.done ==",
            &["\"job.train.done ==\": something is missing at the end"],
        ),
        (
            "job.train.done == 1",
            "job.train.dun == 1",
            &[
                "s.xoff.yml:25",
                "nothing is called \"job.train.dun\"",
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
            checked(&text).map_or_else(|problems| problems.to_string(), |_| panic!("{to} is taken"));
        for part in expected {
            assert!(problems.contains(part), "{to}: {part:?} is not in:\n{problems}");
        }
    }
}
