//! Changes of a running host: PFC, 802.3x, flow rates, the classes that its applications read, and a reset.

use xoff_dataplane::Picos;

use super::Host;
use crate::config::{FlowRate, HostConfigError};
use crate::receive_buffer::ClassTrust;

impl Host {
    /// Enables PFC for the priorities of the mask `enabled`, in both directions. Bit *n* is priority *n*. Classes
    /// that are paused and no longer enabled resume at `now`. If the host has paused its peer for such a class, the
    /// peer resumes when that pause expires.
    pub fn set_pfc(&mut self, now: Picos, enabled: u8) {
        self.config.nic.pfc_honoured = enabled;
        self.nic.set_pfc_honoured(now, enabled);
        if let Some(buffer) = &mut self.config.nic.receive_buffer {
            buffer.pfc_enabled = enabled;
        }
        if let Some(buffer) = &mut self.receive_buffer {
            buffer.set_pfc_enabled(enabled);
        }
    }

    /// Sets whether the NIC honours 802.3x PAUSE frames. If it no longer honours them, a current pause of the link
    /// ends at `now`.
    pub fn set_pause_honoured(&mut self, now: Picos, is_honoured: bool) {
        self.config.nic.pause_honoured = is_honoured;
        self.nic.set_pause_honoured(now, is_honoured);
    }

    /// Sets the time from the arrival of a pause frame to its effect. The new value applies to frames that
    /// arrive later.
    pub fn set_response_time(&mut self, response: Picos) {
        self.config.nic.response_ns = response.as_nanos();
        self.nic.set_response_time(response);
    }

    /// Sets the rate of the flow with this number, from its next frame on. Returns `false` if no flow has
    /// this number.
    #[must_use = "false: there is no such flow"]
    pub fn set_flow_rate(&mut self, flow: u32, rate: FlowRate) -> bool {
        let index = self.flow_index(flow);
        if let Some(index) = index {
            let bits_per_second = rate.bits_per_second(&self.config.nic.link);
            self.config.flows[index].rate = rate;
            self.flows[index].pacer.set_rate(bits_per_second);
        }
        index.is_some()
    }

    /// Sets the classes that the applications of the host do not read. Bit *n* is class *n*. Frames of these classes
    /// stay in the receive buffer, so the buffer fills and the NIC sends PFC frames. Without a receive buffer, this
    /// has no effect.
    pub fn set_unread_classes(&mut self, now: Picos, unread: u8) {
        if let Some(buffer) = &mut self.receive_buffer {
            buffer.set_unread_classes(now, unread);
            self.send_due_pfc(now);
        }
    }

    /// Sets the field that determines the class of a received frame. Without a receive buffer, this has no effect.
    pub fn set_class_trust(&mut self, trust: ClassTrust) {
        if let Some(buffer) = &mut self.receive_buffer {
            buffer.set_class_trust(trust);
        }
    }

    /// Resets the NIC and the applications at `now`. Settings remain. Pauses, buffered frames, queue pairs, results
    /// and counters are lost. The flows start again as at [`Host::start`].
    ///
    /// # Errors
    /// Returns an error if [`HostConfig::check`](crate::HostConfig::check) rejects the configuration with the changes
    /// since the start of the host.
    pub fn reset(&mut self, now: Picos) -> Result<(), HostConfigError> {
        let trust = self.receive_buffer.as_ref().map(|buffer| buffer.class_trust());
        *self = Host::new(&self.config)?;
        if let Some(trust) = trust {
            self.set_class_trust(trust);
        }
        self.nic.start_link(now);
        self.start(now);
        Ok(())
    }
}
