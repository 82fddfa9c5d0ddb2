//! Tests of the processes of plain hosts: their commands, their folder, and their end.

use super::*;

pub(crate) fn commands_of_a_lab_file() -> Result<Completion, Failed> {
    let exe = std::env::current_exe()?.display().to_string();
    let nodes = format!(
        "    h1: {{kind: plain, exec: [\"'{exe}' __serve 10.0.0.1:7000\"]}}\n    \
         h2: {{kind: plain, exec: [\"'{exe}' __ask 10.0.0.1:7000\", \"sleep 1000 &\", \"echo last; exit 3\"]}}\n"
    );
    let links = "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]\n";
    let lab = TestLab::new("exec-test", &nodes, links)?;
    // A lab without a workload ends with its commands.
    let output = lab.command(&["run", "lab.xoff.yml"]).output()?;
    let text = output_text(&output);
    check(matches!(output.status.code(), Some(1 | 5)), || text.clone())?;
    for expected in [
        "h2: pong\n",
        "h2: last\n",
        "h2: `echo last; exit 3` ended with exit status: 3",
    ] {
        check(text.contains(expected), || {
            format!("{expected:?} is not in:\n{text}")
        })?;
    }
    Ok(Completion::Completed)
}

/// Runs a lab whose hosts h1 and h2 run these commands. Returns its exit code, its output and its report.
pub(crate) fn run_commands(
    name: &'static str,
    commands: [&str; 2],
) -> Result<(Option<i32>, String, serde_json::Value), Failed> {
    let [first, second] = commands;
    let nodes =
        format!("    h1: {{kind: plain, exec: [{first}]}}\n    h2: {{kind: plain, exec: [{second}]}}\n");
    let links = "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]\n";
    let lab = TestLab::new(name, &nodes, links)?;
    let file = lab.folder.path().join("lab.xoff.yml");
    let folder = lab.folder.path().display().to_string();
    fs::write(&file, fs::read_to_string(&file)?.replace("FOLDER", &folder))?;
    let output = lab
        .command(&["run", "lab.xoff.yml", "--report", "report.json"])
        .output()?;
    let report = serde_json::from_slice(&fs::read(lab.folder.path().join("report.json"))?)?;
    Ok((output.status.code(), output_text(&output), report))
}

pub(crate) fn processes_that_fail_are_in_the_report() -> Result<Completion, Failed> {
    let ended = |report: &serde_json::Value, node: &str, status: &str, effect: &str| {
        let processes = report["processes"].as_array().map_or(&[][..], Vec::as_slice);
        processes.iter().any(|process| {
            process["node"] == node
                && process["effect"] == effect
                && process["status"]
                    .as_str()
                    .is_some_and(|text| text.contains(status))
        })
    };
    for (name, commands, failing) in [
        ("signal-test", ["'kill -9 $$'", "true"], Some(("h1", "signal: 9"))),
        (
            "status-test",
            ["true", "'exit 7'"],
            Some(("h2", "exit status: 7")),
        ),
        // The shell ends, and its background process crashes later.
        (
            "background-test",
            ["\"sh -c 'sleep 0.1; kill -SEGV $$' &\", 'sleep 0.5'", "true"],
            Some(("h1", "signal: 11")),
        ),
        // A command stops the background process of an earlier one.
        (
            "stop-test",
            [
                "'sleep 1000 & echo $! > FOLDER/pid', 'kill $(cat FOLDER/pid); sleep 0.2'",
                "'exit 0'",
            ],
            None,
        ),
    ] {
        let (code, text, report) = run_commands(name, commands)?;
        let is_tainted = report["verdict"] == "tainted";
        match failing {
            Some((node, status)) => {
                check(is_tainted || code == Some(1), || format!("{name}: {text}"))?;
                check(ended(&report, node, status, "fails"), || {
                    format!("{name}: {report}")
                })?;
                check(report["failures"].to_string().contains(status), || text.clone())?;
            }
            None => {
                check(is_tainted || code == Some(0), || format!("{name}: {text}"))?;
                check_equal(report["failures"].clone(), serde_json::json!([]), name)?;
            }
        }
    }
    Ok(Completion::Completed)
}

/// A lab from standard input has the current folder.
pub(crate) fn commands_run_in_the_folder_of_the_lab_file() -> Result<Completion, Failed> {
    let nodes = "    h1: {kind: plain, exec: ['pwd -P > where; cp given copied', 'test -e copied']}\n";
    let links = "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n";
    let lab = TestLab::new("folder-test", nodes, links)?;
    let folder = lab.folder.path().canonicalize()?;
    let parent = folder.parent().ok_or("no parent")?.to_path_buf();
    let name = folder.file_name().ok_or("no name")?;
    let relative = Path::new(name).join("lab.xoff.yml").display().to_string();
    let absolute = folder.join("lab.xoff.yml").display().to_string();
    fs::write(folder.join("given"), "x")?;
    for (file, current) in [
        ("lab.xoff.yml", folder.clone()),
        (relative.as_str(), parent),
        (absolute.as_str(), Path::new("/").to_path_buf()),
        ("-", folder.clone()),
    ] {
        let mut command = lab.command(&["run", file]);
        command
            .current_dir(current)
            .stdin(fs::File::open(folder.join("lab.xoff.yml"))?);
        let output = command.output()?;
        check(matches!(output.status.code(), Some(0 | 5)), || {
            format!("{file}: {}", output_text(&output))
        })?;
        let printed = fs::read_to_string(folder.join("where"))?;
        check_equal(printed.trim_end(), folder.display().to_string().as_str(), file)?;
        check(folder.join("copied").exists(), || {
            format!("{file}: nothing copied")
        })?;
        fs::remove_file(folder.join("where"))?;
        fs::remove_file(folder.join("copied"))?;
    }
    Ok(Completion::Completed)
}

pub(crate) fn a_killed_plain_host_fails_its_lab() -> Result<Completion, Failed> {
    let nodes =
        "    h1: {kind: plain}\n    h2: {kind: plain, exec: ['while [ ! -e go ]; do sleep 0.05; done']}\n";
    let links = "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]\n";
    let lab = TestLab::new("kill-test", nodes, links)?;
    let text = fs::read_to_string(lab.folder.path().join("lab.xoff.yml"))?;
    let go = lab.folder.path().join("go").display().to_string();
    fs::write(
        lab.folder.path().join("lab.xoff.yml"),
        text.replace("-e go", &format!("-e {go}")),
    )?;
    let running = lab
        .command(&["run", "lab.xoff.yml", "--report", "report.json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let host = wait_for("the process of h1", || {
        Ok(process_id_with_title("xoff lab kill-test h1"))
    })?;
    // The process of h2 starts a command only when the lab is up.
    wait_for("the command of h2", || Ok(process_id_with_title("sleep 0.05")))?;
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(host),
        nix::sys::signal::Signal::SIGKILL,
    )?;
    wait_for("the end of h1", || {
        let line = fs::read(format!("/proc/{host}/cmdline")).unwrap_or_default();
        Ok(line.is_empty().then_some(()))
    })?;
    fs::write(&go, "")?;
    let output = running.wait_with_output()?;
    let text = output_text(&output);
    check(matches!(output.status.code(), Some(1 | 5)), || text.clone())?;
    check(
        text.contains("h1: the process `host` ended with signal: 9") || text.contains("tainted"),
        || text.clone(),
    )?;
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(lab.folder.path().join("report.json"))?)?;
    check_equal(
        report["processes"][0]["node"].as_str(),
        Some("h1"),
        "the process in the report",
    )?;
    Ok(Completion::Completed)
}

/// Returns the process ID of a process whose command line starts with `title`.
pub(crate) fn process_id_with_title(title: &str) -> Option<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.find(|id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line)
            .replace('\0', " ")
            .starts_with(title)
    })
}
