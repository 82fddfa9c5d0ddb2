"""The connection of a simulator to xoff."""

import socket
import time

from . import messages
from .messages import Message, encode


class LockstepError(Exception):
    """The connection cannot continue. The text is the reason."""


class Client:
    """The connection of a simulator. Its methods block until xoff answers, which also stops the simulator.

    `horizon_ps` is the time until which the simulator may run: all frames of xoff that start at this time or before
    are known. `flags` is `BARE_MAC` for a MAC without a host.
    """

    def __init__(self, path, name="simulator", speed_bps=0, flags=messages.BARE_MAC, timeout_s=30.0):
        self.horizon_ps = 0
        self.start_ps = 0
        self._granted_ps = 0
        self._received = 0
        self._uncounted = []
        self._counted = 0
        self._last_bit_ps = 0
        self._last_grant = None
        self._buffer = b""
        self._socket = connect(path, timeout_s)
        self._socket.settimeout(timeout_s)
        hello = encode(
            messages.HELLO,
            flags=flags,
            code=messages.VERSION,
            a=speed_bps,
            c=messages.MAGIC,
            payload=name.encode(),
        )
        self._socket.sendall(hello)
        answer = self.receive()
        if answer.kind != messages.HELLO or answer.c != messages.MAGIC:
            raise LockstepError("the other side does not speak the lock-step protocol of xoff")
        if answer.code != messages.VERSION:
            raise LockstepError(f"xoff has version {answer.code} of the protocol, this client {messages.VERSION}")
        self.speed_bps = answer.a

    def close(self):
        """End the connection."""
        try:
            self._socket.sendall(encode(messages.BYE))
        except OSError:
            pass
        self._socket.close()

    def send_frame(self, frame):
        """Send a frame. Raises LockstepError if it is before an earlier grant or overlaps the frame before it."""
        if frame.first_bit_ps < self._last_bit_ps:
            raise LockstepError(
                f"a frame starts at {frame.first_bit_ps} ps, before the frame before it ends at {self._last_bit_ps} ps"
            )
        if frame.last_bit_ps < self._granted_ps or frame.last_bit_ps <= frame.first_bit_ps:
            raise LockstepError(
                f"a frame ends at {frame.last_bit_ps} ps: it must end after its first bit, and not before "
                f"{self._granted_ps} ps, which was granted"
            )
        self._last_bit_ps = frame.last_bit_ps
        self._uncounted.append(frame.last_bit_ps)
        self._update_horizon()
        flags = messages.ERROR if frame.has_error else 0
        self._send(messages.FRAME, flags=flags, a=frame.first_bit_ps, b=frame.last_bit_ps, payload=frame.data)

    def grant(self, last_bit_ps):
        """Promise that no later frame ends before a time. The same promise is sent once."""
        grant = (last_bit_ps, self._received)
        if grant != self._last_grant:
            self._last_grant = grant
            self._granted_ps = max(self._granted_ps, last_bit_ps)
            self._send(messages.GRANT, a=self.start_ps, b=last_bit_ps, c=self._received)

    def reply(self, time_ps, form, payload=b""):
        """Answer a request. xoff can react at the time of the reply."""
        self._uncounted.append(time_ps)
        self._update_horizon()
        self._reply(time_ps, form, payload)

    def reply_reset(self, time_ps, form, payload=b""):
        """Answer a reset."""
        self._restart(time_ps)
        self._reply(time_ps, form, payload)

    def _reply(self, time_ps, form, payload):
        self._last_grant = None
        self._send(messages.REPLY, code=form, a=time_ps, payload=payload)

    def reply_started(self, time_ps, mac, name=""):
        """Answer a reset. The device has this MAC address, and is in its initial state at `time_ps`."""
        self.reply_reset(time_ps, messages.STARTED, bytes(mac) + name.encode())

    def receive(self):
        """Wait for a message, and update `horizon_ps` by a grant."""
        message = self._receive_message()
        if message.kind == messages.GRANT:
            if not self._counted <= message.c <= self._counted + len(self._uncounted):
                raise LockstepError(f"xoff counts {message.c} messages, which were not sent")
            del self._uncounted[: message.c - self._counted]
            self._counted = message.c
            self._xoff_ps = message.a
            self._update_horizon()
        elif message.kind in (messages.FRAME, messages.REQUEST):
            self._received += 1
        elif message.kind == messages.RESET:
            self._restart(message.a)
        return message

    _xoff_ps = 0

    def _restart(self, time_ps):
        self.start_ps = self._granted_ps = self._last_bit_ps = self._xoff_ps = self.horizon_ps = time_ps
        self._received = self._counted = 0
        self._uncounted = []
        self._last_grant = None

    def _update_horizon(self):
        # xoff can react to a frame at its last bit.
        self.horizon_ps = min([self._xoff_ps, *self._uncounted])

    def _send(self, kind, **fields):
        try:
            self._socket.sendall(encode(kind, **fields))
        except OSError as error:
            raise LockstepError(f"xoff has closed the connection: {error}") from error

    def _receive_message(self):
        header_bytes = messages.HEADER.size
        while True:
            if len(self._buffer) >= header_bytes:
                length, *fields = messages.HEADER.unpack_from(self._buffer)
                if length > messages.PAYLOAD_MAX:
                    raise LockstepError(f"a message has a payload of {length} bytes")
                end = header_bytes + length
                if len(self._buffer) >= end:
                    payload = self._buffer[header_bytes:end]
                    self._buffer = self._buffer[end:]
                    return Message(*fields, payload)
            try:
                chunk = self._socket.recv(65_536)
            except socket.timeout as error:
                raise LockstepError("xoff sends nothing: is it stopped?") from error
            except OSError as error:
                raise LockstepError(f"the connection does not work: {error}") from error
            if not chunk:
                raise LockstepError("xoff has closed the connection without a BYE message")
            self._buffer += chunk


def connect(path, timeout_s):
    """Connect to a Unix socket. Waits until it exists."""
    deadline = time.monotonic() + timeout_s
    while True:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.connect(str(path))
            return stream
        except (FileNotFoundError, ConnectionRefusedError) as error:
            stream.close()
            if time.monotonic() > deadline:
                raise LockstepError(f"nobody listens at {path}: start `xoff conform run --lockstep {path}`") from error
            time.sleep(0.01)
