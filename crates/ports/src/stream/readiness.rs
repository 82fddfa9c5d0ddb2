//! The descriptor of a stream port. It is readable if the port has work: a new connection, bytes that may be read,
//! space for bytes that wait, or a time at which reading may continue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

const LISTENER: u64 = 0;
const TIMER: u64 = 1;
const CONNECTION: u64 = 2;

/// The work that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyEvents {
    pub(super) has_new_connection: bool,
    pub(super) is_readable: bool,
    pub(super) is_writable: bool,
}

/// The events of its connection for which a port waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) readable: bool,
    pub(super) writable: bool,
}

impl Interest {
    fn flags(self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, self.readable);
        flags.set(EpollFlags::EPOLLOUT, self.writable);
        flags
    }
}

/// An epoll instance with the listener, the connection and a timer.
#[derive(Debug)]
pub(super) struct Readiness {
    epoll: Epoll,
    timer: TimerFd,
    /// The interest of the connection in the epoll instance.
    interest: Interest,
    /// The time of the timer in nanoseconds of `CLOCK_MONOTONIC`. `None` if the timer is off.
    timer_ns: Option<u64>,
}

impl Readiness {
    pub(super) fn new(listener: &impl AsFd) -> io::Result<Readiness> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        Ok(Readiness {
            epoll,
            timer,
            interest: Interest::default(),
            timer_ns: None,
        })
    }

    /// Returns the work that waits now.
    pub(super) fn poll(&mut self) -> ReadyEvents {
        let mut ready = ReadyEvents::default();
        let mut events = [EpollEvent::empty(); 3];
        let count = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for event in &events[..count] {
            match event.data() {
                LISTENER => ready.has_new_connection = true,
                TIMER => {
                    let _ = self.timer.wait();
                    self.timer_ns = None;
                }
                _ => {
                    // A closed connection is reported to both, which read the end or the error.
                    let closed = EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
                    let flags = event.events();
                    ready.is_readable |= flags.intersects(EpollFlags::EPOLLIN | closed);
                    ready.is_writable |= flags.intersects(EpollFlags::EPOLLOUT | closed);
                }
            }
        }
        ready
    }

    /// Sets the events of the connection for which the port waits. A connection without interest is not in the epoll
    /// instance, because epoll would otherwise report its end again and again.
    pub(super) fn set_interest(&mut self, connection: BorrowedFd<'_>, interest: Interest) -> io::Result<()> {
        if interest == self.interest {
            return Ok(());
        }
        let (was_added, is_added) = (
            self.interest != Interest::default(),
            interest != Interest::default(),
        );
        let mut event = EpollEvent::new(interest.flags(), CONNECTION);
        match (was_added, is_added) {
            (false, _) => self.epoll.add(connection, event)?,
            (true, true) => self.epoll.modify(connection, &mut event)?,
            (true, false) => self.epoll.delete(connection)?,
        }
        self.interest = interest;
        Ok(())
    }

    /// Forgets a connection. The caller then closes it, which removes it from the epoll instance.
    pub(super) fn forget_connection(&mut self, connection: BorrowedFd<'_>) {
        if self.interest != Interest::default() {
            let _ = self.epoll.delete(connection);
        }
        self.interest = Interest::default();
    }

    /// Sets the time at which the descriptor becomes readable, in nanoseconds of `CLOCK_MONOTONIC`. `None` turns the
    /// timer off.
    pub(super) fn set_timer(&mut self, at_ns: Option<u64>) -> io::Result<()> {
        if at_ns == self.timer_ns {
            return Ok(());
        }
        match at_ns {
            Some(at_ns) => {
                let at = TimeSpec::nanoseconds(i64::try_from(at_ns.max(1)).unwrap_or(i64::MAX));
                self.timer
                    .set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
            }
            None => self.timer.unset()?,
        }
        self.timer_ns = at_ns;
        Ok(())
    }

    /// Returns the descriptor that is readable as long as work waits.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
