"""The transmitter in mac.v under cocotb, for `xoff conform run --lockstep SOCKET A1 A5 A6 A7`.

    pip install cocotb ./python/xoff-lockstep
    python3 python/xoff-lockstep/examples/cocotb/test_mac.py SOCKET

The simulator is Icarus. The environment variable SIM names another one.
"""

import os
import pathlib
import sys

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from xoff_lockstep import Client, CocotbClock, Link, Operation, Unsupported, append_fcs, has_right_fcs

MAC = bytes([2, 0, 0, 0, 0, 0x0B])
PFC_HEADER = bytes([0x01, 0x80, 0xC2, 0, 0, 1])
PFC_TYPE = b"\x88\x08\x01\x01"


class RtlMac:
    """The device: signals of the design, and frames in the test bench."""

    def __init__(self, dut, clock):
        self.dut = dut
        self.clock = clock
        self.traffic = None
        self.priority = 0
        self.sent_frames = 0

    async def reset(self, speed_bps, mutant):
        if mutant or speed_bps != 10**9:
            raise Unsupported("the design has one speed, 1 Gb/s, and no mutants")
        self.traffic, self.sent_frames = None, 0
        await RisingEdge(self.dut.clk)
        self.dut.enable.value = 0
        self.dut.pause_strobe.value = 0
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)
        return MAC

    def receive(self, frame):
        cocotb.start_soon(self.process(frame))

    async def process(self, frame):
        left_ps = frame.last_bit_ps - self.clock.now()
        await Timer(max(left_ps, 1), "ps")
        data = frame.data
        is_pfc = data[:6] == PFC_HEADER and data[12:16] == PFC_TYPE
        if frame.has_error or len(data) < 64 or not has_right_fcs(data) or not is_pfc:
            return
        if data[17] >> self.priority & 1:
            at = 18 + 2 * self.priority
            self.dut.pause_quanta.value = int.from_bytes(data[at : at + 2], "big")
            self.dut.pause_strobe.value = 1
            await RisingEdge(self.dut.clk)
            self.dut.pause_strobe.value = 0

    def execute(self, request):
        if request.operation != Operation.START_TRAFFIC or self.traffic:
            raise Unsupported("the design sends one class, and has no other operation")
        self.traffic, self.priority = request, request.value
        cocotb.start_soon(self.enable())

    async def enable(self):
        await RisingEdge(self.dut.clk)
        self.dut.enable.value = 1

    async def monitor(self, link):
        while True:
            await RisingEdge(self.dut.tx_start)
            first_bit_ps = self.clock.now()
            await RisingEdge(self.dut.tx_end)
            if self.traffic:
                data = append_fcs(self.traffic.numbered_frame(self.sent_frames))
                self.sent_frames += 1
                link.send_frame(first_bit_ps, data)


@cocotb.test()
async def run_in_lockstep(dut):
    clock = CocotbClock()
    mac = RtlMac(dut, clock)
    for signal in (dut.rst, dut.enable, dut.pause_strobe, dut.pause_quanta):
        signal.value = 0
    cocotb.start_soon(Clock(dut.clk, 8, "ns").start())
    link = Link(Client(os.environ["LOCKSTEP_SOCKET"], name="mac.v in cocotb"), mac, clock)
    cocotb.start_soon(mac.monitor(link))
    link.start()
    while not link.has_ended:
        await Timer(100, "us")
    if link.error:
        raise link.error


if __name__ == "__main__":
    from cocotb_tools.runner import get_runner

    folder = pathlib.Path(__file__).resolve().parent
    runner = get_runner(os.environ.get("SIM", "icarus"))
    runner.build(sources=[folder / "mac.v"], hdl_toplevel="mac", build_dir=os.environ.get("BUILD", "sim_build"))
    runner.test(
        hdl_toplevel="mac",
        test_module="test_mac",
        test_dir=folder,
        build_dir=os.environ.get("BUILD", "sim_build"),
        extra_env={"LOCKSTEP_SOCKET": os.path.abspath(sys.argv[1])},
    )
