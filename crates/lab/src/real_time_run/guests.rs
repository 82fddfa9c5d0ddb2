//! Runs the virtual machines of a lab. Each virtual machine is a QEMU process, which is connected to a tap
//! device or a stream port of a switch. This module also reads the consoles and detects the end of a virtual machine.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, PipeReader, Write, pipe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::processes::LabProcesses;
use crate::attached_lab::Lab;
use crate::plan::{FarEnd, HostPlan, LabPlan, LinkPlan, VmAttachment, VmPlan};
use xoff_ports::StreamAddress;
use xoff_telemetry::StreamFile;
use xoff_telemetry::failure::Failure;
use xoff_wire::DisplayMac;

/// Name of the network device of a guest in QEMU.
const NETDEV_ID: &str = "xoff0";
/// Number of console lines that the message about the end of a virtual machine quotes.
const CONSOLE_TAIL_LINES: usize = 8;
/// Longest wait for the remaining console output after the end of a virtual machine.
const CONSOLE_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// A virtual machine with its QEMU process.
#[derive(Debug)]
pub(super) struct Guest {
    name: String,
    source: String,
    /// The QEMU process. `None` after its end.
    child: Option<Child>,
    /// The file for the console output. `None` if the lab file does not set `console`.
    console_file: Option<StreamFile>,
    /// The last lines of the console.
    console_tail: Arc<Mutex<VecDeque<String>>>,
    console_reader: JoinHandle<()>,
}

/// The end of a virtual machine.
#[derive(Debug)]
pub(super) struct GuestExit {
    /// Name of the virtual machine.
    pub(super) name: String,
    /// Exit status of its emulator.
    pub(super) status: ExitStatus,
    /// Whether the virtual machine shut down by itself, so that QEMU ended without an error.
    pub(super) is_orderly: bool,
    /// Description of the end, with the last lines of the console.
    pub(super) failure: Failure,
}

/// Checks that the emulator of each virtual machine is installed. This check runs before the lab creates
/// namespaces or devices.
///
/// # Errors
/// Fails if an emulator is missing.
pub(crate) fn check_emulators(plan: &LabPlan) -> Result<(), Failure> {
    for host in &plan.hosts {
        let Some(vm) = host.as_vm() else { continue };
        if find_program(&vm.qemu).is_none() {
            return Err(Failure::environment(format!(
                "the virtual machine {} needs {}, which is not installed",
                host.name, vm.qemu
            ))
            .at(&vm.source)
            .fix("`apt-get install qemu-system-x86`, or name another emulator with `qemu: PATH`"));
        }
    }
    Ok(())
}

/// Finds a program. `name` is a path, or the name of a file in a folder of `PATH`.
fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// Starts all virtual machines of the lab. Their tap devices and stream sockets already exist. A port gets a carrier
/// when QEMU opens the tap device or connects to the socket.
pub(super) fn start_guests(lab: &Lab, processes: &LabProcesses) -> Result<Vec<Guest>, Failure> {
    let mut guests = Vec::new();
    for (index, host) in lab.plan.hosts.iter().enumerate() {
        let Some(vm) = host.as_vm() else { continue };
        let port = lab
            .ports
            .iter()
            .find(|port| lab.plan.links[port.link].far == FarEnd::Host(index));
        // The checks of the plan require a link for each host.
        let Some(port) = port else { continue };
        let netdev = match vm.attach {
            VmAttachment::Tap => tap_netdev(&port.device),
            VmAttachment::Stream => guest_stream(&port.device).qemu_netdev(NETDEV_ID),
        };
        let arguments = qemu_arguments(host, vm, &lab.plan.links[port.link], netdev);
        let guest = Guest::start(host, vm, &arguments)?;
        guest.child.iter().for_each(|child| processes.watch_child(child));
        guests.push(guest);
    }
    Ok(guests)
}

/// Returns the address of the stream between the switch port with this device name and its guest. The name is abstract
/// and belongs to the network namespace of the lab, so it needs no file.
pub(super) fn guest_stream(device: &str) -> StreamAddress {
    StreamAddress::Abstract(device.to_owned())
}

/// Returns the QEMU option for a tap device. The network device has no vnet header, so the guest itself computes all
/// checksums and does all segmentation. A stream never has a vnet header.
fn tap_netdev(tap: &str) -> String {
    format!("tap,id={NETDEV_ID},ifname={tap},script=no,downscript=no,vhost=off,vnet_hdr=off")
}

/// Returns the command line of QEMU. `netdev` is the value of its option `-netdev`.
fn qemu_arguments(host: &HostPlan, vm: &VmPlan, link: &LinkPlan, netdev: String) -> Vec<String> {
    let mac = DisplayMac(host.mac);
    // A kernel ignores unknown parameters whose names contain a dot.
    let append = format!(
        "console=ttyS0 panic=-1 xoff.name={} xoff.ip={}/{} xoff.ip6={}/{} xoff.mtu={} {}",
        host.name, host.ipv4, host.ipv4_prefix, host.ipv6, host.ipv6_prefix, link.host_mtu, vm.append
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
    option("-smp", smp_option(vm.cpus, &vm.args));
    option("-kernel", vm.kernel.display().to_string());
    if let Some(initrd) = &vm.initrd {
        option("-initrd", initrd.display().to_string());
    }
    option("-append", append.trim_end().to_owned());
    option("-netdev", netdev);
    option(
        "-device",
        format!("virtio-net-pci,netdev={NETDEV_ID},mac={mac},romfile="),
    );
    option("-chardev", "stdio,id=console,signal=off".to_owned());
    option("-serial", "chardev:console".to_owned());
    words.extend(vm.args.iter().cloned());
    words
}

/// Returns the value of the QEMU option `-smp`. A virtual machine with one CPU gets `maxcpus=2`. With
/// `maxcpus=1`, the CPU emulation of QEMU omits memory barriers, even those between the guest and its network
/// card. The network card can then miss a frame and stop permanently (benches/README.md, Soft-RoCE).
fn smp_option(cpus: u32, extra_arguments: &[String]) -> String {
    // The lab file can contain its own `-smp`, which overrides single keys of this value.
    let has_own = extra_arguments
        .iter()
        .any(|word| word == "-smp" || word == "--smp");
    match cpus {
        1 if !has_own => "1,maxcpus=2".to_owned(),
        cpus => cpus.to_string(),
    }
}

/// Returns whether KVM can run unmodified guests. This requires a CPU with virtualisation extensions. In a
/// virtual machine with PVM, `/dev/kvm` exists without these extensions. Such a KVM runs only guest kernels
/// that are built for PVM.
fn has_kvm() -> bool {
    let is_accessible = || OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or_default();
    flags
        .split_whitespace()
        .any(|flag| flag == "vmx" || flag == "svm")
        && is_accessible()
}

impl Guest {
    fn start(host: &HostPlan, vm: &VmPlan, arguments: &[String]) -> Result<Guest, Failure> {
        let failed = |error: std::io::Error| {
            Failure::environment(format!("the virtual machine {} cannot be started", host.name))
                .at(&vm.source)
                .because(error)
        };
        let console_file = vm
            .console
            .as_deref()
            .map(create_console_file)
            .transpose()
            .map_err(failed)?;
        let (output, input) = pipe().map_err(failed)?;
        let mut command = Command::new(&vm.qemu);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(input.try_clone().map_err(failed)?)
            .stderr(input);
        let child = command.spawn().map_err(failed)?;
        // The command has copies of the write end. They would keep the console open after the end of QEMU.
        drop(command);
        let console_tail = Arc::new(Mutex::new(VecDeque::new()));
        let shared_tail = Arc::clone(&console_tail);
        let reader_file = console_file
            .as_ref()
            .map(StreamFile::try_clone)
            .transpose()
            .map_err(failed)?;
        let console_reader = std::thread::Builder::new()
            .name("xoff-console".to_owned())
            .spawn(move || read_console(output, reader_file, &shared_tail))
            .map_err(failed)?;
        Ok(Guest {
            name: host.name.clone(),
            source: vm.source.clone(),
            child: Some(child),
            console_file,
            console_tail,
            console_reader,
        })
    }

    /// Returns whether the virtual machine has not ended yet, as of the last [`Guest::poll_exit`].
    pub(super) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Returns how the virtual machine ended. Returns `None` if it is running, or if an earlier call has
    /// returned its end.
    pub(super) fn poll_exit(&mut self) -> Option<GuestExit> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        let deadline = Instant::now() + CONSOLE_DRAIN_TIMEOUT;
        while !self.console_reader.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let tail: Vec<String> = lock(&self.console_tail).iter().cloned().collect();
        let console = match tail.is_empty() {
            true => "its console is empty".to_owned(),
            false => format!("the last lines of its console:\n{}", tail.join("\n")),
        };
        let what = format!(
            "the virtual machine {} is down: its emulator ended with {status}",
            self.name
        );
        // After `lab up`, no process reads the output of the lab, so the console file gets the message, too.
        let _ = self
            .console_file
            .as_mut()
            .map(|file| writeln!(file, "xoff: {what}"));
        Some(GuestExit {
            name: self.name.clone(),
            status,
            is_orderly: status.success(),
            failure: Failure::environment(what).at(&self.source).because(console),
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The state of the virtual machine is only in memory, so a shutdown is not necessary.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn create_console_file(path: &Path) -> std::io::Result<StreamFile> {
    xoff_telemetry::open_stream_file(path)
        .map_err(|error| std::io::Error::new(error.kind(), format!("console {}: {error}", path.display())))
}

/// Reads the console of a virtual machine until the console closes. Writes all output to `file` and keeps the
/// last lines in `tail`.
fn read_console(output: PipeReader, mut file: Option<StreamFile>, tail: &Mutex<VecDeque<String>>) {
    /// Largest length of a console line in memory, in bytes. Without this limit, a guest that never ends a
    /// line would fill the memory.
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
            // A full disk must not stop the guest: it would wait for its console.
            file = None;
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        if !text.is_empty() {
            let mut tail = lock(tail);
            tail.push_back(text);
            if tail.len() > CONSOLE_TAIL_LINES {
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
    use super::smp_option;

    #[test]
    fn a_virtual_machine_with_one_cpu_has_room_for_a_second() {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        assert_eq!(smp_option(1, &words("-snapshot")), "1,maxcpus=2");
        assert_eq!(smp_option(3, &[]), "3");
        assert_eq!(smp_option(1, &words("-smp 4")), "1");
    }
}
