//! Numbers and counts of things, as text for people.

/// Formats an integer with a comma after each group of three digits, as SONiC prints counters: `12,345,678`.
pub fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of things, such as `1 frame` or `1,204 frames`. `noun` is the singular of a noun with a regular
/// plural: it ends with `s`, with `es` after `s`, `x` and `ch`, or with `ies` instead of a `y` after a consonant.
pub fn count_noun(count: u64, noun: &str) -> String {
    let number = group_thousands(count);
    if count == 1 {
        return format!("{number} {noun}");
    }
    if let Some(stem) = noun
        .strip_suffix('y')
        .filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']))
    {
        return format!("{number} {stem}ies");
    }
    let ending = match ["s", "x", "ch"].iter().any(|end| noun.ends_with(end)) {
        true => "es",
        false => "s",
    };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(group_thousands(number), text);
        }
        assert_eq!(group_thousands(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn nouns_are_in_the_singular_only_for_one() {
        for (count, noun, text) in [
            (0, "frame", "0 frames"),
            (1, "frame", "1 frame"),
            (1_204, "frame", "1,204 frames"),
            (2, "switch", "2 switches"),
            (1, "switch", "1 switch"),
            (3, "entry", "3 entries"),
            (1, "entry", "1 entry"),
            (2, "day", "2 days"),
            (2, "lab file", "2 lab files"),
        ] {
            assert_eq!(count_noun(count, noun), text);
        }
    }
}
