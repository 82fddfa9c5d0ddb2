/* A MAC with PFC in C, for `xoff conform run --lockstep SOCKET A1 A2 A5 A8`. It runs clock by clock, like a MAC in RTL.
 *
 *     cc -O2 -I include examples/lockstep/c_mac.c -o c_mac && ./c_mac SOCKET
 *
 * With the argument `memory`, it uses shared memory. With another argument, it ignores the enable vector of PFC frames:
 * A8 then fails.
 */
#include "xoff_lockstep.h"

#define FRAMES 64
#define GAP_BYTES 12
#define PREAMBLE_BYTES 8

static const uint8_t MAC_ADDRESS[6] = {2, 0, 0, 0, 0, 0x0b};
static const uint8_t CONTROL_ADDRESS[6] = {0x01, 0x80, 0xc2, 0, 0, 1};

struct arriving {
    uint64_t last_bit_ps;
    uint32_t len;
    int has_error;
    uint8_t bytes[2048];
};

struct traffic {
    int runs;
    uint32_t share_permille, sequence_offset, len;
    uint64_t next_ps, number, paused_until_ps;
    uint8_t bytes[2048];
};

struct mac {
    uint64_t byte_ps; /* the clock: one byte */
    int ignores_vector;
    struct traffic classes[8];
    struct arriving frames[FRAMES];
    unsigned first, count;
    /* the frame that is being sent */
    uint8_t bytes[2048];
    uint32_t len;
    uint64_t first_bit_ps, last_bit_ps, free_ps;
};

static uint32_t crc32(const uint8_t *bytes, size_t len) {
    uint32_t crc = 0xffffffffu;
    for (size_t at = 0; at < len; at++) {
        crc ^= bytes[at];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* Honours a PFC frame whose last bit has arrived. */
static void process(struct mac *mac, const struct arriving *frame, uint64_t now_ps) {
    const uint8_t *bytes = frame->bytes;
    if (frame->has_error || frame->len < 64 || xls_get(bytes + frame->len - 4, 4) != crc32(bytes, frame->len - 4))
        return;
    if (memcmp(bytes, CONTROL_ADDRESS, 6) || memcmp(bytes + 12, "\x88\x08\x01\x01", 4)) return;
    for (int class = 0; class < 8; class++) {
        uint64_t quanta = (uint64_t)bytes[18 + 2 * class] << 8 | bytes[19 + 2 * class];
        if (bytes[17] >> class & 1 || mac->ignores_vector)
            mac->classes[class].paused_until_ps = now_ps + quanta * 64 * mac->byte_ps;
    }
}

/* Starts the frame of a class that may send now. */
static void start_frame(struct mac *mac, uint64_t now_ps) {
    for (int class = 0; class < 8; class++) {
        struct traffic *traffic = &mac->classes[class];
        if (!traffic->runs || traffic->next_ps > now_ps || traffic->paused_until_ps > now_ps) continue;
        for (int byte = 0; byte < 8; byte++)
            traffic->bytes[traffic->sequence_offset + byte] = (uint8_t)(traffic->number >> (56 - 8 * byte));
        traffic->number++;
        memcpy(mac->bytes, traffic->bytes, traffic->len);
        xls_put(mac->bytes + traffic->len, crc32(mac->bytes, traffic->len), 4);
        mac->len = traffic->len + 4;
        mac->first_bit_ps = now_ps;
        mac->last_bit_ps = now_ps + (mac->len + PREAMBLE_BYTES) * mac->byte_ps;
        mac->free_ps = mac->last_bit_ps + GAP_BYTES * mac->byte_ps;
        traffic->next_ps += (mac->len + PREAMBLE_BYTES + GAP_BYTES) * mac->byte_ps * 1000 / traffic->share_permille;
        if (traffic->next_ps < now_ps) traffic->next_ps = now_ps;
        return;
    }
}

/* Executes a request. Returns whether the MAC has the operation. */
static int execute(struct mac *mac, const struct xls_message *message, uint64_t now_ps) {
    struct traffic *traffic = &mac->classes[message->value & 7];
    switch (message->operation) {
    case XLS_START_TRAFFIC:
        if (message->payload_len > sizeof traffic->bytes || message->share_permille == 0) return 0;
        memcpy(traffic->bytes, message->payload, message->payload_len);
        traffic->len = message->payload_len;
        traffic->sequence_offset = message->sequence_offset;
        traffic->share_permille = message->share_permille;
        traffic->next_ps = now_ps;
        return traffic->runs = 1;
    case XLS_STOP_TRAFFIC:
        traffic->runs = 0;
        return 1;
    default:
        return 0;
    }
}

/* Handles messages until the MAC may run to its next clock. Nothing happens before it. Returns 1 at the end, and -1
 * after an error. */
static int synchronise(struct mac *mac, struct xls_link *link, uint64_t *now_ps) {
    struct xls_message message;
    for (;;) {
        uint64_t wait_ps = *now_ps + mac->byte_ps - 1;
        if (xls_wait(link, wait_ps, &message) < 0) return -1;
        if (message.kind == XLS_RUN) return 0;
        if (message.kind == XLS_BYE) return 1;
        if (message.kind == XLS_RESET) {
            int ignores_vector = mac->ignores_vector;
            memset(mac, 0, sizeof *mac);
            mac->ignores_vector = ignores_vector;
            mac->byte_ps = 8000000000000ull / message.last_bit_ps;
            if (wait_ps < message.first_bit_ps)
                wait_ps = (message.first_bit_ps + mac->byte_ps - 1) / mac->byte_ps * mac->byte_ps;
            *now_ps = wait_ps / mac->byte_ps * mac->byte_ps;
            if (xls_reply_started(link, wait_ps, MAC_ADDRESS) < 0) return -1;
        } else if (message.kind == XLS_REQUEST) {
            static const char reason[] = "this MAC only sends traffic";
            int done = execute(mac, &message, wait_ps);
            /* The operation takes effect at the next clock. */
            enum xls_form form = done ? XLS_DONE : XLS_UNSUPPORTED;
            if (xls_reply(link, wait_ps + 1, form, reason, done ? 0 : sizeof reason - 1) < 0) return -1;
        } else if (message.kind == XLS_FRAME && mac->count < FRAMES && message.payload_len <= 2048) {
            struct arriving *frame = &mac->frames[(mac->first + mac->count++) % FRAMES];
            frame->last_bit_ps = message.last_bit_ps;
            frame->has_error = message.has_error;
            frame->len = message.payload_len;
            memcpy(frame->bytes, message.payload, message.payload_len);
        }
    }
}

int main(int argc, char **argv) {
    static struct mac mac;
    struct xls_link link;
    uint64_t now_ps = 0;
    int end = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: c_mac SOCKET [memory|ignores-vector]\n");
        return 2;
    }
    int uses_memory = argc > 2 && strcmp(argv[2], "memory") == 0;
    mac.ignores_vector = argc > 2 && !uses_memory;
    mac.byte_ps = 8000;
    if (xls_connect(&link, argv[1], "C MAC", XLS_BARE_MAC | (uses_memory ? XLS_SHARED_MEMORY : 0), 30000) < 0) end = -1;
    while (!end) {
        /* One clock: arrivals, then the end and the start of frames, then the other side. */
        while (mac.count && mac.frames[mac.first].last_bit_ps <= now_ps) {
            process(&mac, &mac.frames[mac.first], now_ps);
            mac.first = (mac.first + 1) % FRAMES;
            mac.count--;
        }
        if (mac.len && mac.last_bit_ps <= now_ps) {
            if (xls_send_frame(&link, mac.first_bit_ps, now_ps, mac.bytes, mac.len, 0) < 0) end = -1;
            mac.len = 0;
        }
        if (!mac.len && mac.free_ps <= now_ps) start_frame(&mac, now_ps);
        if (!end && link.horizon_ps < now_ps + mac.byte_ps) end = synchronise(&mac, &link, &now_ps);
        now_ps += mac.byte_ps;
    }
    if (end < 0) fprintf(stderr, "c_mac: %s\n", link.error);
    xls_close(&link);
    return end < 0;
}
