//! Congestion notification packets (CNP, IBTA annex A17). A CNP consists of a BTH with BECN set and 16
//! reserved bytes.

use core::fmt;

use super::bth::{BthFields, Opcode};
use super::roce::{BuildError, FlowHeaders, RocePacket, RoceView};
use super::{Error, require_len};

/// Number of reserved bytes after the BTH. The reserved bytes are sent as 0 and ignored on receipt.
pub const RESERVED_LEN: usize = 16;
/// The usual DSCP of a CNP: 48 (CS6).
pub const DSCP: u8 = 48;

/// A congestion notification packet (CNP, IBTA annex A17). The packet asks a sending queue pair to reduce
/// its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cnp {
    /// Number of the queue pair that must reduce its rate, 24 bits. The queue pair belongs to the host that
    /// receives the CNP.
    pub dest_qp: u32,
    /// BECN bit. The bit is set in every valid CNP, but [`Cnp::parse`] also accepts a CNP without it.
    pub becn: bool,
}

impl Cnp {
    /// Reads the CNP in a RoCEv2 packet.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Opcode`] if the packet is not a CNP, and [`Error::Truncated`] if the reserved bytes
    /// are missing.
    pub fn parse(packet: &RoceView<'_>) -> Result<Cnp, Error> {
        let bth = packet.bth();
        if bth.opcode() != Opcode::Cnp {
            return Err(Error::Opcode {
                found: bth.opcode().code(),
            });
        }
        require_len("CNP", packet.payload(), RESERVED_LEN)?;
        Ok(Cnp {
            dest_qp: bth.dest_qp(),
            becn: bth.becn(),
        })
    }

    /// Writes the whole frame without FCS to the start of `frame` and returns its length in bytes. The
    /// destination in `headers` is the sender of the marked packets. The frame has the DSCP of `headers`,
    /// which is usually [`DSCP`].
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::NoRoom`] if `frame` is too short.
    pub fn emit(&self, headers: &FlowHeaders, frame: &mut [u8]) -> Result<usize, BuildError> {
        let bth = BthFields {
            becn: self.becn,
            mig_req: false,
            ..BthFields::new(Opcode::Cnp, self.dest_qp, 0)
        };
        RocePacket {
            headers,
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
