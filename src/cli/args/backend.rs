//! The port backends on the command line.

use clap::ValueEnum;
use xoff_ports::Backend;

/// The port backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BackendChoice {
    /// The best backend for the device.
    #[default]
    Auto,
    /// AF_PACKET ring.
    Packet,
    /// A tap device that xoff owns.
    Tap,
    /// A simple reference backend.
    Pnet,
    /// AF_XDP in native mode.
    Xdp,
}

impl From<BackendChoice> for Backend {
    fn from(choice: BackendChoice) -> Backend {
        match choice {
            BackendChoice::Auto => Backend::Auto,
            BackendChoice::Packet => Backend::Packet,
            BackendChoice::Tap => Backend::Tap,
            BackendChoice::Pnet => Backend::Pnet,
            BackendChoice::Xdp => Backend::Xdp,
        }
    }
}
