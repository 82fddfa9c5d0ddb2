//! How the program on the far host is started, and which device it controls.

use std::process::Command;
use std::str::FromStr;

use xoff_telemetry::failure::Failure;

use crate::far_process::FarProcess;

/// The program for a Linux host, which needs only the standard library of Python.
const PLAIN_HOST: &str = include_str!("plain_host.py");

/// How the program on the far host is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Adapter {
    /// No program is started.
    None,
    /// In the namespace of this process.
    #[default]
    Local,
    /// In a network namespace with a name (`ip netns`), or in that of a process id.
    Netns(String),
    /// By a command of the user, to which the words of the program are added.
    Exec(String),
    /// On a host by ssh.
    Ssh(String),
}

/// The device at the far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarDevice {
    /// The model device of xoff on a network device.
    Model(String),
    /// A network device of a Linux host, by its name or one of its IP addresses.
    Plain(String),
}

impl FromStr for Adapter {
    type Err = String;

    fn from_str(text: &str) -> Result<Adapter, String> {
        match text.split_once(':') {
            None if text == "none" => Ok(Adapter::None),
            None if text == "local" => Ok(Adapter::Local),
            Some((_, "")) => Err(format!("`{text}` needs a value after the colon")),
            Some(("netns", name)) => Ok(Adapter::Netns(name.to_owned())),
            Some(("exec", command)) => Ok(Adapter::Exec(command.to_owned())),
            // A word that begins with a hyphen would be an option of ssh.
            Some(("ssh", host)) if !host.starts_with('-') => Ok(Adapter::Ssh(host.to_owned())),
            _ => Err("write none, local, netns:NAME, exec:COMMAND or ssh:HOST".to_owned()),
        }
    }
}

impl FromStr for FarDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<FarDevice, String> {
        match text.split_once(':') {
            Some((_, "")) | None => Err("write model:DEVICE or plain:DEVICE".to_owned()),
            Some(("model", device)) => Ok(FarDevice::Model(device.to_owned())),
            Some(("plain", device)) => Ok(FarDevice::Plain(device.to_owned())),
            Some(_) => Err("write model:DEVICE or plain:DEVICE".to_owned()),
        }
    }
}

impl FarDevice {
    /// Returns the program and its arguments, and the text that the program reads first.
    fn program(&self, adapter: &Adapter) -> (Vec<String>, &'static str) {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            FarDevice::Model(device) => {
                let own = std::env::current_exe().ok();
                let own = own.and_then(|path| path.to_str().map(str::to_owned));
                let program = match adapter {
                    Adapter::Local | Adapter::Netns(_) => own.unwrap_or_else(|| "xoff".to_owned()),
                    _ => "xoff".to_owned(),
                };
                (words(&[&program, "conform", "device", "--port", device]), "")
            }
            FarDevice::Plain(device) => {
                let code = format!("import sys; exec(sys.stdin.read({}))", PLAIN_HOST.chars().count());
                (words(&["python3", "-u", "-c", &code, device]), PLAIN_HOST)
            }
        }
    }

    /// Returns the command that starts the program by hand.
    pub fn describe_command(&self) -> String {
        match self {
            FarDevice::Model(device) => format!("xoff conform device --port {device}"),
            FarDevice::Plain(device) => format!("python3 plain_host.py {device}"),
        }
    }
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl Adapter {
    /// Starts the program for a device. Returns `None` for [`Adapter::None`].
    pub(crate) fn start(&self, device: &FarDevice) -> Result<Option<FarProcess>, Failure> {
        let (words, script) = device.program(self);
        self.command(&words)
            .map(|command| FarProcess::start(command, script))
            .transpose()
    }

    fn command(&self, words: &[String]) -> Option<Command> {
        let with = |program: &str, before: &[&str], words: &[String]| {
            let mut command = Command::new(program);
            command.args(before).args(words);
            command
        };
        let quoted = || words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
        Some(match self {
            Adapter::None => return None,
            Adapter::Local => with(&words[0], &[], &words[1..]),
            Adapter::Netns(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                with("nsenter", &["-t", name, "-n"], words)
            }
            Adapter::Netns(name) => with("ip", &["netns", "exec", name], words),
            Adapter::Exec(command) => with("sh", &["-c", &format!("{command} {}", quoted())], &[]),
            Adapter::Ssh(host) => with("ssh", &["-o", "BatchMode=yes", "-T", host, &quoted()], &[]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_and_devices_are_parsed() {
        assert_eq!("none".parse(), Ok(Adapter::None));
        assert_eq!("netns:h1".parse(), Ok(Adapter::Netns("h1".to_owned())));
        assert_eq!("exec:sudo -n".parse(), Ok(Adapter::Exec("sudo -n".to_owned())));
        assert_eq!("ssh:root@h".parse(), Ok(Adapter::Ssh("root@h".to_owned())));
        for wrong in ["", "netns", "netns:", "telnet:h", "ssh:-oProxyCommand=x"] {
            assert!(wrong.parse::<Adapter>().is_err(), "{wrong}");
        }
        assert_eq!("model:eth0".parse(), Ok(FarDevice::Model("eth0".to_owned())));
        assert!("eth0".parse::<FarDevice>().is_err());
    }

    #[test]
    fn words_are_quoted_for_the_shell_of_the_far_host() {
        let device = FarDevice::Model("it's".to_owned());
        let adapter = Adapter::Ssh("h".to_owned());
        let (words, _) = device.program(&adapter);
        let command = adapter.command(&words).expect("a command");
        let last = command
            .get_args()
            .last()
            .map(|word| word.to_string_lossy().into_owned());
        assert_eq!(
            last.as_deref(),
            Some(r"'xoff' 'conform' 'device' '--port' 'it'\''s'")
        );
    }
}
