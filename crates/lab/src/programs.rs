//! The programs that a lab file starts, and the decision whether they may start.
//!
//! A lab file is code: `exec` runs commands of a shell, and a guest runs an emulator with arguments of the file. A
//! lab file of another user therefore runs code of this user with the rights of the caller. `SECURITY.md` describes
//! the rules.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Uid, User};
use serde::{Deserialize, Serialize};

use super::plan::{HostKind, LabPlan};
use xoff_telemetry::failure::{Exit, Failure};

/// Largest number of programs that a message lists.
const LISTED_MAX: usize = 20;

/// Whether a lab may start programs that its file names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramPolicy {
    /// Programs start. If the file belongs to another user, they are listed first, and root needs
    /// [`ProgramPolicy::Allow`].
    #[default]
    OwnFiles,
    /// Programs start, also for root with a file of another user (`--allow-exec`).
    Allow,
    /// A lab with programs is refused (`--no-exec`).
    Refuse,
}

/// A program that a lab file starts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LabProgram<'a> {
    node: &'a str,
    command: String,
}

impl fmt::Display for LabProgram<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.command)
    }
}

/// Checks whether the programs of a lab may start, and logs the programs of a file that belongs to another user.
///
/// # Errors
/// Fails if `policy` refuses the programs. The failure lists the programs.
pub(super) fn check_programs(plan: &LabPlan, policy: ProgramPolicy) -> Result<(), Failure> {
    let programs = list_programs(plan);
    if programs.is_empty() {
        return Ok(());
    }
    let place = plan
        .file
        .as_ref()
        .map_or(plan.name.clone(), |file| file.path.clone());
    if policy == ProgramPolicy::Refuse {
        return Err(Failure::new(
            Exit::Configuration,
            "the lab starts programs, and --no-exec forbids them",
        )
        .at(place)
        .because(join_programs(&programs))
        .fix("remove `exec` and nodes of kind vm from the lab, or leave --no-exec out"));
    }
    let caller = Uid::effective();
    let Some(owner) = find_foreign_owner(plan, caller) else {
        return Ok(());
    };
    let list = join_programs(&programs);
    let owner_name = user_name(owner.uid);
    if caller.is_root() && policy != ProgramPolicy::Allow {
        return Err(Failure::new(
            Exit::Configuration,
            format!(
                "{} belongs to {owner_name}, and its lab would start programs as root",
                owner.path
            ),
        )
        .at(place)
        .because(list)
        .fix("read the lab file; then add --allow-exec, or run it as another user"));
    }
    log::warn!(
        "{} belongs to {owner_name}; the lab starts these programs as {}: {list}",
        owner.path,
        user_name(caller.as_raw())
    );
    Ok(())
}

/// A file that belongs to another user.
struct ForeignFile {
    path: String,
    uid: u32,
}

/// Returns the first file of the lab that belongs neither to the caller nor to root: the lab file, or a file that a
/// guest runs.
fn find_foreign_owner(plan: &LabPlan, caller: Uid) -> Option<ForeignFile> {
    let lab_file = plan
        .file
        .iter()
        .map(|file| (file.path.clone(), Some(file.owner_uid)));
    let guests = plan.hosts.iter().filter_map(|host| match &host.kind {
        HostKind::Vm(vm) => Some(vm),
        _ => None,
    });
    let guest_files = guests.flat_map(|vm| {
        let emulator = Path::new(&vm.qemu);
        let emulator = emulator.components().nth(1).map(|_| emulator);
        [emulator, Some(vm.kernel.as_path()), vm.initrd.as_deref()]
    });
    let guest_files = guest_files.flatten().map(|path| {
        let owner = std::fs::metadata(path).map(|metadata| metadata.uid()).ok();
        (path.display().to_string(), owner)
    });
    lab_file
        .chain(guest_files)
        .filter_map(|(path, uid)| Some(ForeignFile { path, uid: uid? }))
        .find(|file| file.uid != caller.as_raw() && file.uid != 0)
}

/// Returns the programs that the file of a lab names, in the order of the hosts.
fn list_programs(plan: &LabPlan) -> Vec<LabProgram<'_>> {
    let mut programs = Vec::new();
    for host in &plan.hosts {
        let commands = match &host.kind {
            HostKind::Plain(plain) => plain
                .exec
                .iter()
                .map(|command| format!("/bin/sh -c {command:?}"))
                .collect(),
            HostKind::Vm(vm) => {
                let mut command = format!("{} -kernel {}", vm.qemu, vm.kernel.display());
                for argument in &vm.args {
                    command.push_str(&format!(" {argument:?}"));
                }
                if let Some(console) = &vm.console {
                    command.push_str(&format!(" (console: {})", console.display()));
                }
                vec![command]
            }
            _ => Vec::new(),
        };
        programs.extend(commands.into_iter().map(|command| LabProgram {
            node: &host.name,
            command,
        }));
    }
    programs
}

fn join_programs(programs: &[LabProgram<'_>]) -> String {
    let listed: Vec<String> = programs
        .iter()
        .take(LISTED_MAX)
        .map(LabProgram::to_string)
        .collect();
    match programs.len().saturating_sub(LISTED_MAX) {
        0 => listed.join("; "),
        more => format!("{}; and {more} more", listed.join("; ")),
    }
}

/// Returns the name of a user with the number.
fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => format!("user {} ({uid})", user.name),
        _ => format!("user {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse_lab;
    use super::super::plan::{LabFileOrigin, TimeMode};
    use super::*;

    const LAB: &str = "name: x
topology:
  nodes:
    sw: {kind: switch}
    h1: {kind: plain, exec: ['touch /tmp/x']}
    h2: {kind: HOST}
  links:
    - {endpoints: ['sw:Ethernet0', 'h1:eth0']}
    - {endpoints: ['sw:Ethernet4', 'h2:eth0']}
";

    fn plan(owner_uid: u32) -> LabPlan {
        let text = LAB.replace("HOST", "model");
        let mut plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::RealTime).expect("valid");
        plan.file = Some(LabFileOrigin {
            path: "x.yml".to_owned(),
            owner_uid,
        });
        plan
    }

    #[test]
    fn programs_of_a_file_of_another_user_need_permission_as_root() {
        let caller = Uid::effective();
        let stranger = caller.as_raw() + 4000;
        assert_eq!(
            check_programs(&plan(caller.as_raw()), ProgramPolicy::OwnFiles),
            Ok(())
        );
        assert_eq!(check_programs(&plan(stranger), ProgramPolicy::Allow), Ok(()));
        let result = check_programs(&plan(stranger), ProgramPolicy::OwnFiles);
        assert_eq!(result.is_err(), caller.is_root(), "{result:?}");
        if let Err(failure) = result {
            assert!(failure.why.is_some_and(|why| why.contains("touch /tmp/x")));
            assert!(failure.fix.is_some_and(|fix| fix.contains("--allow-exec")));
        }
    }

    #[test]
    fn no_exec_refuses_each_program_and_nothing_else() {
        let own = Uid::effective().as_raw();
        let failure = check_programs(&plan(own), ProgramPolicy::Refuse).expect_err("a program");
        assert_eq!(failure.exit, Exit::Configuration);
        assert!(
            failure
                .why
                .is_some_and(|why| why.contains("h1: /bin/sh -c \"touch /tmp/x\""))
        );
        let mut without = plan(own + 4000);
        for host in &mut without.hosts {
            host.kind = HostKind::Model;
        }
        for policy in [ProgramPolicy::Refuse, ProgramPolicy::OwnFiles] {
            assert_eq!(check_programs(&without, policy), Ok(()));
        }
    }
}
