#!/usr/bin/env python3
"""Run the files of generate.py in xoff, htsim and ns-3 in turns, and print one row for each simulator.

    python3 compare.py FOLDER pairs-16 --xoff PROGRAM [--htsim PROGRAM] [--ns3 PROGRAM] [--rounds 3]

Processor time is user plus system time of the process. Completion times run from the start of a flow to the last
acknowledgement at the sender.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from generate import DESTINATION_PORT, HEADER_BYTES, PACKETS, STOP_US, WIRE_BYTES, flow_list, flows


def run(command, folder):
    """Output, processor seconds and peak memory in MiB of a command."""
    with tempfile.TemporaryFile("w+") as out, tempfile.NamedTemporaryFile("r") as peak:
        # The peak of wait4 would contain the memory of this process before it became the program.
        command = ["/usr/bin/time", "-f", "%M", "-o", peak.name] + command
        child = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        out.seek(0)
        text, peak_kib = out.read(), peak.read()
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with status {status}:\n{text[-2000:]}")
    return text, usage.ru_utime + usage.ru_stime, int(peak_kib) / 1024


def run_xoff(program, folder, name, seed):
    report = os.path.join(folder, f"{name}.report.json")
    command = [program, "lab", "run", f"{name}.xoff.yml", "--virtual", "--progress", "none", "--seed", str(seed)]
    _, cpu_s, memory_mib = run(command, folder)
    run(command + ["--report", report], folder)  # a second run: writing the report is not part of the measurement
    with open(report, encoding="utf-8") as file:
        jobs = json.load(file)["jobs"]
    return [flow["sender_completion_ns"] for flow in jobs["flows"]], cpu_s, memory_mib


def run_htsim(program, folder, name, seed):
    pattern, hosts = name.split("-")
    command = [program, "-nodes", hosts, "-tm", f"{name}.cm", "-strat", "ecmp_host", "-paths", "256"]
    command += ["-linkspeed", "100000", "-mtu", str(WIRE_BYTES - HEADER_BYTES["htsim"]), "-hop_latency", "1"]
    command += ["-q", "10000", "-queue_type", "lossless_input", "-pfc_thresholds", "200", "250"]
    command += ["-end", str(STOP_US[pattern][int(hosts)])]
    text, cpu_s, memory_mib = run(command + ["-seed", str(seed), "-o", "/dev/null"], folder)
    assert "Rtx: 0" in text and "LOSSLESS not working" not in text
    return [1000 * float(us) for us in re.findall(r"finished at ([0-9.e+]+)", text)], cpu_s, memory_mib


def run_ns3(program, folder, name, seed):
    pattern, hosts = name.split("-")
    hosts = int(hosts)
    payload_bytes = WIRE_BYTES - HEADER_BYTES["ns3"]
    with open(os.path.join(folder, f"{name}.ns3-flows.txt"), "w", encoding="ascii") as file:
        file.write(flow_list(flows(pattern, hosts), payload_bytes, PACKETS[pattern][hosts], DESTINATION_PORT + seed))
    command = [program, f"--conf={name}.ns3-config.txt", "--algorithm=1", "--windowCheck=0", "--wien=0"]
    text, cpu_s, memory_mib = run(command, folder)
    assert "dropping lossless" not in text
    with open(os.path.join(folder, f"{name}.ns3-fct.txt"), encoding="ascii") as file:
        return [int(line.split()[6]) for line in file], cpu_s, memory_mib


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("name")
    parser.add_argument("--rounds", type=int, default=3)
    for simulator in ("xoff", "htsim", "ns3"):
        parser.add_argument(f"--{simulator}")
    arguments = parser.parse_args()
    runners = {"xoff": run_xoff, "htsim": run_htsim, "ns3": run_ns3}
    programs = {s: os.path.abspath(getattr(arguments, s)) for s in runners if getattr(arguments, s)}
    pattern, hosts = arguments.name.split("-")
    expected = len(flows(pattern, int(hosts)))
    results = {simulator: [] for simulator in programs}
    for seed in range(arguments.rounds):
        for simulator, program in programs.items():
            result = runners[simulator](program, arguments.folder, arguments.name, seed)
            if len(result[0]) != expected:
                sys.exit(f"{simulator} completed {len(result[0])} of {expected} flows; raise STOP_US in generate.py")
            results[simulator].append(result)
    packets = expected * PACKETS[pattern][int(hosts)]
    print("| load | simulator | processor s (all rounds) | packets/s | MiB | min us | mean us | max us |")
    print("|---|---|---|---|---|---|---|---|")
    for simulator, rounds in results.items():
        seconds = [cpu_s for _, cpu_s, _ in rounds]
        middle = statistics.median(seconds)
        memory_mib = max(memory for _, _, memory in rounds)
        times_us = [
            statistics.mean(function(times) for times, _, _ in rounds) / 1000
            for function in (min, statistics.mean, max)
        ]
        print(
            f"| {arguments.name} | {simulator} | {middle:.2f} ({', '.join(f'{s:.2f}' for s in sorted(seconds))})"
            f" | {packets / middle:,.0f} | {memory_mib:.0f} | {' | '.join(f'{t:.2f}' for t in times_us)} |"
        )


if __name__ == "__main__":
    main()
