//! Guests: QEMU on taps of the switch, what they say, and that they have died.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, PipeReader, Write, pipe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::child::Lab;
use crate::plan::{FarEnd, HostPlan, LabPlan, LinkPlan, VmPlan};
use xoff_telemetry::failure::Failure;

/// Lines of a console that are kept for the message that its guest has died.
const TAIL_LINES: usize = 8;
/// What a reader of a console may still have to do when its guest has died.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A guest.
#[derive(Debug)]
pub(super) struct Guest {
    name: String,
    source: String,
    /// `None` once it has ended.
    child: Option<Child>,
    /// Where its console is written to.
    file: Option<File>,
    /// The end of what it has said.
    tail: Arc<Mutex<VecDeque<String>>>,
    listener: JoinHandle<()>,
}

/// A guest that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// It switched itself off.
    pub(super) orderly: bool,
    /// Where it is meant to be running, this is why it is not.
    pub(super) failure: Failure,
}

/// Whether every guest's emulator is there: better said before anything exists.
pub(crate) fn check_programs(plan: &LabPlan) -> Result<(), Failure> {
    for host in &plan.hosts {
        let Some(vm) = host.vm() else { continue };
        if find_program(&vm.qemu).is_none() {
            return Err(Failure::environment(format!(
                "the guest {} needs {}, which is not here",
                host.name, vm.qemu
            ))
            .at(&vm.source)
            .fix("`apt-get install qemu-system-x86`, or name another emulator with `qemu: PATH`"));
        }
    }
    Ok(())
}

/// A program by its path, or by its name in `PATH`.
fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// Starts every guest of the lab. Their taps are there, without a carrier until QEMU holds them.
pub(super) fn start(lab: &Lab) -> Result<Vec<Guest>, Failure> {
    let mut guests = Vec::new();
    for (index, host) in lab.plan.hosts.iter().enumerate() {
        let Some(vm) = host.vm() else { continue };
        let port = lab
            .ports
            .iter()
            .find(|port| lab.plan.links[port.link].far == FarEnd::Host(index));
        // The plan was checked: every host has a link.
        let Some(port) = port else { continue };
        let arguments = arguments(host, vm, &lab.plan.links[port.link], &port.device);
        guests.push(Guest::start(host, vm, &arguments)?);
    }
    Ok(guests)
}

/// QEMU's command line. The device leaves nothing for others to finish: without a vnet header there is nobody who would.
fn arguments(host: &HostPlan, vm: &VmPlan, link: &LinkPlan, tap: &str) -> Vec<String> {
    let mac = host.mac.map(|byte| format!("{byte:02x}")).join(":");
    // Words with a dot are ignored by a guest that does not know them.
    let append = format!(
        "console=ttyS0 panic=-1 xoff.name={} xoff.ip={}/{} xoff.ip6={}/{} xoff.mtu={} {}",
        host.name, host.ipv4, host.ipv4_prefix, host.ipv6, host.ipv6_prefix, link.mtu, vm.append
    );
    let mut words: Vec<String> = ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
        .map(Into::into)
        .into();
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("-name", host.name.clone());
    match vm.accel.as_deref() {
        Some(accel) => option("-accel", accel.to_owned()),
        None if has_kvm() => {
            option("-accel", "kvm".to_owned());
            option("-accel", "tcg".to_owned());
        }
        None => option("-accel", "tcg".to_owned()),
    }
    option("-m", vm.memory_mib.to_string());
    option("-smp", processors(vm.cpus, &vm.args));
    option("-kernel", vm.kernel.display().to_string());
    if let Some(initrd) = &vm.initrd {
        option("-initrd", initrd.display().to_string());
    }
    option("-append", append.trim_end().to_owned());
    option(
        "-netdev",
        format!("tap,id=xoff0,ifname={tap},script=no,downscript=no,vhost=off,vnet_hdr=off"),
    );
    option(
        "-device",
        format!("virtio-net-pci,netdev=xoff0,mac={mac},romfile="),
    );
    option("-chardev", "stdio,id=console,signal=off".to_owned());
    option("-serial", "chardev:console".to_owned());
    words.extend(vm.args.iter().cloned());
    words
}

/// What `-smp` says. A guest of one processor has room for a second: where QEMU emulates a machine that never has two, it leaves
/// memory barriers out of what it translates, also those between the guest and its network card. Then now and then the card
/// does not learn that there is something to send, and stands still for good (benches/README.md, Soft-RoCE).
fn processors(cpus: u32, args: &[String]) -> String {
    // A lab file's own `-smp` changes these key by key, and may ask for more than there is room for.
    let own = args.iter().any(|word| word == "-smp" || word == "--smp");
    match cpus {
        1 if !own => "1,maxcpus=2".to_owned(),
        cpus => cpus.to_string(),
    }
}

/// Whether KVM can run any guest. A `/dev/kvm` on a processor without these extensions (a virtual machine's, with PVM)
/// opens, and then runs only kernels that were made for it.
fn has_kvm() -> bool {
    let opens = || OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or_default();
    flags
        .split_whitespace()
        .any(|flag| flag == "vmx" || flag == "svm")
        && opens()
}

impl Guest {
    fn start(host: &HostPlan, vm: &VmPlan, arguments: &[String]) -> Result<Guest, Failure> {
        let failed = |error: std::io::Error| {
            Failure::environment(format!("the guest {} cannot be started", host.name))
                .at(&vm.source)
                .because(error)
        };
        let file = vm.console.as_deref().map(create).transpose().map_err(failed)?;
        let (output, input) = pipe().map_err(failed)?;
        let mut command = Command::new(&vm.qemu);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(input.try_clone().map_err(failed)?)
            .stderr(input);
        let child = command.spawn().map_err(failed)?;
        // Its copies of the pipe's end would keep the console open when QEMU has gone.
        drop(command);
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let shared = Arc::clone(&tail);
        let to_file = file.as_ref().map(File::try_clone).transpose().map_err(failed)?;
        let listener = std::thread::Builder::new()
            .name("xoff-console".to_owned())
            .spawn(move || listen(output, to_file, &shared))
            .map_err(failed)?;
        Ok(Guest {
            name: host.name.clone(),
            source: vm.source.clone(),
            child: Some(child),
            file,
            tail,
            listener,
        })
    }

    /// Whether it runs.
    pub(super) fn is_up(&self) -> bool {
        self.child.is_some()
    }

    /// What there is to say if it has ended since the last look.
    pub(super) fn look(&mut self) -> Option<Ended> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        let end = Instant::now() + LAST_WORDS;
        while !self.listener.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let tail: Vec<String> = lock(&self.tail).iter().cloned().collect();
        let said = match tail.is_empty() {
            true => "it said nothing".to_owned(),
            false => format!("the end of its console:\n{}", tail.join("\n")),
        };
        let what = format!(
            "the guest {} is down: its emulator ended with {status}",
            self.name
        );
        // After `lab up` nobody reads what the lab's processes say.
        let _ = self.file.as_mut().map(|file| writeln!(file, "xoff: {what}"));
        Some(Ended {
            orderly: status.success(),
            failure: Failure::environment(what).at(&self.source).because(said),
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // What it is made of lives in memory: there is nothing to save.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn create(path: &Path) -> std::io::Result<File> {
    File::create(path)
        .map_err(|error| std::io::Error::new(error.kind(), format!("console {}: {error}", path.display())))
}

/// Reads a console to its end: into the file, and its last lines into memory.
fn listen(output: PipeReader, mut file: Option<File>, tail: &Mutex<VecDeque<String>>) {
    /// A guest that never ends its line must not fill memory.
    const LINE_MAX: u64 = 1 << 16;
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    while std::io::Read::take(&mut reader, LINE_MAX)
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        if let Some(open) = &mut file
            && open.write_all(&line).is_err()
        {
            // A full disk is no reason to stop the guest, which would wait for its console.
            file = None;
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        if !text.is_empty() {
            let mut tail = lock(tail);
            tail.push_back(text);
            if tail.len() > TAIL_LINES {
                tail.pop_front();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::processors;

    #[test]
    fn a_guest_of_one_processor_has_room_for_a_second() {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        assert_eq!(processors(1, &words("-snapshot")), "1,maxcpus=2");
        assert_eq!(processors(3, &[]), "3");
        assert_eq!(processors(1, &words("-smp 4")), "1");
    }
}
