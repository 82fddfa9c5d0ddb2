//! Tests with files of other writers, with own files, and with random bytes.

use std::io::Cursor;

use proptest::prelude::*;
use xoff_dataplane::PortId;

use super::pcapng_writer::{InterfaceBlock, max_packet_block_bytes};
use super::recorder::{PcapOptions, PcapRequest, open_recording};
use super::*;

/// A pcap file of two frames. The second frame is stored in part.
fn pcap_file(big_endian: bool, magic: u32, fraction: u32) -> Vec<u8> {
    let word = |value: u32| {
        if big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let half = |value: u16| {
        if big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let mut file = word(magic).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65_535), word(1)].concat());
    for (stored, len) in [(60, 60), (64, 1_082)] {
        file.extend([word(1_700_000_000), word(fraction), word(stored), word(len)].concat());
        file.extend(vec![0xab; stored as usize]);
    }
    file
}

/// A pcapng file of two sections with different byte orders. The second section has two interfaces with
/// unusual resolutions.
fn pcapng_file() -> Vec<u8> {
    let mut file = Vec::new();
    pcapng_writer::append_section_header(&mut file, "");
    pcapng_writer::append_interface(&mut file, &interface_named("eth0"));
    pcapng_writer::append_packet(&mut file, &packet_block(0, 1_700_000_000_123_456_789, &[1; 60]));
    // The second section is big-endian.
    let block = |kind: u32, body: &[u8]| {
        let len = (12 + body.len()) as u32;
        [&kind.to_be_bytes(), &len.to_be_bytes(), body, &len.to_be_bytes()].concat()
    };
    let option = |code: u16, value: &[u8]| {
        let mut option = [code.to_be_bytes(), (value.len() as u16).to_be_bytes()].concat();
        option.extend(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    };
    file.extend(block(
        0x0a0d_0d0a,
        &[&0x1a2b_3c4d_u32.to_be_bytes()[..], &[0, 1, 0, 0], &[0xff; 8]].concat(),
    ));
    let interface = |options: &[u8]| [&[0, 1, 0, 0, 0, 0, 0, 0], options, &[0; 4]].concat();
    // A resolution of 2^-10 seconds, and a resolution of one second with an offset.
    file.extend(block(
        1,
        &interface(&[option(2, b"a"), option(9, &[0x8a])].concat()),
    ));
    file.extend(block(
        1,
        &interface(&[option(9, &[0]), option(14, &100_i64.to_be_bytes())].concat()),
    ));
    let packet = |interface: u32, stamp: u32, options: &[u8]| {
        let head = [interface, 0, stamp, 3, 3].map(u32::to_be_bytes).concat();
        [&head[..], &[1, 2, 3, 0], options].concat()
    };
    file.extend(block(
        6,
        &packet(0, 512, &[option(2, &2_u32.to_be_bytes()), vec![0; 4]].concat()),
    ));
    file.extend(block(0x0bad, &[9; 8]));
    file.extend(block(6, &packet(1, 5, &[])));
    file.extend(block(
        3,
        &[&7_u32.to_be_bytes()[..], &[1, 2, 3, 4, 5, 6, 7, 0]].concat(),
    ));
    file
}

fn interface_named(name: &str) -> InterfaceBlock<'_> {
    InterfaceBlock {
        name,
        speed_mbps: 1_000,
        mac: None,
        snaplen: 0,
    }
}

fn packet_block(interface: u32, at_ns: u64, data: &[u8]) -> PacketBlock<'_> {
    PacketBlock {
        interface,
        at_ns,
        len: data.len() as u32,
        data: [data, &[]],
        direction: Direction::Inbound,
        queue: Some(3),
        id: Some(7),
        comment: "a comment",
    }
}

fn read_frames(file: &[u8]) -> (Vec<CapturedFrame>, Option<ReadError>) {
    let mut reader = match Reader::new(Cursor::new(file)) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut records = Vec::new();
    loop {
        match reader.next_frame() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return (records, None),
            Err(error) => return (records, Some(error)),
        }
    }
}

#[test]
fn every_kind_of_pcap_is_read() {
    for (magic, fraction, ns) in [
        (0xa1b2_c3d4, 123_456, 123_456_000),
        (0xa1b2_3c4d, 123_456_789, 123_456_789),
    ] {
        for big_endian in [false, true] {
            let (records, error) = read_frames(&pcap_file(big_endian, magic, fraction));
            assert!(error.is_none(), "{error:?}");
            let seen: Vec<_> = records
                .iter()
                .map(|r| (r.number, r.offset, r.at_ns, r.data.len(), r.len))
                .collect();
            let at_ns = Some(1_700_000_000_000_000_000 + ns);
            assert_eq!(seen, [(1, 24, at_ns, 60, 60), (2, 100, at_ns, 64, 1_082)]);
        }
    }
}

#[test]
fn sections_interfaces_resolutions_and_simple_packets_are_read() {
    let (records, error) = read_frames(&pcapng_file());
    assert!(error.is_none(), "{error:?}");
    let seen: Vec<_> = records
        .iter()
        .map(|r| (r.interface, r.at_ns, r.direction, r.data.len(), r.len))
        .collect();
    assert_eq!(
        seen,
        [
            (0, Some(1_700_000_000_123_456_789), Direction::Inbound, 60, 60),
            (1, Some(500_000_000), Direction::Outbound, 3, 3),
            (2, Some(105_000_000_000), Direction::Unknown, 3, 3),
            (1, None, Direction::Unknown, 7, 7),
        ]
    );
}

#[test]
fn the_fcs_is_removed() {
    let mut file = pcap_file(false, 0xa1b2_c3d4, 0);
    // The upper half of the link type field announces four bytes of FCS after each frame.
    file[20..24].copy_from_slice(&0x2400_0001_u32.to_le_bytes());
    let (records, _) = read_frames(&file);
    let seen: Vec<_> = records.iter().map(|r| (r.data.len(), r.len)).collect();
    assert_eq!(seen, [(56, 56), (64, 1_078)]);
}

#[test]
fn other_files_are_refused_with_a_fix() {
    let mut long = pcap_file(false, 0xa1b2_c3d4, 0);
    long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    for (file, words) in [
        (Vec::new(), "the capture is empty"),
        (b"\x28\xb5\x2f\xfd".to_vec(), "zstdcat"),
        (b"PK".to_vec(), "neither pcap nor pcapng"),
        (
            pcap_file(false, 0xa1b2_c3d4, 0)[..20].to_vec(),
            "inside its file header",
        ),
        (pcapng_file()[..20].to_vec(), "inside its file header"),
        (long, "the stored length of a frame is 4294967295"),
    ] {
        let (_, error) = read_frames(&file);
        let failure = error.expect(words).to_failure("in.pcap");
        assert!(failure.to_string().contains(words), "{failure}");
        assert!(failure.fix.is_some() && failure.exit as u8 == 3, "{failure}");
    }
}

#[test]
fn a_truncated_capture_is_read_up_to_its_end() {
    for (file, ends) in [
        (pcap_file(false, 0xa1b2_c3d4, 0), vec![24, 100, 180]),
        (pcapng_file(), Vec::new()),
    ] {
        let whole = read_frames(&file).0;
        for end in 30..file.len() {
            let (records, error) = read_frames(&file[..end]);
            assert_eq!(records[..], whole[..records.len()]);
            match error {
                None => assert!(ends.is_empty() || ends.contains(&end), "{end}"),
                Some(error) if error.ends_capture() => {
                    assert_eq!(error.frame, records.len() as u64 + 1);
                    assert!(error.offset < end as u64);
                }
                Some(error) => assert!(matches!(error.kind, ReadErrorKind::TruncatedHeader), "{error}"),
            }
        }
    }
}

#[test]
fn written_blocks_are_read_by_another_crate() {
    use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
    use pcap_parser::{Block, PcapBlockOwned, PcapNGReader};
    let mut file = Vec::new();
    let mut writer = Writer::new(
        &mut file,
        "all of it",
        &[interface_named("Ethernet0"), interface_named("Ethernet4")],
    )
    .unwrap();
    writer
        .write(&packet_block(1, 1_700_000_000_000_000_001, &[5; 61]))
        .unwrap();
    writer.finish().unwrap();
    let mut reader = PcapNGReader::new(1 << 16, Cursor::new(&file)).unwrap();
    let mut kinds = Vec::new();
    while let Ok((len, block)) = reader.next() {
        match block {
            PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                assert!(section.shb_userappl().unwrap().unwrap().starts_with("xoff "));
                kinds.push("section".to_owned());
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                assert_eq!(interface.if_tsresol, 9);
                assert_eq!(interface.if_speed().unwrap().unwrap(), 1_000_000_000);
                kinds.push(interface.if_name().unwrap().unwrap().to_owned());
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                assert_eq!((packet.if_id, packet.origlen), (1, 61));
                assert_eq!(packet.packet_data(), [5; 61]);
                let codes: Vec<(u16, usize)> = packet
                    .options
                    .iter()
                    .map(|o| (o.code.0, usize::from(o.len)))
                    .collect();
                assert_eq!(codes, [(1, 9), (2, 4), (5, 8), (6, 4), (0, 0)]);
                kinds.push("frame".to_owned());
            }
            _ => panic!("another block"),
        }
        reader.consume(len);
    }
    assert_eq!(kinds, ["section", "Ethernet0", "Ethernet4", "frame"]);
}

#[test]
fn packet_blocks_fit_the_announced_length() {
    for len in 0..70 {
        let mut out = Vec::new();
        let data = vec![1; len];
        pcapng_writer::append_packet(&mut out, &packet_block(0, u64::MAX, &data));
        assert!(
            out.len() <= max_packet_block_bytes(len, "a comment".len()),
            "{len}: {}",
            out.len()
        );
    }
}

#[test]
fn a_recorder_with_a_slow_writer_counts_missed_frames() {
    let config = xoff_config::load(
        &[("", "{}")],
        &xoff_config::ResolveOptions {
            ports: vec!["Ethernet0".into(), "Ethernet4".into()],
            ..Default::default()
        },
    );
    let config = config.unwrap().resolved.config;
    let folder = tempfile::tempdir().unwrap();
    let request = |port: Option<&str>, name: &str| PcapRequest {
        port: port.map(str::to_owned),
        file: folder.path().join(name),
    };
    let options = PcapOptions {
        requests: vec![request(None, "all"), request(Some("Ethernet4"), "one")],
        snaplen: 100,
        ..PcapOptions::default()
    };
    let (mut recorder, writer) = open_recording(&options, &config, 1, 0).unwrap();
    let (head, tail) = ([1; 90], [2; 1_000]);
    // The writer thread does not run yet, so only about 16 MiB of frames fit.
    for n in 0..200_000_u32 {
        recorder.record_frame(
            PortId((n % 2) as u16),
            Direction::Inbound,
            u64::from(n),
            [&head, &tail],
        );
    }
    recorder.flush();
    let missed = recorder.finish(200_000);
    assert!(
        missed.iter().all(|missed| (1..100_000).contains(missed)),
        "{missed:?}"
    );
    assert!(writer.run().is_empty());
    let (records, error) = read_frames(&std::fs::read(folder.path().join("all")).unwrap());
    assert!(error.is_none(), "{error:?}");
    assert!(records.iter().all(|r| (r.data.len(), r.len) == (100, 1_090)));
    let of = |port: usize| records.iter().filter(|record| record.interface == port).count() as u64;
    assert_eq!(of(0), 100_000 - missed[0]);
    let file = std::fs::read(folder.path().join("all")).unwrap();
    let last = file.last_chunk::<52>().unwrap();
    assert_eq!(last[..4], [5, 0, 0, 0], "the missed frames are in the statistics");
    assert_eq!(last[36..44], missed[1].to_le_bytes());
    let (records, _) = read_frames(&std::fs::read(folder.path().join("one")).unwrap());
    assert!(of(1).min(records.len() as u64) + missed[1] >= 100_000);
}

#[test]
fn random_bytes_never_make_the_reader_panic() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let (records, _) = read_frames(bytes);
        assert!(
            records
                .iter()
                .all(|record| record.data.len() <= record.len as usize)
        );
    });
}

proptest! {
    #[test]
    fn a_damaged_capture_never_makes_the_reader_panic(
        ng in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = if ng { pcapng_file() } else { pcap_file(true, 0xa1b2_3c4d, 5) };
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(cut.index(file.len()) + 1);
        let (records, _) = read_frames(&file);
        prop_assert!(records.iter().all(|record| record.data.len() <= record.len as usize));
    }
}
