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

use std::path::Path;
use std::{fs, io};

use xoff_fabric::Timeline;
use xoff_telemetry::failure::Failure;

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

/// Makes the folder of an option, for plots and the like, before a long run, not after it.
///
/// # Errors
/// It cannot be made, or no file in it.
pub fn make_folder(option: &str, folder: &Path) -> Result<(), Failure> {
    let wrong = |what: &str, error: io::Error| {
        Failure::usage(format!("{what} {}", folder.display()))
            .at(option)
            .because(error)
            .fix("give a folder that can be written to")
    };
    fs::create_dir_all(folder).map_err(|error| wrong("cannot make the folder", error))?;
    let tried = folder.join(format!(".xoff.{}", std::process::id()));
    fs::File::create(&tried)
        .and_then(|_| fs::remove_file(&tried))
        .map_err(|error| wrong("cannot write into the folder", error))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_takes_no_file_is_refused_by_its_option() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("new");
        assert!(make_folder("--plots", &inner).is_ok());
        assert_eq!(fs::read_dir(&inner).expect("a folder").count(), 0);
        for bad in ["/proc", "/proc/new"] {
            let refused = make_folder("--criterion", Path::new(bad)).expect_err("no place");
            assert_eq!(refused.place.as_deref(), Some("--criterion"));
        }
    }
}
