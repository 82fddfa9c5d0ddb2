//! The order of messages on a connection.

use crate::error::OrderError;
use crate::message::{Grant, Message};
use crate::promise::Promise;
use crate::request::{Reply, ReplyBody};

/// Longest time of a reset or a request, in picoseconds: 10 s.
const REPLY_MAX_PS: u64 = 10_000_000_000_000;

/// A reset or request without its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenRequest {
    /// A reset at this time.
    Reset(u64),
    /// A request at this time.
    Request(u64),
}

/// The promises of both sides, and the request without its reply. It performs no input or output.
#[derive(Clone, Debug, Default)]
pub struct LinkState {
    own: Promise,
    peer: Promise,
    /// Number of frames, requests and replies of the peer since the last reset.
    received: u64,
    /// A reset or request of this side.
    own_request: Option<OpenRequest>,
    /// A reset or request of the peer.
    peer_request: Option<OpenRequest>,
}

impl LinkState {
    /// Returns the latest time until which this side may process events, in picoseconds. All frames of the peer that
    /// end at this time or before are known.
    pub fn horizon(&self) -> u64 {
        self.peer.horizon()
    }

    /// Returns the number of frames, requests and replies of the peer since the last reset, for the next grant.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns whether the last grant of the peer takes all messages of this side into account.
    pub fn is_counted(&self) -> bool {
        self.peer.counts_all()
    }

    /// Returns whether a reset or request of this side has no reply.
    pub fn awaits_reply(&self) -> bool {
        self.own_request.is_some()
    }

    /// Checks a message of the peer. Returns false if the message is from before a reset: it must be ignored.
    ///
    /// # Errors
    /// The message breaks a rule.
    pub fn receive(&mut self, message: &Message) -> Result<bool, OrderError> {
        let is_resetting = matches!(self.own_request, Some(OpenRequest::Reset(_)));
        if is_resetting && matches!(message, Message::Frame(_) | Message::Grant(_)) {
            return Ok(false);
        }
        let sides = Sides {
            sender: &mut self.peer,
            receiver: &mut self.own,
            sender_request: &mut self.peer_request,
            receiver_request: &mut self.own_request,
        };
        sides.pass(message)?;
        match message {
            Message::Reset { .. } => self.received = 0,
            Message::Reply(_) if is_resetting => self.received = 0,
            Message::Frame(_) | Message::Request { .. } | Message::Reply(_) => self.received += 1,
            _ => {}
        }
        Ok(true)
    }

    /// Checks a message of this side before it is sent.
    ///
    /// # Errors
    /// The message breaks a rule.
    pub fn send(&mut self, message: &Message) -> Result<(), OrderError> {
        let sides = Sides {
            sender: &mut self.own,
            receiver: &mut self.peer,
            sender_request: &mut self.own_request,
            receiver_request: &mut self.peer_request,
        };
        sides.pass(message)
    }

    /// Makes the grant of this side with the number of received messages.
    pub fn make_grant(&self, first_bit_ps: u64, last_bit_ps: u64) -> Grant {
        Grant {
            first_bit_ps,
            last_bit_ps,
            received: self.received,
        }
    }
}

/// Both sides during a message.
struct Sides<'a> {
    sender: &'a mut Promise,
    receiver: &'a mut Promise,
    sender_request: &'a mut Option<OpenRequest>,
    receiver_request: &'a mut Option<OpenRequest>,
}

impl Sides<'_> {
    /// Checks a message and updates the promises.
    fn pass(self, message: &Message) -> Result<(), OrderError> {
        let refused = |rule| OrderError::NotPermitted {
            kind: message.kind_name(),
            rule,
        };
        match message {
            Message::Hello(_) => Err(refused("it is only the first message of each side")),
            Message::Bye { .. } => Ok(()),
            Message::Frame(frame) => {
                self.sender.check_frame(frame)?;
                self.receiver.add_uncounted(frame.last_bit_ps)
            }
            Message::Grant(grant) => self.sender.replace(*grant),
            Message::Reset { .. } | Message::Request { .. } if self.sender_request.is_some() => {
                Err(refused("the request before it has no reply"))
            }
            Message::Request { time_ps, .. } => {
                self.sender.check_request(*time_ps)?;
                *self.sender_request = Some(OpenRequest::Request(*time_ps));
                self.receiver.add_uncounted(*time_ps)
            }
            Message::Reset { time_ps, .. } => {
                self.sender.check_request(*time_ps)?;
                *self.sender_request = Some(OpenRequest::Reset(*time_ps));
                *self.sender = Promise::after_reset(*time_ps);
                *self.receiver = Promise::after_reset(*time_ps);
                Ok(())
            }
            Message::Reply(reply) => match self.receiver_request.take() {
                Some(request) => self.pass_reply(request, reply),
                None => Err(refused("no request waits for a reply")),
            },
        }
    }

    fn pass_reply(self, request: OpenRequest, reply: &Reply) -> Result<(), OrderError> {
        let (OpenRequest::Reset(request_ps) | OpenRequest::Request(request_ps)) = request;
        let time_ps = reply.time_ps;
        if !(request_ps..=request_ps.saturating_add(REPLY_MAX_PS)).contains(&time_ps) {
            return Err(OrderError::ReplyTime { time_ps, request_ps });
        }
        let answers_reset = matches!(reply.body, ReplyBody::Started { .. } | ReplyBody::Unsupported(_));
        if let OpenRequest::Reset(_) = request {
            if !answers_reset {
                return Err(OrderError::NotPermitted {
                    kind: "REPLY",
                    rule: "the answer to a RESET has the form 2 or 1",
                });
            }
            *self.sender = Promise::after_reset(time_ps);
            *self.receiver = Promise::after_reset(time_ps);
            return Ok(());
        }
        self.receiver.add_uncounted(time_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Frame;
    use crate::request::HostRequest;

    fn frame(first_bit_ps: u64, last_bit_ps: u64) -> Message {
        Message::Frame(Frame {
            first_bit_ps,
            last_bit_ps,
            has_error: false,
            bytes: vec![0; 64],
        })
    }

    fn grant(first_bit_ps: u64, last_bit_ps: u64, received: u64) -> Message {
        Message::Grant(Grant {
            first_bit_ps,
            last_bit_ps,
            received,
        })
    }

    fn reset(time_ps: u64) -> Message {
        Message::Reset {
            time_ps,
            speed_bps: 1_000_000_000,
            mutant: String::new(),
        }
    }

    fn request(time_ps: u64) -> Message {
        Message::Request {
            time_ps,
            request: HostRequest::ReadCounters,
        }
    }

    fn reply(time_ps: u64, body: ReplyBody) -> Message {
        Message::Reply(Reply { time_ps, body })
    }

    fn started(time_ps: u64) -> Message {
        let body = ReplyBody::Started {
            mac: [2; 6],
            name: "mac".to_owned(),
        };
        reply(time_ps, body)
    }

    #[test]
    fn a_grant_of_the_last_bit_permits_the_time_before_it() {
        let mut state = LinkState::default();
        state.receive(&grant(0, 5_001, 0)).expect("a grant");
        assert_eq!(state.horizon(), 5_000);
        state.receive(&grant(7_000, 7_000, 0)).expect("a grant");
        assert_eq!(state.horizon(), 7_000, "the last bit is after the first one");
    }

    #[test]
    fn a_frame_of_this_side_limits_the_horizon_until_the_peer_counts_it() {
        let mut state = LinkState::default();
        state.receive(&grant(9_000, 9_000, 0)).expect("a grant");
        state.send(&frame(1_000, 2_000)).expect("a frame");
        assert_eq!((state.horizon(), state.is_counted()), (2_000, false));
        state
            .receive(&frame(2_000, 2_500))
            .expect("a reaction at the last bit");
        state.receive(&grant(8_000, 8_000, 1)).expect("a later grant");
        assert_eq!((state.horizon(), state.is_counted()), (8_000, true));
        assert_eq!(state.received(), 1);
    }

    #[test]
    fn a_peer_that_goes_back_in_time_is_an_error() {
        let mut state = LinkState::default();
        state.receive(&grant(5_000, 5_000, 0)).expect("a grant");
        let back = OrderError::GrantGoesBack {
            time_ps: 4_999,
            granted_ps: 5_000,
        };
        assert_eq!(state.receive(&grant(4_999, 5_000, 0)), Err(back));
        let error = state.receive(&frame(4_999, 6_000)).expect_err("an early frame");
        assert!(
            error
                .to_string()
                .starts_with("goes back in time: a frame from 4999 ps"),
            "{error}"
        );
        state.receive(&frame(5_000, 6_000)).expect("a frame in time");
        assert_eq!(
            state.receive(&frame(5_999, 7_000)),
            Err(OrderError::Overlap {
                first_bit_ps: 5_999,
                previous_ps: 6_000
            })
        );
        assert_eq!(
            state.receive(&frame(6_000, 6_000)),
            Err(OrderError::EmptyFrame {
                first_bit_ps: 6_000,
                last_bit_ps: 6_000
            })
        );
    }

    #[test]
    fn a_grant_counts_messages_that_were_sent() {
        let mut state = LinkState::default();
        state.send(&frame(0, 1_000)).expect("a frame");
        for (received, is_right) in [(2, false), (1, true), (0, false)] {
            let result = state.receive(&grant(1_000, 1_000, received));
            assert_eq!(result.is_ok(), is_right, "{received}: {result:?}");
        }
    }

    #[test]
    fn messages_from_before_a_reset_are_ignored() {
        let mut state = LinkState::default();
        state.receive(&grant(5_000, 5_000, 0)).expect("a grant");
        state.send(&reset(3_000)).expect("a reset");
        assert!(state.awaits_reply());
        assert_eq!(state.receive(&frame(5_000, 6_000)), Ok(false));
        assert_eq!(
            state.receive(&started(2_999)),
            Err(OrderError::ReplyTime {
                time_ps: 2_999,
                request_ps: 3_000
            })
        );
        state.send(&reset(3_000)).expect("the request has ended");
        state.receive(&started(4_000)).expect("a reply");
        assert_eq!((state.horizon(), state.received()), (4_000, 0));
        assert!(state.receive(&frame(3_999, 5_000)).is_err());
        assert_eq!(state.receive(&frame(4_000, 5_000)), Ok(true));
    }

    #[test]
    fn a_request_has_one_reply_and_limits_the_horizon() {
        let mut state = LinkState::default();
        state.receive(&grant(5_000, 5_000, 0)).expect("a grant");
        state.send(&grant(2_000, 2_000, 0)).expect("a grant");
        assert!(state.send(&request(1_999)).is_err());
        state.send(&request(2_000)).expect("a request");
        assert_eq!(state.horizon(), 2_000);
        assert!(state.send(&request(2_000)).is_err());
        state.send(&grant(9_000, 9_000, 0)).expect("a grant");
        state.receive(&reply(2_500, ReplyBody::Done)).expect("a reply");
        assert!(state.receive(&reply(2_500, ReplyBody::Done)).is_err());
        assert_eq!(state.received(), 1);
        state.send(&request(2_500)).expect("a reaction to the reply");
    }

    #[test]
    fn a_peer_that_does_not_wait_for_grants_is_an_error() {
        let mut state = LinkState::default();
        let error = (0..10_000).find_map(|number| state.receive(&frame(number, number + 1)).err());
        assert_eq!(error, Some(OrderError::Flood(4_096)));
    }
}
