//! Plots of runs, as SVG: link loads, queues and pauses over time, bars with their spread.
//!
//! Everything that is drawn is in a [`Watched`] run or in the figures of a comparison; nothing here computes results. Text is
//! left to the viewer's fonts, so there is room for wider ones.

mod bars;
mod links;
mod pauses;
mod queues;
mod style;
mod units;

use std::fs;
use std::path::Path;

use crate::fabric::Timeline;
use crate::failure::Failure;

pub use bars::{Bar, BarPanel, write_bars, write_bars_of};
pub use links::write_links;

/// A run that was watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// What happened over time.
    pub timeline: Timeline,
    /// Its ports, in the same order.
    pub names: Vec<PortName>,
}

/// What a port of a switch is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortName {
    /// `leaf1:Ethernet16`.
    pub port: String,
    /// What is at the other end of its link: a port, or the name of a host.
    pub peer: String,
    /// That is a switch, too.
    pub between_switches: bool,
    /// The workload could have used the link in this direction.
    pub usable: bool,
}

/// Makes the folder of plots before a long run, not after it.
///
/// # Errors
/// It cannot be made.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| {
        Failure::usage(format!("cannot make the folder {}", folder.display()))
            .at("--plots")
            .because(error)
            .fix("give a folder that can be written to")
    })
}

/// The plots of one run: `links.svg`, `queues.svg` and `pauses.svg`.
///
/// # Errors
/// A file that cannot be written.
pub fn write_run(folder: &Path, title: &str, watched: &Watched) -> Result<(), Failure> {
    write_links(&folder.join("links.svg"), &[(title.to_owned(), watched)])?;
    write_waiting(folder, "", title, watched)
}

/// The plots of one run that do not compare: `queues.svg` and `pauses.svg`, their names behind a prefix.
///
/// # Errors
/// A file that cannot be written.
pub fn write_waiting(folder: &Path, prefix: &str, title: &str, watched: &Watched) -> Result<(), Failure> {
    queues::write(&folder.join(format!("{prefix}queues.svg")), title, watched)?;
    pauses::write(&folder.join(format!("{prefix}pauses.svg")), title, watched)
}
