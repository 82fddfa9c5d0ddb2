//! Helpers of tests that need the kernel: network namespaces, and tests that are skipped with a reason if the
//! machine does not support them.

// No test program uses all items.
#![allow(dead_code, reason = "every test program compiles it, none uses all of it")]

pub(crate) mod curl;

use std::io::{self, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nix::sched::CloneFlags;
use xoff_ports::net::{self, Netns};
use xoff_ports::{Backend, Port, PortError, PortSpec};

/// Maximum time to wait for an event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Kernel features that a test needs in addition to its own network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelFeatures {
    /// No other feature.
    Netns,
    /// Taps (`/dev/net/tun`).
    Tun,
    /// XDP programs and AF_XDP sockets.
    Xdp,
    /// XDP and taps.
    XdpOnTun,
}

/// The name and the function of a test.
pub(crate) type NamedTest = (&'static str, fn() -> Result<(), Failed>);

/// The name, the needed kernel features and the function of a test.
pub(crate) type PrivilegedTest = (&'static str, KernelFeatures, fn() -> Result<(), Failed>);

/// A [`PrivilegedTest`] that can also report that this machine cannot decide the result.
pub(crate) type CompletionTest = (&'static str, KernelFeatures, fn() -> Result<Completion, Failed>);

/// Environment variable of a copy of the test program that only stays alive, see [`NamespaceHolder`].
const HOLD_VARIABLE: &str = "XOFF_TEST_HOLD";

/// A process that keeps the namespace of its start alive until it is stopped or the test program ends.
#[derive(Debug)]
pub(crate) struct NamespaceHolder(Child);

impl NamespaceHolder {
    /// Starts the process in the namespace of the calling thread.
    pub(crate) fn start() -> io::Result<NamespaceHolder> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .env(HOLD_VARIABLE, "1")
            .stdin(Stdio::piped())
            .spawn()
            .map(NamespaceHolder)
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn stop(mut self) -> io::Result<()> {
        drop(self.0.stdin.take());
        self.0.wait().map(drop)
    }
}

/// Runs tests like [`run_tests`], each in its own network namespace.
pub(crate) fn run_in_namespaces(tests: &[NamedTest]) -> ExitCode {
    let tests: Vec<PrivilegedTest> = tests
        .iter()
        .map(|&(name, test)| (name, KernelFeatures::Netns, test))
        .collect();
    run_tests(&tests)
}

/// Runs tests, each in its own network namespace. Without root, the process enters a user namespace first, so
/// the caller must not have a second thread. Tests that the machine does not support are skipped
/// with the reason.
pub(crate) fn run_tests(tests: &[PrivilegedTest]) -> ExitCode {
    let tests = tests.iter().map(|&(name, needs, test)| {
        let test = move || test().map(|()| Completion::Completed);
        (name, needs, test)
    });
    run_trials(Arguments::from_args(), tests)
}

/// Runs tests like [`run_tests`], one at a time. These tests drive a switch in wall time with
/// several threads each.
pub(crate) fn run_serially(tests: &[CompletionTest]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    run_trials(arguments, tests.iter().copied())
}

fn run_trials<T>(
    arguments: Arguments,
    tests: impl Iterator<Item = (&'static str, KernelFeatures, T)>,
) -> ExitCode
where
    T: FnOnce() -> Result<Completion, Failed> + Send + 'static,
{
    if std::env::var_os(HOLD_VARIABLE).is_some() {
        // Waits until the kernel closes the other end of the pipe at the end of the test program.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        return ExitCode::SUCCESS;
    }
    let refusals = FeatureRefusals::find();
    let trials = tests.map(|(name, needs, test)| {
        let refusal = refusals.reason(needs);
        Trial::ignorable_test(name, move || match refusal {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => Netns::create()?.run(test)?,
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// The reasons why this machine lacks kernel features.
pub(crate) struct FeatureRefusals {
    netns: Option<String>,
    tun: Option<String>,
    xdp: Option<String>,
}

impl FeatureRefusals {
    /// Tries all features. If the user is not root, the calling thread enters a new user namespace.
    pub(crate) fn find() -> FeatureRefusals {
        let netns = netns_refusal();
        FeatureRefusals {
            tun: netns.clone().or_else(tun_refusal),
            xdp: netns.clone().or_else(xdp_refusal),
            netns,
        }
    }

    /// Returns the reason why this machine lacks some features. `None`: it has them.
    pub(crate) fn reason(&self, needs: KernelFeatures) -> Option<String> {
        match needs {
            KernelFeatures::Netns => self.netns.clone(),
            KernelFeatures::Tun => self.tun.clone(),
            KernelFeatures::Xdp => self.xdp.clone(),
            KernelFeatures::XdpOnTun => self.xdp.clone().or_else(|| self.tun.clone()),
        }
    }
}

/// Returns the reason why this machine allows no network namespaces. `None`: it allows them.
fn netns_refusal() -> Option<String> {
    if !nix::unistd::geteuid().is_root()
        && let Err(error) = net::enter_user_namespace(CloneFlags::CLONE_NEWNET)
    {
        return Some(error.to_string());
    }
    Netns::create().err().map(|error| error.to_string())
}

/// Returns the reason why this machine has no taps. `None`: it has them.
fn tun_refusal() -> Option<String> {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    opened
        .err()
        .map(|error| format!("cannot open /dev/net/tun: {error}"))
}

/// Returns the reason why this process cannot use AF_XDP. `None`: it can. Other errors are reported
/// by the tests.
fn xdp_refusal() -> Option<String> {
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

/// Fails a test with a message if the condition is false.
pub(crate) fn check(condition: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(what().into()) }
}

/// Fails a test if two values differ.
pub(crate) fn check_equal<T: PartialEq + std::fmt::Debug>(
    got: T,
    expected: T,
    what: &str,
) -> Result<(), Failed> {
    check(got == expected, || {
        format!("{what}: got {got:?}, expected {expected:?}")
    })
}

/// Polls `poll` until it returns a value. Fails after [`PATIENCE`].
pub(crate) fn wait_for<T>(
    what: &str,
    mut poll: impl FnMut() -> Result<Option<T>, Failed>,
) -> Result<T, Failed> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = poll()? {
            return Ok(answer);
        }
        if Instant::now() > end {
            return Err(format!("waited {PATIENCE:?} in vain: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
