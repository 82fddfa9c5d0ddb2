#!/usr/bin/env python3
"""Write the same flows over the same fat tree for xoff, htsim and ns-3.

    python3 generate.py FOLDER [--hosts 16,128,1024]

Each flow has the same number of packets in each simulator, and each data packet occupies a link for 4250 bytes. The
simulators add different header lengths, so the payload of a packet differs.
"""

import argparse
import os
import random

WIRE_BYTES = 4250  # a data packet on the link, with headers, preamble and gap
HEADER_BYTES = {"xoff": 82, "htsim": 64, "ns3": 48}
PACKETS = {  # packets of each flow, for each number of hosts: similar work for each size
    "pairs": {16: 32768, 128: 4096, 1024: 512},
    "pods": {16: 32768, 128: 4096, 1024: 2048},
    "incast": {16: 8192, 128: 1024, 1024: 128},
    "random": {16: 16384, 128: 2048, 1024: 512},
}
STOP_US = {  # longer than the longest flow: ns-3 and htsim need an end time
    "pairs": {16: 15000, 128: 2000, 1024: 1000},
    "pods": {16: 15000, 128: 2000, 1024: 1000},
    "incast": {16: 50000, 128: 50000, 1024: 50000},
    "random": {16: 60000, 128: 10000, 1024: 4000},
}
DESTINATION_PORT = 100


def ports_of_switch(hosts):
    """k of a fat tree with this number of hosts."""
    k = 2
    while k**3 // 4 < hosts:
        k += 2
    if k**3 // 4 != hosts:
        raise SystemExit(f"no fat tree has {hosts} hosts; use 16, 128 or 1024")
    return k


def flows(pattern, hosts):
    """Pairs of source and destination, numbered from 0."""
    k = ports_of_switch(hosts)
    pod = hosts // k
    if pattern == "pairs":  # two hosts of one edge switch
        return [(h, h + 1) for h in range(0, hosts, 2)]
    if pattern == "pods":  # one flow from each second pod to the next pod: no two flows share a link
        return [(p * pod, (p + 1) * pod) for p in range(0, k, 2)]
    if pattern == "incast":  # all other hosts to the first one
        return [(h, 0) for h in range(1, hosts)]
    generator = random.Random(hosts)
    while True:  # each host sends to one other host and receives from one other host
        targets = list(range(hosts))
        generator.shuffle(targets)
        if all(host != target for host, target in enumerate(targets)):
            return list(enumerate(targets))


def links(hosts):
    """Links of the fat tree. Hosts come first, then the edge, aggregation and core switches."""
    k = ports_of_switch(hosts)
    half = k // 2
    edge, aggregation, core = hosts, hosts + k * half, hosts + 2 * k * half
    found = [(h, edge + h // half) for h in range(hosts)]
    for pod in range(k):
        for a in range(half):
            upper = aggregation + pod * half + a
            found += [(edge + pod * half + e, upper) for e in range(half)]
            found += [(upper, core + a * half + c) for c in range(half)]
    return found, range(hosts, core + half * half)


def xoff_lab(name, pattern, hosts):
    return f"""\
# {hosts} hosts in a fat tree, pattern `{pattern}` of generate.py. README.md describes the comparison.
name: peers-{name}
topology:
  fabric:
    fat-tree:
      k: {ports_of_switch(hosts)}
      speed: 100g
      delay: 1us
      config: [{{preset: roce-lossless}}, {{XOFF_SWITCH: {{localhost: {{pipeline_latency: "0"}}}}}}]
transports:
  default: {{mtu: {WIRE_BYTES - HEADER_BYTES["xoff"]}, ecn: false}}
workload:
  jobs:
    - {{name: flows, kind: replay, verb: send, file: {name}.flows.txt, format: ns3, nodes: [h1..h{hosts}]}}
"""


def flow_list(pairs, payload_bytes, packets, port=DESTINATION_PORT):
    lines = [f"{s} {d} 3 {port} {payload_bytes * packets} 0\n" for s, d in pairs]
    return f"{len(pairs)}\n" + "".join(lines)


def htsim_matrix(pairs, hosts, packets):
    size = (WIRE_BYTES - HEADER_BYTES["htsim"]) * packets
    lines = [f"{s}->{d} id {n} start 0 size {size}\n" for n, (s, d) in enumerate(pairs, 1)]
    return f"Nodes {hosts}\nConnections {len(pairs)}\n" + "".join(lines)


def ns3_topology(hosts):
    found, switches = links(hosts)
    head = f"{switches.stop} {len(switches)} {len(switches)} {len(found)}\n{' '.join(map(str, switches))}\n"
    return head + "".join(f"{a} {b} 100Gbps 0.001ms 0\n" for a, b in found)


def ns3_configuration(name, hosts, stop_us):
    return f"""\
ENABLE_QCN 0
PACKET_PAYLOAD_SIZE {WIRE_BYTES - HEADER_BYTES["ns3"]}
TOPOLOGY_FILE {hosts}.ns3-topology.txt
FLOW_FILE {name}.ns3-flows.txt
FCT_OUTPUT_FILE {name}.ns3-fct.txt
PFC_OUTPUT_FILE {name}.ns3-pfc.txt
SIMULATOR_STOP_TIME {stop_us / 1e6}
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
CLAMP_TARGET_RATE 0
RP_TIMER 900
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI 50Mb/s
RATE_HAI 100Mb/s
MIN_RATE 100Mb/s
DCTCP_RATE_AI 1000Mb/s
ERROR_RATE_PER_LINK 0
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
GLOBAL_T 1
RATE_BOUND 0
ACK_HIGH_PRIO 0
LINK_DOWN 0 0 0
KMAX_MAP 1 100000000000 1600
KMIN_MAP 1 100000000000 400
PMAX_MAP 1 100000000000 0.2
BUFFER_SIZE 16
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--hosts", default="16,128,1024")
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)

    def write(file, text):
        with open(os.path.join(arguments.folder, file), "w", encoding="ascii") as out:
            out.write(text)

    for hosts in map(int, arguments.hosts.split(",")):
        write(f"{hosts}.ns3-topology.txt", ns3_topology(hosts))
        for pattern, packets_of in PACKETS.items():
            name, packets, pairs = f"{pattern}-{hosts}", packets_of[hosts], flows(pattern, hosts)
            write(f"{name}.xoff.yml", xoff_lab(name, pattern, hosts))
            write(f"{name}.flows.txt", flow_list(pairs, WIRE_BYTES - HEADER_BYTES["xoff"], packets))
            write(f"{name}.cm", htsim_matrix(pairs, hosts, packets))
            write(f"{name}.ns3-flows.txt", flow_list(pairs, WIRE_BYTES - HEADER_BYTES["ns3"], packets))
            write(f"{name}.ns3-config.txt", ns3_configuration(name, hosts, STOP_US[pattern][hosts]))


if __name__ == "__main__":
    main()
