//! In-band network telemetry: each switch on a path writes a record into the packet (HPCC, SIGCOMM 2019,
//! section 3).

use xoff_units::Picos;

/// Largest number of hop records (one for each switch port) in a packet.
pub const HOPS_MAX: usize = 16;

/// Size of the telemetry in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryFormat {
    /// Number of hop records for which a packet has space, 1 to [`HOPS_MAX`]. If a path has more hops, only
    /// the first hops add records.
    pub hops_max: u8,
    /// Bytes that telemetry adds to a data packet and to its acknowledgement, on every link and in every
    /// buffer. The sender reserves the space, so the number does not depend on the recorded hops.
    pub bytes: u16,
}

impl TelemetryFormat {
    /// Returns the format of HPCC: 2 bytes plus 8 bytes per hop (SIGCOMM 2019, section 4.1). A `hops_max`
    /// above [`HOPS_MAX`] is replaced by [`HOPS_MAX`].
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
    /// Returns the HPCC format for five hops, the longest path of a fat tree: 42 bytes.
    fn default() -> TelemetryFormat {
        TelemetryFormat::hpcc(5)
    }
}

/// Record of one switch port, written when the packet left the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopTelemetry {
    /// Start of the transmission of the packet, in model time.
    pub at: Picos,
    /// Bytes of all data frames that the port has sent, including this packet, with padding and FCS.
    pub tx_bytes: u64,
    /// Bytes in all queues of the port when the packet starts to leave, with padding and FCS. The packet
    /// itself is not included.
    pub queue_bytes: u64,
    /// Speed of the port in Mb/s.
    pub speed_mbps: u32,
}

/// Hop records of a packet, in the order of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    hops: [HopTelemetry; HOPS_MAX],
    len: u8,
    is_echo: bool,
    format: TelemetryFormat,
}

impl Telemetry {
    /// Creates the telemetry of a packet that has not passed a switch yet.
    pub fn new(format: TelemetryFormat) -> Telemetry {
        Telemetry {
            format,
            ..Telemetry::default()
        }
    }

    /// Adds a hop record. The call has no effect if the telemetry is an echo or if its space is full.
    pub fn push(&mut self, hop: HopTelemetry) {
        if !self.is_echo && self.len < self.format.hops_max {
            self.hops[usize::from(self.len)] = hop;
            self.len += 1;
        }
    }

    /// Returns the hop records, in the order of the path.
    pub fn hops(&self) -> &[HopTelemetry] {
        &self.hops[..usize::from(self.len)]
    }

    /// Returns the format of the telemetry.
    pub fn format(&self) -> TelemetryFormat {
        self.format
    }

    /// Marks the telemetry as an echo: an acknowledgement returns the telemetry of a data packet. Switches on
    /// the return path add no records to an echo.
    pub fn convert_to_echo(&mut self) {
        self.is_echo = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telemetry_records_at_most_hops_max_hops() {
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
    fn an_echo_records_no_hops() {
        let mut telemetry = Telemetry::default();
        telemetry.push(HopTelemetry::default());
        telemetry.convert_to_echo();
        telemetry.push(HopTelemetry::default());
        assert_eq!(telemetry.hops().len(), 1);
    }
}
