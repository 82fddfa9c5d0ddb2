//! Draws plots of runs as SVG files. Plots over time show link loads, queues and pauses. Bar charts compare
//! the figures (measured quantities) of several runs.
//!
//! This module draws results but does not compute them. The viewer of an SVG file selects the fonts, so the
//! plots leave room for wide fonts.

mod bars;
mod figures;
mod links;
mod pauses;
mod queues;
mod rows;
mod style;
mod units;

use std::path::Path;
use std::{fs, io};

use xoff_fabric::Timeline;
use xoff_telemetry::failure::Failure;

pub use bars::{BarPanel, ChartBar, write_time_bars};
pub use figures::{PlottedFigure, write_figure_bars};
pub use links::write_link_plot;

/// The timeline of a run in virtual time, with the names of its switch ports.
#[derive(Clone, Debug)]
pub struct RunTimeline {
    /// Link loads, queues and pauses of all switch ports over time.
    pub timeline: Timeline,
    /// Names of the switch ports, in the order of [`Timeline::ports`].
    pub names: Vec<PlottedPort>,
}

/// Names of a switch port and of its peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlottedPort {
    /// Name of the port, such as `leaf1:Ethernet16`.
    pub port: String,
    /// Name of the other end of the link: a switch port or a host. Empty if the port has no link.
    pub peer: String,
    /// Whether the other end is a switch port.
    pub between_switches: bool,
    /// Whether the workload could use the link in the direction away from this port: the direction is on a
    /// shortest path from a sender to a receiver.
    pub usable: bool,
}

/// Creates the folder of an output option and checks that files can be created in it. Commands call this
/// function before a long run, so that the user sees an error early. `option` is the name of the option for
/// messages, such as `--plots`.
///
/// # Errors
/// Fails if the folder or a file in it cannot be created.
pub fn create_folder(option: &str, folder: &Path) -> Result<(), Failure> {
    let failure = |what: &str, error: io::Error| {
        Failure::usage(format!("{what} {}", folder.display()))
            .at(option)
            .because(error)
            .fix("give a folder that can be written to")
    };
    fs::create_dir_all(folder).map_err(|error| failure("cannot create the folder", error))?;
    xoff_telemetry::check_result_folder(folder)
        .map_err(|error| failure("cannot write into the folder", error))
}

/// Writes the plots of one run into an existing folder: `links.svg`, `queues.svg` and `pauses.svg`.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write_run_plots(folder: &Path, title: &str, run: &RunTimeline) -> Result<(), Failure> {
    write_link_plot(&folder.join("links.svg"), &[(title.to_owned(), run)])?;
    write_queue_and_pause_plots(folder, "", title, run)
}

/// Writes the plots `queues.svg` (longest queues) and `pauses.svg` (longest paused senders) of one run.
/// `prefix` is added at the start of the file names.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write_queue_and_pause_plots(
    folder: &Path,
    prefix: &str,
    title: &str,
    run: &RunTimeline,
) -> Result<(), Failure> {
    queues::write_queue_plot(&folder.join(format!("{prefix}queues.svg")), title, run)?;
    pauses::write_pause_plot(&folder.join(format!("{prefix}pauses.svg")), title, run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_writable_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("new");
        assert!(create_folder("--plots", &inner).is_ok());
        assert_eq!(fs::read_dir(&inner).expect("a folder").count(), 0);
        for bad in ["/proc", "/proc/new"] {
            let failure = create_folder("--criterion", Path::new(bad)).expect_err("not writable");
            assert_eq!(failure.location.as_deref(), Some("--criterion"));
        }
    }
}
