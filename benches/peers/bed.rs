//! The test bed: namespaces that live as long as this process, the cables between them, and the use
//! of the cores.

use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::unistd::Pid;
use xoff_measure::traffic::{Tester, TesterInterface, TrafficProfile};
use xoff_ports::net::{self, LinkChange, Netns, add_address, add_veth, delete_link, ethtool, set_link};
use xoff_telemetry::allowed_cpus;

use crate::Failure;

/// The forwarder's devices, in the namespace of this process.
pub(crate) const FORWARDER_DEVICES: [&str; 2] = ["f0", "f1"];
/// The tester's ends of the cables, in their own namespaces.
const TESTER: [&str; 2] = ["g0", "s1"];
/// Addresses of the tester's ends, for pings.
pub(crate) const ADDRESSES: [[u8; 4]; 2] = [[10, 77, 0, 1], [10, 77, 0, 2]];

/// Use of the cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreAssignment {
    /// The generator, the softirqs of its frames, and this program.
    pub(crate) tester: usize,
    /// The forwarder.
    pub(crate) forwarder: usize,
}

/// Namespaces of the tester. This process is in the namespace between them.
#[derive(Debug)]
pub(crate) struct TestBed {
    namespaces: [Netns; 2],
    pub(crate) cores: CoreAssignment,
    /// Further cores that this process may use.
    pub(crate) spare_cores: Vec<usize>,
    /// The program of `--earlier`.
    pub(crate) earlier_xoff: Option<std::path::PathBuf>,
    /// Files of this run; removed with this value.
    pub(crate) folder: tempfile::TempDir,
}

impl TestBed {
    /// Moves this process, which has only one thread, into its own network namespace with a matching
    /// view of /sys.
    pub(crate) fn enter() -> Result<TestBed, Failure> {
        let flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
        let entered = if nix::unistd::geteuid().is_root() {
            unshare(flags).map_err(|errno| errno.to_string())
        } else {
            net::enter_user_namespace(flags).map_err(|error| error.to_string())
        };
        entered.map_err(|why| format!("cannot make a network namespace: {why}; `xoff doctor` says more"))?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .and_then(|()| {
                mount(
                    Some("sysfs"),
                    "/sys",
                    Some("sysfs"),
                    MsFlags::empty(),
                    None::<&str>,
                )
            })
            .map_err(|errno| format!("cannot mount /sys for the namespace: {errno}"))?;
        let allowed = allowed_cpus();
        let (&[tester, forwarder], spare_cores) = allowed.split_first_chunk().ok_or(
            "a forwarder and a generator take a core each, and this process may use one only (`taskset -p $$`)",
        )?;
        let cores = CoreAssignment { tester, forwarder };
        pin(&[cores.tester])?;
        let netns = || Netns::create().map_err(|error| error.to_string());
        Ok(TestBed {
            earlier_xoff: None,
            namespaces: [netns()?, netns()?],
            cores,
            spare_cores: spare_cores.to_vec(),
            folder: tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?,
        })
    }

    /// Creates cables for packets of this MTU.
    pub(crate) fn connect_cables(&self, mtu: u32) -> Result<Cables<'_>, Failure> {
        let cables = Cables { bed: self, mtu };
        for (n, netns) in self.namespaces.iter().enumerate() {
            let plugged = || -> net::Result<()> {
                add_veth(FORWARDER_DEVICES[n], TESTER[n], Some(netns), mtu)?;
                netns.run(|| add_address(TESTER[n], ADDRESSES[n].into(), 24))?
            };
            plugged().map_err(|error| error.to_string())?;
        }
        Ok(cables)
    }

    /// Returns an interface of the tester.
    fn end(&self, n: usize) -> Result<TesterInterface, Failure> {
        Ok(TesterInterface {
            netns: self.namespaces[n]
                .try_clone()
                .map_err(|error| error.to_string())?,
            device: TESTER[n].to_owned(),
        })
    }

    /// Returns the namespace of the sending end.
    pub(crate) fn sending(&self) -> &Netns {
        &self.namespaces[0]
    }

    /// Calls a function with an interface of the tester in its namespace: 0 sends, 1 receives.
    pub(crate) fn run_in_namespace<T: Send>(
        &self,
        n: usize,
        f: impl Fn(&str) -> std::io::Result<T> + Sync,
    ) -> Result<T, Failure> {
        self.namespaces[n]
            .run(|| f(TESTER[n]))
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("{}: {error}", TESTER[n]))
    }

    /// Returns the interfaces of the tester, the sending one first.
    pub(crate) fn ends(&self) -> Result<[TesterInterface; 2], Failure> {
        Ok([self.end(0)?, self.end(1)?])
    }
}

/// The cables between tester and forwarder. Dropping the value removes them.
#[derive(Debug)]
pub(crate) struct Cables<'a> {
    bed: &'a TestBed,
    pub(crate) mtu: u32,
}

impl Cables<'_> {
    /// Opens a tester at the far ends of the cables.
    pub(crate) fn tester(&self, traffic: &TrafficProfile) -> Result<Tester, Failure> {
        let [from, to] = self.bed.ends()?;
        Tester::open(from, &to, traffic).map_err(|failure| failure.to_string())
    }

    /// Makes the tester's ends poll for frames (NAPI through GRO). A veth must poll to receive frames of an
    /// XDP program.
    pub(crate) fn poll_at_tester(&self) -> Result<(), Failure> {
        for (n, netns) in self.bed.namespaces.iter().enumerate() {
            let set = || {
                ethtool::set_offloads(
                    TESTER[n],
                    &ethtool::Offloads {
                        gro: true,
                        ..ethtool::Offloads::OFF
                    },
                )
            };
            netns
                .run(set)
                .and_then(|set| set)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Makes the forwarder's devices poll, so that they receive frames of the kernel's generator.
    pub(crate) fn poll_at_forwarder(&self) -> Result<(), Failure> {
        for device in FORWARDER_DEVICES {
            let offloads = ethtool::Offloads {
                gro: true,
                ..ethtool::Offloads::OFF
            };
            ethtool::set_offloads(device, &offloads).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Drop for Cables<'_> {
    fn drop(&mut self) {
        for device in FORWARDER_DEVICES {
            // The kernel removes the other end as well. A missing cable is no error.
            let _ = delete_link(device);
        }
    }
}

/// Brings a link up.
pub(crate) fn set_link_up(device: &str) -> Result<(), Failure> {
    let up = LinkChange {
        up: Some(true),
        ..LinkChange::default()
    };
    set_link(device, &up).map_err(|error| error.to_string())
}

/// Binds the calling thread, and all threads that it starts later, to cores.
pub(crate) fn pin(cores: &[usize]) -> Result<(), Failure> {
    pin_process(Pid::from_raw(0), cores)
}

/// Binds a thread to cores.
pub(crate) fn pin_process(pid: Pid, cores: &[usize]) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    cores
        .iter()
        .try_for_each(|&core| set.set(core))
        .and_then(|()| sched_setaffinity(pid, &set))
        .map_err(|errno| format!("cannot bind a thread to cores {cores:?}: {errno}"))
}

/// Writes a word to a file of /sys or /proc.
pub(crate) fn write(path: impl AsRef<Path>, word: &str) -> Result<(), Failure> {
    let path = path.as_ref();
    std::fs::write(path, word).map_err(|error| format!("cannot write {word} to {}: {error}", path.display()))
}
