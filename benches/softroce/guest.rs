//! A QEMU guest and the serial port for its commands.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;

/// Maximum time from the start of QEMU to the first answer of a guest. An emulated processor on a busy
/// machine is slow.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time of a command that measures nothing.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// The files of a guest.
#[derive(Debug)]
pub(crate) struct Image {
    qemu: PathBuf,
    kernel: PathBuf,
    initrd: PathBuf,
}

impl Image {
    pub(crate) fn find(qemu: &Path, kernel: &Path, initrd: &Path) -> Result<Image, Failure> {
        let program = find_program(&qemu.to_string_lossy());
        let qemu = program
            .ok_or_else(|| format!("{} is missing; `apt-get install qemu-system-x86`", qemu.display()))?;
        for file in [kernel, initrd] {
            if !file.is_file() {
                return Err(format!(
                    "there is no {}; make it with `testbeds/softroce/build`",
                    file.display()
                ));
            }
        }
        Ok(Image {
            qemu,
            kernel: kernel.to_owned(),
            initrd: initrd.to_owned(),
        })
    }
}

/// Finds a program by its path or by its name in `PATH`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Returns a command whose process ends with this process in every case.
pub(crate) fn command_ending_with_parent(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .arg(program)
        .stdin(Stdio::null());
    command
}

/// A running guest.
#[derive(Debug)]
pub(crate) struct Guest {
    number: u8,
    child: Child,
    socket: PathBuf,
    console: PathBuf,
    commands: Option<BufReader<UnixStream>>,
}

impl Guest {
    /// Starts guest `number` on its own tap. Guest 1 uses `tap1` and 10.0.0.1.
    pub(crate) fn start(image: &Image, folder: &Path, number: u8) -> Result<Guest, Failure> {
        let socket = folder.join(format!("guest{number}.socket"));
        let console = folder.join(format!("guest{number}.console"));
        let tap = format!("tap,id=n,ifname=tap{number},script=no,downscript=no,vhost=off");
        let words = format!(
            "console=ttyS0 quiet panic=-1 xoff.name=guest{number} xoff.ip=10.0.0.{number}/24 xoff.ip6=fd00::{number}/64"
        );
        let mut command = command_ending_with_parent(&image.qemu);
        command
            .args([
                "-accel",
                "tcg",
                "-m",
                "384",
                // The guest can have a second processor. Without one, QEMU omits memory barriers, and its
                // network card misses frames to send (benches/README.md).
                "-smp",
                "1,maxcpus=2",
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
                "-no-reboot",
            ])
            .args(["-netdev", &tap])
            .args([
                "-device",
                &format!("virtio-net-pci,netdev=n,mac=02:58:4f:46:00:0{number},romfile="),
            ])
            .args(["-append", &words])
            .arg("-kernel")
            .arg(&image.kernel)
            .arg("-initrd")
            .arg(&image.initrd)
            .args(["-serial", &format!("file:{}", console.display())])
            .args([
                "-serial",
                &format!("unix:{},server=on,wait=off", socket.display()),
            ]);
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", image.qemu.display()))?;
        Ok(Guest {
            number,
            child,
            socket,
            console,
            commands: None,
        })
    }

    pub(crate) fn name(&self) -> String {
        format!("guest{}", self.number)
    }

    fn console(&self) -> String {
        let text = std::fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Returns an error with the last output of the guest.
    fn failure(&self, what: impl std::fmt::Display) -> Failure {
        let console = self.console();
        let lines: Vec<&str> = console.lines().collect();
        let last = lines[lines.len().saturating_sub(10)..].join("\n  ");
        format!("{}: {what}; the end of its console:\n  {last}", self.name())
    }

    pub(crate) fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + BOOT_TIMEOUT;
        while !self.console().contains("xoff: ready") {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failure(format!("QEMU ended with {status}")));
            }
            if Instant::now() > end {
                return Err(self.failure(format!("not ready within {BOOT_TIMEOUT:?}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let stream = UnixStream::connect(&self.socket)
            .map_err(|error| self.failure(format!("its commands' socket refuses: {error}")))?;
        self.commands = Some(BufReader::new(stream));
        // Input before the guest listens is lost.
        while self.run_for(":", Duration::from_secs(1)).is_err() {
            if Instant::now() > end {
                return Err(self.failure("takes no commands"));
            }
        }
        // Discard late answers to earlier attempts.
        std::thread::sleep(Duration::from_millis(300));
        self.run("echo in step").map(drop)
    }

    /// Runs a short command. Returns its output.
    pub(crate) fn run(&mut self, command: &str) -> Result<String, Failure> {
        self.run_for(command, COMMAND_TIMEOUT)
    }

    pub(crate) fn run_for(&mut self, command: &str, limit: Duration) -> Result<String, Failure> {
        let (code, output) = self
            .exchange(command, limit)
            .map_err(|error| self.failure(format!("`{command}`: {error}")))?;
        match code {
            0 => Ok(output),
            code => Err(self.failure(format!("`{command}` ended with {code} and said:\n{output}"))),
        }
    }

    /// Runs a program that may hang. Returns its output, or `None` after `limit`. The guest still accepts
    /// commands then.
    pub(crate) fn run_within(&mut self, program: &str, limit: Duration) -> Result<Option<String>, Failure> {
        self.run(&format!(
            "rm -f /tmp/code; {{ {program} >/tmp/client 2>&1; echo $? >/tmp/code; }} &"
        ))?;
        let wait = format!(
            "i=0; until [ -s /tmp/code ] || [ $i -ge {} ]; do i=$((i+1)); sleep 1; done; cat /tmp/code /tmp/client",
            limit.as_secs()
        );
        let (_, text) = self
            .exchange(&wait, 2 * limit)
            .map_err(|error| self.failure(format!("`{program}`: {error}")))?;
        match text.split_once('\n').map(|(code, output)| (code.trim(), output)) {
            Some(("0", output)) => Ok(Some(output.to_owned())),
            Some((code, output)) if code.parse::<u8>().is_ok() => {
                Err(self.failure(format!("`{program}` ended with {code} and said:\n{output}")))
            }
            _ => Ok(None),
        }
    }

    fn exchange(&mut self, command: &str, limit: Duration) -> std::io::Result<(i32, String)> {
        let Some(commands) = &mut self.commands else {
            return Err(ErrorKind::NotConnected.into());
        };
        let end = Instant::now() + limit;
        commands.get_mut().write_all(format!("{command}\n").as_bytes())?;
        let (mut output, mut line) = (String::new(), Vec::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            commands.get_ref().set_read_timeout(Some(left))?;
            if commands.read_until(b'\n', &mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let text = String::from_utf8_lossy(&line).into_owned();
            match text.trim_end().strip_prefix("xoff:exit ") {
                Some(code) => return Ok((code.parse().unwrap_or(-1), output)),
                None => output.push_str(&text),
            }
            line.clear();
        }
    }

    pub(crate) fn set_mtu(&mut self, mtu: u32) -> Result<(), Failure> {
        self.run(&format!("ip link set eth0 mtu {mtu}")).map(drop)
    }

    /// Waits until the other guest is reachable.
    pub(crate) fn wait_for_peer(&mut self) -> Result<(), Failure> {
        let peer = 3 - self.number;
        self.run(&format!(
            "i=0; until ping -c 1 -W 1 10.0.0.{peer} >/dev/null; do i=$((i+1)); [ $i -lt 20 ] || exit 1; done"
        ))
        .map(drop)
    }

    /// Returns the counters of the guest's RDMA stack.
    pub(crate) fn counters(&mut self) -> Result<BTreeMap<String, u64>, Failure> {
        let text = self.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *")?;
        let pairs = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        });
        Ok(pairs.collect())
    }

    /// Stops the guest at once, because the guest has no data to save.
    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Remove the console file, because its text would be read as output of the next guest.
        let _ = std::fs::remove_file(&self.console);
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // The files may already belong to the next guest.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
