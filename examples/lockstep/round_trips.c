/* Answers each frame of `cargo run --example round_trips` by a frame, to measure round trips from C.
 *
 *     cc -O2 -I include examples/lockstep/round_trips.c -o round_trips && ./round_trips SOCKET [memory]
 */
#include "xoff_lockstep.h"

#define INTERVAL_PS 2000000ull
#define FRAME_PS 576000ull

int main(int argc, char **argv) {
    static const uint8_t bytes[64];
    struct xls_link link;
    struct xls_message message;
    uint64_t number = 0;
    int flags = argc > 2 ? XLS_SHARED_MEMORY : 0;
    if (argc < 2 || xls_connect(&link, argv[1], "C", flags, 10000) < 0) return fprintf(stderr, "%s\n", link.error), 2;
    link.spins = 1;
    for (;;) {
        uint64_t last_bit_ps = number * INTERVAL_PS + 2 * FRAME_PS;
        do {
            if (xls_receive(&link, &message) < 0) return fprintf(stderr, "%s\n", link.error), 1;
        } while (message.kind == XLS_GRANT);
        if (message.kind != XLS_FRAME) break;
        /* The grant of the peer counts the answer before. */
        link.received++;
        link.uncounted_len = 0;
        if (xls_send_frame(&link, last_bit_ps - FRAME_PS, last_bit_ps, bytes, sizeof bytes, 0) < 0) return 1;
        if (xls_queue(&link, XLS_GRANT, 0, 0, 0, last_bit_ps + 1, link.received, "", 0) < 0) return 1;
        number++;
    }
    xls_close(&link);
    return 0;
}
