//! Tests of the ways in which a lab can end.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::test_lab::{START_TIMEOUT, TestLab, check, wait_for_exit, wait_until};

pub(crate) fn a_finished_run_leaves_nothing(lab: &TestLab) -> Result<(), Failed> {
    lab.write_lab_file("100ms", "")?;
    let status = wait_for_exit(lab.start_run()?)?;
    check(
        matches!(status.code(), Some(0 | 5)),
        format!("clean or tainted, but {status}"),
    )?;
    lab.assert_clean()
}

pub(crate) fn lab_down_removes_what_lab_up_created(lab: &TestLab) -> Result<(), Failed> {
    let file = lab.lab_file_path().display().to_string();
    lab.bring_up()?;
    let listed = || -> Result<bool, Failed> {
        let output = lab.command(&["ls"]).stdout(Stdio::piped()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).contains(&lab.name))
    };
    check(listed()?, "lab ls lists the lab")?;
    let second_up = lab.command(&["up", &file]).stderr(Stdio::piped()).output()?;
    let text = String::from_utf8_lossy(&second_up.stderr).into_owned();
    check(
        second_up.status.code() == Some(3) && text.contains("already") && text.contains("lab down"),
        text,
    )?;
    lab.wait_until_up()?;
    lab.take_down()?;
    lab.assert_clean()?;
    check(!listed()?, "lab ls lists the lab after lab down")?;
    let down = wait_for_exit(lab.command(&["down", &lab.name]).spawn()?)?;
    check(
        down.code() == Some(2),
        format!("there is nothing to take down: {down}"),
    )
}

pub(crate) fn an_interrupted_run_leaves_nothing(lab: &TestLab) -> Result<(), Failed> {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let child = lab.start_run()?;
        lab.wait_until_up()?;
        kill(Pid::from_raw(child.id() as i32), signal)?;
        let status = wait_for_exit(child)?;
        check(status.code() == Some(130), format!("{signal}: {status}"))?;
        lab.assert_clean()?;
    }
    Ok(())
}

/// A closed terminal sends SIGHUP, in part twice. The lab stops like after SIGTERM, and a lab with the same name
/// can start at once.
pub(crate) fn a_closed_terminal_stops_the_run(lab: &TestLab) -> Result<(), Failed> {
    for signal in [Signal::SIGHUP, Signal::SIGKILL] {
        lab.write_lab_file("60s", "")?;
        let mut child = lab.start_run()?;
        lab.wait_until_up()?;
        let command_line = Pid::from_raw(child.id() as i32);
        kill(command_line, signal)?;
        // The command line may have ended already.
        let _ = kill(command_line, signal);
        // The next lab does not wait for the end of the first.
        lab.write_lab_file("100ms", "")?;
        let second = lab.start_run()?;
        if signal == Signal::SIGKILL {
            child.wait()?;
        } else {
            let status = wait_for_exit(child)?;
            check(status.code() == Some(130), format!("{signal}: {status}"))?;
        }
        let status = wait_for_exit(second)?;
        check(
            matches!(status.code(), Some(0 | 5)),
            format!("the next lab after {signal}: {status}"),
        )?;
        lab.assert_clean()?;
    }
    Ok(())
}

/// Under `nohup`, SIGHUP is ignored, and the lab runs to its end.
pub(crate) fn a_run_under_nohup_ignores_hangups(lab: &TestLab) -> Result<(), Failed> {
    lab.write_lab_file("1500ms", "")?;
    let run = lab.command(&["run", &lab.lab_file_path().display().to_string()]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(run.get_args())
        .current_dir(lab.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn()?;
    lab.wait_until_up()?;
    for (pid, _) in lab.processes() {
        // A process may just have ended.
        let _ = kill(Pid::from_raw(pid), Signal::SIGHUP);
    }
    let status = wait_for_exit(child)?;
    check(
        matches!(status.code(), Some(0 | 5)),
        format!("the run ends itself: {status}"),
    )?;
    lab.assert_clean()
}

/// The launcher of `lab up` has its own session, so a closed terminal does not reach the lab.
pub(crate) fn lab_up_survives_its_terminal(lab: &TestLab) -> Result<(), Failed> {
    lab.bring_up()?;
    let launcher = lab
        .find_process("__lab-launch")
        .ok_or("the launcher does not exist")?;
    for (pid, line) in lab.processes() {
        let session = nix::unistd::getsid(Some(Pid::from_raw(pid)))?;
        check(session == launcher, format!("{line} is in session {session}"))?;
    }
    lab.take_down()?;
    lab.assert_clean()
}

/// A lab runs to its end on a closed pipe, and reports a full device.
pub(crate) fn a_run_ends_in_good_order_on_any_output(lab: &TestLab) -> Result<(), Failed> {
    lab.write_lab_file("100ms", "")?;
    let file = lab.lab_file_path().display().to_string();
    for (output, is_full) in [("closed pipe", false), ("/dev/full", true)] {
        let stdout: Stdio = match is_full {
            true => fs::OpenOptions::new().write(true).open(output)?.into(),
            false => std::io::pipe()?.1.into(),
        };
        let mut command = lab.command(&["run", &file]);
        let run = command.stdout(stdout).stderr(Stdio::piped()).output()?;
        let text = String::from_utf8_lossy(&run.stderr).into_owned();
        let expected = match is_full {
            true => [3, 5],
            false => [0, 5],
        };
        check(
            run.status.code().is_some_and(|code| expected.contains(&code)),
            format!("{output}: {} {text}", run.status),
        )?;
        check(
            text.matches("where: standard output").count() == usize::from(is_full),
            format!("{output}: {text}"),
        )?;
        lab.assert_clean()?;
    }
    Ok(())
}

pub(crate) fn killing_any_process_ends_the_lab(lab: &TestLab) -> Result<(), Failed> {
    for stage in ["command line", "__lab-launch", "__lab-init", "__lab-switch"] {
        let child = lab.start_run()?;
        lab.wait_until_up()?;
        let victim = match stage {
            "command line" => Pid::from_raw(child.id() as i32),
            _ => lab
                .find_process(stage)
                .ok_or_else(|| format!("{stage} does not exist"))?,
        };
        kill(victim, Signal::SIGKILL)?;
        let status = wait_for_exit(child)?;
        lab.assert_clean()
            .map_err(|failed| format!("{stage}: {}", failed.message().unwrap_or_default()))?;
        let expected = if stage == "command line" { None } else { Some(3) };
        check(status.code() == expected, format!("{stage}: {status}"))?;
    }
    Ok(())
}

pub(crate) fn killing_all_processes_at_random_times_leaves_nothing(lab: &TestLab) -> Result<(), Failed> {
    // A fixed xorshift sequence, so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Half of the kills occur during the start, when only a part of the lab exists.
        let delay_us = if round % 2 == 0 {
            state % 60_000
        } else {
            state % 400_000
        };
        let mut child = lab.start_run()?;
        sleep(Duration::from_micros(delay_us));
        for (pid, _) in lab.processes() {
            // The process may have ended because another one was killed.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        child.wait()?;
        let describe = |failed: Failed| {
            format!(
                "round {round}, after {delay_us} us: {}",
                failed.message().unwrap_or_default()
            )
        };
        lab.assert_clean().map_err(describe)?;
    }
    Ok(())
}

/// Links between switches are memory of one process and end with that process.
pub(crate) fn a_killed_lab_of_several_switches_leaves_nothing(lab: &TestLab) -> Result<(), Failed> {
    let name = &lab.name;
    fs::write(
        lab.lab_file_path(),
        format!(
            "name: {name}
topology: {{fabric: {{leaf-spine: {{leaves: 2, spines: 2, hosts: 1, speed: 100m, config: {{preset: roce-lossless}}}}}}}}
workload: {{jobs: [{{name: long, kind: permutation, hosts: all, bytes: 1G}}]}}
"
        ),
    )?;
    for stage in ["__lab-init", "__lab-switch", "all"] {
        let child = lab.start_run()?;
        wait_until(START_TIMEOUT, || {
            let switch = lab
                .find_process("__lab-switch")
                .ok_or("the switch process does not exist")?;
            // Ten threads: workers, device watchers, event printers and hosts are running.
            match fs::read_dir(format!("/proc/{switch}/task"))?.count() {
                10.. => Ok(()),
                _ => Err("the switches do not run yet".into()),
            }
        })?;
        let victims: Vec<Pid> = match stage {
            "all" => lab
                .processes()
                .into_iter()
                .map(|(pid, _)| Pid::from_raw(pid))
                .collect(),
            one => lab.find_process(one).into_iter().collect(),
        };
        for victim in victims {
            // The process may have ended because another one was killed.
            let _ = kill(victim, Signal::SIGKILL);
        }
        wait_for_exit(child)?;
        lab.assert_clean()
            .map_err(|failed| format!("{stage}: {}", failed.message().unwrap_or_default()))?;
    }
    Ok(())
}
