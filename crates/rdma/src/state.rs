//! State that all queue pairs of an endpoint share.

use xoff_units::Picos;

use super::class_queues::{ClassQueues, QpTimers};
use super::config::{QpConfig, QpIndex};
use super::congestion::CongestionControl;
use super::counters::Counters;
use super::inline_queue::InlineQueue;
use super::telemetry::Telemetry;
use super::unpaced::UnpacedPacket;
use super::work::{Completion, CompletionKind};

/// Queues, timers and completions of an endpoint.
///
/// The fields that nearly every packet uses come first.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct EndpointState {
    /// Number of queue pairs for which [`super::Endpoint::completes_no_message_before`] must return `false`.
    pub(super) completing_qps: u32,
    /// Number of queue pairs whose receiver stores packets behind a gap.
    pub(super) reordering_qps: u32,
    pub(super) timers: QpTimers,
    pub(super) completions: InlineQueue<Completion>,
    pub(super) classes: ClassQueues,
    // The telemetry is boxed, because acknowledgements carry it in a box.
    #[allow(clippy::vec_box)]
    pub(super) spare: Vec<Box<Telemetry>>,
    /// Number of local ACK timeouts of all queue pairs. The sum is read often, so it is stored and not
    /// computed at each read.
    pub(super) timeouts: u64,
    /// Number of packets that all queue pairs have retransmitted.
    pub(super) retransmitted_packets: u64,
}

impl EndpointState {
    /// Copies the telemetry of a packet for its acknowledgement. Uses a spare box if one exists.
    pub(super) fn echo_telemetry(&mut self, telemetry: &Telemetry) -> Box<Telemetry> {
        let mut echo = match self.spare.pop() {
            Some(mut spare) => {
                *spare = *telemetry;
                spare
            }
            None => Box::new(*telemetry),
        };
        echo.convert_to_echo();
        echo
    }
}

/// Context of one event of a queue pair, passed to its requester and responder.
#[derive(Debug)]
pub(super) struct QpContext<'a> {
    pub(super) now: Picos,
    pub(super) qp: QpIndex,
    pub(super) config: &'a QpConfig,
    pub(super) congestion: &'a mut dyn CongestionControl,
    pub(super) counters: &'a mut Counters,
    pub(super) shared: &'a mut EndpointState,
}

impl QpContext<'_> {
    pub(super) fn push_completion(&mut self, kind: CompletionKind) {
        self.shared.completions.push_back(Completion {
            qp: self.qp,
            at: self.now,
            kind,
        });
    }

    /// Queues a packet that is not paced, such as an acknowledgement.
    #[inline]
    pub(super) fn send_unpaced(&mut self, class: u8, unpaced: UnpacedPacket) {
        self.shared.classes.push_unpaced(class, self.now, unpaced);
    }

    /// Returns the end of a local ACK timeout that starts now.
    pub(super) fn ack_deadline(&self) -> Picos {
        self.config
            .ack_timeout()
            .map_or(Picos::NEVER, |timeout| self.now.saturating_add(timeout))
    }
}
