//! Stamp at the start of each payload of an open-loop flow. The receiver identifies the frame by its stamp.

/// Length of a stamp in bytes.
pub const STAMP_BYTES: usize = 40;

/// First eight bytes of the stamp: name and version.
const MAGIC: [u8; 8] = *b"xoffRoC1";

/// Contents of a stamp, the test data at the start of a payload. A stamp starts with a magic number of eight
/// bytes. The fields of this struct follow in their order here (big-endian), and then three zero bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadStamp {
    /// Identifier of the run ([`super::HostConfig::token`]).
    pub token: u64,
    /// Number of the frame in its flow, counted from 0.
    pub sequence: u64,
    /// Wall clock when the frame was built, in nanoseconds since 1970 (`CLOCK_REALTIME`). In virtual time,
    /// this is the model time.
    pub wall_ns: u64,
    /// Number of the flow ([`super::FlowConfig::id`]).
    pub flow: u32,
    /// Class of the flow at the sender, 0 to 7.
    pub class: u8,
}

impl PayloadStamp {
    /// Writes the stamp to the start of a payload. If the payload is shorter than [`STAMP_BYTES`], nothing
    /// is written.
    pub fn write(&self, payload: &mut [u8]) {
        let Some(room) = payload.first_chunk_mut::<STAMP_BYTES>() else {
            return;
        };
        room[0..8].copy_from_slice(&MAGIC);
        room[8..16].copy_from_slice(&self.token.to_be_bytes());
        room[16..24].copy_from_slice(&self.sequence.to_be_bytes());
        room[24..32].copy_from_slice(&self.wall_ns.to_be_bytes());
        room[32..36].copy_from_slice(&self.flow.to_be_bytes());
        room[36] = self.class;
        room[37..40].fill(0);
    }

    /// Reads the stamp at the start of a payload. Returns `None` if the payload is shorter than
    /// [`STAMP_BYTES`] or does not begin with the magic number.
    pub fn read(payload: &[u8]) -> Option<PayloadStamp> {
        let bytes = payload.first_chunk::<STAMP_BYTES>()?;
        if bytes[0..8] != MAGIC {
            return None;
        }
        let number = |at: usize| {
            let mut value = [0; 8];
            value.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(value)
        };
        Some(PayloadStamp {
            token: number(8),
            sequence: number(16),
            wall_ns: number(24),
            flow: (number(32) >> 32) as u32,
            class: bytes[36],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_parsed_only_with_its_magic() {
        let stamp = PayloadStamp {
            token: 7 << 40,
            sequence: u64::MAX - 1,
            wall_ns: 1_700_000_000_000_000_000,
            flow: 0xfeed_beef,
            class: 5,
        };
        let mut payload = [0xaa; 64];
        stamp.write(&mut payload);
        assert_eq!(PayloadStamp::read(&payload), Some(stamp));
        assert_eq!(PayloadStamp::read(&payload[..STAMP_BYTES - 1]), None);
        payload[0] ^= 1;
        assert_eq!(PayloadStamp::read(&payload), None);
    }
}
