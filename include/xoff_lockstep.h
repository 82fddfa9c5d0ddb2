/* Client of xoff for simulators in C and C++: Ethernet frames in lock step, in virtual time.
 *
 * docs/lockstep.md of xoff specifies the protocol. All times are picoseconds. The header needs POSIX sockets and a
 * little-endian machine. All functions are static. Functions that return int return a negative number after an error;
 * xls_link.error then has the reason.
 *
 * A simulator calls xls_connect once and then, in a loop, xls_wait. xls_wait returns XLS_RUN if the simulator may run
 * until xls_link.horizon_ps. The simulator calls xls_send_frame at the last bit of each of its frames, and xls_wait
 * at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef XOFF_LOCKSTEP_H
#define XOFF_LOCKSTEP_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define XLS_VERSION 1
#define XLS_MAGIC 0x6b636f6c66666f78ull /* "xofflock" */
#define XLS_HEADER_BYTES 32u
#define XLS_PAYLOAD_MAX 65536u
#define XLS_FRAME_BYTES_MAX 16384u
#define XLS_UNCOUNTED_MAX 64u
/* Flag of xls_connect: the simulator is a MAC without a host. */
#define XLS_BARE_MAC 1
/* Flag of xls_connect: exchange messages through shared memory, the file SOCKET.ring. The compiler must have the
 * built-in functions __atomic_load_n and __atomic_store_n. */
#define XLS_SHARED_MEMORY 2

#define XLS_RINGS_AT 4096u
#define XLS_RING_BYTES 65536u
#define XLS_RING_FILE_BYTES (XLS_RINGS_AT + 2u * XLS_RING_BYTES)

enum xls_kind {
    XLS_HELLO = 1,
    XLS_FRAME, /* a frame of xoff: the fields first_bit_ps, last_bit_ps, has_error, payload */
    XLS_GRANT,
    XLS_RESET,   /* bring the device to its initial state, and call xls_reply_started */
    XLS_REQUEST, /* execute an operation, and call xls_reply */
    XLS_REPLY,
    XLS_BYE, /* xoff is done. The payload is the reason of an error */
    XLS_RUN  /* the simulator may run until horizon_ps */
};

enum xls_operation {
    XLS_START_TRAFFIC = 1,
    XLS_STOP_TRAFFIC,
    XLS_SET_PFC,
    XLS_SET_LINK_PAUSE,
    XLS_SET_UNREAD,
    XLS_SET_TRUST,
    XLS_SET_WILLING,
    XLS_RESET_DEVICE,
    XLS_READ_COUNTERS,
    XLS_READ_SETTINGS
};

/* Forms of a reply. */
enum xls_form { XLS_DONE, XLS_UNSUPPORTED, XLS_STARTED, XLS_COUNTERS, XLS_SETTINGS };

/* A message of xoff. The payload is valid until the next call of xls_wait. */
struct xls_message {
    enum xls_kind kind;
    int flags;
    int has_error;
    uint64_t first_bit_ps; /* also the time of a reset or a request */
    uint64_t last_bit_ps;  /* also the speed in bit/s of a reset */
    int operation;
    uint64_t value;           /* the argument of a request */
    uint32_t share_permille;  /* XLS_START_TRAFFIC: share of the link */
    uint32_t sequence_offset; /* XLS_START_TRAFFIC: offset of the 8-byte number of a frame */
    const uint8_t *payload;
    uint32_t payload_len;
};

struct xls_link {
    int fd;
    int spins; /* 1: poll without sleeping, which is faster and keeps a CPU busy */
    int timeout_ms;
    uint64_t horizon_ps; /* the simulator may run until this time */
    uint64_t speed_bps;
    char error[256];
    /* private */
    uint64_t start_ps, xoff_ps, granted_ps, last_end_ps, received, counted;
    uint64_t sent_grant_ps, sent_count;
    uint64_t uncounted[XLS_UNCOUNTED_MAX];
    unsigned uncounted_len;
    uint8_t *rings; /* NULL: messages pass through the socket */
    uint64_t read_by_xoff; /* bytes of ring 1 that xoff had read at the last look */
    uint8_t *out, *in;
    size_t out_len, in_start, in_len;
};

static inline int xls_fail(struct xls_link *link, const char *what, const char *why) {
    snprintf(link->error, sizeof link->error, "%s%s%s", what, *why ? ": " : "", why);
    return -1;
}

/* Writes a little-endian number of 2, 4 or 8 bytes. With a constant size, a compiler makes one instruction of it. */
static inline void xls_put(uint8_t *at, uint64_t value, unsigned bytes) {
    memcpy(at, &value, bytes);
}

/* Reads a little-endian number of 2, 4 or 8 bytes. */
static inline uint64_t xls_get(const uint8_t *at, unsigned bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* Returns a position of a ring. Ring 0 has the bytes of xoff, ring 1 those of the simulator. */
static inline uint64_t *xls_position(struct xls_link *link, unsigned at) {
    return (uint64_t *)(void *)(link->rings + at);
}

/* Writes bytes to ring 1, as many as fit. Returns their number, 0 if the ring is full. */
static inline size_t xls_write_ring(struct xls_link *link, const uint8_t *bytes, size_t count) {
    uint64_t written = __atomic_load_n(xls_position(link, 192), __ATOMIC_RELAXED);
    uint64_t unread = written - link->read_by_xoff;
    size_t at = (size_t)(written % XLS_RING_BYTES);
    size_t until_end = XLS_RING_BYTES - at;
    /* The position of xoff is read only if necessary: its cache line belongs to another CPU. */
    if (unread > XLS_RING_BYTES || count > XLS_RING_BYTES - unread) {
        link->read_by_xoff = __atomic_load_n(xls_position(link, 256), __ATOMIC_ACQUIRE);
        unread = written - link->read_by_xoff;
    }
    if (unread > XLS_RING_BYTES) return 0;
    if (count > XLS_RING_BYTES - unread) count = (size_t)(XLS_RING_BYTES - unread);
    size_t first = count < until_end ? count : until_end;
    memcpy(link->rings + XLS_RINGS_AT + XLS_RING_BYTES + at, bytes, first);
    memcpy(link->rings + XLS_RINGS_AT + XLS_RING_BYTES, bytes + first, count - first);
    __atomic_store_n(xls_position(link, 192), written + count, __ATOMIC_RELEASE);
    return count;
}

/* Reads bytes from ring 0, as many as there are and fit. Returns their number. */
static inline size_t xls_read_ring(struct xls_link *link, uint8_t *bytes, size_t count) {
    uint64_t read_bytes = __atomic_load_n(xls_position(link, 128), __ATOMIC_RELAXED);
    uint64_t unread = __atomic_load_n(xls_position(link, 64), __ATOMIC_ACQUIRE) - read_bytes;
    size_t at = (size_t)(read_bytes % XLS_RING_BYTES);
    size_t until_end = XLS_RING_BYTES - at;
    if (unread > XLS_RING_BYTES) return 0;
    if (count > unread) count = (size_t)unread;
    if (count == 0) return 0;
    size_t first = count < until_end ? count : until_end;
    memcpy(bytes, link->rings + XLS_RINGS_AT + at, first);
    memcpy(bytes + first, link->rings + XLS_RINGS_AT, count - first);
    __atomic_store_n(xls_position(link, 128), read_bytes + count, __ATOMIC_RELEASE);
    return count;
}

/* Returns whether xoff has closed the socket. */
static inline int xls_is_closed(struct xls_link *link) {
    uint8_t byte;
    return recv(link->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

static inline int xls_flush(struct xls_link *link) {
    size_t sent = 0;
    while (sent < link->out_len) {
        if (link->rings) {
            size_t written = xls_write_ring(link, link->out + sent, link->out_len - sent);
            if (!written && xls_is_closed(link)) return xls_fail(link, "xoff has closed the connection", "");
            sent += written;
            continue;
        }
        ssize_t count = send(link->fd, link->out + sent, link->out_len - sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return xls_fail(link, "xoff has closed the connection", strerror(errno));
        sent += (size_t)count;
    }
    link->out_len = 0;
    return 0;
}

static inline int xls_queue(struct xls_link *link, int kind, int flags, int code, uint64_t a, uint64_t b, uint64_t c,
                     const void *payload, size_t payload_len) {
    if (payload_len > XLS_PAYLOAD_MAX) return xls_fail(link, "the payload is too long", "");
    if (link->out_len + XLS_HEADER_BYTES + payload_len > 2 * XLS_PAYLOAD_MAX && xls_flush(link) < 0) return -1;
    uint8_t *at = link->out + link->out_len;
    xls_put(at, payload_len, 4);
    at[4] = (uint8_t)kind;
    at[5] = (uint8_t)flags;
    xls_put(at + 6, (uint64_t)code, 2);
    xls_put(at + 8, a, 8);
    xls_put(at + 16, b, 8);
    xls_put(at + 24, c, 8);
    if (payload_len) memcpy(at + XLS_HEADER_BYTES, payload, payload_len);
    link->out_len += XLS_HEADER_BYTES + payload_len;
    return 0;
}

/* Receives a message. Waits until it has arrived. */
static inline int xls_receive(struct xls_link *link, struct xls_message *message) {
    unsigned looks = 0;
    if (xls_flush(link) < 0) return -1;
    for (;;) {
        const uint8_t *at = link->in + link->in_start;
        size_t have = link->in_len - link->in_start;
        if (have >= XLS_HEADER_BYTES) {
            uint32_t payload_len = (uint32_t)xls_get(at, 4);
            if (payload_len > XLS_PAYLOAD_MAX) return xls_fail(link, "a message is too long", "");
            if (have >= XLS_HEADER_BYTES + payload_len) {
                memset(message, 0, sizeof *message);
                message->kind = (enum xls_kind)at[4];
                message->flags = at[5];
                message->has_error = at[5] & 1;
                message->operation = (int)xls_get(at + 6, 2);
                message->first_bit_ps = xls_get(at + 8, 8);
                message->last_bit_ps = message->value = xls_get(at + 16, 8);
                message->share_permille = (uint32_t)xls_get(at + 24, 4);
                message->sequence_offset = (uint32_t)xls_get(at + 28, 4);
                message->payload = at + XLS_HEADER_BYTES;
                message->payload_len = payload_len;
                link->in_start += XLS_HEADER_BYTES + payload_len;
                return 0;
            }
        }
        memmove(link->in, at, have);
        link->in_start = 0;
        link->in_len = have;
        if (link->rings) {
            size_t room = 2 * XLS_PAYLOAD_MAX - have, count = xls_read_ring(link, link->in + have, room);
            if (!count && ++looks % 4096 == 0) {
                if (xls_is_closed(link) && !(count = xls_read_ring(link, link->in + have, room)))
                    return xls_fail(link, "xoff has closed the connection without a BYE message", "");
                if (!link->spins) poll(NULL, 0, 1);
            }
            link->in_len += count;
            continue;
        }
        ssize_t count = recv(link->fd, link->in + have, 2 * XLS_PAYLOAD_MAX - have, MSG_DONTWAIT);
        if (count > 0) {
            link->in_len += (size_t)count;
        } else if (count == 0) {
            return xls_fail(link, "xoff has closed the connection without a BYE message", "");
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd polled = {link->fd, POLLIN, 0};
            if (!link->spins && poll(&polled, 1, link->timeout_ms) == 0)
                return xls_fail(link, "xoff sends nothing: is it stopped?", "");
        } else if (errno != EINTR) {
            return xls_fail(link, "the connection does not work", strerror(errno));
        }
    }
}

static inline void xls_update_horizon(struct xls_link *link) {
    uint64_t horizon = link->xoff_ps;
    /* xoff can react to a frame at its last bit. */
    for (unsigned index = 0; index < link->uncounted_len; index++)
        if (link->uncounted[index] < horizon) horizon = link->uncounted[index];
    link->horizon_ps = horizon;
}

static inline void xls_restart(struct xls_link *link, uint64_t time_ps) {
    link->start_ps = link->xoff_ps = link->granted_ps = link->last_end_ps = link->horizon_ps = time_ps;
    link->received = link->counted = 0;
    link->uncounted_len = 0;
    link->sent_grant_ps = 0;
}

/* Maps the shared memory of a socket. xoff creates the file after the socket. */
static inline int xls_map_rings(struct xls_link *link, const char *path) {
    char ring_path[sizeof((struct sockaddr_un *)0)->sun_path + 8];
    struct stat status;
    void *rings = MAP_FAILED;
    snprintf(ring_path, sizeof ring_path, "%s.ring", path);
    for (int waited_ms = 0; rings == MAP_FAILED && waited_ms <= link->timeout_ms; waited_ms += 10) {
        int fd = open(ring_path, O_RDWR);
        if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size == (off_t)XLS_RING_FILE_BYTES)
            rings = mmap(NULL, XLS_RING_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0) close(fd);
        if (rings == MAP_FAILED) poll(NULL, 0, 10);
    }
    if (rings == MAP_FAILED) return xls_fail(link, "the shared memory cannot be used", ring_path);
    link->rings = (uint8_t *)rings;
    return 0;
}

/* Connects to a Unix socket, and waits until it exists. */
static inline int xls_connect(struct xls_link *link, const char *path, const char *name, int flags, int timeout_ms) {
    struct sockaddr_un address;
    struct xls_message hello;
    uint8_t *rings;
    memset(&address, 0, sizeof address);
    memset(link, 0, sizeof *link);
    link->fd = -1;
    link->timeout_ms = timeout_ms;
    link->out = (uint8_t *)malloc(2 * XLS_PAYLOAD_MAX + XLS_HEADER_BYTES);
    link->in = (uint8_t *)malloc(2 * XLS_PAYLOAD_MAX);
    if (!link->out || !link->in) return xls_fail(link, "there is no memory", "");
    address.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address.sun_path) return xls_fail(link, "the path of the socket is too long", path);
    strcpy(address.sun_path, path);
    for (int waited_ms = 0;; waited_ms += 10) {
        link->fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (link->fd < 0) return xls_fail(link, "no socket", strerror(errno));
        if (connect(link->fd, (struct sockaddr *)&address, sizeof address) == 0) break;
        close(link->fd);
        link->fd = -1;
        if (waited_ms > timeout_ms) return xls_fail(link, "nobody listens at the socket", path);
        poll(NULL, 0, 10);
    }
    if (flags & XLS_SHARED_MEMORY && xls_map_rings(link, path) < 0) return -1;
    /* The HELLO messages pass through the socket. */
    rings = link->rings;
    link->rings = NULL;
    if (xls_queue(link, XLS_HELLO, flags, XLS_VERSION, 0, 0, XLS_MAGIC, name, strlen(name)) < 0) return -1;
    if (xls_receive(link, &hello) < 0) return -1;
    if (hello.kind != XLS_HELLO || hello.operation != XLS_VERSION)
        return xls_fail(link, "the other side does not speak this version of the protocol", "");
    if (rings && hello.flags & XLS_SHARED_MEMORY)
        link->rings = rings;
    else if (rings)
        munmap(rings, XLS_RING_FILE_BYTES);
    link->speed_bps = hello.first_bit_ps;
    return 0;
}

static inline void xls_close(struct xls_link *link) {
    if (link->fd >= 0) {
        if (xls_queue(link, XLS_BYE, 0, 0, 0, 0, 0, "", 0) == 0) xls_flush(link);
        close(link->fd);
    }
    if (link->rings) munmap(link->rings, XLS_RING_FILE_BYTES);
    free(link->out);
    free(link->in);
    link->out = link->in = link->rings = NULL;
    link->fd = -1;
}

/* Sends a frame whose last bit leaves at last_bit_ps. The bytes have an FCS. */
static inline int xls_send_frame(struct xls_link *link, uint64_t first_bit_ps, uint64_t last_bit_ps,
                                 const uint8_t *bytes, size_t byte_count, int has_error) {
    if (byte_count == 0 || byte_count > XLS_FRAME_BYTES_MAX) return xls_fail(link, "a frame has a wrong length", "");
    if (last_bit_ps <= first_bit_ps || last_bit_ps < link->granted_ps || first_bit_ps < link->last_end_ps)
        return xls_fail(link, "a frame is before an earlier grant or frame", "");
    if (link->uncounted_len == XLS_UNCOUNTED_MAX)
        return xls_fail(link, "call xls_wait after xls_send_frame", "");
    link->last_end_ps = last_bit_ps;
    link->uncounted[link->uncounted_len++] = last_bit_ps;
    xls_update_horizon(link);
    return xls_queue(link, XLS_FRAME, has_error ? 1 : 0, 0, first_bit_ps, last_bit_ps, 0, bytes, byte_count);
}

/* Answers a request. time_ps is the current time, at which xoff can react. */
static inline int xls_reply(struct xls_link *link, uint64_t time_ps, enum xls_form form, const void *payload,
                            size_t payload_len) {
    if (link->uncounted_len == XLS_UNCOUNTED_MAX) return xls_fail(link, "call xls_wait after xls_reply", "");
    link->uncounted[link->uncounted_len++] = time_ps;
    xls_update_horizon(link);
    link->sent_grant_ps = 0;
    return xls_queue(link, XLS_REPLY, 0, form, time_ps, 0, 0, payload, payload_len);
}

/* Answers a reset: the device has this address, and is in its initial state at time_ps. */
static inline int xls_reply_started(struct xls_link *link, uint64_t time_ps, const uint8_t mac[6]) {
    xls_restart(link, time_ps);
    return xls_queue(link, XLS_REPLY, 0, XLS_STARTED, time_ps, 0, 0, mac, 6);
}

/* Waits at now_ps until xoff permits the simulator to run, or until xoff sends a message. All frames of the simulator
 * that end at now_ps or before have been sent. Returns 0, or a negative number after an error. */
static inline int xls_wait(struct xls_link *link, uint64_t now_ps, struct xls_message *message) {
    for (;;) {
        if (link->horizon_ps > now_ps) {
            memset(message, 0, sizeof *message);
            message->kind = XLS_RUN;
            return 0;
        }
        int is_new = link->sent_grant_ps != now_ps + 1 || link->sent_count != link->received;
        if (is_new) {
            link->sent_grant_ps = link->granted_ps = now_ps + 1;
            link->sent_count = link->received;
            if (xls_queue(link, XLS_GRANT, 0, 0, link->start_ps, now_ps + 1, link->received, "", 0) < 0) return -1;
        }
        if (xls_receive(link, message) < 0) return -1;
        if (message->kind == XLS_GRANT) {
            uint64_t count = (uint64_t)message->share_permille | (uint64_t)message->sequence_offset << 32;
            if (count < link->counted || count > link->counted + link->uncounted_len)
                return xls_fail(link, "xoff counts messages that were not sent", "");
            unsigned gone = (unsigned)(count - link->counted);
            link->uncounted_len -= gone;
            memmove(link->uncounted, link->uncounted + gone, link->uncounted_len * sizeof link->uncounted[0]);
            link->counted = count;
            link->xoff_ps = message->first_bit_ps;
            xls_update_horizon(link);
            continue;
        }
        if (message->kind == XLS_FRAME || message->kind == XLS_REQUEST) link->received++;
        if (message->kind == XLS_RESET) xls_restart(link, message->first_bit_ps);
        return 0;
    }
}

#endif
