//! The frames of failed checks as pcapng files (`--captures`).

use std::fs::create_dir_all;
use std::path::Path;

use xoff_capture::pcapng_writer::InterfaceBlock;
use xoff_capture::{Direction, PacketBlock, Writer};
use xoff_conform::{CheckReport, RunReport, Trace};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::write_result_with;

/// Creates the folder of the captures.
pub(super) fn create_folder(folder: &Path) -> Result<(), Failure> {
    create_dir_all(folder).map_err(|error| {
        Failure::usage("the folder of the captures cannot be created")
            .at(format!("--captures {}", folder.display()))
            .because(error)
            .fix("give a folder in one that can be written to")
    })
}

/// Writes a file `CHECK.pcapng` for each failed check.
pub(super) fn write_captures(folder: &Path, report: &RunReport) -> Result<(), Failure> {
    for check in &report.checks {
        if let (true, Some(trace)) = (check.outcome.is_failure(), &check.trace) {
            write_capture(folder, report, check, trace)?;
        }
    }
    Ok(())
}

fn write_capture(
    folder: &Path,
    report: &RunReport,
    check: &CheckReport,
    trace: &Trace,
) -> Result<(), Failure> {
    let path = folder.join(format!("{}.pcapng", check.check.id));
    let comment = format!(
        "xoff conform {} {}: {}",
        check.check.id,
        check.outcome.name(),
        check.detail
    );
    let interface = InterfaceBlock {
        name: "instrument",
        speed_mbps: report.speed_mbps,
        mac: None,
        snaplen: 0,
    };
    write_result_with("--captures", &path, |file| {
        let mut writer = Writer::new(file, &comment, &[interface])?;
        for frame in &trace.frames {
            writer.write(&PacketBlock {
                interface: 0,
                at_ns: frame.end.as_nanos(),
                len: frame.frame_len,
                data: [&frame.bytes, &[]],
                direction: match frame.is_from_device {
                    true => Direction::Inbound,
                    false => Direction::Outbound,
                },
                queue: None,
                id: None,
                comment: "",
            })?;
        }
        writer.finish().map(drop)
    })
}
