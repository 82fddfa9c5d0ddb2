//! What the queue pairs of an endpoint share.

use std::collections::VecDeque;

use xoff_units::Picos;

use super::config::{QpConfig, QpIndex};
use super::congestion::CongestionControl;
use super::counters::Counters;
use super::finished::Finished;
use super::ready::{Classes, Timers};
use super::telemetry::Telemetry;
use super::work::{Completion, CompletionKind};

/// Queues, timers and completions of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) classes: Classes,
    pub(super) timers: Timers,
    pub(super) completions: VecDeque<Completion>,
    // Boxes because that is how they travel, in acknowledgements.
    #[allow(clippy::vec_box)]
    pub(super) spare: Vec<Box<Telemetry>>,
    /// Local ACK timeouts and repeated packets, of all queue pairs: sums that cost nothing to read.
    pub(super) timeouts: u64,
    pub(super) repeats: u64,
    /// Queue pairs that may complete something by what they send, or by a packet of the kind that completes nothing elsewhere.
    pub(super) completing: u32,
}

impl Shared {
    /// The telemetry of a packet for its acknowledgement, in a box that has been used before if there is one.
    pub(super) fn boxed_echo(&mut self, telemetry: &Telemetry) -> Box<Telemetry> {
        let mut echo = match self.spare.pop() {
            Some(mut spare) => {
                *spare = *telemetry;
                spare
            }
            None => Box::new(*telemetry),
        };
        echo.become_echo();
        echo
    }
}

/// Where the two sides of a queue pair find themselves while something happens.
#[derive(Debug)]
pub(super) struct Env<'a> {
    pub(super) now: Picos,
    pub(super) qp: QpIndex,
    pub(super) config: &'a QpConfig,
    pub(super) congestion: &'a mut dyn CongestionControl,
    pub(super) counters: &'a mut Counters,
    pub(super) shared: &'a mut Shared,
}

impl Env<'_> {
    pub(super) fn complete(&mut self, kind: CompletionKind) {
        self.shared.completions.push_back(Completion {
            qp: self.qp,
            at: self.now,
            kind,
        });
    }

    /// Queues a packet that is not paced.
    #[inline]
    pub(super) fn emit(&mut self, class: u8, finished: Finished) {
        self.shared.classes.push_finished(class, self.now, finished);
    }

    /// The end of a local ACK timeout that starts now.
    pub(super) fn ack_deadline(&self) -> Picos {
        self.config
            .ack_timeout()
            .map_or(Picos::NEVER, |timeout| self.now.saturating_add(timeout))
    }
}
