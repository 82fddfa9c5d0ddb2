//! Mutations of bytes.

use super::super::random::Random;

/// Bytes with a meaning in texts or captures.
const SPECIAL: [&[u8]; 12] = [
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xc3\x28",
    b"\r\n",
    b"\t",
    b"\"",
    b"{[{[",
    b"]}",
    b"\xf0\x9f\x92\xa5",
    b"\x1b[31m",
    b"\xff\xff\xff\xff",
];

/// Changes bytes at a random place.
pub(super) fn change_bytes(file: &mut Vec<u8>, other: &[u8], random: &mut Random) -> &'static str {
    let at = random.below(file.len() + 1);
    match random.below(7) {
        0 => {
            if let Some(byte) = file.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
            "flip a bit"
        }
        1 => {
            let special = SPECIAL[random.below(SPECIAL.len())];
            file.splice(at..at, special.iter().copied());
            "insert special bytes"
        }
        2 => {
            let range = random.short_range(file.len(), 40);
            file.drain(range);
            "delete bytes"
        }
        3 => {
            file.truncate(at);
            "truncate"
        }
        4 => {
            let range = random.short_range(file.len(), 400);
            let copy = file[range].to_vec();
            file.splice(at..at, copy);
            "duplicate bytes"
        }
        5 => {
            let range = random.range(other.len());
            file.splice(at.., other[range].iter().copied());
            "splice bytes of another file"
        }
        _ => {
            let byte = random.byte();
            for place in random.short_range(file.len(), 8) {
                file[place] = byte;
            }
            "overwrite bytes"
        }
    }
}

/// Sets a word of four bytes to an extreme value. Captures store lengths and times in such words.
pub(super) fn change_word(file: &mut [u8], random: &mut Random) -> &'static str {
    const EXTREMES: [u32; 10] = [
        0,
        1,
        3,
        0x7f,
        0xffff,
        0x1_0000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_fff0,
        u32::MAX,
    ];
    let value = EXTREMES[random.below(EXTREMES.len())];
    let bytes = match random.one_in(2) {
        true => value.to_le_bytes(),
        false => value.to_be_bytes(),
    };
    // Most headers are at the beginning.
    let words = match random.one_in(2) {
        true => file.len().min(256) / 4,
        false => file.len() / 4,
    };
    let at = 4 * random.below(words);
    if let Some(place) = file.get_mut(at..at + 4) {
        place.copy_from_slice(&bytes);
    }
    "set a word to an extreme"
}
