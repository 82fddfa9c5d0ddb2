"""Sends traffic and executes operations on the Linux host of a device under test.

Usage: python3 plain_host.py DEVICE        (DEVICE: a network device, or one of its IP addresses)

`xoff conform run --device plain:DEVICE` starts this program and writes requests to its standard input, one line of
JSON each. It needs root, and only the standard library of Python 3.6 or later. Frames of class k are sent through a
packet socket with SO_PRIORITY k, and have the DSCP 8k + 2. PFC is set by `dcb`, 802.3x PAUSE and the counters by
`ethtool`, if these programs are installed.
"""

import fcntl
import gc
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time

SO_PRIORITY = 12
SIOCGIFHWADDR = 0x8927
ETH_P_ALL = 3
PACKET_OUTGOING = 4
MAC_CONTROL = b"\x88\x08"
STAMP_MAGIC_OFFSET = 14 + 20 + 8 + 12
WIRE_OVERHEAD = 24
# Frames that are late by more than this are not sent, so the rate after a pause is not above the configured rate.
CATCH_UP_NS = 2_000_000
# A frame that is late by more than this is reported: the failure of a check can be its effect.
REPORTED_DELAY_NS = 200_000
DELAYS_MAX = 256


class Unsupported(Exception):
    """The device cannot execute a request. The text is the reason."""


def find_device(name):
    """Returns the network device with a name or an IP address."""
    try:
        socket.if_nametoindex(name)
        return name
    except OSError:
        pass
    output = subprocess.run(
        ["ip", "-o", "addr", "show", "to", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    ).stdout.decode()
    words = output.split()
    if len(words) < 2:
        sys.exit("there is no network device with the name or the address " + name)
    return words[1].split("@")[0]


def run_program(words):
    """Runs a program and returns its output."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    except FileNotFoundError:
        raise Unsupported("the far host has no program " + words[0])
    if done.returncode != 0:
        error = done.stderr.decode(errors="replace").strip() or done.stdout.decode(errors="replace").strip()
        raise Unsupported("`%s` failed: %s" % (" ".join(words), error))
    return done.stdout.decode(errors="replace")


class Flow:
    """The frames of one class."""

    def __init__(self, device, class_, template, offset):
        self.frame = bytearray(template)
        self.offset = offset
        self.sequence = 0
        self.interval_ns = 0
        self.next_ns = 0
        self.is_blocked = False
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_PRIORITY, class_)
        self.socket.setblocking(False)
        self.socket.bind((device, 0))

    def start(self, bits_per_second):
        self.interval_ns = int((len(self.frame) + WIRE_OVERHEAD) * 8 * 1_000_000_000 / bits_per_second)
        self.next_ns = time.monotonic_ns()

    def send_due(self, now):
        """Sends the frames that are due. A full device keeps its frames, and the next ones wait. Returns the delay of
        the first frame in nanoseconds, 0 if it waited for the device."""
        delay = 0 if self.is_blocked else max(now - self.next_ns, 0)
        self.is_blocked = False
        self.next_ns = max(self.next_ns, now - CATCH_UP_NS)
        while self.next_ns <= now:
            self.frame[self.offset : self.offset + 8] = self.sequence.to_bytes(8, "big")
            try:
                self.socket.send(self.frame)
            except OSError:
                self.is_blocked = True
                break
            self.sequence += 1
            self.next_ns += self.interval_ns
        return delay


class PlainHost:
    """A network device and its traffic."""

    def __init__(self, device):
        self.device = device
        self.speed_mbps = 1000
        self.flows = {}
        self.running = set()
        self.unread = 0
        self.rx_frames = [0] * 8
        self.control_frames = 0
        self.resets = 0
        self.delays = []
        self.receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.receiver.setblocking(False)
        self.receiver.bind((device, ETH_P_ALL))

    def mac(self):
        request = struct.pack("256s", self.device.encode()[:15])
        return list(fcntl.ioctl(self.receiver.fileno(), SIOCGIFHWADDR, request)[18:24])

    def start(self, request):
        self.speed_mbps = request["speed_mbps"]
        if request["mutant"] is not None:
            raise Unsupported("a Linux host has no mutants")
        for flow in self.flows.values():
            flow.socket.close()
        self.flows = {}
        mac = bytes(self.mac())
        for class_, text in enumerate(request["frames"]):
            template = bytearray(bytes.fromhex(text))
            template[6:12] = mac
            self.flows[class_] = Flow(self.device, class_, template, request["sequence_offset"])
        self.running = set()
        self.unread = 0
        self.delays = []
        self.receive()
        self.rx_frames = [0] * 8
        self.control_frames = 0
        return {"started": {"name": "Linux host, device " + self.device, "mac": list(mac)}}

    def receive(self):
        """Counts received frames. The frames of a class that is not read wait in the socket with all others."""
        while not self.unread:
            try:
                frame, address = self.receiver.recvfrom(128)
            except OSError:
                return
            if address[2] == PACKET_OUTGOING:
                continue
            if frame[12:14] == MAC_CONTROL:
                self.control_frames += 1
            elif frame[12:14] == b"\x08\x00" and frame[STAMP_MAGIC_OFFSET - 12 - 8 + 2 :][:2] == b"\x12\xb7":
                self.rx_frames[frame[15] >> 5] += 1

    def send_due(self):
        """Sends due frames. Returns the time until the next one in seconds."""
        now = time.monotonic_ns()
        left = 50_000_000
        for class_ in self.running:
            flow = self.flows[class_]
            delay = flow.send_due(now)
            if delay > REPORTED_DELAY_NS and len(self.delays) < DELAYS_MAX:
                self.delays.append((now, delay))
            left = min(left, flow.next_ns - now)
        return max(left, 20_000) / 1_000_000_000

    def operate(self, operation):
        if operation == "reset":
            self.resets += 1
            run_program(["ip", "link", "set", "dev", self.device, "down"])
            run_program(["ip", "link", "set", "dev", self.device, "up"])
            return "done"
        (name, value), = operation.items()
        if name == "start_traffic":
            self.flows[value["class"]].start(self.speed_mbps * 1000 * value["share_permille"])
            self.running.add(value["class"])
        elif name == "stop_traffic":
            self.running.discard(value["class"])
        elif name == "set_unread":
            self.receive()
            self.unread = value["classes"]
        elif name == "set_pfc":
            enabled = value["enabled"]
            words = ["%d:%s" % (k, "on" if enabled >> k & 1 else "off") for k in range(8)]
            run_program(["dcb", "pfc", "set", "dev", self.device, "prio-pfc"] + words)
        elif name == "set_link_pause":
            rx = "on" if value["is_honoured"] else "off"
            run_program(["ethtool", "-A", self.device, "rx", rx])
        elif name == "set_trust":
            order = {"dscp": ["dscp", "pcp"], "pcp": ["pcp"]}[value]
            run_program(["dcb", "apptrust", "set", "dev", self.device, "order"] + order)
        else:
            raise Unsupported("the program on the far host cannot execute " + name)
        return "done"

    def counters(self):
        """Returns the counters of the driver under their common names, and own counts."""
        self.receive()
        result = {
            "rx_frames": self.rx_frames,
            "control_frames_to_host": self.control_frames,
            "link_resets": self.resets,
        }
        try:
            text = run_program(["ethtool", "-S", self.device])
        except Unsupported:
            return result
        values = {}
        for line in text.splitlines():
            name, _, value = line.rpartition(":")
            if value.strip().isdigit():
                values[name.strip()] = int(value)

        def add(field, forms, factor=1):
            for k in range(8):
                found = [values[form % k] for form in forms if form % k in values]
                if found:
                    result.setdefault(field, [0] * 8)[k] = sum(found) * factor

        add("pfc_rx", ["rx_prio%d_pause", "rx_priority_%d_xoff.nic", "rx_priority_%d_xon.nic",
                       "rx_pfc_ena_frames_pri%d"])
        add("pfc_tx", ["tx_prio%d_pause", "tx_priority_%d_xoff.nic", "tx_priority_%d_xon.nic",
                       "tx_pfc_ena_frames_pri%d"])
        add("paused_ns", ["rx_prio%d_pause_duration"], 1000)
        add("rx_discards", ["rx_prio%d_discards"])
        for field, name in [("storm_events", "tx_pause_storm_error_events"),
                            ("rx_unsupported_control", "rx_unsupported_op_phy")]:
            if name in values:
                result[field] = values[name]
        return result

    def settings(self):
        """Returns the PFC settings of `dcb`."""
        found = json.loads(run_program(["dcb", "-j", "pfc", "show", "dev", self.device]))
        found = found[0] if isinstance(found, list) else found
        enabled = found.get("prio-pfc", found.get("prio_pfc", []))
        return {"pfc": sum(1 << k for k, is_on in enumerate(enabled) if is_on in (True, "on"))}

    def answer(self, request):
        try:
            if request == "read_counters":
                return {"counters": self.counters()}
            if request == "read_settings":
                return {"settings": self.settings()}
            if request == "read_disturbance":
                now = time.monotonic_ns()
                delays = [[now - end, length] for end, length in self.delays]
                return {"disturbance": {"delays_ns": delays, "lost_frames": 0}}
            if "start" in request:
                return self.start(request["start"])
            return self.operate(request["operate"])
        except Unsupported as unsupported:
            return {"unsupported": str(unsupported)}


def main():
    host = PlainHost(find_device(sys.argv[1]))
    waiting = b""
    os.set_blocking(0, False)
    gc.disable()
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        pass  # Frames are later, and the reply to read_disturbance states this.
    while True:
        left = host.send_due()
        readable, _, _ = select.select([0, host.receiver] if not host.unread else [0], [], [], left)
        if host.receiver in readable:
            host.receive()
        if 0 not in readable:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        *lines, waiting = (waiting + chunk).split(b"\n")
        for line in lines:
            print(json.dumps(host.answer(json.loads(line))), flush=True)


main()
