//! `xoff pfc send` and `xoff pfc storm`.

use xoff_measure::pfc::{
    ControlDevice, ControlFrameSpec, DEFAULT_SPEED_MBPS, DecodedFrame, FrameParameters, SendOrder,
    SendResult, send_frames,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_wire::mac_control::{OPCODE_PAUSE, OPCODE_PFC};
use xoff_wire::{Pfc, VlanTag};

use super::super::{output, signals};
use super::args::{PauseArguments, PfcSend, PfcStorm};
use super::values::QuantaArgument;
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
    print_result("send", &device, &order, &result, arguments.json);
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
    print_result("storm", &device, &order, &result, arguments.json);
    let speed_mbps = device.properties.speed_mbps.unwrap_or(DEFAULT_SPEED_MBPS);
    if let Some(gap) = text::pause_gap(&order, speed_mbps) {
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
        (false, QuantaArgument::EachClass(quanta)) => FrameParameters::Pfc { enable, quanta },
    })
}

fn print_result(
    command: &str,
    device: &ControlDevice,
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
    let speed_mbps = device.properties.speed_mbps.unwrap_or(DEFAULT_SPEED_MBPS);
    output::print(&text::sent_frames(
        &device.properties.name,
        speed_mbps,
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
