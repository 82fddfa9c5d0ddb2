//! Records load, queues and pauses of all switch ports over time, for a plot.

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{Picos, PortId, QueueId};

use super::engine::Fabric;

/// Number of time bins at which pairs of bins are merged. From then on, new bins are twice as long.
const BINS_MAX: usize = 256;
/// Initial length of a bin.
const FIRST_BIN: Picos = Picos::from_micros(1);

/// Load, queues and pauses of every switch port over time. Time is divided into bins of equal length, at
/// first 1 us. A run of any length has at most 256 bins, so the memory use does not grow with time. The last
/// bin can be shorter.
#[derive(Clone, Debug)]
pub struct Timeline {
    began: Picos,
    bin: Picos,
    /// End of the open bin (the current bin).
    next: Picos,
    /// Ends of the closed bins.
    ends: Vec<Picos>,
    /// Values of the ports, ordered by switch and port.
    ports: Vec<PortTimeline>,
}

/// Values of one switch port. Each list has one entry for each bin of [`Timeline::bins_ns`].
#[derive(Clone, Debug)]
pub struct PortTimeline {
    /// Index of the switch in [`FabricPlan::switches`](crate::FabricPlan::switches).
    pub switch: usize,
    /// Index of the port in the configuration of the switch.
    pub port: usize,
    /// Time in each bin for which frames of this port occupied the link, in picoseconds. Preambles and gaps
    /// are included.
    pub busy_ps: Vec<u64>,
    /// Bytes in all egress queues of the port at the end of each bin. If two bins are merged, the larger
    /// value remains. A queue holds whole buffer cells, so the value is a multiple of the cell size.
    pub queued_bytes: Vec<u64>,
    /// Time in each bin for which the peer paused this port, in picoseconds. A bin (time interval) contains
    /// the value of one priority: the priority that was paused longest in the bin.
    pub paused_ps: Vec<u64>,
    /// Time in each bin for which this port paused its peer, in picoseconds. A bin (time interval) contains
    /// the value of one priority: the priority that was paused longest in the bin.
    pub pausing_ps: Vec<u64>,
    previous: PreviousCounters,
}

/// Counters at the end of the previous bin.
#[derive(Clone, Copy, Debug, Default)]
struct PreviousCounters {
    tx_bytes: u64,
    tx_packets: u64,
    paused_ps: [u64; PRIORITIES],
    pausing_ps: [u64; PRIORITIES],
}

impl Timeline {
    /// Creates a timeline that starts at the current time of the fabric.
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
                    previous: PreviousCounters {
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

    /// Returns the end of the current bin. The caller runs the fabric to this time and
    /// calls [`Timeline::sample`].
    pub fn next_sample(&self) -> Picos {
        self.next
    }

    /// Closes the current bin if the fabric has reached the end of the bin. Does nothing before this time.
    pub fn sample(&mut self, fabric: &Fabric) {
        if fabric.now() >= self.next {
            self.close_bin(fabric);
        }
    }

    /// Closes the last bin (time interval) at the current time of the fabric. The last bin can be shorter
    /// than the bins before.
    pub fn finish(&mut self, fabric: &Fabric) {
        let last = self.ends.last().copied().unwrap_or(self.began);
        if fabric.now() > last {
            self.close_bin(fabric);
        }
    }

    fn close_bin(&mut self, fabric: &Fabric) {
        let now = fabric.now();
        for port in &mut self.ports {
            port.close_bin(fabric);
        }
        self.ends.push(now);
        if self.ends.len() >= BINS_MAX {
            self.bin = Picos(self.bin.0.saturating_mul(2));
            self.ends = self
                .ends
                .chunks(2)
                .filter_map(|pair| pair.last().copied())
                .collect();
            self.ports.iter_mut().for_each(PortTimeline::merge_bin_pairs);
        }
        self.next = now.saturating_add(self.bin);
    }

    /// Returns the start and the end of each closed bin, in nanoseconds since the start of the timeline.
    pub fn bins_ns(&self) -> Vec<(f64, f64)> {
        let ends = self.ends.iter().map(|end| end.since(self.began).0 as f64 / 1e3);
        let ends: Vec<f64> = ends.collect();
        let begins = std::iter::once(0.0).chain(ends.iter().copied());
        begins.zip(ends.iter().copied()).collect()
    }

    /// Returns the values of all ports, ordered by switch and port.
    pub fn ports(&self) -> &[PortTimeline] {
        &self.ports
    }
}

impl PortTimeline {
    fn close_bin(&mut self, fabric: &Fabric) {
        let id = PortId(self.port as u16);
        let (core, config) = (fabric.switch(self.switch), fabric.switch_config(self.switch));
        let counters = core.port_counters(fabric.now(), id);
        let link = &config.ports[self.port].link;
        let packets = counters.tx_packets - self.previous.tx_packets;
        let bytes = counters.tx_bytes - self.previous.tx_bytes + packets * u64::from(link.overhead_bytes);
        // One byte at 1 Mb/s takes 8 us.
        let busy_ps = u128::from(bytes) * 8_000_000 / u128::from(link.speed_mbps.max(1));
        self.busy_ps.push(u64::try_from(busy_ps).unwrap_or(u64::MAX));
        let cells: u64 = (0..PRIORITIES as u8)
            .map(|n| u64::from(core.queue_buffers(QueueId::new(id, n)).total.current_cells))
            .sum();
        self.queued_bytes.push(cells * u64::from(config.cell_bytes));
        let longest = |now: &[u64; PRIORITIES], previous: &[u64; PRIORITIES]| {
            let grown = now.iter().zip(previous).map(|(now, previous)| now - previous);
            grown.max().unwrap_or(0)
        };
        self.paused_ps
            .push(longest(&counters.rx_pause_ps, &self.previous.paused_ps));
        self.pausing_ps
            .push(longest(&counters.tx_pause_ps, &self.previous.pausing_ps));
        self.previous = PreviousCounters {
            tx_bytes: counters.tx_bytes,
            tx_packets: counters.tx_packets,
            paused_ps: counters.rx_pause_ps,
            pausing_ps: counters.tx_pause_ps,
        };
    }

    /// Merges pairs of bins.
    fn merge_bin_pairs(&mut self) {
        for times in [&mut self.busy_ps, &mut self.paused_ps, &mut self.pausing_ps] {
            *times = times.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let peaks = self.queued_bytes.chunks(2);
        self.queued_bytes = peaks
            .map(|pair| pair.iter().copied().max().unwrap_or(0))
            .collect();
    }
}
