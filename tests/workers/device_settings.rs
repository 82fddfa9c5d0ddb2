//! Tests of devices whose MTU changes during the run, of devices with two users, and of switches that were killed.

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::json;
use xoff_ports::net::{self, LinkChange, Netns, add_veth};

use crate::devices::{check_shown_mtus, read_settings, use_kernel_defaults};
use crate::far_end::FarEnd;
use crate::support::{CompletionTest, KernelFeatures, check, check_equal, wait_for};
use crate::switch_process::{SwitchProcess, xoff_command};

pub(crate) const TESTS: &[CompletionTest] = &[
    (
        "a_change_of_the_mtu_of_a_device_is_used_or_reported",
        KernelFeatures::Netns,
        || check_mtu_change().map(|()| Completion::Completed),
    ),
    ("a_device_has_one_switch", KernelFeatures::Netns, || {
        check_one_switch_per_device().map(|()| Completion::Completed)
    }),
    (
        "the_settings_before_a_killed_switch_are_restored",
        KernelFeatures::Netns,
        || check_settings_after_kill().map(|()| Completion::Completed),
    ),
];

/// Creates two cables, `v0` to `h0` and `v1` to `h1`.
fn add_cables(mtu: u32) -> Result<Vec<FarEnd>, Failed> {
    let netns = Netns::current()?;
    let cable = |n: usize| -> Result<FarEnd, Failed> {
        add_veth(&format!("v{n}"), &format!("h{n}"), None, mtu)?;
        FarEnd::open(&netns, &format!("h{n}"))
    };
    (0..2).map(cable).collect()
}

fn start(far_ends: Vec<FarEnd>, config: &serde_json::Value) -> Result<SwitchProcess, Failed> {
    let folder = tempfile::tempdir()?;
    SwitchProcess::start_on_cables(folder, far_ends, config, 2, &["--workers", "1"])
}

fn set_mtu(device: &str, mtu: u32) -> Result<(), Failed> {
    let change = LinkChange {
        mtu: Some(mtu),
        ..LinkChange::default()
    };
    Ok(net::set_link(device, &change)?)
}

/// Waits until the switch has printed a text.
fn wait_for_message(switch_process: &SwitchProcess, text: &str) -> Result<(), Failed> {
    wait_for(&format!("the switch prints {text:?}"), || {
        Ok(switch_process.stderr()?.contains(text).then_some(()))
    })
}

fn check_mtu_change() -> Result<(), Failed> {
    Netns::create()?.run(|| -> Result<(), Failed> {
        let config = json!({"PORT": {"Ethernet4": {"mtu": "4000"}}});
        let mut switch_process = start(add_cables(4200)?, &config)?;
        check_shown_mtus(&switch_process, &[4200, 4000])?;
        // Ethernet0 follows its device, and Ethernet4 keeps the written MTU.
        set_mtu("v0", 3000)?;
        set_mtu("v1", 2000)?;
        wait_for_message(
            &switch_process,
            "Ethernet0: device 'v0' has MTU 3000 now (was 4200)",
        )?;
        wait_for_message(
            &switch_process,
            "device 'v1' has MTU 2000 now, and Ethernet4 has MTU 4000",
        )?;
        check_shown_mtus(&switch_process, &[3000, 4000])?;
        // Another change is possible, and the printed correction takes effect.
        let speed = switch_process.run_command(&["config", "set", "PORT|Ethernet0", "speed=2500"])?;
        check_equal(speed.status.code(), Some(0), &format!("exit code of {speed:?}"))?;
        std::fs::write(
            switch_process.path("patch.json"),
            json!({"PORT": {"Ethernet4": {"mtu": null}}}).to_string(),
        )?;
        let patch = switch_process.run_command(&["config", "patch", "patch.json"])?;
        check_equal(patch.status.code(), Some(0), &format!("exit code of {patch:?}"))?;
        check_shown_mtus(&switch_process, &[3000, 2000])?;
        switch_process.stop(Signal::SIGTERM)?.check_exit_code()
    })?
}

fn check_one_switch_per_device() -> Result<(), Failed> {
    Netns::create()?.run(|| -> Result<(), Failed> {
        let mut switch_process = start(add_cables(1500)?, &json!({}))?;
        let folder = tempfile::tempdir()?;
        let mut second = xoff_command();
        second.current_dir(folder.path());
        second.args([
            "switch",
            "run",
            "--preset",
            "roce-lossless",
            "--port",
            "Ethernet0=v0",
        ]);
        let output = second.output()?;
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        check_equal(
            output.status.code(),
            Some(3),
            &format!("exit code of the second switch ({message})"),
        )?;
        let user = format!("process {} (", switch_process.pid());
        check(message.contains(&user) && message.contains("'v0'"), || {
            format!("{user:?} is not in: {message}")
        })?;
        switch_process.stop(Signal::SIGTERM)?.check_exit_code()
    })?
}

fn check_settings_after_kill() -> Result<(), Failed> {
    Netns::create()?.run(|| -> Result<(), Failed> {
        let far_ends = add_cables(1500)?;
        for (device, up) in [("v0", false), ("h0", true), ("v1", true), ("h1", true)] {
            use_kernel_defaults(device, up)?;
        }
        let read_all = || -> Result<Vec<_>, Failed> {
            ["v0", "h0", "v1", "h1"].map(read_settings).into_iter().collect()
        };
        let before = read_all()?;
        let (_, far_ends) = start(far_ends, &json!({}))?.kill()?;
        check(read_all()? != before, || {
            "a killed switch restores no settings".to_owned()
        })?;
        let mut second = start(far_ends, &json!({}))?;
        second.stop(Signal::SIGTERM)?.check_exit_code()?;
        check_equal(read_all()?, before, "settings after the second run")?;
        for device in ["v0", "v1"] {
            let names = net::read_link(device)?.alt_names;
            check(names.is_empty(), || format!("names of {device}: {names:?}"))?;
        }
        Ok(())
    })?
}
