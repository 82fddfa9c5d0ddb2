"""Answers each frame of `cargo run --example round_trips` by a frame, to measure round trips from Python."""

import sys

from xoff_lockstep import Client, Frame, messages

INTERVAL_PS = 2_000_000
FRAME_PS = 576_000


def main(path):
    client = Client(path, name="Python", flags=0)
    number = 0
    while True:
        message = client.receive()
        if message.kind == messages.BYE:
            break
        if message.kind == messages.FRAME:
            first_bit_ps = number * INTERVAL_PS + FRAME_PS
            client.send_frame(Frame(first_bit_ps, first_bit_ps + FRAME_PS, bytes(64)))
            client.grant(first_bit_ps + FRAME_PS + 1)
            number += 1
    client.close()


main(sys.argv[1])
