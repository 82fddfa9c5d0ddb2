//! Division of bytes into nearly equal parts, and the transmission time of bytes.

use xoff_units::Picos;

#[cfg(test)]
/// Returns the offset of part `index` if `total` bytes are divided into `parts` parts. If `index` equals
/// `parts`, the result is `total`. `parts` must be at least 1.
pub(super) fn part_start(total: u64, parts: u64, index: u64) -> u64 {
    index * (total / parts) + index.min(total % parts)
}

/// Returns the length of part `index` if `total` bytes are divided into `parts` parts. If `total` is not
/// divisible by `parts`, the first parts are one byte longer than the last parts.
pub(super) fn part_len(total: u64, parts: u64, index: u64) -> u64 {
    total / parts + u64::from(index < total % parts)
}

/// Returns the time that `bytes` bytes need at `bps` bits per second, rounded up to a picosecond. If the rate
/// is 0, the result is [`Picos::NEVER`].
pub(super) fn transmission_time(bytes: u64, bps: u64) -> Picos {
    let bits_ps = u128::from(bytes) * 8 * 1_000_000_000_000;
    match bits_ps.checked_div(u128::from(bps)) {
        Some(whole) => {
            let ps = whole + u128::from(bits_ps % u128::from(bps) != 0);
            Picos(u64::try_from(ps).unwrap_or(u64::MAX))
        }
        None => Picos::NEVER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_bytes_without_gap() {
        for total in [0, 1, 2, 7, 100, 101, 1 << 40] {
            for parts in [1, 2, 3, 7, 64] {
                for index in 0..parts {
                    let end = part_start(total, parts, index) + part_len(total, parts, index);
                    assert_eq!(
                        end,
                        part_start(total, parts, index + 1),
                        "{total} {parts} {index}"
                    );
                }
                assert_eq!(part_start(total, parts, parts), total);
            }
        }
    }

    #[test]
    fn durations_round_up() {
        assert_eq!(transmission_time(1, 400_000_000_000), Picos(20));
        assert_eq!(transmission_time(1, 3_000_000_000), Picos(2667));
        assert_eq!(transmission_time(0, 1), Picos(0));
        assert_eq!(transmission_time(1, 0), Picos::NEVER);
        assert_eq!(transmission_time(u64::MAX, 1), Picos::NEVER);
    }
}
