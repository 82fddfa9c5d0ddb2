//! What tests that need the kernel share: namespaces of their own, and tests that are skipped with the reason where
//! the machine does not allow them.

// Each test program uses a part of this.
#![allow(dead_code, reason = "every test program compiles it, none uses all of it")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nix::sched::CloneFlags;
use xoff::net::{self, Netns};

/// How long a test waits for something that is to happen; it ends earlier when it does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A test, and its name.
pub(crate) type Named = (&'static str, fn() -> Result<(), Failed>);

/// Runs tests, each in a network namespace of its own. Without root the process enters a user namespace first, so this
/// has to be called before there is a second thread. Where neither is allowed, all are skipped with the reason.
pub(crate) fn run_in_namespaces(tests: &[Named]) -> ExitCode {
    let arguments = Arguments::from_args();
    let refusal = refusal();
    let trials = tests.iter().map(|(name, test)| {
        let refusal = refusal.clone();
        let test = *test;
        Trial::ignorable_test(*name, move || match refusal {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => Netns::create()?.run(test)?.map(|()| Completion::Completed),
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Why this machine allows no namespaces, if it does not.
fn refusal() -> Option<String> {
    if !nix::unistd::geteuid().is_root()
        && let Err(error) = net::enter_user_namespace(CloneFlags::CLONE_NEWNET)
    {
        return Some(error.to_string());
    }
    Netns::create().err().map(|error| error.to_string())
}

/// Fails a test with a sentence.
pub(crate) fn check(condition: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(what().into()) }
}

/// Two values are to be equal.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(got: T, expected: T, what: &str) -> Result<(), Failed> {
    check(got == expected, || {
        format!("{what}: got {got:?}, expected {expected:?}")
    })
}

/// Asks again and again until there is an answer.
pub(crate) fn wait_for<T>(
    what: &str,
    mut ask: impl FnMut() -> Result<Option<T>, Failed>,
) -> Result<T, Failed> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if Instant::now() > end {
            return Err(format!("waited {PATIENCE:?} in vain: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
