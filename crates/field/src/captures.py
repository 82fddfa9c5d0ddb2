"""Reads captures with scapy.

list FOLDER: one JSON object per line for each file that scapy reads as Ethernet.
compare IN OUT: compares the frames that left a replay with those of its capture.
"""

import json
import logging
import os
import sys

logging.getLogger("scapy").setLevel(logging.CRITICAL)

from scapy.utils import RawPcapNgReader  # noqa: E402

ETHERNET = 1


def frames(path):
    """Link type and bytes of each frame."""
    # Falls back to pcap.
    reader = RawPcapNgReader(path)
    is_pcapng = isinstance(reader, RawPcapNgReader)
    for data, metadata in reader:
        yield metadata.linktype if is_pcapng else reader.linktype, data


def link_type_of_pcap(path):
    reader = RawPcapNgReader(path)
    return getattr(reader, "linktype", None)


def list_captures(folder):
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(root, name)
            try:
                types = [link_type for link_type, _ in frames(path)]
                is_ethernet = ETHERNET in types or not types and link_type_of_pcap(path) == ETHERNET
            except Exception:
                # No capture, or one that scapy cannot read.
                continue
            if is_ethernet:
                print(json.dumps({"path": path, "frames": len(types), "ethernet": types.count(ETHERNET)}))


def numbered(path):
    """Number in the capture (epb_packetid) and bytes of each frame that a replay wrote."""
    with open(path, "rb") as file:
        content = file.read()
    at = 0
    while at < len(content):
        kind = int.from_bytes(content[at : at + 4], "little")
        length = int.from_bytes(content[at + 4 : at + 8], "little")
        if kind == 6:
            stored = int.from_bytes(content[at + 20 : at + 24], "little")
            data = content[at + 28 : at + 28 + stored]
            option = at + 28 + (stored + 3) // 4 * 4
            number = None
            while option < at + length - 4:
                code = int.from_bytes(content[option : option + 2], "little")
                size = int.from_bytes(content[option + 2 : option + 4], "little")
                if code == 0:
                    break
                if code == 5:
                    number = int.from_bytes(content[option + 4 : option + 4 + size], "little")
                option += 4 + (size + 3) // 4 * 4
            if number is not None:
                yield number, data
        at += length


def compare(before, after):
    originals = [data for _, data in frames(before)]
    sent, wrong = set(), set()
    for number, data in numbered(after):
        sent.add(number)
        if number > len(originals) or originals[number - 1] != data:
            wrong.add(number)
    print(json.dumps({"sent": len(sent), "wrong": sorted(wrong)}))


if __name__ == "__main__":
    if sys.argv[1] == "list":
        list_captures(sys.argv[2])
    else:
        compare(sys.argv[2], sys.argv[3])
