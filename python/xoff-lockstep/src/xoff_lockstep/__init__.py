"""Client of xoff for simulators: Ethernet frames in lock step, in virtual time.

`docs/lockstep.md` of xoff specifies the protocol. All times are picoseconds.

- `Client` exchanges messages on a Unix socket, and checks the rules of the protocol.
- `Link` connects a device to a client. It works in every simulator whose coroutines can wait for a time.
- `Scheduler` runs devices that are written in Python. `CocotbClock` runs devices in cocotb.
"""

from .client import Client, LockstepError
from .link import Link
from .messages import (
    BARE_MAC,
    Frame,
    Operation,
    Request,
    Unsupported,
    append_fcs,
    frame_duration_ps,
    has_right_fcs,
)
from .scheduler import CocotbClock, Scheduler

__all__ = [
    "BARE_MAC",
    "Client",
    "CocotbClock",
    "Frame",
    "Link",
    "LockstepError",
    "Operation",
    "Request",
    "Scheduler",
    "Unsupported",
    "append_fcs",
    "frame_duration_ps",
    "has_right_fcs",
]
