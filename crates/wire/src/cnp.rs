//! Congestion notification packets (IBTA annex A17): a BTH with BECN set and sixteen reserved octets.

use core::fmt;

use super::bth::{BthFields, Opcode};
use super::roce::{BuildError, Path, RocePacket, RoceView};
use super::{Error, require};

/// Reserved octets behind the BTH, sent as zero and not looked at.
pub const RESERVED_LEN: usize = 16;
/// The usual DSCP of congestion notifications: CS6.
pub const DSCP: u8 = 48;

/// What a congestion notification says: the flow that this queue pair sends shall slow down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cnp {
    /// The queue pair that shall slow down, 24 bits: of the host the packet is sent to.
    pub dest_qp: u32,
    /// BECN, set in every notification that means anything.
    pub becn: bool,
}

impl Cnp {
    /// Reads a notification.
    ///
    /// # Errors
    /// [`Error::Opcode`] for other packets, [`Error::Truncated`] when the reserved octets are missing.
    pub fn parse(packet: &RoceView<'_>) -> Result<Cnp, Error> {
        let bth = packet.bth();
        if bth.opcode() != Opcode::Cnp {
            return Err(Error::Opcode {
                found: bth.opcode().code(),
            });
        }
        require("CNP", packet.payload(), RESERVED_LEN)?;
        Ok(Cnp {
            dest_qp: bth.dest_qp(),
            becn: bth.becn(),
        })
    }

    /// Writes the whole frame and returns its length. `path` leads to the sender of the marked packets; its
    /// DSCP is used as it is ([`DSCP`] is usual).
    ///
    /// # Errors
    /// [`BuildError::NoRoom`].
    pub fn emit(&self, path: &Path, frame: &mut [u8]) -> Result<usize, BuildError> {
        let bth = BthFields {
            becn: self.becn,
            mig_req: false,
            ..BthFields::new(Opcode::Cnp, self.dest_qp, 0)
        };
        RocePacket {
            path,
            bth,
            extensions: &[],
        }
        .emit(frame, RESERVED_LEN, |reserved| reserved.fill(0))
    }
}

impl fmt::Display for Cnp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CNP qp {:#x}", self.dest_qp)?;
        if !self.becn {
            write!(f, " without BECN")?;
        }
        Ok(())
    }
}
