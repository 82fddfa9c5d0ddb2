//! Lines from a pipe, without waiting.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::read;

/// Longest line of a message.
const LINE_MAX: usize = 1 << 20;

/// The bytes of a pipe that are no complete line yet.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
    pub(crate) is_at_end: bool,
}

/// Makes reads of a pipe return at once.
pub(crate) fn set_nonblocking(pipe: impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(pipe.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(pipe.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

impl LineBuffer {
    /// Reads what the pipe has.
    ///
    /// # Errors
    /// The pipe cannot be read, or a line is longer than 1 MiB.
    pub(crate) fn fill(&mut self, pipe: impl AsFd) -> io::Result<()> {
        let mut chunk = [0; 16_384];
        while !self.is_at_end {
            match read(pipe.as_fd(), &mut chunk) {
                Ok(0) => self.is_at_end = true,
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if self.bytes.len() > LINE_MAX && !self.bytes.contains(&b'\n') {
                return Err(io::Error::other("a line is longer than 1 MiB"));
            }
        }
        Ok(())
    }

    /// Returns the next complete line without its end.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_are_complete_and_the_end_is_noticed() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        set_nonblocking(&reader).expect("flags");
        let mut buffer = LineBuffer::default();
        writer.write_all(b"one\ntw").expect("a write");
        buffer.fill(&reader).expect("a read");
        assert_eq!(buffer.next_line().as_deref(), Some("one"));
        assert_eq!(buffer.next_line(), None);
        writer.write_all(b"o\n").expect("a write");
        buffer.fill(&reader).expect("a read");
        assert_eq!(buffer.next_line().as_deref(), Some("two"));
        assert!(!buffer.is_at_end);
        drop(writer);
        // A process that another test is just starting has the writing end until it executes its program.
        while !buffer.is_at_end {
            buffer.fill(&reader).expect("a read");
        }
        assert_eq!(buffer.next_line(), None);
    }
}
