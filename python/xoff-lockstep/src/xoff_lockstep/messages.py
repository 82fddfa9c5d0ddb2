"""The messages of the protocol, and their bytes."""

import enum
import struct
import zlib
from typing import NamedTuple

VERSION = 1
MAGIC = int.from_bytes(b"xofflock", "little")
HEADER = struct.Struct("<IBBHQQQ")
PAYLOAD_MAX = 65_536
FRAME_BYTES_MAX = 16_384
NEVER = 2**64 - 1

# Flag of a HELLO message: the simulator is a MAC without a host.
BARE_MAC = 1
# Flag of a FRAME message: the receiver must discard the frame.
ERROR = 1

HELLO, FRAME, GRANT, RESET, REQUEST, REPLY, BYE = range(1, 8)
KIND_NAMES = ["?", "HELLO", "FRAME", "GRANT", "RESET", "REQUEST", "REPLY", "BYE"]

# Forms of a REPLY message.
DONE, UNSUPPORTED, STARTED, COUNTERS, SETTINGS = range(5)

PREAMBLE_BYTES = 8
GAP_BYTES = 12


class Unsupported(Exception):
    """The device cannot execute a request. The text is the reason, and the check is skipped."""


class Operation(enum.IntEnum):
    """The operations of requests."""

    START_TRAFFIC = 1
    STOP_TRAFFIC = 2
    SET_PFC = 3
    SET_LINK_PAUSE = 4
    SET_UNREAD = 5
    SET_TRUST = 6
    SET_WILLING = 7
    RESET_DEVICE = 8
    READ_COUNTERS = 9
    READ_SETTINGS = 10


class Frame(NamedTuple):
    """A frame on the link. `data` are the bytes from the destination address to the FCS."""

    first_bit_ps: int
    last_bit_ps: int
    data: bytes
    has_error: bool = False


class Request(NamedTuple):
    """A request to the host of the device. `value` is the argument: a class, a mask, or 0 and 1."""

    operation: Operation
    value: int
    # START_TRAFFIC only: share of the link in thousandths, offset of the number of a frame, and the frame without FCS.
    share_permille: int = 0
    sequence_offset: int = 0
    frame: bytes = b""

    def numbered_frame(self, number):
        """Return the frame of START_TRAFFIC with a number, without FCS."""
        at = self.sequence_offset
        return self.frame[:at] + number.to_bytes(8, "big") + self.frame[at + 8 :]


class Message(NamedTuple):
    """The fields of a message."""

    kind: int
    flags: int
    code: int
    a: int
    b: int
    c: int
    payload: bytes

    def request(self):
        """Return the request of a REQUEST message. Raises ValueError for an unknown operation."""
        operation = Operation(self.code)
        share, offset = self.c & 0xFFFF_FFFF, self.c >> 32
        return Request(operation, self.b, share, offset, self.payload)


def encode(kind, flags=0, code=0, a=0, b=0, c=0, payload=b""):
    """Return the bytes of a message."""
    return HEADER.pack(len(payload), kind, flags, code, a, b, c) + payload


def append_fcs(data):
    """Return the bytes with their frame check sequence (IEEE 802.3 3.2.9)."""
    return data + zlib.crc32(data).to_bytes(4, "little")


def has_right_fcs(data):
    """Return whether the last four bytes are the right frame check sequence."""
    return len(data) > 4 and zlib.crc32(data[:-4]).to_bytes(4, "little") == data[-4:]


def frame_duration_ps(octet_count, speed_bps, overhead_bytes=PREAMBLE_BYTES):
    """Return the time from the first bit of the preamble to the last bit of the FCS."""
    return (octet_count + overhead_bytes) * 8 * 10**12 // speed_bps
