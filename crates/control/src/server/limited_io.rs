//! The byte stream of a connection, with its limits.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep, sleep_until};

use super::connection_state::ConnectionState;
use super::rate::RateLimit;
use super::state::{ServerState, lock};

/// Time between two checks whether a client that closed its sending half has gone.
const HALF_CLOSED_POLL: Duration = Duration::from_millis(50);
/// Largest number of bytes that one read takes. All connections may read once when the shared budget permits a
/// read, so the longest wait for this budget is proportional to this number.
const READ_BYTES_MAX: usize = 8 << 10;
/// Smallest number of bytes that one read counts as. Many short reads cost more than one long read.
const READ_BYTES_MIN: usize = 512;

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Unix(stream) => stream.poll_read_ready(cx),
            Socket::Tcp(stream) => stream.poll_read_ready(cx),
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Unix(stream) => stream.poll_write_ready(cx),
            Socket::Tcp(stream) => stream.poll_write_ready(cx),
        }
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.try_read(buffer),
            Socket::Tcp(stream) => stream.try_read(buffer),
        }
    }

    fn try_write(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.try_write_vectored(buffers),
            Socket::Tcp(stream) => stream.try_write_vectored(buffers),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Unix(stream) => stream.as_fd(),
            Socket::Tcp(stream) => stream.as_fd(),
        }
    }

    /// Waits until the client has closed the connection, or both directions are closed. Unread bytes of the
    /// client do not matter. A client that has only closed its sending half still reads its responses.
    pub(super) async fn wait_for_hangup(&self) {
        // This interest is never ready before the client closes at least its sending half.
        let half_closed = match self {
            Socket::Unix(stream) => stream.ready(Interest::PRIORITY).await,
            Socket::Tcp(stream) => stream.ready(Interest::PRIORITY).await,
        };
        if half_closed.is_err() {
            return;
        }
        // The kernel reports no further edge for this descriptor, so the loop asks.
        while !self.is_hung_up() {
            sleep(HALF_CLOSED_POLL).await;
        }
    }

    fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(self.fd(), PollFlags::empty())];
        let result = poll(&mut fds, PollTimeout::ZERO);
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        result.is_ok() && fds[0].revents().is_some_and(|events| events.intersects(gone))
    }
}

/// The byte stream of a connection. Reads beyond the budget of bytes wait, and a client that does not read is
/// closed after a time.
pub(super) struct LimitedIo {
    socket: Arc<Socket>,
    connection: Arc<ConnectionState>,
    server: Arc<ServerState>,
    bytes: RateLimit,
    /// The time from which the budget of this connection permits the next read. `None` means at once.
    own_resume_at: Option<Instant>,
    /// Whether a read is permitted when `read_pause` has ended.
    read_is_permitted: bool,
    /// The wait until the next read.
    read_pause: Option<Pin<Box<Sleep>>>,
    /// Ends when a write has made no progress for too long.
    write_stall: Option<Pin<Box<Sleep>>>,
}

impl LimitedIo {
    pub(super) fn new(
        socket: Arc<Socket>,
        connection: Arc<ConnectionState>,
        server: Arc<ServerState>,
    ) -> LimitedIo {
        let limits = &server.limits;
        LimitedIo {
            bytes: RateLimit::new(limits.connection_bytes, limits.connection_bytes_burst),
            socket,
            connection,
            server,
            own_resume_at: None,
            read_is_permitted: false,
            read_pause: None,
            write_stall: None,
        }
    }

    /// Waits until both budgets permit a read. Each read of a connection waits, including the first one:
    /// otherwise clients that connect again and again would use the shared budget in advance, and the next
    /// read of every other client would wait until their debt is paid.
    fn poll_read_permission(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.read_is_permitted {
            let now = Instant::now();
            let shared = lock(&self.server.bytes).permitted_at(now);
            let own = self.own_resume_at.filter(|time| *time > now);
            self.read_pause = own
                .max(shared)
                .map(|resume_at| Box::pin(sleep_until(resume_at.into())));
            self.read_is_permitted = true;
        }
        if let Some(pause) = &mut self.read_pause {
            ready!(pause.as_mut().poll(cx));
            self.read_pause = None;
        }
        Poll::Ready(())
    }

    /// Counts the bytes of a read in both budgets.
    fn charge_read(&mut self, bytes: usize) {
        let (now, units) = (Instant::now(), bytes.max(READ_BYTES_MIN) as u64);
        self.own_resume_at = self.bytes.charge(now, units);
        lock(&self.server.bytes).charge(now, units);
        self.read_is_permitted = false;
    }

    fn poll_write_buffers(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        while let Poll::Ready(is_ready) = self.socket.poll_write_ready(cx) {
            is_ready?;
            match self.socket.try_write(buffers) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    self.write_stall = None;
                    self.connection.touch();
                    return Poll::Ready(Ok(count));
                }
            }
        }
        let limit = self.connection.write_stall_limit();
        let stall = self.write_stall.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stall.as_mut().poll(cx));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for LimitedIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let io = self.get_mut();
        loop {
            ready!(io.socket.poll_read_ready(cx))?;
            ready!(io.poll_read_permission(cx));
            let room = buf.remaining().min(READ_BYTES_MAX);
            match io.socket.try_read(buf.initialize_unfilled_to(room)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    buf.advance(count);
                    io.charge_read(count);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for LimitedIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_buffers(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_buffers(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A client that has gone needs no end of the stream.
        let _ = rustix::net::shutdown(self.socket.fd(), rustix::net::Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}
