//! Devices that are not there, disappear, come, or cannot be used.

use std::process::Output;

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use rtnetlink::{LinkBridge, LinkUnspec};
use serde_json::{Value, json};
use xoff_ports::net::add_veth;

use crate::bench::{Bench, plug, port, xoff};
use crate::far::Far;
use crate::frames::{ip, pfc, qos, station};
use crate::support::{Needs, Reporting, check, same, wait_for};

pub(crate) const TESTS: &[Reporting] = &[
    ("a_device_disappears_and_comes_back", Needs::Netns, || {
        disappears("auto", "1").map(|()| Completion::Completed)
    }),
    (
        "a_device_disappears_and_comes_back_with_three_workers",
        Needs::Netns,
        || disappears("auto", "3").map(|()| Completion::Completed),
    ),
    ("a_device_of_xdp_disappears_and_comes_back", Needs::Xdp, || {
        disappears("xdp", "1").map(|()| Completion::Completed)
    }),
    (
        "a_device_of_xdp_disappears_and_comes_back_with_three_workers",
        Needs::Xdp,
        || disappears("xdp", "3").map(|()| Completion::Completed),
    ),
    ("a_killed_switch_leaves_no_program", Needs::Xdp, killed),
    ("a_device_appears_after_the_start", Needs::Netns, || {
        appears("1").map(|()| Completion::Completed)
    }),
    (
        "a_device_appears_after_the_start_with_three_workers",
        Needs::Netns,
        || appears("3").map(|()| Completion::Completed),
    ),
    ("devices_that_cannot_be_used_are_refused", Needs::Netns, refusals),
];

/// Frames that wait for a port when its device disappears.
const WAITING: u64 = 50;

/// Sends frames from port `from` to everyone until one arrives at port `to`: the way is open.
fn reaches(bench: &mut Bench, from: usize, to: usize) -> Result<(), Failed> {
    let marker = station(99, from, to as u8);
    wait_for(&format!("a frame gets from port {from} to port {to}"), || {
        bench.fars[from].send(&ip([0xff; 6], marker, 0, 0, 60))?;
        let mut arrived = false;
        while let Some(frame) = bench.fars[to].receive()? {
            arrived |= frame[6..12] == marker;
        }
        Ok(arrived.then_some(()))
    })
}

/// A port so slow that one PFC frame holds its class for half a minute.
fn slow() -> Value {
    let mut config = qos();
    config["PORT"] = json!({"Ethernet4": {"speed": "1"}});
    config
}

/// A switch of four ports with this backend.
fn driven_by(backend: &str, fars: Vec<Far>, config: &Value, workers: &str) -> Result<Bench, Failed> {
    let folder = tempfile::tempdir()?;
    Bench::driven_by(backend, folder, fars, config, 4, &["--workers", workers])
}

/// Where a program is attached, no other can be.
fn killed() -> Result<Completion, Failed> {
    let mut fars: Vec<Far> = (0..4).map(plug).collect::<Result<_, _>>()?;
    for _ in 0..3 {
        let mut bench = driven_by("xdp", fars, &json!({}), "1")?;
        reaches(&mut bench, 0, 1)?;
        (_, fars) = bench.kill()?;
    }
    Ok(Completion::Completed)
}

fn disappears(backend: &str, workers: &str) -> Result<(), Failed> {
    let fars = (0..4).map(plug).collect::<Result<_, _>>()?;
    let mut bench = driven_by(backend, fars, &slow(), workers)?;
    let gone = station(10, 1, 0);
    bench.fars[1].send(&ip([0xff; 6], gone, 0, 0, 60))?;
    bench.wait("the station is known", |switch| switch.ports[2].tx_packets == 1)?;
    bench.fars[1].send(&pfc(3, u16::MAX))?;
    bench.wait("the queue is held", |switch| switch.ports[1].pfc_rx[3] == 1)?;
    for id in 0..WAITING as u32 {
        bench.fars[0].send(&ip(gone, station(10, 0, 3), 3, id, 1000))?;
    }
    let before = bench.wait("the frames are in the switch", |switch| {
        switch.ports[0].rx_packets == WAITING
    })?;
    same(before.ports[1].tx_packets, 0, "sent by the held port")?;
    bench.unplug(1)?;
    let after = bench.wait("the port is down", |switch| !switch.ports[1].up)?;
    same(
        after.ports[0].up && after.ports[2].up,
        true,
        "the other ports are up",
    )?;
    let drops: Vec<_> = after.ports[1].drops_by_class.iter().collect();
    let mut of_class = [0; 16];
    of_class[3] = WAITING;
    same(
        drops,
        vec![(&"XOFF_QUEUE_FLUSHED".to_owned(), &of_class)],
        "drops",
    )?;
    // The rest goes on, and what was meant for the lost station is not kept.
    reaches(&mut bench, 0, 2)?;
    reaches(&mut bench, 2, 0)?;
    bench.fars[1] = plug(1)?;
    bench.wait("the port is up again", |switch| switch.ports[1].up)?;
    reaches(&mut bench, 0, 1)?;
    reaches(&mut bench, 1, 2)?;
    // The device may go and come more than once.
    bench.unplug(1)?;
    bench.wait("the port is down", |switch| !switch.ports[1].up)?;
    bench.fars[1] = plug(1)?;
    reaches(&mut bench, 1, 0)?;
    bench.end(Signal::SIGTERM)?.in_order()
}

fn appears(workers: &str) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let fars = vec![plug(0)?, plug(1)?];
    let mut bench = Bench::with(folder, fars, &json!({}), 3, &["--workers", workers])?;
    let words = bench.stderr()?;
    check(
        words.contains("'v2'") && words.contains("until it appears"),
        || words.clone(),
    )?;
    same(
        bench.counters()?.ports[2].up,
        false,
        "the port without a device is up",
    )?;
    reaches(&mut bench, 0, 1)?;
    let far = plug(2)?;
    bench.fars.push(far);
    let switch = bench.wait("the port is up", |switch| switch.ports[2].up)?;
    same(switch.ports[2].device.as_deref(), Some("v2"), "device")?;
    same(switch.ports[2].backend.as_deref(), Some("packet"), "backend")?;
    reaches(&mut bench, 0, 2)?;
    reaches(&mut bench, 2, 1)?;
    bench.end(Signal::SIGTERM)?.in_order()
}

/// Starts a switch that has to refuse.
fn start(ports: &[(usize, &str)]) -> Result<Output, Failed> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("config.json"), "{}")?;
    let mut command = xoff();
    command.current_dir(folder.path());
    command.args(["switch", "run", "--config", "config.json", "--api", "api"]);
    for (n, device) in ports {
        command.args(["--port", &format!("{}={device}", port(*n))]);
    }
    let output = command.output()?;
    check(!folder.path().join("api").exists(), || {
        "the control socket is still there".to_owned()
    })?;
    Ok(output)
}

fn refusals() -> Result<Completion, Failed> {
    add_veth("v0", "h0", None, 1500)?;
    add_veth("small", "far", None, 1400)?;
    add_veth("member", "beyond", None, 1500)?;
    netlink(async |handle| handle.link().add(LinkBridge::new("br0").build()).execute().await)?;
    let bridge = nix::net::if_::if_nametoindex("br0")?;
    let join = LinkUnspec::new_with_name("member").controller(bridge).build();
    netlink(async |handle| handle.link().set(join).execute().await)?;
    type Case = (&'static [(usize, &'static str)], i32, &'static [&'static str]);
    let cases: [Case; 4] = [
        (&[(0, "nowhere")], 3, &["Ethernet0", "'nowhere'", "ip link"]),
        (
            &[(0, "v0"), (1, "member")],
            3,
            &["Ethernet4", "'member'", "'br0'", "nomaster"],
        ),
        (
            &[(0, "v0"), (1, "small")],
            3,
            &["Ethernet4", "'small'", "1400", "1500", "mtu"],
        ),
        (
            &[(0, "v0"), (1, "v0")],
            2,
            &["Ethernet0=v0", "Ethernet4=v0", "device of its own"],
        ),
    ];
    for (ports, code, words) in cases {
        let output = start(ports)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        same(
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

fn netlink(
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
