//! The PFC watchdog with real frames: a host that floods XOFF, and what becomes of its frames and of those of others.
//!
//! All times are of the model, as the switch stamps frames and events: the wall decides only when a flood begins.

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

use crate::bench::{Bench, port};
use crate::far::Far;
use crate::frames::{ip, pfc, station};
use crate::support::{Needs, Reporting, check, same, wait_for};

/// The flood had gaps longer than a pause.
pub(crate) fn stalled() -> Completion {
    Completion::ignored_with("this machine stalled, and the flood of XOFF had gaps")
}

pub(crate) const TESTS: &[Reporting] = &[
    ("a_storm_of_real_frames", Needs::Netns, storm),
    ("nineteen_storms_in_time", Needs::Netns, nineteen),
    ("the_big_red_switch_is_applied", Needs::Netns, big_red_switch),
];

pub(crate) const PORTS: usize = 4;
/// SONiC's defaults: all three times.
const TIME_NS: u64 = 200_000_000;
/// A pause of 65535 quanta at 1 Gb/s lasts 33.6 ms.
const FLOOD_EVERY: Duration = Duration::from_millis(4);
const PAUSE_NS: u64 = 65_535 * 512;
/// Octets of a test's frames.
const LEN: usize = 1_000;

/// Priority 3 is lossless and watched on every port.
fn config() -> Result<Value, Failed> {
    let ports: Vec<(String, u32)> = (0..PORTS).map(|n| (port(n), 1_000)).collect();
    let mut config = build_preset("roce-lossless", &ports, Picos::from_millis(20))?.to_value();
    let own = json!({"action": "drop", "detection_time": "200", "restoration_time": "200", "pfc_stat_history": "enable"});
    config["PFC_WD"] = (0..PORTS).map(|n| (port(n), own.clone())).collect();
    config["PFC_WD"]["GLOBAL"] = json!({"POLL_INTERVAL": "200"});
    // What the cables of the test take.
    (0..PORTS).for_each(|n| config["PORT"][port(n)]["mtu"] = json!("1500"));
    Ok(config)
}

/// A frame of the lossless class from the station behind `from` to that behind `to`.
pub(crate) fn lossless(from: usize, to: usize, id: u32) -> Vec<u8> {
    let mut frame = ip(station(10, to, 0), station(10, from, 0), 0, id, LEN);
    // DSCP 26.
    frame[14..16].copy_from_slice(&[0x66, 0x80]);
    frame
}

pub(crate) fn lossy(from: usize, to: usize, id: u32) -> Vec<u8> {
    ip(station(10, to, 0), station(10, from, 0), 0, id, LEN)
}

/// Sends frames from one port, and gives how many there were.
fn send(
    bench: &mut Bench,
    frames: u32,
    make: fn(usize, usize, u32) -> Vec<u8>,
    way: (usize, usize),
) -> Result<(), Failed> {
    for id in 0..frames {
        bench.fars[way.0].send(&make(way.0, way.1, id))?;
    }
    Ok(())
}

/// A thread that sends XOFF for some priorities of some ports, each from its own moment on.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Flood {
    /// `targets`: port, priority, and when it begins.
    pub(crate) fn start(targets: Vec<(usize, usize, Duration)>) -> Result<Flood, Failed> {
        let netns = Netns::current()?;
        let open = |n: usize| Far::open(&netns, &format!("h{n}"));
        let mut senders = (0..PORTS).map(open).collect::<Result<Vec<_>, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            while !told.load(Ordering::Relaxed) {
                for (n, priority, at) in &targets {
                    if began.elapsed() >= *at {
                        senders[*n].send(&pfc(*priority, u16::MAX))?;
                    }
                }
                std::thread::sleep(FLOOD_EVERY);
            }
            Ok(())
        });
        Ok(Flood { stop, thread })
    }

    pub(crate) fn end(self) -> Result<(), Failed> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the flood has failed")??)
    }
}

/// The statistics of the watched queues.
fn queues(bench: &mut Bench) -> Result<Vec<WatchdogQueue>, Failed> {
    let watchdog = bench.client().watchdog().map_err(|failure| failure.to_string())?;
    Ok(watchdog.ok_or("nothing is watched")?.queues)
}

fn storms(bench: &mut Bench) -> Result<Vec<StormReport>, Failed> {
    let watchdog = bench.client().watchdog().map_err(|failure| failure.to_string())?;
    Ok(watchdog.ok_or("nothing is watched")?.storms)
}

/// Waits until the watched queues are as told.
fn wait_queues(
    bench: &mut Bench,
    what: &str,
    is: impl Fn(&[WatchdogQueue]) -> bool,
) -> Result<Vec<WatchdogQueue>, Failed> {
    wait_for(what, || {
        bench.fars.iter_mut().try_for_each(Far::collect)?;
        let queues = queues(bench)?;
        Ok(is(&queues).then_some(queues))
    })
}

/// Makes every station known.
pub(crate) fn announce(bench: &mut Bench) -> Result<(), Failed> {
    for n in 0..PORTS {
        bench.fars[n].send(&ip([0xff; 6], station(10, n, 0), 0, 0, 60))?;
    }
    bench.wait("the stations are known", |switch| {
        switch.ports.iter().all(|port| port.tx_packets == 3)
    })?;
    Ok(())
}

/// Times of the XOFF frames that a port received, as the switch stamped them.
fn xoffs(bench: &mut Bench, n: usize) -> Result<Vec<u64>, Failed> {
    let frames = bench
        .client()
        .mac_control(&port(n))
        .map_err(|failure| failure.to_string())?;
    Ok(frames.iter().map(|frame| frame.at_ns).collect())
}

/// The lines of the log with these words, with their model times in nanoseconds.
fn lines(bench: &Bench, words: &str) -> Result<Vec<(u64, String)>, Failed> {
    let time = |line: &str| -> Option<u64> {
        let (seconds, nanos) = line.strip_prefix('[')?.split_once(']')?.0.split_once('.')?;
        Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?)
    };
    let text = bench.stderr()?;
    let found = text.lines().filter(|line| line.contains(words));
    Ok(found
        .filter_map(|line| Some((time(line)?, line.to_owned())))
        .collect())
}

fn exit_code(bench: &Bench, words: &[&str]) -> Result<(Option<i32>, String), Failed> {
    let output = bench.ask(words)?;
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    ))
}

fn storm() -> Result<Completion, Failed> {
    let mut bench = Bench::start(&config()?, PORTS, &[])?;
    announce(&mut bench)?;
    let began = bench.counters()?;
    same(
        exit_code(&bench, &["show", "pfcwd", "stats", "--check-storm"])?.0,
        Some(0),
        "no storm",
    )?;
    let flood = Flood::start(vec![(1, 3, Duration::ZERO)])?;
    bench.wait("the pause is there", |switch| switch.ports[1].paused_now[3])?;
    let start_ns = *xoffs(&mut bench, 1)?.first().ok_or("no XOFF was recorded")?;
    // These wait behind the pause, and are what the detection discards.
    send(&mut bench, 50, lossless, (0, 1))?;
    wait_queues(&mut bench, "the storm is detected", |queues| {
        queues.iter().any(WatchdogQueue::is_stormed)
    })?;
    // Some of what was to wait has left by a gap in the flood.
    if bench.counters()?.ports[1].pfc_on2off_rx[3] != 1 {
        return Ok(stalled());
    }
    let (code, text) = exit_code(&bench, &["show", "pfcwd", "stats", "--check-storm"])?;
    same(code, Some(1), "a storm")?;
    check(text.contains("Ethernet4:3") && text.contains("stormed"), || {
        text.clone()
    })?;
    // To the stormed queue, in the stormed group, beside both.
    send(&mut bench, 100, lossless, (0, 1))?;
    send(&mut bench, 100, lossless, (1, 2))?;
    send(&mut bench, 40, lossy, (0, 1))?;
    send(&mut bench, 40, lossy, (1, 2))?;
    send(&mut bench, 200, lossless, (2, 3))?;
    send(&mut bench, 60, lossless, (0, 2))?;
    bench.wait("the others' frames pass", |switch| {
        let sent = |n: usize| switch.ports[n].tx_packets - began.ports[n].tx_packets;
        (sent(1), sent(2), sent(3)) == (40, 100, 200)
    })?;
    let counted = |queues: &[WatchdogQueue]| {
        queues
            .iter()
            .any(|queue| (queue.tx_dropped_packets, queue.rx_dropped_packets) == (150, 100))
    };
    wait_queues(&mut bench, "every frame of the storm is counted", counted)?;
    flood.end()?;
    wait_queues(&mut bench, "the storm is restored", |queues| {
        queues.iter().all(|queue| !queue.is_stormed())
    })?;
    let last_ns = *xoffs(&mut bench, 1)?.last().ok_or("no XOFF was recorded")?;
    send(&mut bench, 30, lossless, (0, 1))?;
    send(&mut bench, 30, lossless, (1, 2))?;
    let after = bench.wait("the queue and the group work again", |switch| {
        let sent = |n: usize| switch.ports[n].tx_packets - began.ports[n].tx_packets;
        (sent(1), sent(2)) == (70, 130)
    })?;
    if after.ports[1].pfc_on2off_rx[3] != 1 {
        return Ok(stalled());
    }
    same(
        after.ports.iter().map(|port| port.dropped()).sum(),
        250,
        "dropped in all",
    )?;
    let reason = |n: usize, name: &str| after.ports[n].drops.get(name).copied().unwrap_or(0);
    same(reason(1, "XOFF_PFC_WD_TX"), 150, "dropped at the queue")?;
    same(reason(1, "XOFF_PFC_WD_RX"), 100, "dropped in the group")?;
    what_is_told(&mut bench, start_ns, last_ns)?;
    let ended = bench.end(Signal::SIGTERM)?;
    ended.in_order()?;
    let storms = ended
        .switch()?
        .pfc_watchdog
        .ok_or("no watchdog in the report")?
        .storms;
    same(storms.len(), 1, "storms in the report")?;
    Ok(Completion::Completed)
}

/// The storm in statistics, log, events and tables, and that statistics begin anew when they are cleared.
fn what_is_told(bench: &mut Bench, start_ns: u64, last_ns: u64) -> Result<(), Failed> {
    let queue = queues(bench)?
        .into_iter()
        .find(|queue| queue.port == port(1))
        .ok_or("no queue")?;
    same(
        (queue.queue, queue.detected, queue.restored),
        (3, 1, 1),
        "storms of the queue",
    )?;
    same(
        (queue.tx_packets, queue.tx_dropped_packets),
        (0, 150),
        "TX ok and drop",
    )?;
    same(
        (queue.rx_packets, queue.rx_dropped_packets),
        (0, 100),
        "RX ok and drop",
    )?;
    let [storm] = storms(bench)?
        .try_into()
        .map_err(|storms| format!("{storms:?}"))?;
    let restored_ns = storm.restored_ns.ok_or("not restored")?;
    in_time("detection", storm.detected_ns, start_ns)?;
    in_time("restoration", restored_ns, last_ns)?;
    same(
        (storm.tx_dropped_packets, storm.rx_dropped_packets),
        (150, 100),
        "frames of the storm",
    )?;
    for (words, at) in [
        ("detected PFC storm", storm.detected_ns),
        ("storm restored", restored_ns),
    ] {
        let said = wait_for(words, || {
            let lines = lines(bench, words)?;
            Ok((!lines.is_empty()).then_some(lines))
        })?;
        same(said.len(), 1, words)?;
        same(said[0].0, at, "model time of the line")?;
        check(
            said[0]
                .1
                .contains("on port Ethernet4, queue index 3, queue id 0x"),
            || said[0].1.clone(),
        )?;
    }
    let events = bench.client().events().map_err(|failure| failure.to_string())?;
    let names: Vec<&str> = events.iter().map(|event| event.event.as_str()).collect();
    same(names, vec!["pfc-storm", "pfc-storm-restored"], "events")?;
    let (_, text) = exit_code(bench, &["show", "pfcwd", "stats"])?;
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
    same(row, expected.to_vec(), "show pfcwd stats")?;
    let (_, text) = exit_code(bench, &["show", "pfcwd", "config"])?;
    check(text.starts_with("Changed polling interval to 200ms\n"), || {
        text.clone()
    })?;
    let (_, text) = exit_code(bench, &["show", "pfc", "priority", "Ethernet4"])?;
    let row: Vec<&str> = text.split_whitespace().collect();
    check(row.ends_with(&["Ethernet4", "3"]), || text.clone())?;
    for words in [["clear", "pfcwd", "stats"], ["clear", "pfc", "counters"]] {
        same(exit_code(bench, &words)?.0, Some(0), "exit code of clear")?;
    }
    same(
        exit_code(bench, &["show", "pfcwd", "stats"])?.1.lines().count(),
        2,
        "rows after a clear",
    )?;
    let pfc = bench.client().pfc().map_err(|failure| failure.to_string())?;
    same(pfc[1].rx[3], 0, "PFC received after a clear")?;
    same(
        pfc[1].history.ok_or("no history")?[3].transitions,
        0,
        "transitions after a clear",
    )
}

/// Something happened between the time and one poll more after its cause.
fn in_time(what: &str, at_ns: u64, since_ns: u64) -> Result<(), Failed> {
    let after = at_ns.saturating_sub(since_ns);
    check((TIME_NS..=2 * TIME_NS).contains(&after), || {
        format!("{what} after {after} ns")
    })
}

/// 19 storms at once, on 19 queues, each from its own moment on: the medians are strictly between the time and one poll more.
fn nineteen() -> Result<Completion, Failed> {
    let mut config = config()?;
    for n in 0..PORTS {
        let all = json!("0,1,2,3,4,5,6,7");
        config["PORT_QOS_MAP"][port(n)]["pfc_enable"] = all.clone();
        config["PORT_QOS_MAP"][port(n)]["pfcwd_sw_enable"] = all;
    }
    let mut bench = Bench::start(&config, PORTS, &[])?;
    // Phases over the whole of a poll, in no order that a queue's number has.
    let phase = |n: usize| Duration::from_millis((n * 83 % 200) as u64);
    let targets: Vec<(usize, usize, Duration)> = (0..19).map(|n| (n % PORTS, n / PORTS, phase(n))).collect();
    let flood = Flood::start(targets.clone())?;
    wait_queues(&mut bench, "all storms are detected", |queues| {
        queues.iter().filter(|queue| queue.is_stormed()).count() == 19
    })?;
    let pauses = bench.client().pfc().map_err(|failure| failure.to_string())?;
    flood.end()?;
    wait_queues(&mut bench, "all storms are restored", |queues| {
        queues.iter().filter(|queue| queue.restored == 1).count() == 19
    })?;
    let after = bench.client().pfc().map_err(|failure| failure.to_string())?;
    let storms = storms(&mut bench)?;
    if storms.len() != 19
        || after.iter().any(|port| {
            port.history
                .iter()
                .flatten()
                .any(|history| history.transitions > 1)
        })
    {
        return Ok(stalled());
    }
    let (mut detections, mut restorations) = (Vec::new(), Vec::new());
    for (n, priority, _) in targets {
        let of_queue = |storm: &&StormReport| storm.port == port(n) && usize::from(storm.queue) == priority;
        let storm = storms.iter().find(of_queue).ok_or("a storm is missing")?;
        let began = pauses[n].history.ok_or("no history")?[priority];
        let start_ns = began.recent_pause_at_ns.ok_or("no pause")?;
        let ended = after[n].history.ok_or("no history")?[priority];
        // The pause was let run out: its last XOFF came a whole pause before its end.
        let last_ns = start_ns + ended.recent_pause_ns - PAUSE_NS;
        in_time("detection", storm.detected_ns, start_ns)?;
        same(
            storm.paused_ns,
            storm.detected_ns - start_ns,
            "paused before the detection",
        )?;
        let restored_ns = storm.restored_ns.ok_or("not restored")?;
        in_time("restoration", restored_ns, last_ns)?;
        detections.push(storm.detected_ns - start_ns);
        restorations.push(restored_ns - last_ns);
    }
    for (what, mut samples) in [("detection", detections), ("restoration", restorations)] {
        samples.sort_unstable();
        let median = samples[9];
        check(TIME_NS < median && median < 2 * TIME_NS, || {
            format!("median of {what}: {median} ns of {samples:?}")
        })?;
    }
    Ok(Completion::Completed)
}

/// A configuration that is applied while frames pass: every watched queue drops, and no longer drops.
fn big_red_switch() -> Result<Completion, Failed> {
    let mut config = config()?;
    let mut bench = Bench::start(&config, PORTS, &[])?;
    announce(&mut bench)?;
    let dropped = |bench: &mut Bench, expected: u64| {
        send(bench, 20, lossless, (0, 1))?;
        send(bench, 20, lossy, (0, 1))?;
        bench.wait("the frames are in the switch", |switch| {
            let port = &switch.ports[1];
            let lost = port.drops.get("XOFF_PFC_WD_TX").copied().unwrap_or(0);
            let lost_in = switch.ports[0].drops.get("XOFF_PFC_WD_RX").copied().unwrap_or(0);
            lost + lost_in == expected
        })?;
        Ok::<(), Failed>(())
    };
    dropped(&mut bench, 0)?;
    for (mode, on, lost) in [("enable", true, 20), ("disable", false, 20)] {
        config["PFC_WD"]["GLOBAL"]["BIG_RED_SWITCH"] = json!(mode);
        let applied = bench.client().apply_config(config.clone(), false, false);
        applied.map_err(|failure| failure.to_string())?;
        dropped(&mut bench, lost)?;
        let events = bench.client().events().map_err(|failure| failure.to_string())?;
        let last = events.last().ok_or("no event")?;
        same(
            (last.event.as_str(), last.on),
            ("big-red-switch", Some(on)),
            "event",
        )?;
        let words = format!("BIG_RED_SWITCH mode {mode}d");
        wait_for(&words, || Ok((lines(&bench, &words)?.len() == 1).then_some(())))?;
    }
    let after = bench.wait(
        "all lossy frames, and those of the lossless class before and after",
        |switch| switch.ports[1].tx_packets == 3 + 3 * 20 + 2 * 20,
    )?;
    same(
        after.ports.iter().map(|port| port.dropped()).sum(),
        20,
        "dropped in all",
    )?;
    bench.end(Signal::SIGTERM)?.in_order()?;
    Ok(Completion::Completed)
}
