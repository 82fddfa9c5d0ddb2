"""A MAC with PFC and PAUSE, in Python, for `xoff conform run --lockstep SOCKET`.

    python3 toy_mac.py SOCKET [DEFECT]

DEFECT is one of `ignores-fcs`, `adds-times`, `any-class` and `no-xon`: the MAC is then wrong in this behaviour.
"""

import sys

from xoff_lockstep import (
    Client,
    Link,
    LockstepError,
    Operation,
    Scheduler,
    Unsupported,
    append_fcs,
    frame_duration_ps,
    has_right_fcs,
)

MAC = bytes([2, 0, 0, 0, 0, 0x0B])
CONTROL_ADDRESS = bytes([0x01, 0x80, 0xC2, 0, 0, 1])
CONTROL_TYPE = b"\x88\x08"
PFC = b"\x01\x01"
PAUSE = b"\x00\x01"
LONGEST_PAUSE = 0xFFFF
# Number of unread bytes of a class above which the MAC pauses its peer.
XOFF_BYTES = 50_000
# Bytes of preamble and gap, which occupy the link, but no receiver.
OVERHEAD_BYTES = 20


class ToyMac:
    """A MAC that honours PFC and PAUSE frames, and pauses its peer if its host does not read."""

    def __init__(self, scheduler, defect=""):
        self.scheduler = scheduler
        self.defect = defect
        self.link = None
        self.generation = 0

    async def reset(self, speed_bps, mutant):
        if mutant:
            raise Unsupported("this MAC has no mutants of the model device")
        self.generation += 1
        self.speed_bps = speed_bps
        self.paused_until = [0] * 8
        self.honours_pfc, self.honours_pause = True, False
        self.traffic = [None] * 8
        self.next_start = [0] * 8
        self.sent_frames = [0] * 8
        self.unread = 0
        self.unread_bytes = [0] * 8
        self.refresh_at = [None] * 8
        self.control_frames = []
        self.scheduler.start(self.transmit(self.generation))
        return MAC

    def quanta_ps(self, quanta):
        return quanta * 512 * 10**12 // self.speed_bps

    def execute(self, request):
        operation, value = request.operation, request.value
        if operation == Operation.START_TRAFFIC:
            self.traffic[value] = request
            self.next_start[value] = self.scheduler.now()
        elif operation == Operation.STOP_TRAFFIC:
            self.traffic[value] = None
        elif operation == Operation.SET_PFC:
            if value not in (0, 0xFF):
                raise Unsupported("the MAC has one setting of PFC for all priorities")
            self.honours_pfc = value != 0
        elif operation == Operation.SET_LINK_PAUSE:
            self.honours_pause = value != 0
        elif operation == Operation.SET_UNREAD:
            self.read_classes(self.unread & ~value)
            self.unread = value
        else:
            raise Unsupported(f"a MAC without a host has no operation {operation.name}")

    # Reception

    def receive(self, frame):
        self.scheduler.start(self.process(frame, self.generation))

    async def process(self, frame, generation):
        await self.scheduler.wait_until(frame.last_bit_ps)
        data = frame.data
        is_damaged = frame.has_error or not has_right_fcs(data)
        if self.defect == "ignores-fcs":
            is_damaged = False
        if generation != self.generation or is_damaged or len(data) < 64:
            return
        if data[12:14] == CONTROL_TYPE:
            if data[:6] == CONTROL_ADDRESS:
                self.honour(data)
            return
        # Class k has the DSCP 8 k + 2.
        priority = data[15] >> 5
        if self.unread >> priority & 1:
            self.unread_bytes[priority] += len(data)
            if self.unread_bytes[priority] > XOFF_BYTES and self.refresh_at[priority] is None:
                self.send_pfc(priority, LONGEST_PAUSE)

    def honour(self, data):
        now = self.scheduler.now()
        if data[14:16] == PFC and self.honours_pfc:
            enabled = 0xFF if self.defect == "any-class" else data[17]
            for priority in range(8):
                if enabled >> priority & 1:
                    quanta = int.from_bytes(data[18 + 2 * priority : 20 + 2 * priority], "big")
                    start = max(now, self.paused_until[priority]) if self.defect == "adds-times" else now
                    self.paused_until[priority] = start + self.quanta_ps(quanta)
        elif data[14:16] == PAUSE and self.honours_pause:
            until = now + self.quanta_ps(int.from_bytes(data[16:18], "big"))
            self.paused_until = [until] * 8

    def read_classes(self, classes):
        for priority in range(8):
            if classes >> priority & 1:
                self.unread_bytes[priority] = 0
                if self.refresh_at[priority] is not None:
                    self.refresh_at[priority] = None
                    if self.defect != "no-xon":
                        self.control_frames.append(self.make_pfc(priority, 0))

    def make_pfc(self, priority, quanta):
        times = [0] * 8
        times[priority] = quanta
        fields = bytes([0, 1 << priority]) + b"".join(time.to_bytes(2, "big") for time in times)
        return (CONTROL_ADDRESS + MAC + CONTROL_TYPE + PFC + fields).ljust(60, b"\0")

    def send_pfc(self, priority, quanta):
        self.control_frames.append(self.make_pfc(priority, quanta))
        self.refresh_at[priority] = self.scheduler.now() + self.quanta_ps(quanta // 2)

    # Transmission

    def next_frame(self):
        """Return a frame that may start now, or None."""
        now = self.scheduler.now()
        for priority, refresh_at in enumerate(self.refresh_at):
            if refresh_at is not None and refresh_at <= now:
                self.send_pfc(priority, LONGEST_PAUSE)
        if self.control_frames:
            return self.control_frames.pop(0)
        for priority, request in enumerate(self.traffic):
            if request and self.next_start[priority] <= now and self.paused_until[priority] <= now:
                frame = request.numbered_frame(self.sent_frames[priority])
                self.sent_frames[priority] += 1
                interval = frame_duration_ps(len(frame) + 4, self.speed_bps, OVERHEAD_BYTES) * 1000
                self.next_start[priority] = max(
                    self.next_start[priority] + interval // request.share_permille, now
                )
                return frame
        return None

    async def transmit(self, generation):
        """Send frames, one at a time."""
        cycle_ps = frame_duration_ps(1, self.speed_bps, 0)
        while generation == self.generation:
            first_bit_ps = self.scheduler.now()
            frame = self.next_frame()
            if frame is None:
                # Look again when a pause or an interval ends. A request may change the MAC before.
                times = self.paused_until + self.next_start + [first_bit_ps + 16 * cycle_ps]
                await self.scheduler.wait_until(min(time for time in times if time > first_bit_ps))
                continue
            data = append_fcs(frame.ljust(60, b"\0"))
            await self.scheduler.wait_until(first_bit_ps + frame_duration_ps(len(data), self.speed_bps))
            if generation == self.generation:
                self.link.send_frame(first_bit_ps, data)
                await self.scheduler.wait_until(self.scheduler.now() + 12 * cycle_ps)


def main(path, defect=""):
    scheduler = Scheduler()
    mac = ToyMac(scheduler, defect)
    mac.link = Link(Client(path, name="toy MAC"), mac, scheduler)
    mac.link.start()
    scheduler.run(lambda: mac.link.has_ended)
    if mac.link.error:
        raise mac.link.error


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except LockstepError as error:
        sys.exit(f"toy_mac.py: {error}")
