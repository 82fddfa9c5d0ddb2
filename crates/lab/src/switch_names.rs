//! Lists of the names of switches in messages.

/// Largest number of switches that a message names.
const SWITCHES_NAMED_MAX: usize = 3;

/// Formats a list of switch names for a message, for example `a, b and c` or `a, b, c and 77 more switches`.
pub(super) fn format_switch_names(switches: &[&str]) -> String {
    match switches {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] if switches.len() <= SWITCHES_NAMED_MAX => {
            format!("{} and {last}", first.join(", "))
        }
        _ => match switches.len() - SWITCHES_NAMED_MAX {
            1 => format!("{} and 1 more switch", switches[..SWITCHES_NAMED_MAX].join(", ")),
            more => format!(
                "{} and {more} more switches",
                switches[..SWITCHES_NAMED_MAX].join(", ")
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_three_switches_and_counts_the_others() {
        assert_eq!(format_switch_names(&["a"]), "a");
        assert_eq!(format_switch_names(&["a", "b", "c"]), "a, b and c");
        assert_eq!(
            format_switch_names(&["a", "b", "c", "d"]),
            "a, b, c and 1 more switch"
        );
        assert_eq!(
            format_switch_names(&["a", "b", "c", "d", "e"]),
            "a, b, c and 2 more switches"
        );
    }
}
