//! The bytes that arrive on a lossless link after the switch has decided to pause it.

/// A full frame of the incast, from the destination address to the FCS: 4096 bytes of payload with Ethernet, IPv4, UDP, BTH,
/// RETH and ICRC.
const FRAME_BYTES: u64 = 14 + 20 + 8 + 12 + 16 + 4096 + 4 + 4;
/// A frame between the first and the last of a message, which has no RETH.
const MIDDLE_FRAME_BYTES: u64 = FRAME_BYTES - 16;
/// An acknowledgement, which may occupy the link when the pause is due.
const ACKNOWLEDGEMENT_BYTES: u64 = 66;
const PFC_BYTES: u64 = 64;
/// Preamble and gap.
const OVERHEAD_BYTES: u64 = 20;
/// The response of a model host, in pause quanta of 512 bit times.
const RESPONSE_QUANTA: u64 = 2;
/// Metres that a signal passes in a second, as in SONiC's headroom formula.
const SIGNAL_METRES_PER_S: u64 = 198_000_000;

/// The delay of a cable in one direction.
pub(super) fn cable_delay_ps(metres: u64) -> u64 {
    let ps = u128::from(metres) * 1_000_000_000_000 / u128::from(SIGNAL_METRES_PER_S);
    u64::try_from(ps).unwrap_or(u64::MAX)
}

/// A lossless link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) speed_mbps: u64,
    pub(super) metres: u64,
    pub(super) cell_bytes: u64,
}

/// The headroom that a link needs in the incast, with the terms of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    /// The acknowledgement and the PFC frame on the way out, in bit times of the link, as bytes.
    pub(super) control_bytes: u64,
    /// The host's response time.
    pub(super) response_bytes: u64,
    /// Two cable delays.
    pub(super) cable_bytes: u64,
    /// The frame that did not find shared buffer, and those that arrive in the time above.
    pub(super) frames: u64,
    /// Buffer of all these frames, in whole cells.
    pub(super) bytes: u64,
}

impl Link {
    /// The headroom that the incast needs at most.
    ///
    /// The frame that finds the shared buffer full is the first. Then the link carries data for as long as the pause takes: behind
    /// an acknowledgement, over the cable, through the host. A frame that the host has begun by then is sent to its end, and all
    /// that it has sent takes the cable's delay to arrive.
    pub(super) fn need(self) -> Need {
        let control_bytes = ACKNOWLEDGEMENT_BYTES + PFC_BYTES + 2 * OVERHEAD_BYTES;
        let response_bytes = RESPONSE_QUANTA * 512 / 8;
        let round_trip =
            u128::from(2 * cable_delay_ps(self.metres)) * u128::from(self.speed_mbps) / 8_000_000;
        let cable_bytes = u64::try_from(round_trip).unwrap_or(u64::MAX);
        let arriving = control_bytes + response_bytes + cable_bytes;
        let frames = 1 + arriving.div_ceil(MIDDLE_FRAME_BYTES + OVERHEAD_BYTES);
        Need {
            control_bytes,
            response_bytes,
            cable_bytes,
            frames,
            bytes: frames * FRAME_BYTES.div_ceil(self.cell_bytes) * self.cell_bytes,
        }
    }
}

impl Need {
    /// The sum as text.
    pub(super) fn arithmetic(&self, cell_bytes: u64) -> String {
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
    fn a_cable_of_198_m_takes_a_microsecond() {
        assert_eq!(cable_delay_ps(198), 1_000_000);
        assert_eq!(cable_delay_ps(0), 0);
        assert_eq!(cable_delay_ps(120_000), 606_060_606);
    }

    #[test]
    fn the_need_grows_with_speed_and_length_in_whole_frames() {
        let link = |speed_mbps, metres| Link {
            speed_mbps,
            metres,
            cell_bytes: 256,
        };
        let near = link(100_000, 5).need();
        assert_eq!(
            (near.cable_bytes, near.frames, near.bytes),
            (631, 2, 2 * 17 * 256)
        );
        let far = link(100_000, 1980).need();
        assert_eq!(far.cable_bytes, 250_000);
        assert_eq!(far.frames, 1 + (250_000_u64 + 298).div_ceil(4178));
        assert!(link(400_000, 300).need().bytes > link(100_000, 300).need().bytes);
        assert!(
            near.arithmetic(256)
                .starts_with("needs 8704: 2 frames x 17 cells of 256"),
            "{}",
            near.arithmetic(256)
        );
    }
}
