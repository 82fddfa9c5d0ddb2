//! `xoff pfc send` and `xoff pfc storm`.

use xoff_measure::pfc::{
    ControlDevice, ControlFrameSpec, DecodedFrame, FrameParameters, SendOrder, SendResult, send_frames,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_wire::mac_control::{OPCODE_PAUSE, OPCODE_PFC};
use xoff_wire::{Pfc, VlanTag};

use super::super::{output, signals};
use super::args::{PauseArguments, PfcSend, PfcStorm};
use super::text::LinkSpeed;
use super::values::{ClassSet, QuantaArgument};
use super::{json, text};

/// Runs `xoff pfc send`.
pub(super) fn run_send(arguments: &PfcSend) -> Result<Exit, Failure> {
    let parameters = frame_parameters(arguments)?;
    let stop = signals::watch_stop_signals()?;
    let mut device = ControlDevice::open_sender(&arguments.dev)?;
    let source = arguments.source.unwrap_or(device.properties.mac);
    let opcode = match arguments.pauses.pause {
        true => OPCODE_PAUSE,
        false => OPCODE_PFC,
    };
    let frame = ControlFrameSpec {
        destination: arguments.destination,
        source,
        tag: arguments.vlan.map(|vid| VlanTag::dot1q(arguments.pcp, vid)),
        ethertype: arguments.ethertype,
        opcode: arguments.opcode.unwrap_or(opcode),
        parameters,
        frame_len: arguments.length as usize,
        padding: arguments.padding,
    };
    let order = SendOrder {
        frame,
        rate_fps: arguments.rate,
        frames_max: Some(arguments.count),
        duration: None,
        resumes_at_end: false,
    };
    let result = send_frames(&mut device, &order, &stop)?;
    let speed = LinkSpeed::new(arguments.pauses.speed, &device);
    print_result("send", &device, speed, &order, &result, arguments.json);
    Ok(exit_of(&result))
}

/// Runs `xoff pfc storm`.
pub(super) fn run_storm(arguments: &PfcStorm) -> Result<Exit, Failure> {
    let classes = arguments.pauses.class.map_or(0, |set| set.0);
    let parameters = pause_parameters(&arguments.pauses, u16::from(classes))?;
    if arguments.duration.is_zero() {
        return Err(Failure::usage("the storm has no duration")
            .at("--duration 0")
            .fix("give a time such as 2s"));
    }
    let stop = signals::watch_stop_signals()?;
    let mut device = ControlDevice::open_sender(&arguments.dev)?;
    let source = device.properties.mac;
    let frame = ControlFrameSpec {
        parameters,
        ..match arguments.pauses.pause {
            true => ControlFrameSpec::pause(source, 0),
            false => ControlFrameSpec::pfc(source, Pfc::default()),
        }
    };
    let order = SendOrder {
        frame,
        rate_fps: arguments.rate,
        frames_max: None,
        duration: Some(arguments.duration),
        resumes_at_end: !arguments.no_resume,
    };
    let result = send_frames(&mut device, &order, &stop)?;
    let speed = LinkSpeed::new(arguments.pauses.speed, &device);
    print_result("storm", &device, speed, &order, &result, arguments.json);
    if let Some(gap) = text::pause_gap(&order, speed) {
        output::print_note(&format!("note: {gap}"));
    }
    Ok(exit_of(&result))
}

fn frame_parameters(arguments: &PfcSend) -> Result<FrameParameters, Failure> {
    if let Some(bytes) = &arguments.parameters {
        return Ok(FrameParameters::Bytes(bytes.0.clone()));
    }
    let classes = arguments.pauses.class.map_or(0, |set| set.0);
    pause_parameters(&arguments.pauses, arguments.vector.unwrap_or(u16::from(classes)))
}

/// Returns the parameters of a PFC frame with the vector `enable`, or of a PAUSE frame.
fn pause_parameters(arguments: &PauseArguments, enable: u16) -> Result<FrameParameters, Failure> {
    Ok(match (arguments.pause, arguments.quanta) {
        (true, QuantaArgument::Same(quanta)) => FrameParameters::Pause { quanta },
        (true, QuantaArgument::EachClass(_)) => {
            return Err(Failure::usage("a PAUSE frame has one pause time for all classes")
                .at("--quanta")
                .fix("give one number, or leave out --pause"));
        }
        (false, QuantaArgument::Same(value)) => FrameParameters::Pfc {
            enable,
            quanta: core::array::from_fn(|class| if enable & 1 << class != 0 { value } else { 0 }),
        },
        (false, QuantaArgument::EachClass(quanta)) => {
            if let Some(ClassSet(classes)) = arguments.class {
                check_classes_of_quanta(classes, &quanta)?;
            }
            FrameParameters::Pfc {
                enable,
                quanta: quanta.map(Option::unwrap_or_default),
            }
        }
    })
}

/// Checks that exactly the classes of `--class` have a pause time in `--quanta`. A missing pause time would be 0, which
/// resumes the class.
fn check_classes_of_quanta(classes: u8, quanta: &[Option<u16>; 8]) -> Result<(), Failure> {
    for (class, pause_time) in quanta.iter().enumerate() {
        let is_enabled = classes & 1 << class != 0;
        let (what, fix) = match (is_enabled, pause_time) {
            (true, None) => (
                format!("class {class} of --class has no pause time in --quanta"),
                format!("add {class}=QUANTA; {class}=0 resumes the class"),
            ),
            (false, Some(value)) => (
                format!("class {class} of --quanta is not in --class"),
                format!("add it to --class, or leave out {class}={value}; --vector sends any combination"),
            ),
            _ => continue,
        };
        return Err(Failure::usage(what).at("--quanta").fix(fix));
    }
    Ok(())
}

fn print_result(
    command: &str,
    device: &ControlDevice,
    speed: LinkSpeed,
    order: &SendOrder,
    result: &SendResult,
    prints_json: bool,
) {
    let bytes = order.frame.to_bytes();
    let decoded = DecodedFrame::decode(&bytes, None, device.properties.mac);
    if prints_json {
        output::print_json(&json::send_document(
            command,
            device,
            &bytes,
            decoded.as_ref(),
            result,
        ));
        return;
    }
    output::print(&text::sent_frames(
        &device.properties.name,
        speed,
        &bytes,
        decoded.as_ref(),
        result,
    ));
}

fn exit_of(result: &SendResult) -> Exit {
    if result.is_interrupted {
        Exit::Interrupted
    } else if result.lost_frames + result.missed_frames > 0 {
        Exit::Inconclusive
    } else {
        Exit::Ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_a_frame_has_a_pause_time_and_no_other_class_has_one() {
        let arguments = |class: &str, quanta: &str| PauseArguments {
            class: (!class.is_empty()).then(|| class.parse().expect("classes")),
            quanta: quanta.parse().expect("pause times"),
            pause: false,
            speed: None,
        };
        let parameters = |class: &str, quanta: &str| pause_parameters(&arguments(class, quanta), 8);
        for (class, quanta, what, fix) in [
            ("3", "4=5", "class 3 of --class has no pause time", "3=0 resumes"),
            (
                "3,4",
                "3=5",
                "class 4 of --class has no pause time",
                "add 4=QUANTA",
            ),
            (
                "3",
                "3=1,4=5",
                "class 4 of --quanta is not in --class",
                "leave out 4=5",
            ),
        ] {
            let failure = parameters(class, quanta).expect_err(quanta);
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.what.contains(what), "{failure}");
            assert!(
                failure.fix.as_deref().unwrap_or_default().contains(fix),
                "{failure}"
            );
        }
        let FrameParameters::Pfc { quanta, .. } = parameters("3,4", "3=100,4=0").expect("two classes") else {
            panic!("a PFC frame");
        };
        assert_eq!(quanta, [0, 0, 0, 100, 0, 0, 0, 0]);
        // With --vector, a pause time needs no enabled class.
        assert!(parameters("", "4=5").is_ok());
    }
}
