//! Writes time series of queues, pauses and rates to CSV files.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{PgId, Picos, PortId, QueueId};

use super::engine::Fabric;
use xoff_telemetry::StreamFile;

/// Samples all ports of all switches at a constant interval of model time. `docs/virtual-time.md` describes
/// the files. A port, queue or priority group has a line only if it is active now or was active at the
/// previous sample. The files are therefore small but contain every change.
#[derive(Debug)]
pub struct TimeSeries {
    queues: BufWriter<StreamFile>,
    pauses: BufWriter<StreamFile>,
    rates: BufWriter<StreamFile>,
    /// Model time between two samples.
    interval: Picos,
    /// Time of the next sample.
    next: Picos,
    /// Bytes that each port had sent at the previous sample, by switch and port.
    sent: Vec<Vec<u64>>,
    /// Two pause times at the previous sample, by switch, port and priority: the time for which the peer
    /// paused the port, and the time for which the port paused the peer.
    paused: Vec<Vec<[[u64; PRIORITIES]; 2]>>,
    /// Buffer cells of each queue and priority group at the previous sample. The first index is the switch.
    /// The second index is the port number times 8 plus the priority.
    cells: Vec<Vec<(u32, u32)>>,
}

impl TimeSeries {
    /// Creates the files `queues.csv`, `pauses.csv` and `rates.csv` in `folder`, and the folder if necessary.
    /// Existing files are overwritten. The first sample is due at time 0.
    ///
    /// # Errors
    /// Returns an error if the folder or a file cannot be created.
    pub fn new(fabric: &Fabric, interval: Picos, folder: &Path) -> io::Result<TimeSeries> {
        fs::create_dir_all(folder)?;
        let file = |name: &str, header: &str| -> io::Result<BufWriter<StreamFile>> {
            let mut file = BufWriter::new(xoff_telemetry::open_stream_file(&folder.join(name))?);
            writeln!(file, "{header}")?;
            Ok(file)
        };
        let ports = |switch: usize| fabric.switch(switch).port_count();
        let switches = 0..fabric.switch_count();
        Ok(TimeSeries {
            queues: file(
                "queues.csv",
                "time_ns,switch,port,priority,queue_cells,group_cells,group_headroom_cells,xoff",
            )?,
            pauses: file("pauses.csv", "time_ns,switch,port,priority,paused_ns,asked_ns")?,
            rates: file("rates.csv", "time_ns,switch,port,tx_bps")?,
            interval,
            next: Picos::ZERO,
            sent: switches.clone().map(|s| vec![0; ports(s)]).collect(),
            paused: switches
                .clone()
                .map(|s| vec![[[0; PRIORITIES]; 2]; ports(s)])
                .collect(),
            cells: switches.map(|s| vec![(0, 0); ports(s) * PRIORITIES]).collect(),
        })
    }

    /// Returns the model time of the next sample.
    pub fn next_sample(&self) -> Picos {
        self.next
    }

    /// Writes a sample if one is due at the model time of the fabric. Does nothing before this time.
    ///
    /// # Errors
    /// Returns an error if a line cannot be written.
    pub fn sample(&mut self, fabric: &Fabric) -> io::Result<()> {
        let now = fabric.now();
        if now < self.next {
            return Ok(());
        }
        self.next = now.saturating_add(self.interval);
        for switch in 0..fabric.switch_count() {
            for port in 0..fabric.switch(switch).port_count() {
                self.sample_port(fabric, switch, port)?;
            }
        }
        Ok(())
    }

    fn sample_port(&mut self, fabric: &Fabric, switch: usize, port: usize) -> io::Result<()> {
        let (core, config) = (fabric.switch(switch), fabric.switch_config(switch));
        let id = PortId(port as u16);
        let time_ns = fabric.now().as_nanos();
        let (switch_name, port_name) = (&config.name, &config.ports[port].name);
        let counters = core.port_counters(fabric.now(), id);
        let sent = std::mem::replace(&mut self.sent[switch][port], counters.tx_bytes);
        if counters.tx_bytes > sent {
            let bits = u128::from(counters.tx_bytes - sent) * 8 * 1_000_000_000_000;
            let bps = bits.checked_div(u128::from(self.interval.0)).unwrap_or(0);
            writeln!(self.rates, "{time_ns},{switch_name},{port_name},{bps}")?;
        }
        for n in 0..PRIORITIES {
            let group = core.pg_buffers(PgId::new(id, n as u8));
            let queue = core.queue_buffers(QueueId::new(id, n as u8));
            let cells = (queue.total.current_cells, group.total.current_cells);
            let before = std::mem::replace(&mut self.cells[switch][port * PRIORITIES + n], cells);
            if cells != (0, 0) || before != (0, 0) {
                writeln!(
                    self.queues,
                    "{time_ns},{switch_name},{port_name},{n},{},{},{},{}",
                    cells.0,
                    cells.1,
                    group.headroom.current_cells,
                    u8::from(group.xoff)
                )?;
            }
            let paused = [counters.rx_pause_ps[n], counters.tx_pause_ps[n]];
            let [was_paused, was_asked] = &mut self.paused[switch][port];
            let grown = [paused[0] - was_paused[n], paused[1] - was_asked[n]];
            (was_paused[n], was_asked[n]) = (paused[0], paused[1]);
            if grown != [0, 0] {
                let (paused_ns, asked_ns) = (grown[0] / 1_000, grown[1] / 1_000);
                writeln!(
                    self.pauses,
                    "{time_ns},{switch_name},{port_name},{n},{paused_ns},{asked_ns}"
                )?;
            }
        }
        Ok(())
    }

    /// Writes the remaining buffered lines to all files.
    ///
    /// # Errors
    /// Returns an error if the remaining data cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.queues.flush()?;
        self.pauses.flush()?;
        self.rates.flush()
    }
}
