//! Calculates the headroom that a lossless link needs: the bytes that arrive after the switch has decided to
//! pause the link.

/// Length of a full frame of the incast in bytes, from the destination address to the FCS. The frame has 4096
/// bytes of payload, Ethernet, IPv4, UDP, BTH, RETH, ICRC and FCS.
const FRAME_BYTES: u64 = 14 + 20 + 8 + 12 + 16 + 4096 + 4 + 4;
/// Length in bytes of a frame between the first and the last frame of a message. Such a frame has no RETH.
const MIDDLE_FRAME_BYTES: u64 = FRAME_BYTES - 16;
/// Length of an acknowledgement in bytes. The link can be busy with an acknowledgement when the pause frame
/// is due.
const ACKNOWLEDGEMENT_BYTES: u64 = 66;
const PFC_BYTES: u64 = 64;
/// Length of preamble and interframe gap in bytes.
const OVERHEAD_BYTES: u64 = 20;
/// Response time of a model host, in pause quanta of 512 bit times.
const RESPONSE_QUANTA: u64 = 2;
/// Signal speed in metres per second, as in SONiC's headroom formula.
const SIGNAL_METRES_PER_S: u64 = 198_000_000;

/// Returns the one-way delay of a cable in picoseconds.
pub(super) fn cable_delay_ps(metres: u64) -> u64 {
    let ps = u128::from(metres) * 1_000_000_000_000 / u128::from(SIGNAL_METRES_PER_S);
    u64::try_from(ps).unwrap_or(u64::MAX)
}

/// A lossless link with its speed in Mb/s, its length in metres and the cell size of the switch in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LosslessLink {
    pub(super) speed_mbps: u64,
    pub(super) metres: u64,
    pub(super) cell_bytes: u64,
}

/// The headroom that a link needs in the incast, and the terms of the calculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequiredHeadroom {
    /// Bytes that arrive while the switch sends an acknowledgement and the PFC frame.
    pub(super) control_bytes: u64,
    /// Bytes that arrive during the response time of the host to the PFC frame.
    pub(super) response_bytes: u64,
    /// Bytes that arrive during two cable delays: one for the PFC frame and one for the last data.
    pub(super) cable_bytes: u64,
    /// Number of frames in headroom: the first frame that does not fit into shared space, and all
    /// later frames.
    pub(super) frames: u64,
    /// Buffer space of the frames in headroom in bytes, with each frame in whole cells.
    pub(super) bytes: u64,
}

impl LosslessLink {
    /// Returns the largest headroom that the incast needs.
    ///
    /// The first frame that does not fit into shared space uses headroom and causes a pause frame. The host
    /// continues to send until the pause takes effect:
    ///
    /// 1. The pause frame waits until the port has sent an acknowledgement.
    /// 2. The pause frame passes the cable.
    /// 3. The host responds to the pause and completes the frame that it has started.
    ///
    /// The last data passes the cable again. All frames that arrive in this time use headroom.
    pub(super) fn required_headroom(self) -> RequiredHeadroom {
        let control_bytes = ACKNOWLEDGEMENT_BYTES + PFC_BYTES + 2 * OVERHEAD_BYTES;
        let response_bytes = RESPONSE_QUANTA * 512 / 8;
        let round_trip =
            u128::from(2 * cable_delay_ps(self.metres)) * u128::from(self.speed_mbps) / 8_000_000;
        let cable_bytes = u64::try_from(round_trip).unwrap_or(u64::MAX);
        let arriving = control_bytes + response_bytes + cable_bytes;
        let frames = 1 + arriving.div_ceil(MIDDLE_FRAME_BYTES + OVERHEAD_BYTES);
        RequiredHeadroom {
            control_bytes,
            response_bytes,
            cable_bytes,
            frames,
            bytes: frames * FRAME_BYTES.div_ceil(self.cell_bytes) * self.cell_bytes,
        }
    }
}

impl RequiredHeadroom {
    /// Returns the calculation as text for the report.
    pub(super) fn calculation_text(&self, cell_bytes: u64) -> String {
        format!(
            "needs {}: {} frames x {} cells of {cell_bytes}; {} B arrive in 2 cable delays, {} B during ACK and PFC, {} B in the response",
            self.bytes,
            self.frames,
            FRAME_BYTES.div_ceil(cell_bytes),
            self.cable_bytes,
            self.control_bytes,
            self.response_bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cable_of_198_metres_takes_a_microsecond() {
        assert_eq!(cable_delay_ps(198), 1_000_000);
        assert_eq!(cable_delay_ps(0), 0);
        assert_eq!(cable_delay_ps(120_000), 606_060_606);
    }

    #[test]
    fn required_headroom_grows_with_speed_and_length() {
        let link = |speed_mbps, metres| LosslessLink {
            speed_mbps,
            metres,
            cell_bytes: 256,
        };
        let near = link(100_000, 5).required_headroom();
        assert_eq!(
            (near.cable_bytes, near.frames, near.bytes),
            (631, 2, 2 * 17 * 256)
        );
        let far = link(100_000, 1980).required_headroom();
        assert_eq!(far.cable_bytes, 250_000);
        assert_eq!(far.frames, 1 + (250_000_u64 + 298).div_ceil(4178));
        assert!(link(400_000, 300).required_headroom().bytes > link(100_000, 300).required_headroom().bytes);
        assert!(
            near.calculation_text(256)
                .starts_with("needs 8704: 2 frames x 17 cells of 256"),
            "{}",
            near.calculation_text(256)
        );
    }
}
