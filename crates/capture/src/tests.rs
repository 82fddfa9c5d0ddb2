//! Reading what others write, reading what we write, and reading anything at all.

use std::io::Cursor;

use proptest::prelude::*;
use xoff_dataplane::PortId;

use super::live::{PcapOptions, PcapRequest, record};
use super::write::{InterfaceBlock, packet_bytes_max};
use super::*;

/// A pcap file of two frames, the second stored in part.
fn pcap(big_endian: bool, magic: u32, fraction: u32) -> Vec<u8> {
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

/// A pcapng file: two sections, of either byte order, the second with two interfaces of odd resolutions.
fn pcapng() -> Vec<u8> {
    let mut file = Vec::new();
    write::section(&mut file, "");
    write::interface(&mut file, &plain("eth0"));
    write::packet(&mut file, &frame(0, 1_700_000_000_123_456_789, &[1; 60]));
    // Big-endian from here on.
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
    // 2^-10 of a second, and seconds with an offset.
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

fn plain(name: &str) -> InterfaceBlock<'_> {
    InterfaceBlock {
        name,
        speed_mbps: 1_000,
        mac: None,
        snaplen: 0,
    }
}

fn frame(interface: u32, at_ns: u64, data: &[u8]) -> Packet<'_> {
    Packet {
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

fn read(file: &[u8]) -> (Vec<Record>, Option<ReadError>) {
    let mut reader = match Reader::new(Cursor::new(file)) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut records = Vec::new();
    loop {
        match reader.next_record() {
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
            let (records, error) = read(&pcap(big_endian, magic, fraction));
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
    let (records, error) = read(&pcapng());
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
fn an_fcs_is_taken_off() {
    let mut file = pcap(false, 0xa1b2_c3d4, 0);
    // "Four octets of FCS follow each frame", in the upper half of the link type.
    file[20..24].copy_from_slice(&0x2400_0001_u32.to_le_bytes());
    let (records, _) = read(&file);
    let seen: Vec<_> = records.iter().map(|r| (r.data.len(), r.len)).collect();
    assert_eq!(seen, [(56, 56), (64, 1_078)]);
}

#[test]
fn what_is_no_capture_is_refused_in_words() {
    let mut long = pcap(false, 0xa1b2_c3d4, 0);
    long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    for (file, words) in [
        (Vec::new(), "the capture is empty"),
        (b"\x28\xb5\x2f\xfd".to_vec(), "zstdcat"),
        (b"PK".to_vec(), "neither pcap nor pcapng"),
        (
            pcap(false, 0xa1b2_c3d4, 0)[..20].to_vec(),
            "inside its file header",
        ),
        (pcapng()[..20].to_vec(), "inside its file header"),
        (long, "4294967295 stored bytes"),
    ] {
        let (_, error) = read(&file);
        let failure = error.expect(words).failure("in.pcap");
        assert!(failure.to_string().contains(words), "{failure}");
        assert!(failure.fix.is_some() && failure.exit as u8 == 3, "{failure}");
    }
}

#[test]
fn a_cut_capture_is_read_up_to_the_cut() {
    for (file, ends) in [
        (pcap(false, 0xa1b2_c3d4, 0), vec![24, 100, 180]),
        (pcapng(), Vec::new()),
    ] {
        let whole = read(&file).0;
        for end in 30..file.len() {
            let (records, error) = read(&file[..end]);
            assert_eq!(records[..], whole[..records.len()]);
            match error {
                None => assert!(ends.is_empty() || ends.contains(&end), "{end}"),
                Some(error) if error.ends_capture() => {
                    assert_eq!(error.frame, records.len() as u64 + 1);
                    assert!(error.offset < end as u64);
                }
                Some(error) => assert!(matches!(error.kind, ReadErrorKind::HeaderCut), "{error}"),
            }
        }
    }
}

#[test]
fn what_we_write_is_what_was_to_be_written() {
    use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
    use pcap_parser::{Block, PcapBlockOwned, PcapNGReader};
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, "all of it", &[plain("Ethernet0"), plain("Ethernet4")]).unwrap();
    writer
        .write(&frame(1, 1_700_000_000_000_000_001, &[5; 61]))
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
fn a_frame_never_needs_more_room_than_is_said() {
    for len in 0..70 {
        let mut out = Vec::new();
        let data = vec![1; len];
        write::packet(&mut out, &frame(0, u64::MAX, &data));
        assert!(
            out.len() <= packet_bytes_max(len, "a comment".len()),
            "{len}: {}",
            out.len()
        );
    }
}

#[test]
fn a_recorder_whose_writer_is_slow_counts_and_never_waits() {
    let config = xoff_config::load(
        &[("", "{}")],
        &xoff_config::Resolve {
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
    };
    let (mut recorder, writer) = record(&options, &config, 1, 0).unwrap();
    let (head, tail) = ([1; 90], [2; 1_000]);
    // Nobody writes yet: some 16 MiB are all there is room for.
    for n in 0..200_000_u32 {
        recorder.record(
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
    let (records, error) = read(&std::fs::read(folder.path().join("all")).unwrap());
    assert!(error.is_none(), "{error:?}");
    assert!(records.iter().all(|r| (r.data.len(), r.len) == (100, 1_090)));
    let of = |port: usize| records.iter().filter(|record| record.interface == port).count() as u64;
    assert_eq!(of(0), 100_000 - missed[0]);
    let file = std::fs::read(folder.path().join("all")).unwrap();
    let last = file.last_chunk::<52>().unwrap();
    assert_eq!(last[..4], [5, 0, 0, 0], "what was missed is in the file");
    assert_eq!(last[36..44], missed[1].to_le_bytes());
    let (records, _) = read(&std::fs::read(folder.path().join("one")).unwrap());
    assert!(of(1).min(records.len() as u64) + missed[1] >= 100_000);
}

#[test]
fn no_octets_make_the_reader_panic() {
    bolero::check!().for_each(|octets: &[u8]| {
        let (records, _) = read(octets);
        assert!(
            records
                .iter()
                .all(|record| record.data.len() <= record.len as usize)
        );
    });
}

proptest! {
    #[test]
    fn a_damaged_capture_is_read_as_far_as_it_makes_sense(
        ng in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = if ng { pcapng() } else { pcap(true, 0xa1b2_3c4d, 5) };
        for (at, octet) in damage {
            let at = at.index(file.len());
            file[at] = octet;
        }
        file.truncate(cut.index(file.len()) + 1);
        let (records, _) = read(&file);
        prop_assert!(records.iter().all(|record| record.data.len() <= record.len as usize));
    }
}
