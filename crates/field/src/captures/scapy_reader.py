"""Reads captures with scapy, and checks the captures that xoff wrote.

list FOLDER: prints one JSON object per line for each file with the first bytes of a capture.
compare IN OUT DROPS: compares the sent and the dropped frames of a replay with the frames of its capture.

The script determines two facts without scapy. A file is whole if its last record or block ends at the end of the file.
A frame is undescribed if its section does not describe its interface; scapy skips such frames.
"""

import gzip
import json
import logging
import os
import struct
import sys

logging.getLogger("scapy").setLevel(logging.CRITICAL)

import scapy.utils  # noqa: E402
from scapy.utils import RawPcapNgReader, RawPcapReader  # noqa: E402

ETHERNET = 1
FRAME_BYTES_MAX = 1 << 26
# scapy stores up to 4 times this number of bytes of a frame.
scapy.utils.MTU = FRAME_BYTES_MAX
SECTION = b"\x0a\x0d\x0d\x0a"
# Byte order and length of a record header, by the first bytes of a pcap file.
PCAP = {
    struct.pack(order + "I", magic): (order, length)
    for order in "<>"
    for magic, length in ((0xA1B2C3D4, 16), (0xA1B23C4D, 16), (0xA1B2CD34, 24))
}


class PcapReader(RawPcapReader):
    """Reader of scapy that removes the FCS bits from the link type."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.fcs = 2 * (self.linktype >> 28) if self.linktype & 0x04000000 else 0
        self.linktype &= 0xFFFF


class Reader(RawPcapNgReader):
    """Reader of scapy that starts a new list of interfaces in each section."""

    alternative = PcapReader

    def __init__(self, *arguments):
        self.undescribed = 0
        self.fcs = 0
        self.fcs_of_interfaces = []
        super().__init__(*arguments)

    def _read_block_shb(self):
        super()._read_block_shb()
        self.interfaces = []
        self.fcs_of_interfaces = []

    def _read_block_idb(self, block, size):
        super()._read_block_idb(block, size)
        declared = self._read_options(block[8:]).get(13, b"\0")[0]
        self.fcs_of_interfaces.append(declared if declared < 8 else declared // 8)
        # 0 means no limit, but scapy uses it as a limit of 0 bytes in simple packet blocks.
        link_type, snaplen, options = self.interfaces[-1]
        self.interfaces[-1] = link_type, snaplen or FRAME_BYTES_MAX, options

    def _read_block_epb(self, block, size):
        frame = super()._read_block_epb(block, size)
        stored = struct.unpack_from(self.endian + "I", block, 12)[0]
        flags = self._read_options(block[20 + (stored + 3) // 4 * 4 :]).get(2, b"")
        if len(flags) == 4:
            self.fcs = struct.unpack(self.endian + "I", flags)[0] >> 5 & 0xF or self.fcs
        return frame

    def _check_interface_id(self, interface):
        is_described = interface < len(self.interfaces)
        if is_described:
            self.fcs = self.fcs_of_interfaces[interface]
        self.undescribed += not is_described
        return is_described


def open_capture(path, readers):
    """Returns a reader, or None if scapy refuses the file."""
    try:
        return readers(path)
    except Exception:
        return None


def frames(path):
    """Yields link type, bytes and original length of each frame without FCS. Yields None for a frame that scapy skips."""
    reader = open_capture(path, Reader)
    undescribed = 0
    while reader is not None:
        try:
            data, metadata = reader._read_packet(FRAME_BYTES_MAX)
        except EOFError:
            data = None
        now = getattr(reader, "undescribed", 0)
        yield from [None] * (now - undescribed)
        undescribed = now
        if data is None:
            return
        link_type = getattr(metadata, "linktype", None)
        length = max(metadata.wirelen, len(data)) - reader.fcs
        yield reader.linktype if link_type is None else link_type, data[: max(length, 0)], length


def content_of(path):
    with open(path, "rb") as file:
        content = file.read()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def is_capture(path):
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
        if magic.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                magic = file.read(4)
    except (OSError, EOFError):
        return False
    return magic == SECTION or magic in PCAP


def is_whole(content):
    """Returns whether the last record or block ends at the end of the file."""
    at = 0
    if content[:4] in PCAP:
        order, header = PCAP[content[:4]]
        at = 24
        while at + header <= len(content):
            at += header + struct.unpack_from(order + "I", content, at + 8)[0]
        return at == len(content)
    order = "<"
    while at + 12 <= len(content):
        if content[at : at + 4] == SECTION:
            order = "<" if content[at + 8] == 0x4D else ">"
        length = struct.unpack_from(order + "I", content, at + 4)[0]
        end = at + (length + 3) // 4 * 4
        if length < 12 or end > len(content) or struct.unpack_from(order + "I", content, end - 4)[0] != length:
            return False
        at = end
    return at == len(content)


def list_captures(folder):
    for root, folders, files in os.walk(folder):
        folders.sort()
        for path in (os.path.join(root, name) for name in sorted(files)):
            if not os.path.isfile(path) or not is_capture(path):
                continue
            reader = open_capture(path, RawPcapNgReader)
            types = [frame and frame[0] for frame in frames(path)]
            header = getattr(open_capture(path, Reader), "linktype", None)
            try:
                whole = is_whole(content_of(path))
            except (OSError, EOFError):
                whole = False
            row = {
                "path": path,
                "whole": whole,
                "is_read": reader is not None,
                "frames": 0 if reader is None else sum(1 for _ in reader),
                "ethernet": types.count(ETHERNET),
                "undescribed": types.count(None),
                "is_ethernet": ETHERNET in types or not types and header == ETHERNET,
            }
            print(json.dumps(row))


def written(path):
    """Yields port, frame number, bytes, length and comment of each frame that a replay wrote."""
    with open(path, "rb") as file:
        content = file.read()
    at = 0
    while at < len(content):
        kind, length = struct.unpack_from("<II", content, at)
        if kind == 6:
            port, _, _, stored, on_wire = struct.unpack_from("<5I", content, at + 8)
            options = {}
            option = at + 28 + (stored + 3) // 4 * 4
            while option < at + length - 4:
                code, size = struct.unpack_from("<HH", content, option)
                options[code] = content[option + 4 : option + 4 + size]
                option += 4 + (size + 3) // 4 * 4
            # Frames of the switch itself have no number.
            if 5 in options:
                number = int.from_bytes(options[5], "little")
                yield port, number, content[at + 28 : at + 28 + stored], on_wire, options[1].decode()
        at += length


def compare(before, after, drops):
    originals = list(frames(before))
    wrong = []

    def is_original(number, data, length):
        return number <= len(originals) and originals[number - 1] == (ETHERNET, data, length)

    sent, last_of_path, seen = set(), {}, set()
    for port, number, data, length, comment in written(after):
        if not is_original(number, data, length):
            wrong.append(f"frame {number} left with other bytes")
        if (port, number) in seen:
            wrong.append(f"frame {number} left twice by a port")
        # Frames of one ingress port and one queue keep their order.
        path = (port, comment.partition(" from ")[2])
        if last_of_path.get(path, 0) > number:
            wrong.append(f"frame {number} was overtaken")
        last_of_path[path] = number
        seen.add((port, number))
        sent.add(number)
    dropped = {}
    for _, number, data, length, comment in written(drops):
        if not is_original(number, data, length):
            wrong.append(f"frame {number} was dropped with other bytes")
        if number not in sent:
            dropped[number] = comment.rpartition(" dropped at ")[2].split(": ")[1]
    reasons = {}
    for reason in dropped.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    print(json.dumps({"sent": len(sent), "dropped": reasons, "wrong": wrong[:10]}))


if __name__ == "__main__":
    if sys.argv[1] == "list":
        list_captures(sys.argv[2])
    else:
        compare(*sys.argv[2:])
