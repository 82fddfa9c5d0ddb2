"""A device at a connection, in any simulator whose coroutines can wait for a time."""

from . import messages
from .client import LockstepError
from .messages import Frame, Unsupported


class Link:
    """Connects a device to a client.

    `clock` has three methods: `now()` returns the time in picoseconds, `wait_until_end_of(time_ps)` is a coroutine
    that returns when all other events of a time are done, and `start(coroutine)` starts a coroutine.

    `device` has three methods:

    - `receive(frame)` is called at the first bit of a frame of xoff, or before.
    - `execute(request)` executes a request. It returns None, or the bytes of counters or settings. It raises
      `Unsupported` if the device cannot execute the request.
    - `reset(speed_bps, mutant)` is a coroutine that brings the device to its initial state, and returns its MAC
      address.

    The device calls `send_frame` at the last bit of each of its frames.
    """

    def __init__(self, client, device, clock):
        self.client = client
        self.device = device
        self.clock = clock
        self.has_ended = False
        # The error that ended the connection. None: xoff is done.
        self.error = None
        self._is_resetting = True

    def start(self):
        """Start the connection: wait for the first reset."""
        self._synchronise()

    def send_frame(self, first_bit_ps, data, has_error=False, last_bit_ps=None):
        """Send a frame whose last bit leaves now, or later at `last_bit_ps`. Blocks until xoff permits the simulator to
        continue."""
        if self.has_ended or self._is_resetting or first_bit_ps < self.client.start_ps:
            return
        if last_bit_ps is None:
            last_bit_ps = self.clock.now()
        self.client.send_frame(Frame(first_bit_ps, last_bit_ps, data, has_error))
        self._synchronise()

    def _synchronise(self):
        """Block until the simulator may run beyond the current time."""
        try:
            now = self.clock.now()
            if self._is_resetting:
                self._wait_for_reset()
                return
            while self.client.horizon_ps <= now:
                self.client.grant(now + 1)
                message = self.client.receive()
                self._handle(message, now)
                if self.has_ended or self._is_resetting:
                    return
            self.clock.start(self._stop_at(self.client.horizon_ps))
        except LockstepError as error:
            self._end(error)

    async def _stop_at(self, horizon_ps):
        await self.clock.wait_until_end_of(horizon_ps)
        is_outdated = self.client.horizon_ps > self.clock.now()
        if not (is_outdated or self.has_ended or self._is_resetting):
            self._synchronise()

    def _handle(self, message, now):
        if message.kind == messages.FRAME:
            has_error = message.flags & messages.ERROR != 0
            self.device.receive(Frame(message.a, message.b, message.payload, has_error))
        elif message.kind == messages.REQUEST:
            self._execute(message, now)
        elif message.kind == messages.RESET:
            self._is_resetting = True
            self.clock.start(self._reset(message))
        elif message.kind == messages.BYE:
            reason = message.payload.decode(errors="replace")
            self._end(LockstepError(reason) if reason else None)

    def _wait_for_reset(self):
        while not self.has_ended:
            message = self.client.receive()
            if message.kind in (messages.RESET, messages.BYE):
                self._handle(message, self.clock.now())
                return

    def _execute(self, message, now):
        try:
            request = message.request()
            payload = self.device.execute(request)
        except (Unsupported, ValueError) as error:
            self.client.reply(now, messages.UNSUPPORTED, str(error).encode())
            return
        forms = {
            messages.Operation.READ_COUNTERS: messages.COUNTERS,
            messages.Operation.READ_SETTINGS: messages.SETTINGS,
        }
        form = forms.get(request.operation, messages.DONE)
        self.client.reply(now, form, payload or b"")

    async def _reset(self, message):
        try:
            if message.a > self.clock.now():
                await self.clock.wait_until_end_of(message.a)
            try:
                mac = await self.device.reset(message.b, message.payload.decode(errors="replace"))
                self.client.reply_started(self.clock.now(), mac)
                self._is_resetting = False
            except Unsupported as error:
                self.client.reply_reset(self.clock.now(), messages.UNSUPPORTED, str(error).encode())
        except LockstepError as error:
            self._end(error)
            return
        self._synchronise()

    def _end(self, error):
        self.has_ended = True
        self.error = error
