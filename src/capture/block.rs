//! What the blocks of a pcapng file mean.

use pcap_parser::pcapng::{OptionCode, PcapNGOption};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{EnhancedPacketBlock, InterfaceDescriptionBlock};

/// `epb_flags`.
const FLAGS: OptionCode = OptionCode(2);
/// `if_fcslen`, in bits.
const FCS_LEN: OptionCode = OptionCode(13);

/// What a file says of one of its interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// `if_name`.
    pub name: Option<String>,
    /// `LINKTYPE_` number.
    pub link_type: u32,
    /// Octets stored of each frame at most; 0: no limit.
    pub snaplen: u32,
    /// `if_tsresol` as it is in the file.
    pub(super) resolution: u8,
    /// Seconds to add to every stamp.
    pub(super) offset_s: i64,
    /// Octets of the frame check sequence that the capture holds behind each frame.
    pub(super) fcs_bytes: u32,
}

/// What concerns us of a block.
pub(super) enum Found {
    Interface(Interface),
    Frame {
        /// As numbered in its section.
        interface: u32,
        /// In units of the interface's resolution.
        stamp: Option<u64>,
        data: Vec<u8>,
        len: u32,
        flags: u32,
    },
}

impl Found {
    pub(super) fn enhanced(block: &EnhancedPacketBlock<'_>, big_endian: bool) -> Found {
        let flags = option(&block.options, FLAGS)
            .and_then(<[u8]>::first_chunk)
            .map_or(0, |octets| match big_endian {
                true => u32::from_be_bytes(*octets),
                false => u32::from_le_bytes(*octets),
            });
        Found::Frame {
            interface: block.if_id,
            stamp: Some(u64::from(block.ts_high) << 32 | u64::from(block.ts_low)),
            data: block.packet_data().to_vec(),
            len: block.origlen,
            flags,
        }
    }
}

/// The value of an option, without its padding.
fn option<'a>(options: &'a [PcapNGOption<'_>], code: OptionCode) -> Option<&'a [u8]> {
    let found = options.iter().find(|option| option.code == code)?;
    found.as_bytes().ok()
}

impl Interface {
    /// What a block says.
    pub(super) fn of(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Interface {
        let text = |octets: &[u8]| {
            let text = String::from_utf8_lossy(octets);
            text.trim_end_matches('\0').to_owned()
        };
        let offset = option(&block.options, OptionCode::IfTsoffset).and_then(<[u8]>::first_chunk);
        let fcs_bits = option(&block.options, FCS_LEN).and_then(<[u8]>::first);
        Interface {
            name: option(&block.options, OptionCode::IfName).map(text),
            link_type: block.linktype.0 as u32,
            snaplen: block.snaplen,
            resolution: option(&block.options, OptionCode::IfTsresol)
                .and_then(<[u8]>::first)
                .copied()
                .unwrap_or(6),
            offset_s: offset.map_or(0, |octets| match big_endian {
                true => i64::from_be_bytes(*octets),
                false => i64::from_le_bytes(*octets),
            }),
            fcs_bytes: u32::from(fcs_bits.copied().unwrap_or(0)) / 8,
        }
    }

    /// A stamp in nanoseconds since 1970, rounded down; what a number of 64 bits cannot hold becomes its limit.
    pub(super) fn nanoseconds(&self, stamp: u64) -> i64 {
        let power = u32::from(self.resolution & 0x7f);
        let stamp = u128::from(stamp);
        let ns = match self.resolution & 0x80 != 0 {
            // A stamp has 64 bits: in units of 2^-94 seconds and less it is below a nanosecond.
            true => (stamp * 1_000_000_000).checked_shr(power).unwrap_or(0),
            false if power <= 9 => stamp * 10_u128.pow(9 - power),
            false => 10_u128.checked_pow(power - 9).map_or(0, |unit| stamp / unit),
        };
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let ns = ns.saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}
