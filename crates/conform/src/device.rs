//! The interface of a device under test.

use serde::{Deserialize, Serialize};
use xoff_units::Picos;
use xoff_wire::PRIORITIES;
use xoff_wire::lldp::EtsTables;

use crate::link_frame::LinkFrame;

/// The reason why a device cannot execute an operation. Checks that need the operation are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

impl Unsupported {
    /// Makes the error of a device that lacks an operation.
    pub fn new(operation: &str) -> Unsupported {
        Unsupported(format!("the device cannot {operation}"))
    }
}

/// The field that determines the class of a frame that the device receives.
pub use xoff_host::ClassTrust;

/// A change of the device. The host of the device executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Send frames of a class, without an end. Class *k* has the DSCP 8*k* + 2.
    StartTraffic {
        /// The class, 0 to 7.
        class: u8,
        /// Share of the link in thousandths.
        share_permille: u32,
    },
    /// Stop the traffic of a class.
    StopTraffic {
        /// The class, 0 to 7.
        class: u8,
    },
    /// Enable PFC for these priorities in both directions, and disable it for all others. Bit *n* is priority *n*.
    SetPfc {
        /// The enabled priorities.
        enabled: u8,
    },
    /// Honour 802.3x PAUSE frames or not.
    SetLinkPause {
        /// True: honour them.
        is_honoured: bool,
    },
    /// Do not read received frames of these classes. Bit *n* is class *n*. All other classes are read.
    SetUnread {
        /// The unread classes.
        classes: u8,
    },
    /// Set the field that determines the class of a received frame.
    SetTrust(#[serde(with = "ClassTrustName")] ClassTrust),
    /// Switch DCBX on, and accept the settings of the peer or not (IEEE 802.1Q clause 38, `willing`).
    SetWilling {
        /// True: accept them.
        is_willing: bool,
    },
    /// Reset the device. Its settings remain. Its traffic continues.
    Reset,
}

/// The names of [`ClassTrust`] in messages to a far host.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ClassTrust", rename_all = "snake_case")]
enum ClassTrustName {
    Dscp,
    Pcp,
}

/// Counters of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Number of received PFC frames with enable bit *n*, by priority *n*. XON frames are included.
    pub pfc_rx: [u64; PRIORITIES],
    /// Number of sent PFC frames with enable bit *n*, by priority *n*. XON frames are included.
    pub pfc_tx: [u64; PRIORITIES],
    /// Time for which PFC paused each class, in nanoseconds.
    pub paused_ns: [u64; PRIORITIES],
    /// Number of data frames that the host of the device has received, by class.
    pub rx_frames: [u64; PRIORITIES],
    /// Number of received data frames that were discarded because the receive buffer was full, by class.
    pub rx_discards: [u64; PRIORITIES],
    /// Number of MAC control frames with an unknown opcode or a wrong address.
    pub rx_unsupported_control: u64,
    /// Number of MAC control frames that the device passed to its host.
    pub control_frames_to_host: u64,
    /// Number of times that the link went down or the port was reset.
    pub link_resets: u64,
    /// Number of times that the device stopped sending PFC because its host did not read for too long.
    pub storm_events: u64,
}

/// Settings and limits of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Priorities for which PFC is in effect, by configuration or by DCBX. Bit *n* is priority *n*.
    pub pfc: u8,
    /// Number of bytes that the device can store for a class after its XOFF.
    pub headroom_bytes: u64,
    /// Time after which the device stops pausing its peer if its host does not read. `None`: the device has no
    /// such limit.
    pub storm_limit: Option<Picos>,
    /// Traffic classes, bandwidth and algorithms in effect (ETS).
    pub ets: EtsTables,
}

/// A device under test. It performs no input or output and reads no clock: the caller passes arriving frames and the
/// time, and sends the frames that the device returns.
pub trait DeviceUnderTest {
    /// Returns the name of the device for reports.
    fn name(&self) -> String;

    /// Returns the MAC address of the port.
    fn mac(&self) -> [u8; 6];

    /// Processes a frame. Its last bit arrived at `now`.
    fn receive(&mut self, now: Picos, frame: LinkFrame);

    /// Returns the next frame whose transmission starts at `now`. Returns `None` if no frame starts before
    /// [`DeviceUnderTest::next_deadline`].
    fn transmit(&mut self, now: Picos) -> Option<LinkFrame>;

    /// Returns the time at which [`DeviceUnderTest::transmit`] must be called next if no frame arrives.
    fn next_deadline(&self) -> Picos;

    /// Changes the device.
    ///
    /// # Errors
    /// The device cannot execute the operation.
    fn operate(&mut self, now: Picos, operation: Operation) -> Result<(), Unsupported>;

    /// Returns the counters.
    ///
    /// # Errors
    /// The device has no readable counters.
    fn counters(&self, now: Picos) -> Result<Counters, Unsupported>;

    /// Returns the settings and limits.
    ///
    /// # Errors
    /// The device has no readable settings.
    fn settings(&self, now: Picos) -> Result<Settings, Unsupported>;
}
