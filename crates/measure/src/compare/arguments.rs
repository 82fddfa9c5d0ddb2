//! Command-line arguments of comparisons.

use xoff_telemetry::failure::Failure;

/// Parses the percentage of the option `--gate`.
///
/// # Errors
/// The text is not a number above 0 and at most 1000.
pub fn parse_gate_percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 1_000.0 => Ok(percent),
        _ => Err("expected a percentage above 0, at most 1000".to_owned()),
    }
}

/// Removes the options for JSON output from the arguments of a benchmark. The comparison adds `--json` to the
/// arguments later, and a benchmark refuses a repeated option.
///
/// # Errors
/// The arguments ask for another output format.
pub fn remove_json_options(arguments: &[String]) -> Result<Vec<String>, Failure> {
    let mut kept = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let format = match argument.split_once('=') {
            Some(("--format", format)) => format,
            _ if argument == "--json" => continue,
            _ if argument == "--format" => arguments.next().map_or("", String::as_str),
            _ => {
                kept.push(argument.clone());
                continue;
            }
        };
        if format != "json" {
            return Err(
                Failure::usage("a comparison reads the results of both sides as JSON")
                    .at(format!("--format {format}"))
                    .fix("remove the option; --json before `--` selects the output of the comparison itself"),
            );
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use xoff_telemetry::failure::Exit;

    use super::*;

    fn remove_from_text(text: &str) -> Result<String, Failure> {
        let arguments: Vec<String> = text.split(' ').map(str::to_owned).collect();
        remove_json_options(&arguments).map(|kept| kept.join(" "))
    }

    #[test]
    fn json_options_are_removed() {
        for text in [
            "ndr --json --sizes 64",
            "ndr --sizes 64 --format json",
            "ndr --format=json --sizes 64",
            "ndr --sizes 64",
        ] {
            assert_eq!(remove_from_text(text).unwrap(), "ndr --sizes 64");
        }
    }

    #[test]
    fn other_output_formats_are_refused() {
        for text in ["ndr --format csv", "ndr --format=csv", "ndr --format"] {
            let failure = remove_from_text(text).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.to_string().contains("--format"), "{failure}");
        }
    }
}
