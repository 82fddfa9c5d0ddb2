"""Clocks: a scheduler for devices in Python, and cocotb."""

import heapq


class Scheduler:
    """Runs coroutines in virtual time. Coroutines wait by `await scheduler.wait_until(time_ps)`."""

    def __init__(self):
        self._now_ps = 0
        self._queue = []
        self._count = 0

    def now(self):
        """Return the time in picoseconds."""
        return self._now_ps

    def start(self, coroutine):
        """Start a coroutine at the current time."""
        self._add(self._now_ps, 0, coroutine)

    def wait_until(self, time_ps):
        """Wait until a time. A time in the past is now."""
        return _Wait(time_ps, 0)

    def wait_until_end_of(self, time_ps):
        """Wait until all other events of a time are done."""
        return _Wait(time_ps, 1)

    def run(self, is_done):
        """Run until `is_done()` is true, or until nothing is left to run."""
        while self._queue and not is_done():
            time_ps, _, _, coroutine = heapq.heappop(self._queue)
            self._now_ps = max(self._now_ps, time_ps)
            try:
                wait = coroutine.send(None)
            except StopIteration:
                continue
            self._add(wait.time_ps, wait.phase, coroutine)
        for _, _, _, coroutine in self._queue:
            coroutine.close()
        self._queue.clear()

    def _add(self, time_ps, phase, coroutine):
        self._count += 1
        heapq.heappush(self._queue, (max(time_ps, self._now_ps), phase, self._count, coroutine))


class _Wait:
    def __init__(self, time_ps, phase):
        self.time_ps = time_ps
        self.phase = phase

    def __await__(self):
        yield self


class CocotbClock:
    """The clock of a cocotb simulation.

    `receive` and `execute` of the device run in the read-only phase of a time step. They must not write signals:
    start a coroutine that writes them after `await RisingEdge(clock)`.
    """

    def now(self):
        """Return the time in picoseconds."""
        from cocotb.utils import get_sim_time

        return int(get_sim_time("ps"))

    def start(self, coroutine):
        """Start a coroutine."""
        import cocotb

        cocotb.start_soon(coroutine)

    async def wait_until_end_of(self, time_ps):
        """Wait until the read-only phase of a time."""
        from cocotb.triggers import ReadOnly, Timer

        left = time_ps - self.now()
        if left > 0:
            await Timer(left, "ps")
        await ReadOnly()
