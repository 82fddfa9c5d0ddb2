//! Tests of devices that are missing, disappear, appear or cannot be used.

use std::process::Output;

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use rtnetlink::{LinkBridge, LinkUnspec};
use serde_json::{Value, json};
use xoff_ports::net::{self, LinkChange, Netns, add_veth, ethtool};

use crate::far_end::FarEnd;
use crate::frames::{ipv6_frame, pfc_frame, qos_tables, station_mac};
use crate::support::{CompletionTest, KernelFeatures, NamespaceHolder, check, check_equal, wait_for};
use crate::switch_process::{SwitchProcess, add_cable, port_name, xoff_command};

pub(crate) const TESTS: &[CompletionTest] = &[
    ("a_device_disappears_and_returns", KernelFeatures::Netns, || {
        check_device_disappears("auto", "1").map(|()| Completion::Completed)
    }),
    (
        "a_device_disappears_and_returns_with_three_workers",
        KernelFeatures::Netns,
        || check_device_disappears("auto", "3").map(|()| Completion::Completed),
    ),
    (
        "a_device_of_xdp_disappears_and_returns",
        KernelFeatures::Xdp,
        || check_device_disappears("xdp", "1").map(|()| Completion::Completed),
    ),
    (
        "a_device_of_xdp_disappears_and_returns_with_three_workers",
        KernelFeatures::Xdp,
        || check_device_disappears("xdp", "3").map(|()| Completion::Completed),
    ),
    (
        "a_killed_switch_leaves_no_xdp_program",
        KernelFeatures::Xdp,
        check_kill_detaches_program,
    ),
    ("a_device_appears_after_the_start", KernelFeatures::Netns, || {
        check_device_appears("1").map(|()| Completion::Completed)
    }),
    (
        "a_device_appears_after_the_start_with_three_workers",
        KernelFeatures::Netns,
        || check_device_appears("3").map(|()| Completion::Completed),
    ),
    ("a_port_uses_the_mtu_of_its_device", KernelFeatures::Netns, || {
        ["1", "3"].into_iter().try_for_each(check_device_mtu)?;
        Ok(Completion::Completed)
    }),
    (
        "a_written_mtu_is_replaced_by_the_mtu_of_the_device",
        KernelFeatures::Netns,
        || {
            ["1", "3"].into_iter().try_for_each(check_mtu_increase)?;
            Ok(Completion::Completed)
        },
    ),
    (
        "a_port_uses_the_mtu_of_a_device_that_appears",
        KernelFeatures::Netns,
        || {
            ["1", "3"].into_iter().try_for_each(check_mtu_of_new_device)?;
            Ok(Completion::Completed)
        },
    ),
    (
        "a_port_uses_the_mtu_of_a_device_that_was_created_again",
        KernelFeatures::Netns,
        || {
            ["1", "3"]
                .into_iter()
                .try_for_each(check_mtu_of_recreated_device)?;
            Ok(Completion::Completed)
        },
    ),
    (
        "the_settings_of_devices_are_restored_at_the_end",
        KernelFeatures::Netns,
        || check_restored_devices("auto").map(|()| Completion::Completed),
    ),
    (
        "the_settings_of_devices_of_xdp_are_restored_at_the_end",
        KernelFeatures::Xdp,
        || check_restored_devices("xdp").map(|()| Completion::Completed),
    ),
    (
        "far_ends_of_the_same_name_are_named_with_their_namespaces",
        KernelFeatures::Netns,
        || check_named_far_ends().map(|()| Completion::Completed),
    ),
    (
        "unusable_devices_are_refused",
        KernelFeatures::Netns,
        check_refused_devices,
    ),
];

/// Frames that wait for a port when its device disappears.
const WAITING_FRAMES: u64 = 50;

/// Sends broadcast frames from port `from` until one arrives at port `to`.
fn send_until_received(switch_process: &mut SwitchProcess, from: usize, to: usize) -> Result<(), Failed> {
    let marker = station_mac(99, from, to as u8);
    wait_for(&format!("a frame gets from port {from} to port {to}"), || {
        switch_process.far_ends[from].send(&ipv6_frame([0xff; 6], marker, 0, 0, 60))?;
        let mut arrived = false;
        while let Some(frame) = switch_process.far_ends[to].receive()? {
            arrived |= frame[6..12] == marker;
        }
        Ok(arrived.then_some(()))
    })
}

/// Returns a port configuration so slow that one PFC frame pauses its class for more than three seconds.
fn slow_port_config() -> Value {
    let mut config = qos_tables();
    config["PORT"] = json!({"Ethernet4": {"speed": "10"}});
    config
}

/// Starts a switch of four ports with this backend.
fn start_with_backend(
    backend: &str,
    far_ends: Vec<FarEnd>,
    config: &Value,
    workers: &str,
) -> Result<SwitchProcess, Failed> {
    let folder = tempfile::tempdir()?;
    SwitchProcess::start_with_backend(backend, folder, far_ends, config, 4, &["--workers", workers])
}

/// Only one XDP program can be attached to a device.
fn check_kill_detaches_program() -> Result<Completion, Failed> {
    let mut far_ends: Vec<FarEnd> = (0..4).map(add_cable).collect::<Result<_, _>>()?;
    for _ in 0..3 {
        let mut switch_process = start_with_backend("xdp", far_ends, &json!({}), "1")?;
        send_until_received(&mut switch_process, 0, 1)?;
        (_, far_ends) = switch_process.kill()?;
    }
    Ok(Completion::Completed)
}

fn check_device_disappears(backend: &str, workers: &str) -> Result<(), Failed> {
    let far_ends = (0..4).map(add_cable).collect::<Result<_, _>>()?;
    let mut switch_process = start_with_backend(backend, far_ends, &slow_port_config(), workers)?;
    let gone = station_mac(10, 1, 0);
    switch_process.far_ends[1].send(&ipv6_frame([0xff; 6], gone, 0, 0, 60))?;
    switch_process.wait_for_counters("the station is known", |switch| switch.ports[2].tx_packets == 1)?;
    switch_process.far_ends[1].send(&pfc_frame(3, u16::MAX))?;
    switch_process.wait_for_counters("the queue is held", |switch| switch.ports[1].pfc_rx[3] == 1)?;
    for id in 0..WAITING_FRAMES as u32 {
        switch_process.far_ends[0].send(&ipv6_frame(gone, station_mac(10, 0, 3), 3, id, 1000))?;
    }
    let before = switch_process.wait_for_counters("the frames are in the switch", |switch| {
        switch.ports[0].rx_packets == WAITING_FRAMES
    })?;
    check_equal(before.ports[1].tx_packets, 0, "sent by the held port")?;
    switch_process.remove_cable(1)?;
    let after = switch_process.wait_for_counters("the port is down", |switch| !switch.ports[1].up)?;
    check_equal(
        after.ports[0].up && after.ports[2].up,
        true,
        "the other ports are up",
    )?;
    let drops: Vec<_> = after.ports[1].drops_by_class.iter().collect();
    let mut of_class = [0; 16];
    of_class[3] = WAITING_FRAMES;
    check_equal(
        drops,
        vec![(&"XOFF_QUEUE_FLUSHED".to_owned(), &of_class)],
        "drops",
    )?;
    // The other ports continue, and frames to the lost station are not kept.
    send_until_received(&mut switch_process, 0, 2)?;
    send_until_received(&mut switch_process, 2, 0)?;
    switch_process.far_ends[1] = add_cable(1)?;
    switch_process.wait_for_counters("the port is up again", |switch| switch.ports[1].up)?;
    send_until_received(&mut switch_process, 0, 1)?;
    send_until_received(&mut switch_process, 1, 2)?;
    // The device may disappear and appear more than once.
    switch_process.remove_cable(1)?;
    switch_process.wait_for_counters("the port is down", |switch| !switch.ports[1].up)?;
    switch_process.far_ends[1] = add_cable(1)?;
    send_until_received(&mut switch_process, 1, 0)?;
    let result = switch_process.stop(Signal::SIGTERM)?;
    // One line for each removal, and one for each new device.
    let words = switch_process.stderr()?;
    for line in [
        "Ethernet4: device 'v1' was removed",
        "Ethernet4: device 'v1' is attached",
    ] {
        check_equal(words.matches(line).count(), 2, &format!("'{line}' in {words}"))?;
    }
    for other in ["Ethernet0: device 'v0' ", "Ethernet8: device 'v2' "] {
        check(!words.contains(other), || format!("'{other}' in {words}"))?;
    }
    result.check_exit_code()
}

/// MTU of the devices in the tests of the default MTU.
const LARGE_MTU: u32 = 4200;

/// Starts a switch on two cables with a large MTU.
fn start_on_large_devices(config: &Value, workers: &str) -> Result<SwitchProcess, Failed> {
    let netns = Netns::current()?;
    let cable = |n: usize| -> Result<FarEnd, Failed> {
        add_veth(&format!("v{n}"), &format!("h{n}"), None, LARGE_MTU)?;
        FarEnd::open(&netns, &format!("h{n}"))
    };
    let far_ends = (0..2).map(cable).collect::<Result<_, _>>()?;
    SwitchProcess::start_on_cables(tempfile::tempdir()?, far_ends, config, 2, &["--workers", workers])
}

/// Sends frames of the largest length for a large device until one gets from port 0 to port 1.
fn send_large_until_received(switch_process: &mut SwitchProcess) -> Result<(), Failed> {
    wait_for("a frame of the length of the device gets through", || {
        let frame = ipv6_frame([0xff; 6], station_mac(10, 0, 0), 0, 0, LARGE_MTU as usize + 14);
        switch_process.far_ends[0].send(&frame)?;
        let received = switch_process.far_ends[1].receive()?;
        Ok(received.is_some_and(|received| received == frame).then_some(()))
    })
}

/// Checks the MTUs of two ports in `show interfaces status`.
fn check_shown_mtu(switch_process: &SwitchProcess, mtus: [u32; 2]) -> Result<(), Failed> {
    check_shown_mtus(switch_process, &mtus)
}

/// Checks the MTUs of the first ports in `show interfaces status`.
pub(crate) fn check_shown_mtus(switch_process: &SwitchProcess, mtus: &[u32]) -> Result<(), Failed> {
    let output = switch_process.run_command(&["show", "interfaces", "status"])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for (n, mtu) in mtus.iter().enumerate() {
        let name = port_name(n);
        let mut row = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = row.find(|row| row.first() == Some(&name.as_str()));
        let shown = row.as_ref().and_then(|row| row.get(3).copied());
        check_equal(shown, Some(mtu.to_string().as_str()), &format!("MTU in {text}"))?;
    }
    Ok(())
}

/// Applies a configuration to the running switch.
fn apply(switch_process: &SwitchProcess, config: &Value) -> Result<(), Failed> {
    std::fs::write(switch_process.path("new.json"), config.to_string())?;
    let output = switch_process.run_command(&["config", "apply", "new.json"])?;
    check_equal(output.status.code(), Some(0), &format!("exit code of {output:?}"))
}

fn check_device_mtu(workers: &str) -> Result<(), Failed> {
    Netns::create()?.run(|| {
        let mut switch_process = start_on_large_devices(&json!({}), workers)?;
        send_large_until_received(&mut switch_process)?;
        check_shown_mtu(&switch_process, [LARGE_MTU; 2])?;
        let current: Value = serde_json::from_slice(&switch_process.run_command(&["config", "get"])?.stdout)?;
        check_equal(
            &current["PORT"]["Ethernet4"]["mtu"],
            &json!("4200"),
            "computed MTU",
        )?;
        // A written MTU is used until it is removed.
        apply(&switch_process, &json!({"PORT": {"Ethernet4": {"mtu": "1500"}}}))?;
        check_shown_mtu(&switch_process, [LARGE_MTU, 1500])?;
        apply(
            &switch_process,
            &json!({"PORT": {"Ethernet4": {"speed": "2500"}}}),
        )?;
        check_shown_mtu(&switch_process, [LARGE_MTU; 2])?;
        send_large_until_received(&mut switch_process)?;
        switch_process.stop(Signal::SIGTERM)?.check_exit_code()
    })?
}

fn check_mtu_increase(workers: &str) -> Result<(), Failed> {
    let config = json!({"PORT": {"Ethernet0": {"mtu": "1500"}, "Ethernet4": {"mtu": "1500"}}});
    Netns::create()?.run(|| {
        let mut switch_process = start_on_large_devices(&config, workers)?;
        check_shown_mtu(&switch_process, [1500; 2])?;
        apply(&switch_process, &json!({}))?;
        check_shown_mtu(&switch_process, [LARGE_MTU; 2])?;
        send_large_until_received(&mut switch_process)?;
        let switch = switch_process.counters()?;
        check(switch.ports.iter().all(|port| port.up), || {
            format!("a port is down: {switch:?}")
        })?;
        switch_process.stop(Signal::SIGTERM)?.check_exit_code()
    })?
}

/// Devices appear whose MTU is larger or smaller than the default. A written MTU stays.
fn check_mtu_of_new_device(workers: &str) -> Result<(), Failed> {
    const SMALL_MTU: u32 = 1400;
    let config = json!({"PORT": {"Ethernet12": {"mtu": "2000"}}});
    Netns::create()?.run(|| {
        let netns = Netns::current()?;
        let cable = |n: usize, mtu: u32| -> Result<FarEnd, Failed> {
            add_veth(&format!("v{n}"), &format!("h{n}"), None, mtu)?;
            FarEnd::open(&netns, &format!("h{n}"))
        };
        let far_ends = vec![cable(0, LARGE_MTU)?];
        let mut switch_process = SwitchProcess::start_on_cables(
            tempfile::tempdir()?,
            far_ends,
            &config,
            4,
            &["--workers", workers],
        )?;
        for (n, mtu) in [(1, LARGE_MTU), (2, SMALL_MTU), (3, LARGE_MTU)] {
            switch_process.far_ends.push(cable(n, mtu)?);
        }
        switch_process.wait_for_counters("the ports are up", |switch| {
            switch.ports.iter().all(|port| port.up)
        })?;
        check_shown_mtus(&switch_process, &[LARGE_MTU, LARGE_MTU, SMALL_MTU, 2000])?;
        send_large_until_received(&mut switch_process)?;
        let words = switch_process.stderr()?;
        check(!words.contains("stays down"), || words.clone())?;
        // A later configuration without an MTU uses the MTUs of the devices too.
        apply(&switch_process, &json!({}))?;
        check_shown_mtus(&switch_process, &[LARGE_MTU, LARGE_MTU, SMALL_MTU, LARGE_MTU])?;
        switch_process.stop(Signal::SIGTERM)?.check_exit_code()
    })?
}

/// A device is created again with another MTU, and its port uses this MTU. A written MTU stays.
fn check_mtu_of_recreated_device(workers: &str) -> Result<(), Failed> {
    const SMALL_MTU: u32 = 1400;
    const JUMBO_MTU: u32 = 9000;
    let config = json!({"PORT": {"Ethernet8": {"mtu": "1300"}}});
    Netns::create()?.run(|| {
        let netns = Netns::current()?;
        let cable = |n: usize, mtu: u32| -> Result<FarEnd, Failed> {
            add_veth(&format!("v{n}"), &format!("h{n}"), None, mtu)?;
            FarEnd::open(&netns, &format!("h{n}"))
        };
        let far_ends = (0..3).map(|n| cable(n, 1500)).collect::<Result<_, _>>()?;
        let mut switch_process = SwitchProcess::start_on_cables(
            tempfile::tempdir()?,
            far_ends,
            &config,
            3,
            &["--workers", workers],
        )?;
        check_shown_mtus(&switch_process, &[1500, 1500, 1300])?;
        // No device had frames of this length at the start. Then the ports get smaller and larger devices.
        for mtu in [JUMBO_MTU, SMALL_MTU, LARGE_MTU] {
            for n in 0..3 {
                switch_process.remove_cable(n)?;
            }
            switch_process.wait_for_counters("the ports are down", |switch| {
                switch.ports.iter().all(|port| !port.up)
            })?;
            for n in 0..3 {
                switch_process.far_ends[n] = cable(n, mtu)?;
            }
            switch_process.wait_for_counters("the ports are up", |switch| {
                switch.ports.iter().all(|port| port.up)
            })?;
            check_shown_mtus(&switch_process, &[mtu, mtu, 1300])?;
            wait_for("a frame of the length of the device gets through", || {
                let frame = ipv6_frame([0xff; 6], station_mac(10, 0, 0), 0, 0, mtu as usize + 14);
                switch_process.far_ends[0].send(&frame)?;
                let received = switch_process.far_ends[1].receive()?;
                Ok(received.is_some_and(|received| received == frame).then_some(()))
            })?;
        }
        let words = switch_process.stderr()?;
        check(!words.contains("stays down"), || words.clone())?;
        switch_process.stop(Signal::SIGTERM)?.check_exit_code()
    })?
}

/// The settings of a device that a switch may change.
#[derive(Debug, PartialEq)]
pub(crate) struct DeviceSettings {
    link: (bool, bool, u32, u32),
    features: ethtool::Features,
    ipv6_is_off: String,
}

pub(crate) fn read_settings(device: &str) -> Result<DeviceSettings, Failed> {
    let link = net::read_link(device)?;
    let ipv6 = std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"));
    Ok(DeviceSettings {
        link: (link.up, link.no_arp, link.mtu, link.tx_queue_len),
        features: ethtool::features(device)?,
        ipv6_is_off: ipv6.unwrap_or_default(),
    })
}

/// Gives a device the settings of a new device of the kernel, and brings it up or down.
pub(crate) fn use_kernel_defaults(device: &str, up: bool) -> Result<(), Failed> {
    let change = LinkChange {
        up: Some(up),
        arp: Some(true),
        ..LinkChange::default()
    };
    net::set_link(device, &change)?;
    let on = ethtool::Offloads {
        rx_csum: true,
        tx_csum: true,
        sg: true,
        tso: true,
        gso: true,
        gro: true,
        lro: false,
    };
    Ok(ethtool::set_offloads(device, &on)?)
}

/// One device is down before the run. The far end of one device is in the namespace of a process.
fn check_restored_devices(backend: &str) -> Result<(), Failed> {
    Netns::create()?.run(|| -> Result<(), Failed> {
        let other = Netns::create()?;
        add_veth("v0", "h0", None, 1500)?;
        add_veth("v1", "h1", Some(&other), 1500)?;
        let holder = other.run(NamespaceHolder::start)??;
        for (device, up) in [("v0", false), ("h0", true), ("v1", true)] {
            use_kernel_defaults(device, up)?;
        }
        other.run(|| use_kernel_defaults("h1", true))??;
        let read_all = || -> Result<Vec<DeviceSettings>, Failed> {
            let here: Result<Vec<_>, Failed> = ["v0", "h0", "v1"].map(read_settings).into_iter().collect();
            Ok(here?
                .into_iter()
                .chain([other.run(|| read_settings("h1"))??])
                .collect())
        };
        let before = read_all()?;
        let far_ends = vec![
            FarEnd::open(&Netns::current()?, "h0")?,
            FarEnd::open(&other, "h1")?,
        ];
        let folder = tempfile::tempdir()?;
        let mut switch_process =
            SwitchProcess::start_with_backend(backend, folder, far_ends, &json!({}), 2, &["--workers", "1"])?;
        let during = read_all()?;
        for (before, during) in before.iter().zip(&during) {
            check(before.features != during.features, || {
                format!("offloads are on during the run: {during:?}")
            })?;
        }
        check(during[0].link.0, || "v0 is down during the run".to_owned())?;
        let result = switch_process.stop(Signal::SIGTERM)?;
        let after = read_all()?;
        holder.stop()?;
        check_equal(after, before, "settings after the run")?;
        result.check_exit_code()
    })?
}

fn check_named_far_ends() -> Result<(), Failed> {
    Netns::create()?.run(|| -> Result<(), Failed> {
        let mut far_ends = Vec::new();
        let mut holders = Vec::new();
        let mut pids = Vec::new();
        for n in 0..2 {
            let netns = Netns::create()?;
            add_veth(&format!("v{n}"), "eth0", Some(&netns), 1500)?;
            let holder = netns.run(|| -> Result<NamespaceHolder, Failed> {
                use_kernel_defaults("eth0", true)?;
                Ok(NamespaceHolder::start()?)
            })??;
            pids.push(holder.id());
            holders.push(holder);
            far_ends.push(FarEnd::open(&netns, "eth0")?);
        }
        let mut switch_process = SwitchProcess::start_on_cables(
            tempfile::tempdir()?,
            far_ends,
            &json!({}),
            2,
            &["--workers", "1"],
        )?;
        let words = switch_process.stderr()?;
        for (device, pid) in ["v0", "v1"].iter().zip(pids) {
            let far_end = format!("'{device}' ('eth0' in the namespace of process '{pid}')");
            check(words.contains(&far_end), || format!("no {far_end} in {words}"))?;
        }
        let result = switch_process.stop(Signal::SIGTERM)?;
        holders.into_iter().try_for_each(NamespaceHolder::stop)?;
        result.check_exit_code()
    })?
}

fn check_device_appears(workers: &str) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let far_ends = vec![add_cable(0)?, add_cable(1)?];
    let mut switch_process =
        SwitchProcess::start_on_cables(folder, far_ends, &json!({}), 3, &["--workers", workers])?;
    let words = switch_process.stderr()?;
    check(
        words.contains("'v2'") && words.contains("until it appears"),
        || words.clone(),
    )?;
    check_equal(
        switch_process.counters()?.ports[2].up,
        false,
        "the port without a device is up",
    )?;
    send_until_received(&mut switch_process, 0, 1)?;
    let far = add_cable(2)?;
    switch_process.far_ends.push(far);
    let switch = switch_process.wait_for_counters("the port is up", |switch| switch.ports[2].up)?;
    check_equal(switch.ports[2].device.as_deref(), Some("v2"), "device")?;
    check_equal(switch.ports[2].backend.as_deref(), Some("packet"), "backend")?;
    send_until_received(&mut switch_process, 0, 2)?;
    send_until_received(&mut switch_process, 2, 1)?;
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()
}

/// Starts a switch that must refuse its ports.
fn start_refused(config: &str, ports: &[(usize, &str)]) -> Result<Output, Failed> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("config.json"), config)?;
    let mut command = xoff_command();
    command.current_dir(folder.path());
    command.args(["switch", "run", "--config", "config.json", "--api", "api"]);
    for (n, device) in ports {
        command.args(["--port", &format!("{}={device}", port_name(*n))]);
    }
    let output = command.output()?;
    check(!folder.path().join("api").exists(), || {
        "the control socket is still there".to_owned()
    })?;
    Ok(output)
}

fn check_refused_devices() -> Result<Completion, Failed> {
    add_veth("v0", "h0", None, 1500)?;
    add_veth("small", "far", None, 1400)?;
    add_veth("member", "beyond", None, 1500)?;
    run_netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    let bridge = nix::net::if_::if_nametoindex("br0")?;
    let join = LinkUnspec::new_with_name("member").controller(bridge).build();
    run_netlink(async |handle| handle.link().set(join).execute().await)?;
    type Case = (
        &'static str,
        &'static [(usize, &'static str)],
        i32,
        &'static [&'static str],
    );
    let cases: [Case; 4] = [
        ("{}", &[(0, "nowhere")], 3, &["Ethernet0", "'nowhere'", "ip link"]),
        (
            "{}",
            &[(0, "v0"), (1, "member")],
            3,
            &["Ethernet4", "'member'", "'br0'", "nomaster"],
        ),
        (
            r#"{"PORT": {"Ethernet4": {"mtu": "1500"}}}"#,
            &[(0, "v0"), (1, "small")],
            4,
            &["PORT|Ethernet4", "'small'", "1400", "1500", "ip link set"],
        ),
        (
            "{}",
            &[(0, "v0"), (1, "v0")],
            2,
            &["Ethernet0=v0", "Ethernet4=v0", "its own device"],
        ),
    ];
    for (config, ports, code, words) in cases {
        let output = start_refused(config, ports)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        check_equal(
            output.status.code(),
            Some(code),
            &format!("exit code of {ports:?} ({said})"),
        )?;
        check(words.iter().all(|word| said.contains(word)), || {
            format!("{ports:?}: {words:?} are not all in: {said}")
        })?;
    }
    Ok(Completion::Completed)
}

fn run_netlink(
    request: impl AsyncFnOnce(rtnetlink::Handle) -> Result<(), rtnetlink::Error>,
) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(request(handle).await?)
    })
}
