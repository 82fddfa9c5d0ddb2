"""Test bench of a MAC in RTL under cocotb: the ports of the top module, and the host of the MAC.

The host has eight class sources, which are gated by `rx_pfc_req`, and eight class sinks, which raise `tx_pfc_req` if
their host does not read. docs/lockstep.md has the ports. Each direction is delayed by one clock, like a register in a
PHY: signals are read and written at the rising edge.
"""

import struct

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Event, First, RisingEdge, Timer
from xoff_lockstep import Operation, Unsupported, append_fcs, frame_duration_ps

try:
    from cocotb.triggers import ValueChange
except ImportError:  # cocotb 1
    from cocotb.triggers import Edge as ValueChange

MAC = bytes([2, 0, 0, 0, 0, 0x0B])
CLASSES = range(8)
PREAMBLE = b"\x55" * 6 + b"\xd5"
PREAMBLE_BYTES, GAP_BYTES = 8, 12
CONTROL_TYPE, PFC = b"\x88\x08", b"\x01\x01"
RESET_CLOCKS = 64
# Number of unread bytes of a class above which its sink requests a pause.
XOFF_BYTES = 50_000
# Control characters of XGMII.
IDLE, START, TERMINATE, ERROR = 0x07, 0xFB, 0xFD, 0xFE


def class_of(data):
    """Return the class of a frame: its PCP, or the upper bits of its DSCP."""
    if len(data) < 16:
        return 0
    return data[14 if data[12:14] == b"\x81\x00" else 15] >> 5


class Host:
    """Sources, sinks and counters of the host of the MAC."""

    def __init__(self):
        self.traffic = [None] * 8
        self.next_start_ps = [0] * 8
        self.sent_frames = [0] * 8
        self.last_class = 7
        self.unread = 0
        self.unread_bytes = [0] * 8
        self.pfc_enable = 0xFF
        self.pause_enable = 0
        self.pause_requests = 0
        self.received_pfc = [0] * 8
        self.sent_pfc = [0] * 8
        self.paused_ps = [0] * 8
        self.received_frames = [0] * 8
        self.control_frames_to_host = 0

    def execute(self, request, now_ps):
        operation, value = request.operation, request.value
        if operation == Operation.START_TRAFFIC:
            self.traffic[value] = request
            self.next_start_ps[value] = now_ps
            self.sent_frames[value] = 0
        elif operation == Operation.STOP_TRAFFIC:
            self.traffic[value] = None
        elif operation == Operation.SET_PFC:
            self.pfc_enable = value
        elif operation == Operation.SET_LINK_PAUSE:
            self.pause_enable = value
        elif operation == Operation.SET_UNREAD:
            self.unread = value
            self.unread_bytes = [count if value >> at & 1 else 0 for at, count in enumerate(self.unread_bytes)]
            self.pause_requests &= value
        elif operation == Operation.READ_COUNTERS:
            return self.counters()
        else:
            raise Unsupported(f"the test bench has no operation {operation.name}")
        return None

    def counters(self):
        discarded = [0] * 8
        paused_ns = [time_ps // 1000 for time_ps in self.paused_ps]
        values = self.received_pfc + self.sent_pfc + paused_ns + self.received_frames + discarded
        return struct.pack("<44Q", *values, 0, self.control_frames_to_host, 0, 0)

    def next_frame(self, now_ps, speed_bps, paused):
        """Return a frame that may start now, or None."""
        for index in CLASSES:
            number = (self.last_class + 1 + index) % 8
            request = self.traffic[number]
            if not request or self.next_start_ps[number] > now_ps or paused >> number & 1:
                continue
            self.last_class = number
            data = request.numbered_frame(self.sent_frames[number])
            self.sent_frames[number] += 1
            interval = frame_duration_ps(len(data) + 4, speed_bps, PREAMBLE_BYTES + GAP_BYTES) * 1000
            next_ps = self.next_start_ps[number] + interval // request.share_permille
            self.next_start_ps[number] = max(next_ps, now_ps)
            return data
        return None

    def time_of_next_frame(self, paused):
        """Return when a class that is not paused may send, or None."""
        times = [self.next_start_ps[at] for at in CLASSES if self.traffic[at] and not paused >> at & 1]
        return min(times, default=None)

    def receive(self, data):
        if data[12:14] == CONTROL_TYPE:
            self.control_frames_to_host += 1
            return
        number = class_of(data)
        self.received_frames[number] += 1
        if self.unread >> number & 1:
            self.unread_bytes[number] += len(data)
            if self.unread_bytes[number] > XOFF_BYTES:
                self.pause_requests |= 1 << number

    def count_sent(self, data):
        if data[12:16] == CONTROL_TYPE + PFC:
            for number in CLASSES:
                self.sent_pfc[number] += data[17] >> number & 1


class Xgmii:
    """XGMII with 4 or 8 octets in a clock. A frame starts in lane 0 or 4."""

    def __init__(self, dut):
        self.dut = dut
        self.lanes = len(dut.xgmii_rxc)
        self.all_control = (1 << self.lanes) - 1
        self.idle = bytes([IDLE]) * self.lanes
        self.drive(self.idle, self.all_control)

    def drive(self, octets, control):
        self.dut.xgmii_rxd.value = int.from_bytes(octets, "little")
        self.dut.xgmii_rxc.value = control

    def wait_for_activity(self):
        return ValueChange(self.dut.xgmii_txc)

    def read(self):
        """Return the octets of the MAC in a clock, and the mask of control characters."""
        octets = int(self.dut.xgmii_txd.value).to_bytes(self.lanes, "little")
        return octets, int(self.dut.xgmii_txc.value)


class Gmii:
    """GMII, with the control characters of XGMII for the bench."""

    def __init__(self, dut):
        self.dut = dut
        self.lanes = self.all_control = 1
        self.idle = bytes([IDLE])
        self.was_valid = False
        self.drive(self.idle, 1)

    def drive(self, octets, control):
        is_start, is_error = (bool(control) and octets[0] == value for value in (START, ERROR))
        self.dut.gmii_rxd.value = 0x55 if is_start else octets[0]
        self.dut.gmii_rx_dv.value = int(not control or is_start or is_error)
        self.dut.gmii_rx_er.value = int(is_error)

    def wait_for_activity(self):
        return RisingEdge(self.dut.gmii_tx_en)

    def read(self):
        is_valid, was_valid = int(self.dut.gmii_tx_en.value) == 1, self.was_valid
        self.was_valid = is_valid
        if is_valid != was_valid:
            return bytes([START if is_valid else TERMINATE]), 1
        if not is_valid:
            return self.idle, 1
        if int(self.dut.gmii_tx_er.value):
            return bytes([ERROR]), 1
        return bytes([int(self.dut.gmii_txd.value)]), 0


class MacBench:
    """The device of a `Link`: the MAC, its host and the link."""

    def __init__(self, dut, clock):
        self.dut = dut
        self.clock = clock
        self.link = None
        self.host = Host()
        self.medium = Gmii(dut) if hasattr(dut, "gmii_rxd") else Xgmii(dut)
        self.lanes = self.medium.lanes
        self.has_keep = hasattr(dut, "tx_axis_tkeep")
        self.speed_bps = 0
        self.frames = []
        self.frame_arrives = Event()
        self.host_changes = Event()
        self.tasks = []
        dut.rst.value = 1
        dut.mac_address.value = int.from_bytes(MAC, "big")

    # Calls of the link

    async def reset(self, speed_bps, mutant):
        octet_ps = 8 * 10**12 // speed_bps
        if mutant or 8 * 10**12 % speed_bps or octet_ps * self.lanes % 2:
            raise Unsupported("the bench has no mutants, and half of a clock must last whole picoseconds")
        for task in self.tasks:
            stop_task(task)
        if not self.speed_bps:
            self.speed_bps = speed_bps
            self.octet_ps, self.clock_ps = octet_ps, octet_ps * self.lanes
            start_clock(self.dut.clk, self.clock_ps)
        self.host = Host()
        self.frames.clear()
        await RisingEdge(self.dut.clk)
        self.medium.drive(self.medium.idle, self.medium.all_control)
        self.dut.rst.value = 1
        self.dut.tx_axis_tvalid.value = 0
        self.write_settings()
        for _ in range(RESET_CLOCKS):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        for _ in range(RESET_CLOCKS):
            await RisingEdge(self.dut.clk)
        coroutines = [self.drive_link(), self.monitor_link(), self.send_traffic(), self.receive_traffic()]
        coroutines += [self.apply_changes(), self.count_pauses(), self.count_received_pfc()]
        self.tasks = [cocotb.start_soon(coroutine) for coroutine in coroutines]
        return MAC

    def receive(self, frame):
        self.frames.append(frame)
        self.frame_arrives.set()

    def execute(self, request):
        payload = self.host.execute(request, self.clock.now())
        self.host_changes.set()
        return payload

    # The link

    async def drive_link(self):
        """Drive the frames of xoff, one clock late."""
        while True:
            while not self.frames:
                self.frame_arrives.clear()
                await self.frame_arrives.wait()
            frame = self.frames[0]
            earliest_ps = frame.first_bit_ps + self.clock_ps
            left_ps = earliest_ps - self.clock_ps - self.clock.now()
            if left_ps > 0:
                await Timer(left_ps, "ps")
            await RisingEdge(self.dut.clk)
            while self.frames:
                await self.drive_words(self.frames[0])
            self.medium.drive(self.medium.idle, self.medium.all_control)

    async def drive_words(self, frame):
        """Drive a frame and the idle characters before it. Returns at the edge after its last word."""
        earliest_ps = frame.first_bit_ps + self.clock_ps
        now_ps = self.clock.now()
        start_lane = next((at for at in range(0, self.lanes, 4) if now_ps + at * self.octet_ps >= earliest_ps), None)
        if start_lane is None:
            self.medium.drive(self.medium.idle, self.medium.all_control)
            await RisingEdge(self.dut.clk)
            return
        self.frames.pop(0)
        octets = bytes([IDLE]) * start_lane + bytes([START]) + PREAMBLE + frame.data
        control = (1 << (start_lane + 1)) - 1
        if frame.has_error:
            middle = len(octets) - len(frame.data) // 2
            octets = octets[:middle] + bytes([ERROR]) + octets[middle + 1 :]
            control |= 1 << middle
        tail = self.lanes - len(octets) % self.lanes
        control |= ((1 << tail) - 1) << len(octets)
        octets += bytes([TERMINATE]) + bytes([IDLE]) * (tail - 1)
        for at in range(0, len(octets), self.lanes):
            self.medium.drive(octets[at : at + self.lanes], control >> at & self.medium.all_control)
            await RisingEdge(self.dut.clk)

    async def monitor_link(self):
        """Send the frames of the MAC to xoff, one clock late."""
        data, first_bit_ps, has_error = None, 0, False
        while True:
            if data is None:
                await self.medium.wait_for_activity()
            await RisingEdge(self.dut.clk)
            octets, control = self.medium.read()
            if not control and data is not None:
                data += octets
                continue
            now_ps = self.clock.now()
            for lane, octet in enumerate(octets):
                is_control = control >> lane & 1
                if is_control and octet == START:
                    data, first_bit_ps, has_error = bytearray(), now_ps + lane * self.octet_ps, False
                elif data is None:
                    continue
                elif is_control and octet != ERROR:
                    frame = bytes(data[len(PREAMBLE) :])
                    has_error |= octet != TERMINATE or data[: len(PREAMBLE)] != PREAMBLE
                    data = None
                    self.host.count_sent(frame)
                    if frame:
                        self.link.send_frame(first_bit_ps, frame, has_error, now_ps + lane * self.octet_ps)
                else:
                    has_error |= bool(is_control)
                    data.append(octet)

    # The host

    async def send_traffic(self):
        """Send frames of the classes that are not paused. The MAC must take a frame once it is offered."""
        dut = self.dut
        while True:
            now_ps = self.clock.now()
            paused = int(dut.rx_pfc_req.value)
            data = self.host.next_frame(now_ps, self.speed_bps, paused)
            if data is None:
                dut.tx_axis_tvalid.value = 0
                triggers = [ValueChange(dut.rx_pfc_req), self.host_changes.wait()]
                due_ps = self.host.time_of_next_frame(paused)
                if due_ps is not None:
                    triggers.append(Timer(max(due_ps - now_ps, 1), "ps"))
                await First(*triggers)
                self.host_changes.clear()
                await RisingEdge(dut.clk)
                continue
            dut.tx_axis_tvalid.value = 1
            for at in range(0, len(data), self.lanes):
                word = data[at : at + self.lanes]
                is_last = at + self.lanes >= len(data)
                dut.tx_axis_tdata.value = int.from_bytes(word, "little")
                if at == 0 or is_last:
                    dut.tx_axis_tlast.value = int(is_last)
                    if self.has_keep:
                        dut.tx_axis_tkeep.value = (1 << len(word)) - 1
                await RisingEdge(dut.clk)
                while dut.tx_axis_tready.value != 1:
                    await RisingEdge(dut.clk)

    async def receive_traffic(self):
        dut, data = self.dut, bytearray()
        while True:
            await RisingEdge(dut.rx_axis_tvalid)
            await RisingEdge(dut.clk)
            while dut.rx_axis_tvalid.value == 1:
                count = int(dut.rx_axis_tkeep.value).bit_length() if self.has_keep else 1
                # The MAC does not define the other bytes.
                text = str(dut.rx_axis_tdata.value)[-8 * count :]
                data += int(text, 2).to_bytes(count, "little")
                if dut.rx_axis_tlast.value == 1:
                    if int(dut.rx_axis_tuser.value) & 1 == 0:
                        self.host.receive(bytes(data))
                        dut.tx_pfc_req.value = self.host.pause_requests
                    data.clear()
                await RisingEdge(dut.clk)

    async def apply_changes(self):
        """Write the settings of requests at the next edge."""
        while True:
            await self.host_changes.wait()
            await RisingEdge(self.dut.clk)
            self.write_settings()

    def write_settings(self):
        self.dut.pfc_enable.value = self.host.pfc_enable
        self.dut.pause_enable.value = self.host.pause_enable
        self.dut.tx_pfc_req.value = self.host.pause_requests

    async def count_pauses(self):
        since_ps, paused = self.clock.now(), 0
        while True:
            await ValueChange(self.dut.rx_pfc_req)
            now_ps = self.clock.now()
            for number in CLASSES:
                if paused >> number & 1:
                    self.host.paused_ps[number] += now_ps - since_ps
            since_ps, paused = now_ps, int(self.dut.rx_pfc_req.value)

    async def count_received_pfc(self):
        while True:
            await ValueChange(self.dut.stat_rx_pfc)
            await RisingEdge(self.dut.clk)
            for number in CLASSES:
                self.host.received_pfc[number] += int(self.dut.stat_rx_pfc.value) >> number & 1


def start_clock(signal, clock_ps):
    try:
        # The clock of the simulator interface is faster than one in Python.
        Clock(signal, clock_ps, "ps", impl="gpi").start()
    except TypeError:  # cocotb 1
        cocotb.start_soon(Clock(signal, clock_ps, "ps").start())


def stop_task(task):
    if not task.done():
        (task.cancel if hasattr(task, "cancel") else task.kill)()
