//! The outcome of a benchmark that passes or fails.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// The outcome of a benchmark. The order is from the best to the worst outcome, so the outcome of several runs is
/// their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BenchOutcome {
    /// All conditions hold.
    Pass,
    /// A disturbance of the machine may have changed the result.
    Inconclusive,
    /// A condition does not hold.
    Fail,
}

impl From<bool> for BenchOutcome {
    /// Returns [`BenchOutcome::Pass`] for true, and [`BenchOutcome::Fail`] for false.
    fn from(has_passed: bool) -> BenchOutcome {
        match has_passed {
            true => BenchOutcome::Pass,
            false => BenchOutcome::Fail,
        }
    }
}

impl fmt::Display for BenchOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BenchOutcome::Pass => "PASS",
            BenchOutcome::Inconclusive => "INCONCLUSIVE",
            BenchOutcome::Fail => "FAIL",
        })
    }
}

/// Writes the outcome to `output`, or the reason why the benchmark could not run to `errors`. Returns the exit code
/// of the program, with the meaning of xoff: 0 passed, 1 failed, 3 the benchmark could not run, 5 inconclusive.
pub fn finish_bench<E: fmt::Display>(
    result: Result<BenchOutcome, E>,
    output: &mut impl Write,
    errors: &mut impl Write,
) -> ExitCode {
    // A failed write leaves the exit code, which states the same.
    let (code, _) = match result {
        Ok(outcome) => {
            let code = match outcome {
                BenchOutcome::Pass => 0,
                BenchOutcome::Fail => 1,
                BenchOutcome::Inconclusive => 5,
            };
            (code, writeln!(output, "{outcome}"))
        }
        Err(reason) => (3, writeln!(errors, "error: {reason}")),
    };
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_text_and_exit_code() {
        let finish = |result: Result<BenchOutcome, &str>| {
            let (mut output, mut errors) = (Vec::new(), Vec::new());
            let code = finish_bench(result, &mut output, &mut errors);
            let text = |bytes| String::from_utf8(bytes).expect("text");
            (format!("{code:?}"), text(output), text(errors))
        };
        let expected = |code: u8, output: &str, errors: &str| {
            let code = format!("{:?}", ExitCode::from(code));
            (code, output.to_owned(), errors.to_owned())
        };
        assert_eq!(finish(Ok(true.into())), expected(0, "PASS\n", ""));
        assert_eq!(finish(Ok(false.into())), expected(1, "FAIL\n", ""));
        assert_eq!(
            finish(Ok(BenchOutcome::Inconclusive)),
            expected(5, "INCONCLUSIVE\n", "")
        );
        assert_eq!(finish(Err("no device")), expected(3, "", "error: no device\n"));
        assert!(
            BenchOutcome::Fail > BenchOutcome::Inconclusive
                && BenchOutcome::Inconclusive > BenchOutcome::Pass
        );
    }
}
