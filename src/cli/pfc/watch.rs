//! `xoff pfc watch`.

use xoff_measure::pfc::{ControlDevice, DEFAULT_SPEED_MBPS, WatchEnd, WatchLimits, watch_frames};
use xoff_telemetry::failure::{Exit, Failure};

use super::super::{output, signals};
use super::args::PfcWatch;
use super::{json, text};

/// Runs `xoff pfc watch`.
pub(super) fn run(arguments: &PfcWatch) -> Result<Exit, Failure> {
    let stop = signals::watch_stop_signals()?;
    let mut device = ControlDevice::open_receiver(&arguments.dev)?;
    let speed_mbps = arguments
        .speed
        .or(device.properties.speed_mbps)
        .unwrap_or(DEFAULT_SPEED_MBPS);
    if arguments.speed.is_none() && device.properties.speed_mbps.is_none() {
        output::print_note(&format!(
            "note: {} reports no speed; quanta are computed for 1 Gb/s, or give --speed",
            arguments.dev
        ));
    }
    let print = |line: String| output::print(&format!("{line}\n"));
    let ready = text::ready(&arguments.dev, speed_mbps);
    match arguments.json {
        true => {
            output::print_note(&ready);
            print(json::ready_line(&arguments.dev, speed_mbps).to_string());
        }
        false => print(ready),
    }
    let limits = WatchLimits {
        duration: arguments.duration,
        frames_max: arguments.count,
    };
    let (summary, end) = watch_frames(&mut device, speed_mbps, &limits, &stop, |event| {
        match arguments.json {
            true => print(json::event_line(event).to_string()),
            false => print(text::event(event)),
        }
    });
    match arguments.json {
        true => print(json::summary_line(&summary).to_string()),
        false => print(text::summary(&summary)),
    }
    let is_endless = arguments.duration.is_none() && arguments.count.is_none();
    let is_short = arguments.count.is_some_and(|count| summary.frames < count);
    match end {
        WatchEnd::DeviceRemoved => Err(Failure::environment(format!(
            "the device {} was removed",
            arguments.dev
        ))
        .at(format!("--dev {}", arguments.dev))
        .fix("create the device again, and repeat the command")),
        WatchEnd::Stopped if !is_endless => Ok(Exit::Interrupted),
        _ if summary.lost_frames > 0 => Ok(Exit::Inconclusive),
        WatchEnd::Complete if is_short => Ok(Exit::Inconclusive),
        WatchEnd::Complete | WatchEnd::Stopped => Ok(Exit::Ok),
    }
}
