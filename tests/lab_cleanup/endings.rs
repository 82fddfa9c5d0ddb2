//! Tests of the ways in which a lab can end.

use std::fs;
use std::process::Stdio;
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
    check(
        wait_for_exit(lab.command(&["up", &file]).spawn()?)?.success(),
        "up",
    )?;
    lab.wait_until_up()?;
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
    check(
        wait_for_exit(lab.command(&["down", &lab.name]).spawn()?)?.success(),
        "down",
    )?;
    lab.assert_clean()?;
    check(!listed()?, "lab ls lists the lab after lab down")?;
    let down = wait_for_exit(lab.command(&["down", &lab.name]).spawn()?)?;
    check(
        down.code() == Some(3),
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
