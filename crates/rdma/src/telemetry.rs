//! In-band telemetry: what the links on a packet's path write into it (HPCC, SIGCOMM 2019, section 3).

use xoff_units::Picos;

/// Most hops that a packet can have room for.
pub const HOPS_MAX: usize = 16;

/// Room for telemetry in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryFormat {
    /// Hops that a packet has room for, 1 to [`HOPS_MAX`]. Of a longer path the first ones are recorded.
    pub hops_max: u8,
    /// Bytes that telemetry adds to a data packet and to the acknowledgement that echoes it, on every link and in every
    /// buffer. The room is reserved by the sender, so it does not depend on the number of hops that were recorded.
    pub bytes: u16,
}

impl TelemetryFormat {
    /// HPCC's header: 2 bytes, and 8 for each hop (SIGCOMM 2019, section 4.1). `hops_max` beyond [`HOPS_MAX`] is that.
    pub const fn hpcc(hops_max: u8) -> TelemetryFormat {
        let hops_max = if hops_max as usize > HOPS_MAX {
            HOPS_MAX as u8
        } else {
            hops_max
        };
        TelemetryFormat {
            hops_max,
            bytes: 2 + 8 * hops_max as u16,
        }
    }
}

impl Default for TelemetryFormat {
    /// HPCC's header for five hops, the longest path of a fat tree: 42 bytes.
    fn default() -> TelemetryFormat {
        TelemetryFormat::hpcc(5)
    }
}

/// The record of one switch port as the packet left by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopTelemetry {
    /// Start of the transmission.
    pub at: Picos,
    /// Bytes the port has sent since its start, this packet's included.
    pub tx_bytes: u64,
    /// Bytes that remain in the packet's queue.
    pub queue_bytes: u64,
    /// The port's speed in Mb/s.
    pub speed_mbps: u32,
}

/// The records in a packet, in the order of its hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    hops: [HopTelemetry; HOPS_MAX],
    len: u8,
    is_echo: bool,
    format: TelemetryFormat,
}

impl Telemetry {
    /// That of a packet which has not passed a switch.
    pub fn new(format: TelemetryFormat) -> Telemetry {
        Telemetry {
            format,
            ..Telemetry::default()
        }
    }

    /// Adds the record of a hop. Ignored in an echo, and where there is no room left.
    pub fn push(&mut self, hop: HopTelemetry) {
        if !self.is_echo && self.len < self.format.hops_max {
            self.hops[usize::from(self.len)] = hop;
            self.len += 1;
        }
    }

    /// The records so far.
    pub fn hops(&self) -> &[HopTelemetry] {
        &self.hops[..usize::from(self.len)]
    }

    /// The room that the packet has.
    pub fn format(&self) -> TelemetryFormat {
        self.format
    }

    /// Turns the telemetry of a data packet into that of its acknowledgement, into which the links of the way back write nothing.
    pub fn become_echo(&mut self) {
        self.is_echo = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_records_as_many_hops_as_it_has_room_for() {
        for hops_max in [1, 5, HOPS_MAX as u8] {
            let mut telemetry = Telemetry::new(TelemetryFormat::hpcc(hops_max));
            for tx_bytes in 0..20 {
                let hop = HopTelemetry {
                    tx_bytes,
                    ..HopTelemetry::default()
                };
                telemetry.push(hop);
            }
            let recorded: Vec<u64> = telemetry.hops().iter().map(|hop| hop.tx_bytes).collect();
            assert_eq!(recorded, (0..u64::from(hops_max)).collect::<Vec<_>>());
        }
        assert_eq!(TelemetryFormat::default().bytes, 42);
        assert_eq!(TelemetryFormat::hpcc(u8::MAX).hops_max, HOPS_MAX as u8);
    }

    #[test]
    fn an_echo_records_nothing() {
        let mut telemetry = Telemetry::default();
        telemetry.push(HopTelemetry::default());
        telemetry.become_echo();
        telemetry.push(HopTelemetry::default());
        assert_eq!(telemetry.hops().len(), 1);
    }
}
