"""A MAC in RTL under cocotb, for `xoff conform run --lockstep SOCKET`.

    pip install cocotb ./python/xoff-lockstep
    python3 python/xoff-lockstep/examples/cocotb/test_mac.py SOCKET examples/lockstep/rtl/toy_mac.v

docs/lockstep.md has the ports of the top module.
"""

import argparse
import os
import pathlib
import sys

import cocotb
from cocotb.triggers import Timer

if "LOCKSTEP_SOCKET" in os.environ:
    from mac_bench import MacBench
    from xoff_lockstep import Client, CocotbClock, Link


@cocotb.test()
async def run_in_lockstep(dut):
    bench = MacBench(dut, CocotbClock())
    link = Link(Client(os.environ["LOCKSTEP_SOCKET"], name="MAC in cocotb"), bench, bench.clock)
    bench.link = link
    link.start()
    while not link.has_ended:
        await Timer(20, "us")
    link.client.close()
    if link.error:
        raise link.error


def read_arguments():
    parser = argparse.ArgumentParser(description="Run a MAC in RTL in lock step with `xoff conform run --lockstep`.")
    parser.add_argument("socket", help="the socket of xoff")
    parser.add_argument("sources", nargs="+", help="files in Verilog")
    parser.add_argument("--top", default="xoff_mac", help="the top module [default: xoff_mac]")
    parser.add_argument("--sim", default="icarus", help="the simulator [default: icarus]")
    parser.add_argument("--build", default="sim_build", help="the folder of the simulator [default: sim_build]")
    parser.add_argument("--define", action="append", default=[], metavar="NAME", help="a macro, such as XOFF_GMII")
    parser.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE", help="of the top module")
    parser.add_argument("--plusarg", action="append", default=[], metavar="+NAME=VALUE", help="of the simulator")
    return parser.parse_args()


def main():
    try:
        from cocotb_tools.runner import get_runner
    except ImportError:  # cocotb 1
        from cocotb.runner import get_runner
    arguments = read_arguments()
    folder = pathlib.Path(__file__).resolve().parent
    build = pathlib.Path(arguments.build).resolve()
    runner = get_runner(arguments.sim)
    runner.build(
        sources=[pathlib.Path(source).resolve() for source in arguments.sources],
        hdl_toplevel=arguments.top,
        defines=dict.fromkeys(arguments.define, 1),
        parameters=dict(parameter.split("=", 1) for parameter in arguments.parameter),
        timescale=("1ps", "1ps"),
        build_dir=build,
        always=True,
    )
    results = runner.test(
        hdl_toplevel=arguments.top,
        test_module="test_mac",
        test_dir=folder,
        build_dir=build,
        plusargs=arguments.plusarg,
        results_xml=str(build / "results.xml"),
        extra_env={"LOCKSTEP_SOCKET": os.path.abspath(arguments.socket), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return 0 if "<failure" not in pathlib.Path(results).read_text() else 1


if __name__ == "__main__":
    sys.exit(main())
