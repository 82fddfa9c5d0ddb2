//! Tests of the PFC watchdog with real frames: a host floods XOFF, and the tests check its frames and those
//! of other hosts.
//!
//! All times are model times, with which the switch stamps frames and events. Wall time only decides when a
//! flood begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use xoff_config::build_preset;
use xoff_ports::net::Netns;
use xoff_telemetry::{StormReport, WatchdogQueue};
use xoff_units::Picos;

use crate::far_end::FarEnd;
use crate::frames::{ipv6_frame, pfc_frame, station_mac};
use crate::support::{CompletionTest, KernelFeatures, check, check_equal, wait_for};
use crate::switch_process::{SwitchProcess, port_name};

/// Returns the result of a test whose flood had gaps longer than a pause.
pub(crate) fn inconclusive_after_gap() -> Completion {
    Completion::ignored_with("this machine stalled, and the flood of XOFF had gaps")
}

pub(crate) const TESTS: &[CompletionTest] = &[
    (
        "a_storm_of_real_frames_is_detected_and_restored",
        KernelFeatures::Netns,
        check_storm,
    ),
    (
        "nineteen_storms_are_detected_within_one_poll",
        KernelFeatures::Netns,
        check_nineteen_storms,
    ),
    (
        "the_big_red_switch_is_applied",
        KernelFeatures::Netns,
        check_big_red_switch,
    ),
];

pub(crate) const PORTS: usize = 4;
/// The default of SONiC for detection time, restoration time and poll interval.
const WATCHDOG_TIME_NS: u64 = 200_000_000;
/// A pause of 65535 quanta at 1 Gb/s lasts 33.6 ms.
const FLOOD_INTERVAL: Duration = Duration::from_millis(4);
const PAUSE_NS: u64 = 65_535 * 512;
/// Length of the test frames in bytes.
const FRAME_BYTES: usize = 1_000;

/// Returns a configuration in which priority 3 is lossless and watched on every port.
fn config() -> Result<Value, Failed> {
    let ports: Vec<(String, u32)> = (0..PORTS).map(|n| (port_name(n), 1_000)).collect();
    let mut config = build_preset("roce-lossless", &ports, Picos::from_millis(20))?.to_value();
    let own = json!({"action": "drop", "detection_time": "200", "restoration_time": "200", "pfc_stat_history": "enable"});
    config["PFC_WD"] = (0..PORTS).map(|n| (port_name(n), own.clone())).collect();
    config["PFC_WD"]["GLOBAL"] = json!({"POLL_INTERVAL": "200"});
    // The MTU of the cables of the test.
    (0..PORTS).for_each(|n| config["PORT"][port_name(n)]["mtu"] = json!("1500"));
    Ok(config)
}

/// Returns a frame of the lossless class from the station at port `from` to the station at port `to`.
pub(crate) fn lossless_frame(from: usize, to: usize, id: u32) -> Vec<u8> {
    let mut frame = ipv6_frame(
        station_mac(10, to, 0),
        station_mac(10, from, 0),
        0,
        id,
        FRAME_BYTES,
    );
    // DSCP 26.
    frame[14..16].copy_from_slice(&[0x66, 0x80]);
    frame
}

pub(crate) fn lossy_frame(from: usize, to: usize, id: u32) -> Vec<u8> {
    ipv6_frame(
        station_mac(10, to, 0),
        station_mac(10, from, 0),
        0,
        id,
        FRAME_BYTES,
    )
}

/// Sends `frames` frames from one port.
fn send_frames(
    switch_process: &mut SwitchProcess,
    frames: u32,
    make: fn(usize, usize, u32) -> Vec<u8>,
    way: (usize, usize),
) -> Result<(), Failed> {
    for id in 0..frames {
        switch_process.far_ends[way.0].send(&make(way.0, way.1, id))?;
    }
    Ok(())
}

/// A thread that sends XOFF for some priorities of some ports. Each flood has its own start time.
pub(crate) struct XoffFlood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl XoffFlood {
    /// Starts a flood for each target: port, priority and start time.
    pub(crate) fn start(targets: Vec<(usize, usize, Duration)>) -> Result<XoffFlood, Failed> {
        let netns = Netns::current()?;
        let open = |n: usize| FarEnd::open(&netns, &format!("h{n}"));
        let mut senders = (0..PORTS).map(open).collect::<Result<Vec<_>, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            while !told.load(Ordering::Relaxed) {
                for (n, priority, at) in &targets {
                    if began.elapsed() >= *at {
                        senders[*n].send(&pfc_frame(*priority, u16::MAX))?;
                    }
                }
                std::thread::sleep(FLOOD_INTERVAL);
            }
            Ok(())
        });
        Ok(XoffFlood { stop, thread })
    }

    pub(crate) fn stop(self) -> Result<(), Failed> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the flood has failed")??)
    }
}

/// Returns the statistics of the watched queues.
fn watched_queues(switch_process: &mut SwitchProcess) -> Result<Vec<WatchdogQueue>, Failed> {
    let watchdog = switch_process
        .client()
        .watchdog()
        .map_err(|failure| failure.to_string())?;
    Ok(watchdog.ok_or("nothing is watched")?.queues)
}

fn reported_storms(switch_process: &mut SwitchProcess) -> Result<Vec<StormReport>, Failed> {
    let watchdog = switch_process
        .client()
        .watchdog()
        .map_err(|failure| failure.to_string())?;
    Ok(watchdog.ok_or("nothing is watched")?.storms)
}

/// Waits until the watched queues meet a condition.
fn wait_for_queues(
    switch_process: &mut SwitchProcess,
    what: &str,
    is: impl Fn(&[WatchdogQueue]) -> bool,
) -> Result<Vec<WatchdogQueue>, Failed> {
    wait_for(what, || {
        switch_process
            .far_ends
            .iter_mut()
            .try_for_each(FarEnd::read_socket)?;
        let queues = watched_queues(switch_process)?;
        Ok(is(&queues).then_some(queues))
    })
}

/// Makes the address of every station known.
pub(crate) fn send_announcements(switch_process: &mut SwitchProcess) -> Result<(), Failed> {
    for n in 0..PORTS {
        switch_process.far_ends[n].send(&ipv6_frame([0xff; 6], station_mac(10, n, 0), 0, 0, 60))?;
    }
    switch_process.wait_for_counters("the stations are known", |switch| {
        switch.ports.iter().all(|port| port.tx_packets == 3)
    })?;
    Ok(())
}

/// Returns the times of the XOFF frames that a port received, as stamped by the switch.
fn xoff_times(switch_process: &mut SwitchProcess, n: usize) -> Result<Vec<u64>, Failed> {
    let frames = switch_process
        .client()
        .mac_control(&port_name(n))
        .map_err(|failure| failure.to_string())?;
    Ok(frames.iter().map(|frame| frame.at_ns).collect())
}

/// Returns the log lines that contain `words`, with their model times in nanoseconds.
fn log_lines(switch_process: &SwitchProcess, words: &str) -> Result<Vec<(u64, String)>, Failed> {
    let time = |line: &str| -> Option<u64> {
        let (seconds, nanos) = line.strip_prefix('[')?.split_once(']')?.0.split_once('.')?;
        Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?)
    };
    let text = switch_process.stderr()?;
    let found = text.lines().filter(|line| line.contains(words));
    Ok(found
        .filter_map(|line| Some((time(line)?, line.to_owned())))
        .collect())
}

fn run_and_get_exit_code(
    switch_process: &SwitchProcess,
    words: &[&str],
) -> Result<(Option<i32>, String), Failed> {
    let output = switch_process.run_command(words)?;
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    ))
}

fn check_storm() -> Result<Completion, Failed> {
    let mut switch_process = SwitchProcess::start(&config()?, PORTS, &[])?;
    send_announcements(&mut switch_process)?;
    let began = switch_process.counters()?;
    check_equal(
        run_and_get_exit_code(&switch_process, &["show", "pfcwd", "stats", "--check-storm"])?.0,
        Some(0),
        "no storm",
    )?;
    let flood = XoffFlood::start(vec![(1, 3, Duration::ZERO)])?;
    switch_process.wait_for_counters("the pause is there", |switch| switch.ports[1].paused_now[3])?;
    let start_ns = *xoff_times(&mut switch_process, 1)?
        .first()
        .ok_or("no XOFF was recorded")?;
    // These frames wait behind the pause and are discarded at storm detection.
    send_frames(&mut switch_process, 50, lossless_frame, (0, 1))?;
    wait_for_queues(&mut switch_process, "the storm is detected", |queues| {
        queues.iter().any(WatchdogQueue::is_in_pause_storm)
    })?;
    // Some waiting frames have left in a gap of the flood.
    if switch_process.counters()?.ports[1].pfc_on2off_rx[3] != 1 {
        return Ok(inconclusive_after_gap());
    }
    let (code, text) = run_and_get_exit_code(&switch_process, &["show", "pfcwd", "stats", "--check-storm"])?;
    check_equal(code, Some(1), "a storm")?;
    check(text.contains("Ethernet4:3") && text.contains("stormed"), || {
        text.clone()
    })?;
    // Frames to the stormed queue, in the stormed group, and of neither.
    send_frames(&mut switch_process, 100, lossless_frame, (0, 1))?;
    send_frames(&mut switch_process, 100, lossless_frame, (1, 2))?;
    send_frames(&mut switch_process, 40, lossy_frame, (0, 1))?;
    send_frames(&mut switch_process, 40, lossy_frame, (1, 2))?;
    send_frames(&mut switch_process, 200, lossless_frame, (2, 3))?;
    send_frames(&mut switch_process, 60, lossless_frame, (0, 2))?;
    switch_process.wait_for_counters("the others' frames pass", |switch| {
        let sent = |n: usize| switch.ports[n].tx_packets - began.ports[n].tx_packets;
        (sent(1), sent(2), sent(3)) == (40, 100, 200)
    })?;
    let counted = |queues: &[WatchdogQueue]| {
        queues
            .iter()
            .any(|queue| (queue.tx_dropped_packets, queue.rx_dropped_packets) == (150, 100))
    };
    wait_for_queues(
        &mut switch_process,
        "every frame of the storm is counted",
        counted,
    )?;
    flood.stop()?;
    wait_for_queues(&mut switch_process, "the storm is restored", |queues| {
        queues.iter().all(|queue| !queue.is_in_pause_storm())
    })?;
    let last_ns = *xoff_times(&mut switch_process, 1)?
        .last()
        .ok_or("no XOFF was recorded")?;
    send_frames(&mut switch_process, 30, lossless_frame, (0, 1))?;
    send_frames(&mut switch_process, 30, lossless_frame, (1, 2))?;
    let after = switch_process.wait_for_counters("the queue and the group work again", |switch| {
        let sent = |n: usize| switch.ports[n].tx_packets - began.ports[n].tx_packets;
        (sent(1), sent(2)) == (70, 130)
    })?;
    if after.ports[1].pfc_on2off_rx[3] != 1 {
        return Ok(inconclusive_after_gap());
    }
    check_equal(
        after.ports.iter().map(|port| port.dropped()).sum(),
        250,
        "dropped in all",
    )?;
    let reason = |n: usize, name: &str| after.ports[n].drops.get(name).copied().unwrap_or(0);
    check_equal(reason(1, "XOFF_PFC_WD_TX"), 150, "dropped at the queue")?;
    check_equal(reason(1, "XOFF_PFC_WD_RX"), 100, "dropped in the group")?;
    check_reported_storm(&mut switch_process, start_ns, last_ns)?;
    let ended = switch_process.stop(Signal::SIGTERM)?;
    ended.check_exit_code()?;
    let storms = ended
        .switch()?
        .pfc_watchdog
        .ok_or("no watchdog in the report")?
        .storms;
    check_equal(storms.len(), 1, "storms in the report")?;
    Ok(Completion::Completed)
}

/// Checks the storm in statistics, log, events and tables, and that clearing resets the statistics.
fn check_reported_storm(
    switch_process: &mut SwitchProcess,
    start_ns: u64,
    last_ns: u64,
) -> Result<(), Failed> {
    let queue = watched_queues(switch_process)?
        .into_iter()
        .find(|queue| queue.port == port_name(1))
        .ok_or("no queue")?;
    check_equal(
        (queue.queue, queue.detected, queue.restored),
        (3, 1, 1),
        "storms of the queue",
    )?;
    check_equal(
        (queue.tx_packets, queue.tx_dropped_packets),
        (0, 150),
        "TX ok and drop",
    )?;
    check_equal(
        (queue.rx_packets, queue.rx_dropped_packets),
        (0, 100),
        "RX ok and drop",
    )?;
    let [storm] = reported_storms(switch_process)?
        .try_into()
        .map_err(|storms| format!("{storms:?}"))?;
    let restored_ns = storm.restored_ns.ok_or("not restored")?;
    check_reaction_time("detection", storm.detected_ns, start_ns)?;
    check_reaction_time("restoration", restored_ns, last_ns)?;
    check_equal(
        (storm.tx_dropped_packets, storm.rx_dropped_packets),
        (150, 100),
        "frames of the storm",
    )?;
    for (words, at) in [
        ("detected PFC storm", storm.detected_ns),
        ("storm restored", restored_ns),
    ] {
        let said = wait_for(words, || {
            let lines = log_lines(switch_process, words)?;
            Ok((!lines.is_empty()).then_some(lines))
        })?;
        check_equal(said.len(), 1, words)?;
        check_equal(said[0].0, at, "model time of the line")?;
        check(
            said[0]
                .1
                .contains("on port Ethernet4, queue index 3, queue id 0x"),
            || said[0].1.clone(),
        )?;
    }
    let events = switch_process
        .client()
        .events()
        .map_err(|failure| failure.to_string())?;
    let names: Vec<&str> = events.iter().map(|event| event.event.as_str()).collect();
    check_equal(names, vec!["pfc-storm", "pfc-storm-restored"], "events")?;
    let (_, text) = run_and_get_exit_code(switch_process, &["show", "pfcwd", "stats"])?;
    let row: Vec<&str> = text
        .lines()
        .nth(2)
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let expected = [
        "Ethernet4:3",
        "operational",
        "1/1",
        "0/150",
        "0/100",
        "0/150",
        "0/100",
    ];
    check_equal(row, expected.to_vec(), "show pfcwd stats")?;
    let (_, text) = run_and_get_exit_code(switch_process, &["show", "pfcwd", "config"])?;
    check(text.starts_with("Changed polling interval to 200ms\n"), || {
        text.clone()
    })?;
    let (_, text) = run_and_get_exit_code(switch_process, &["show", "pfc", "priority", "Ethernet4"])?;
    let row: Vec<&str> = text.split_whitespace().collect();
    check(row.ends_with(&["Ethernet4", "3"]), || text.clone())?;
    for words in [["clear", "pfcwd", "stats"], ["clear", "pfc", "counters"]] {
        check_equal(
            run_and_get_exit_code(switch_process, &words)?.0,
            Some(0),
            "exit code of clear",
        )?;
    }
    check_equal(
        run_and_get_exit_code(switch_process, &["show", "pfcwd", "stats"])?
            .1
            .lines()
            .count(),
        2,
        "rows after a clear",
    )?;
    let pfc = switch_process
        .client()
        .pfc()
        .map_err(|failure| failure.to_string())?;
    check_equal(pfc[1].rx[3], 0, "PFC received after a clear")?;
    check_equal(
        pfc[1].history.ok_or("no history")?[3].transitions,
        0,
        "transitions after a clear",
    )
}

/// Checks that an event occurred between the configured time and one poll interval more after its cause.
fn check_reaction_time(what: &str, at_ns: u64, since_ns: u64) -> Result<(), Failed> {
    let after = at_ns.saturating_sub(since_ns);
    check((WATCHDOG_TIME_NS..=2 * WATCHDOG_TIME_NS).contains(&after), || {
        format!("{what} after {after} ns")
    })
}

/// 19 simultaneous storms on 19 queues with different start times. The medians are strictly between the time
/// and one poll interval more.
fn check_nineteen_storms() -> Result<Completion, Failed> {
    let mut config = config()?;
    for n in 0..PORTS {
        let all = json!("0,1,2,3,4,5,6,7");
        config["PORT_QOS_MAP"][port_name(n)]["pfc_enable"] = all.clone();
        config["PORT_QOS_MAP"][port_name(n)]["pfcwd_sw_enable"] = all;
    }
    let mut switch_process = SwitchProcess::start(&config, PORTS, &[])?;
    // The phases cover a whole poll interval and do not follow the queue numbers.
    let phase = |n: usize| Duration::from_millis((n * 83 % 200) as u64);
    let targets: Vec<(usize, usize, Duration)> = (0..19).map(|n| (n % PORTS, n / PORTS, phase(n))).collect();
    let flood = XoffFlood::start(targets.clone())?;
    wait_for_queues(&mut switch_process, "all storms are detected", |queues| {
        queues.iter().filter(|queue| queue.is_in_pause_storm()).count() == 19
    })?;
    let pauses = switch_process
        .client()
        .pfc()
        .map_err(|failure| failure.to_string())?;
    flood.stop()?;
    wait_for_queues(&mut switch_process, "all storms are restored", |queues| {
        queues.iter().filter(|queue| queue.restored == 1).count() == 19
    })?;
    let after = switch_process
        .client()
        .pfc()
        .map_err(|failure| failure.to_string())?;
    let storms = reported_storms(&mut switch_process)?;
    if storms.len() != 19
        || after.iter().any(|port| {
            port.history
                .iter()
                .flatten()
                .any(|history| history.transitions > 1)
        })
    {
        return Ok(inconclusive_after_gap());
    }
    let (mut detections, mut restorations) = (Vec::new(), Vec::new());
    for (n, priority, _) in targets {
        let of_queue =
            |storm: &&StormReport| storm.port == port_name(n) && usize::from(storm.queue) == priority;
        let storm = storms.iter().find(of_queue).ok_or("a storm is missing")?;
        let began = pauses[n].history.ok_or("no history")?[priority];
        let start_ns = began.recent_pause_at_ns.ok_or("no pause")?;
        let ended = after[n].history.ok_or("no history")?[priority];
        // The pause expired: its last XOFF arrived a whole pause time before its end.
        let last_ns = start_ns + ended.recent_pause_ns - PAUSE_NS;
        check_reaction_time("detection", storm.detected_ns, start_ns)?;
        check_equal(
            storm.paused_ns,
            storm.detected_ns - start_ns,
            "paused before the detection",
        )?;
        let restored_ns = storm.restored_ns.ok_or("not restored")?;
        check_reaction_time("restoration", restored_ns, last_ns)?;
        detections.push(storm.detected_ns - start_ns);
        restorations.push(restored_ns - last_ns);
    }
    for (what, mut samples) in [("detection", detections), ("restoration", restorations)] {
        samples.sort_unstable();
        let median = samples[9];
        check(WATCHDOG_TIME_NS < median && median < 2 * WATCHDOG_TIME_NS, || {
            format!("median of {what}: {median} ns of {samples:?}")
        })?;
    }
    Ok(Completion::Completed)
}

/// A configuration that is applied during traffic turns the dropping of all watched queues on and off.
fn check_big_red_switch() -> Result<Completion, Failed> {
    let mut config = config()?;
    let mut switch_process = SwitchProcess::start(&config, PORTS, &[])?;
    send_announcements(&mut switch_process)?;
    let dropped = |switch_process: &mut SwitchProcess, expected: u64| {
        send_frames(switch_process, 20, lossless_frame, (0, 1))?;
        send_frames(switch_process, 20, lossy_frame, (0, 1))?;
        switch_process.wait_for_counters("the frames are in the switch", |switch| {
            let port = &switch.ports[1];
            let lost = port.drops.get("XOFF_PFC_WD_TX").copied().unwrap_or(0);
            let lost_in = switch.ports[0].drops.get("XOFF_PFC_WD_RX").copied().unwrap_or(0);
            lost + lost_in == expected
        })?;
        Ok::<(), Failed>(())
    };
    dropped(&mut switch_process, 0)?;
    for (mode, on, lost) in [("enable", true, 20), ("disable", false, 20)] {
        config["PFC_WD"]["GLOBAL"]["BIG_RED_SWITCH"] = json!(mode);
        let applied = switch_process.client().apply_config(config.clone(), false, false);
        applied.map_err(|failure| failure.to_string())?;
        dropped(&mut switch_process, lost)?;
        let events = switch_process
            .client()
            .events()
            .map_err(|failure| failure.to_string())?;
        let last = events.last().ok_or("no event")?;
        check_equal(
            (last.event.as_str(), last.on),
            ("big-red-switch", Some(on)),
            "event",
        )?;
        let words = format!("BIG_RED_SWITCH mode {mode}d");
        wait_for(&words, || {
            Ok((log_lines(&switch_process, &words)?.len() == 1).then_some(()))
        })?;
    }
    let after = switch_process.wait_for_counters(
        "all lossy frames, and those of the lossless class before and after",
        |switch| switch.ports[1].tx_packets == 3 + 3 * 20 + 2 * 20,
    )?;
    check_equal(
        after.ports.iter().map(|port| port.dropped()).sum(),
        20,
        "dropped in all",
    )?;
    switch_process.stop(Signal::SIGTERM)?.check_exit_code()?;
    Ok(Completion::Completed)
}
