//! What tests that need the kernel share: namespaces of their own, and tests that are skipped with the reason where
//! the machine does not allow them.

// Each test program uses a part of this.
#![allow(dead_code, reason = "every test program compiles it, none uses all of it")]

use std::io::{self, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nix::sched::CloneFlags;
use xoff_ports::net::{self, Netns};
use xoff_ports::{Backend, Port, PortError, PortSpec};

/// How long a test waits for something that is to happen; it ends earlier when it does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What a test takes beside a network namespace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Netns,
    /// A tap, so `/dev/net/tun`.
    Tun,
    /// XDP programs and AF_XDP sockets.
    Xdp,
    /// Both.
    XdpOnTun,
}

/// A test, and its name.
pub(crate) type Named = (&'static str, fn() -> Result<(), Failed>);

/// A test: its name, what it takes, and what it does.
pub(crate) type Needing = (&'static str, Needs, fn() -> Result<(), Failed>);

/// As [`Needing`], for a test that may find only on its way that this machine cannot tell.
pub(crate) type Reporting = (&'static str, Needs, fn() -> Result<Completion, Failed>);

/// Set for a copy of the test program that is to do nothing but live, see [`Holder`].
const HOLD: &str = "XOFF_TEST_HOLD";

/// A process that lives in the namespace it was started in, until it is stopped or this one ends.
#[derive(Debug)]
pub(crate) struct Holder(Child);

impl Holder {
    /// Starts it in the namespace of the calling thread.
    pub(crate) fn start() -> io::Result<Holder> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(HOLD, "1").stdin(Stdio::piped()).spawn().map(Holder)
    }

    pub(crate) fn stop(mut self) -> io::Result<()> {
        drop(self.0.stdin.take());
        self.0.wait().map(drop)
    }
}

/// Runs tests, each in a network namespace of its own, as [`run`] does.
pub(crate) fn run_in_namespaces(tests: &[Named]) -> ExitCode {
    let tests: Vec<Needing> = tests
        .iter()
        .map(|&(name, test)| (name, Needs::Netns, test))
        .collect();
    run(&tests)
}

/// Runs tests, each in a network namespace of its own. Without root the process enters a user namespace first, so this
/// has to be called before there is a second thread. What a machine does not allow is skipped with the reason.
pub(crate) fn run(tests: &[Needing]) -> ExitCode {
    let tests = tests.iter().map(|&(name, needs, test)| {
        let test = move || test().map(|()| Completion::Completed);
        (name, needs, test)
    });
    run_trials(Arguments::from_args(), tests)
}

/// As [`run`], one test at a time: for tests that drive a switch in wall time, each with several threads.
pub(crate) fn run_one_by_one(tests: &[Reporting]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    run_trials(arguments, tests.iter().copied())
}

fn run_trials<T>(arguments: Arguments, tests: impl Iterator<Item = (&'static str, Needs, T)>) -> ExitCode
where
    T: FnOnce() -> Result<Completion, Failed> + Send + 'static,
{
    if std::env::var_os(HOLD).is_some() {
        // Until the other end of the pipe is closed, which the kernel does when the test program dies.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        return ExitCode::SUCCESS;
    }
    let no_netns = no_netns();
    let no_tun = no_netns.clone().or_else(no_tun);
    let no_xdp = no_netns.clone().or_else(no_xdp);
    let trials = tests.map(|(name, needs, test)| {
        let refusal = match needs {
            Needs::Netns => no_netns.clone(),
            Needs::Tun => no_tun.clone(),
            Needs::Xdp => no_xdp.clone(),
            Needs::XdpOnTun => no_xdp.clone().or_else(|| no_tun.clone()),
        };
        Trial::ignorable_test(name, move || match refusal {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => Netns::create()?.run(test)?,
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Why this machine allows no namespaces, if it does not.
fn no_netns() -> Option<String> {
    if !nix::unistd::geteuid().is_root()
        && let Err(error) = net::enter_user_namespace(CloneFlags::CLONE_NEWNET)
    {
        return Some(error.to_string());
    }
    Netns::create().err().map(|error| error.to_string())
}

/// Why there are no taps, if there are none.
fn no_tun() -> Option<String> {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    opened
        .err()
        .map(|error| format!("cannot open /dev/net/tun: {error}"))
}

/// Why there is no AF_XDP for this process, if there is none. What else can go wrong is for the tests to find.
fn no_xdp() -> Option<String> {
    let open = || -> Result<Option<String>, net::Error> {
        net::add_veth("try0", "try1", None, 1500)?;
        let spec = PortSpec {
            name: "Ethernet0".to_owned(),
            device: "try0".to_owned(),
            backend: Backend::Xdp,
            mtu: 1500,
        };
        Ok(match Port::open(&spec) {
            Err(error @ PortError::NoXdp { .. }) => Some(error.to_string()),
            _ => None,
        })
    };
    let tried = Netns::create().and_then(|netns| netns.run(open)?);
    tried.unwrap_or_else(|error| Some(error.to_string()))
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
