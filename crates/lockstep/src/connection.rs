//! A connection to a peer: messages in the right order over a transport.

use std::time::{Duration, Instant};

use crate::error::LinkError;
use crate::limits::{SHARED_MEMORY_FLAG, VERSION};
use crate::link_state::LinkState;
use crate::message::{Grant, Hello, Message};

/// What carries messages to a peer. Messages arrive in their order.
pub trait Transport {
    /// Sends a message, at the latest at the next call of [`Transport::receive`] or [`Transport::flush`].
    ///
    /// # Errors
    /// The peer has closed the connection.
    fn send(&mut self, message: &Message) -> Result<(), LinkError>;

    /// Sends all messages now.
    ///
    /// # Errors
    /// As [`Transport::send`].
    fn flush(&mut self) -> Result<(), LinkError>;

    /// Sends all messages, and waits for a message of the peer.
    ///
    /// # Errors
    /// The peer has closed the connection, sends nothing for too long, or sends bytes that are no message.
    fn receive(&mut self) -> Result<Message, LinkError>;

    /// Returns whether the messages after HELLO can pass through shared memory.
    fn has_shared_memory(&self) -> bool {
        false
    }

    /// Sends and receives all later messages through shared memory.
    fn use_shared_memory(&mut self) {}

    /// Returns the longest time in which the messages of the peer may permit no progress. `None`: no limit.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// A connection after its HELLO messages. Errors in the messages of the peer are reported to it by a BYE message.
pub struct Connection {
    transport: Box<dyn Transport>,
    state: LinkState,
    last_grant: Option<Grant>,
    /// Number of messages of the peer after the last one that permitted progress.
    idle_messages: u64,
    /// Time of the second of these messages.
    idle_since: Option<Instant>,
    peer: Hello,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("state", &self.state)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Exchanges HELLO messages. `own` is the message of this side. If both sides have shared memory, the later
    /// messages pass through it.
    ///
    /// # Errors
    /// The peer speaks another protocol, or has another version or speed.
    pub fn open(mut transport: Box<dyn Transport>, own: &Hello) -> Result<Connection, LinkError> {
        let memory_flag = match transport.has_shared_memory() {
            true => SHARED_MEMORY_FLAG,
            false => 0,
        };
        let own = Hello {
            flags: own.flags | memory_flag,
            ..own.clone()
        };
        transport.send(&Message::Hello(own.clone()))?;
        let peer = match transport.receive() {
            Ok(Message::Hello(hello)) => check_hello(&own, hello),
            Ok(Message::Bye { reason }) => return Err(LinkError::Bye(reason)),
            Ok(message) => Err(LinkError::Order(crate::OrderError::NotPermitted {
                kind: message.kind_name(),
                rule: "the first message is HELLO",
            })),
            Err(error) => Err(error),
        };
        let peer = peer.inspect_err(|error| report_error(transport.as_mut(), error))?;
        if own.flags & peer.flags & SHARED_MEMORY_FLAG != 0 {
            transport.use_shared_memory();
        }
        Ok(Connection {
            transport,
            state: LinkState::default(),
            last_grant: None,
            idle_messages: 0,
            idle_since: None,
            peer,
        })
    }

    /// Returns the HELLO message of the peer.
    pub fn peer(&self) -> &Hello {
        &self.peer
    }

    /// Returns the order of the messages.
    pub fn state(&self) -> &LinkState {
        &self.state
    }

    /// Sends a message, at the latest at the next call of [`Connection::receive`].
    ///
    /// # Errors
    /// The message breaks a rule, or the peer has closed the connection.
    pub fn send(&mut self, message: &Message) -> Result<(), LinkError> {
        if matches!(message, Message::Reset { .. } | Message::Reply(_)) {
            self.last_grant = None;
        }
        self.state.send(message).map_err(LinkError::OwnOrder)?;
        self.transport.send(message)
    }

    /// Grants a time in picoseconds if the last grant has another time or another number of messages.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn grant_until(&mut self, first_bit_ps: u64) -> Result<(), LinkError> {
        let grant = self.state.make_grant(first_bit_ps, first_bit_ps);
        if self.last_grant == Some(grant) {
            return Ok(());
        }
        self.send(&Message::Grant(grant))?;
        self.last_grant = Some(grant);
        Ok(())
    }

    /// Waits for a message of the peer. Grants change only [`Connection::state`] and are returned, too.
    ///
    /// # Errors
    /// The peer has closed the connection, sends a wrong message, or sends for too long nothing that permits progress.
    pub fn receive(&mut self) -> Result<Message, LinkError> {
        loop {
            match self.receive_any() {
                Ok((Message::Bye { reason }, _)) if reason.is_empty() => {
                    return Err(LinkError::Done);
                }
                Ok((Message::Bye { reason }, _)) => return Err(LinkError::Bye(reason)),
                Ok((message, true)) => return Ok(message),
                Ok((_, false)) => {}
                Err(error) => {
                    let error = match error {
                        LinkError::Silent { wait, .. } => LinkError::Silent {
                            wait,
                            horizon_ps: self.state.horizon(),
                        },
                        error => error,
                    };
                    report_error(self.transport.as_mut(), &error);
                    return Err(error);
                }
            }
        }
    }

    /// Waits for any message of the peer, and checks it. Returns false with a message from before a reset.
    fn receive_any(&mut self) -> Result<(Message, bool), LinkError> {
        let message = self.transport.receive()?;
        let horizon_ps = self.state.horizon();
        let is_current = self.state.receive(&message).map_err(LinkError::Order)?;
        let has_answer = !matches!(message, Message::Grant(_) | Message::Frame(_));
        // A grant permits progress by a later horizon. The time of a frame can be after each grant.
        if has_answer || self.state.horizon() > horizon_ps {
            self.idle_messages = 0;
            self.idle_since = None;
            return Ok((message, is_current));
        }
        self.idle_messages += 1;
        // A grant usually follows a frame. Reading the clock would take a tenth of the round trip.
        if self.idle_messages == 1 {
            return Ok((message, is_current));
        }
        let idle = self.idle_since.get_or_insert_with(Instant::now).elapsed();
        match self.transport.timeout() {
            Some(wait) if idle > wait => Err(LinkError::NoProgress { wait, horizon_ps }),
            _ => Ok((message, is_current)),
        }
    }

    /// Ends the connection. `reason` is empty if there is no error.
    pub fn close(mut self, reason: &str) {
        send_bye(self.transport.as_mut(), reason);
    }
}

fn check_hello(own: &Hello, peer: Hello) -> Result<Hello, LinkError> {
    if peer.version != VERSION {
        return Err(LinkError::Version(peer.version));
    }
    let has_speed = own.speed_bps != 0 && peer.speed_bps != 0;
    if has_speed && own.speed_bps != peer.speed_bps {
        return Err(LinkError::Speed {
            peer_bps: peer.speed_bps,
            own_bps: own.speed_bps,
        });
    }
    Ok(peer)
}

/// Sends the reason of an error. The peer may be unable to receive it.
fn report_error(transport: &mut dyn Transport, error: &LinkError) {
    send_bye(transport, &error.to_string());
}

fn send_bye(transport: &mut dyn Transport, reason: &str) {
    let bye = Message::Bye {
        reason: reason.to_owned(),
    };
    let _ = transport.send(&bye).and_then(|()| transport.flush());
}
