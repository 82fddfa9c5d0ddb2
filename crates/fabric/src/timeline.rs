//! What happened over time, in so many bins as a plot can show.

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{Picos, PortId, QueueId};

use super::engine::Fabric;

/// Most bins; with more, two become one and each lasts twice as long.
const BINS_MAX: usize = 256;
/// How long a bin lasts at first.
const FIRST_BIN: Picos = Picos::from_micros(1);

/// Loads, queues and pauses of every port of every switch, over time. A run of any length has at most 256 bins, all of
/// the same length but the last one; memory does not grow with time.
#[derive(Clone, Debug)]
pub struct Timeline {
    began: Picos,
    bin: Picos,
    /// When the bin that is open ends.
    next: Picos,
    /// Ends of the bins that are closed.
    ends: Vec<Picos>,
    /// In the order of switches and of their ports.
    ports: Vec<PortTimeline>,
}

/// One port of a switch: a value for each bin.
#[derive(Clone, Debug)]
pub struct PortTimeline {
    /// Index of the switch.
    pub switch: usize,
    /// Index of the port.
    pub port: usize,
    /// Time the link was busy with what the port sent, in picoseconds.
    pub busy_ps: Vec<u64>,
    /// Most bytes that its egress queues held together, at the ends of the bins.
    pub queued_bytes: Vec<u64>,
    /// Time the peer held it, of the priority that was held longest, in picoseconds.
    pub paused_ps: Vec<u64>,
    /// Time it asked its peer to pause, of the priority that was asked longest, in picoseconds.
    pub pausing_ps: Vec<u64>,
    before: Before,
}

/// Counters at the end of the bin before.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    tx_bytes: u64,
    tx_packets: u64,
    paused_ps: [u64; PRIORITIES],
    pausing_ps: [u64; PRIORITIES],
}

impl Timeline {
    /// From now on.
    pub fn new(fabric: &Fabric) -> Timeline {
        let mut timeline = Timeline {
            began: fabric.now(),
            bin: FIRST_BIN,
            next: fabric.now().saturating_add(FIRST_BIN),
            ends: Vec::new(),
            ports: Vec::new(),
        };
        for switch in 0..fabric.switch_count() {
            for port in 0..fabric.switch(switch).port_count() {
                let counters = fabric
                    .switch(switch)
                    .port_counters(fabric.now(), PortId(port as u16));
                timeline.ports.push(PortTimeline {
                    switch,
                    port,
                    busy_ps: Vec::new(),
                    queued_bytes: Vec::new(),
                    paused_ps: Vec::new(),
                    pausing_ps: Vec::new(),
                    before: Before {
                        tx_bytes: counters.tx_bytes,
                        tx_packets: counters.tx_packets,
                        paused_ps: counters.rx_pause_ps,
                        pausing_ps: counters.tx_pause_ps,
                    },
                });
            }
        }
        timeline
    }

    /// When the open bin ends.
    pub fn next(&self) -> Picos {
        self.next
    }

    /// Closes the open bin if its end has come.
    pub fn sample(&mut self, fabric: &Fabric) {
        if fabric.now() >= self.next {
            self.close(fabric);
        }
    }

    /// Closes the last bin, which may be shorter.
    pub fn finish(&mut self, fabric: &Fabric) {
        let last = self.ends.last().copied().unwrap_or(self.began);
        if fabric.now() > last {
            self.close(fabric);
        }
    }

    fn close(&mut self, fabric: &Fabric) {
        let now = fabric.now();
        for port in &mut self.ports {
            port.close(fabric);
        }
        self.ends.push(now);
        if self.ends.len() >= BINS_MAX {
            self.bin = Picos(self.bin.0.saturating_mul(2));
            self.ends = self
                .ends
                .chunks(2)
                .filter_map(|pair| pair.last().copied())
                .collect();
            self.ports.iter_mut().for_each(PortTimeline::halve);
        }
        self.next = now.saturating_add(self.bin);
    }

    /// Begin and end of each bin, counted from the start, in nanoseconds.
    pub fn bins_ns(&self) -> Vec<(f64, f64)> {
        let ends = self.ends.iter().map(|end| end.since(self.began).0 as f64 / 1e3);
        let ends: Vec<f64> = ends.collect();
        let begins = std::iter::once(0.0).chain(ends.iter().copied());
        begins.zip(ends.iter().copied()).collect()
    }

    /// What each port of each switch did.
    pub fn ports(&self) -> &[PortTimeline] {
        &self.ports
    }
}

impl PortTimeline {
    fn close(&mut self, fabric: &Fabric) {
        let id = PortId(self.port as u16);
        let (core, config) = (fabric.switch(self.switch), fabric.switch_config(self.switch));
        let counters = core.port_counters(fabric.now(), id);
        let link = &config.ports[self.port].link;
        let packets = counters.tx_packets - self.before.tx_packets;
        let octets = counters.tx_bytes - self.before.tx_bytes + packets * u64::from(link.overhead_bytes);
        // An octet at 1 Mb/s takes 8 us.
        let busy_ps = u128::from(octets) * 8_000_000 / u128::from(link.speed_mbps.max(1));
        self.busy_ps.push(u64::try_from(busy_ps).unwrap_or(u64::MAX));
        let cells: u64 = (0..PRIORITIES as u8)
            .map(|n| u64::from(core.queue_buffers(QueueId::new(id, n)).total.current_cells))
            .sum();
        self.queued_bytes.push(cells * u64::from(config.cell_bytes));
        let longest = |now: &[u64; PRIORITIES], before: &[u64; PRIORITIES]| {
            let grown = now.iter().zip(before).map(|(now, before)| now - before);
            grown.max().unwrap_or(0)
        };
        self.paused_ps
            .push(longest(&counters.rx_pause_ps, &self.before.paused_ps));
        self.pausing_ps
            .push(longest(&counters.tx_pause_ps, &self.before.pausing_ps));
        self.before = Before {
            tx_bytes: counters.tx_bytes,
            tx_packets: counters.tx_packets,
            paused_ps: counters.rx_pause_ps,
            pausing_ps: counters.tx_pause_ps,
        };
    }

    /// Makes one bin of two.
    fn halve(&mut self) {
        for times in [&mut self.busy_ps, &mut self.paused_ps, &mut self.pausing_ps] {
            *times = times.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let peaks = self.queued_bytes.chunks(2);
        self.queued_bytes = peaks
            .map(|pair| pair.iter().copied().max().unwrap_or(0))
            .collect();
    }
}
