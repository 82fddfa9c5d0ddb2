// Test bench of a MAC in RTL under Verilator, for `xoff conform run --lockstep SOCKET`. docs/lockstep.md has the ports
// of the top module, the commands and the options.
//
// The bench has eight class sources, which are gated by rx_pfc_req, and eight class sinks, which raise tx_pfc_req if
// their host does not read. It drives and decodes XGMII (32 or 64 bits), or GMII with -DXOFF_GMII.
//
// SPDX-License-Identifier: Apache-2.0 OR MIT

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "Vxoff_mac.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

#include "xoff_lockstep.h"

namespace {

constexpr std::array<uint8_t, 6> MAC_ADDRESS = {2, 0, 0, 0, 0, 0x0b};
constexpr unsigned CLASSES = 8;
constexpr unsigned PREAMBLE_BYTES = 8, GAP_BYTES = 12, FCS_BYTES = 4;
constexpr unsigned RESET_CLOCKS = 64;
// Number of unread bytes of a class above which its sink requests a pause.
constexpr uint64_t XOFF_BYTES = 50'000;
// Control characters of XGMII.
constexpr uint8_t IDLE = 0x07, START = 0xfb, TERMINATE = 0xfd, ERROR = 0xfe;
constexpr uint8_t PREAMBLE = 0x55, START_OF_FRAME = 0xd5;

using Bytes = std::vector<uint8_t>;
#ifdef XOFF_GMII
constexpr unsigned LANES = 1;
#else
constexpr unsigned LANES = sizeof(std::remove_reference_t<decltype(std::declval<Vxoff_mac>().xgmii_rxd)>);
#endif

// An octet of the link. Control characters are those of XGMII.
struct Octet {
    uint8_t value;
    bool is_control;
};
using Word = std::array<Octet, LANES>;

struct Frame {
    uint64_t first_bit_ps;
    Bytes bytes;
    bool has_error;
};

// The octets of xoff on their way to the MAC.
class LinkDriver {
public:
    void add(const Frame &frame) { frames.push_back(frame); }

    // Returns the octets of a clock. `octet_ps` is the time of an octet.
    Word next_word(uint64_t now_ps, uint64_t octet_ps) {
        Word word;
        for (unsigned lane = 0; lane < LANES; lane++) {
            // XGMII frames start in lane 0 or 4.
            bool may_start = lane % 4 == 0 && !is_sending;
            if (may_start && !frames.empty() && frames.front().first_bit_ps <= now_ps + lane * octet_ps) {
                is_sending = true;
                position = 0;
            }
            word[lane] = is_sending ? next_octet() : Octet{IDLE, true};
        }
        return word;
    }

private:
    std::deque<Frame> frames;
    bool is_sending = false;
    size_t position = 0;

    Octet next_octet() {
        const Frame &frame = frames.front();
        size_t at = position++;
        if (at == 0) return {START, true};
        if (at < PREAMBLE_BYTES - 1) return {PREAMBLE, false};
        if (at == PREAMBLE_BYTES - 1) return {START_OF_FRAME, false};
        at -= PREAMBLE_BYTES;
        if (frame.has_error && at == frame.bytes.size() / 2) return {ERROR, true};
        if (at < frame.bytes.size()) return {frame.bytes[at], false};
        frames.pop_front();
        is_sending = false;
        return {TERMINATE, true};
    }
};

// Decodes the octets of the MAC.
class LinkMonitor {
public:
    // Calls `on_frame(frame, last_bit_ps)` for each frame that ends in a word.
    template <typename Handler> void read_word(const Word &word, uint64_t now_ps, uint64_t octet_ps, Handler on_frame) {
        for (unsigned lane = 0; lane < LANES; lane++) {
            uint64_t time_ps = now_ps + lane * octet_ps;
            const Octet &octet = word[lane];
            if (octet.is_control && octet.value == START) {
                frame = {time_ps, {}, false};
                position = 1;
            } else if (position == 0) {
                continue;
            } else if (octet.is_control && octet.value != ERROR) {
                frame.has_error |= octet.value != TERMINATE;
                position = 0;
                if (!frame.bytes.empty()) on_frame(frame, time_ps);
            } else {
                add(octet);
            }
        }
    }

private:
    Frame frame;
    // Number of octets of the current frame. 0: none.
    size_t position = 0;

    void add(const Octet &octet) {
        size_t at = position++;
        if (octet.is_control) frame.has_error = true;
        if (at < PREAMBLE_BYTES - 1) return;
        if (at == PREAMBLE_BYTES - 1) {
            frame.has_error |= octet.value != START_OF_FRAME;
        } else if (frame.bytes.size() == XLS_FRAME_BYTES_MAX) {
            frame.has_error = true;
        } else {
            frame.bytes.push_back(octet.value);
        }
    }
};

// Traffic of a class.
struct Source {
    bool runs = false;
    uint64_t share_permille = 0, sequence_offset = 0, next_ps = 0, number = 0;
    Bytes bytes;
};

// What the host of the MAC counts, by class.
struct Counters {
    uint64_t received_pfc[CLASSES] = {}, sent_pfc[CLASSES] = {}, paused_ps[CLASSES] = {}, received_frames[CLASSES] = {};
    uint64_t control_frames_to_host = 0;
};

// Returns the class of a frame: its PCP, or the upper bits of its DSCP.
unsigned class_of(const Bytes &bytes) {
    if (bytes.size() < 16) return 0;
    bool is_tagged = bytes[12] == 0x81 && bytes[13] == 0;
    return (is_tagged ? bytes[14] : bytes[15]) >> 5;
}

bool has_type(const Bytes &bytes, const char (&type)[3]) {
    return bytes.size() >= 18 && std::memcmp(&bytes[12], type, 2) == 0;
}

// The host side of the MAC: sources and sinks.
class Host {
public:
    Counters counters;
    uint8_t pfc_enable = 0xff;
    bool is_pause_enabled = false;
    // The classes whose sinks request a pause.
    uint8_t pause_requests = 0;

    // Returns whether a frame waits at the MAC.
    bool is_sending() const { return position < sending.size(); }

    // Chooses the next frame of the classes that may send. The MAC must take it once it is offered.
    void choose_frame(uint64_t now_ps, uint64_t octet_ps, uint8_t paused) {
        for (unsigned index = 0; index < CLASSES && !is_sending(); index++) {
            unsigned number = (last_class + 1 + index) % CLASSES;
            Source &source = sources[number];
            if (!source.runs || source.next_ps > now_ps || paused >> number & 1) continue;
            last_class = number;
            sending = source.bytes;
            position = 0;
            for (unsigned byte = 0; byte < 8; byte++)
                sending[source.sequence_offset + byte] = uint8_t(source.number >> (56 - 8 * byte));
            source.number++;
            uint64_t octets = sending.size() + FCS_BYTES + PREAMBLE_BYTES + GAP_BYTES;
            source.next_ps = std::max(source.next_ps + octets * octet_ps * 1000 / source.share_permille, now_ps);
        }
    }

    // The bytes of the frame that the MAC has not taken, and their number in a word.
    const uint8_t *next_bytes() const { return &sending[position]; }
    unsigned next_count() const { return unsigned(std::min<size_t>(LANES, sending.size() - position)); }
    bool is_last_word() const { return sending.size() - position <= LANES; }
    void take_word() { position += next_count(); }

    // A byte of a received frame.
    void receive_byte(uint8_t byte) { receiving.push_back(byte); }

    void end_received_frame(bool is_bad) {
        if (!is_bad) count_frame(receiving);
        receiving.clear();
    }

    // Executes a request. Returns false if there is no such operation.
    bool execute(const xls_message &message, uint64_t now_ps) {
        unsigned number = message.value & 7;
        switch (message.operation) {
        case XLS_START_TRAFFIC:
            if (message.share_permille == 0 || message.sequence_offset + 8 > message.payload_len) return false;
            sources[number] = {true, message.share_permille, message.sequence_offset, now_ps, 0,
                               Bytes(message.payload, message.payload + message.payload_len)};
            return true;
        case XLS_STOP_TRAFFIC: sources[number].runs = false; return true;
        case XLS_SET_PFC: pfc_enable = uint8_t(message.value); return true;
        case XLS_SET_LINK_PAUSE: is_pause_enabled = message.value != 0; return true;
        case XLS_SET_UNREAD:
            unread = uint8_t(message.value);
            for (unsigned index = 0; index < CLASSES; index++)
                if (!(unread >> index & 1)) unread_bytes[index] = 0;
            pause_requests &= unread;
            return true;
        default: return false;
        }
    }

private:
    std::array<Source, CLASSES> sources;
    Bytes sending, receiving;
    size_t position = 0;
    unsigned last_class = CLASSES - 1;
    uint8_t unread = 0;
    uint64_t unread_bytes[CLASSES] = {};

    void count_frame(const Bytes &bytes) {
        if (has_type(bytes, "\x88\x08")) {
            counters.control_frames_to_host++;
            return;
        }
        unsigned number = class_of(bytes);
        counters.received_frames[number]++;
        if (!(unread >> number & 1)) return;
        unread_bytes[number] += bytes.size();
        if (unread_bytes[number] > XOFF_BYTES) pause_requests |= uint8_t(1 << number);
    }
};

// The model of Verilator with its clock.
class Model {
public:
    Vxoff_mac top;

    Model(int argc, char **argv, const std::string &trace_path) {
        Verilated::commandArgs(argc, argv);
#if VM_TRACE
        Verilated::traceEverOn(!trace_path.empty());
        if (!trace_path.empty()) {
            top.trace(&trace, 99);
            trace.open(trace_path.c_str());
        }
#else
        if (!trace_path.empty()) std::fprintf(stderr, "mac_bench: trace needs a build with `verilator --trace`\n");
#endif
        top.clk = 0;
        top.rst = 1;
        uint64_t address = 0;
        for (uint8_t byte : MAC_ADDRESS) address = address << 8 | byte;
        top.mac_address = address;
        drive(Word{}, true);
    }

    // Drives the octets of a clock.
    void drive(const Word &word, bool is_idle = false) {
#ifdef XOFF_GMII
        const Octet &octet = is_idle ? Octet{IDLE, true} : word[0];
        bool is_start = octet.is_control && octet.value == START;
        top.gmii_rx_er = octet.is_control && octet.value == ERROR;
        top.gmii_rx_dv = !octet.is_control || is_start || top.gmii_rx_er;
        top.gmii_rxd = is_start ? PREAMBLE : octet.is_control ? 0 : octet.value;
#else
        uint64_t data = 0, control = 0;
        for (unsigned lane = LANES; lane-- > 0;) {
            const Octet &octet = is_idle ? Octet{IDLE, true} : word[lane];
            data = data << 8 | octet.value;
            control = control << 1 | octet.is_control;
        }
        top.xgmii_rxd = data;
        top.xgmii_rxc = control;
#endif
    }

    // Returns the octets that the MAC sends in this clock.
    Word sent() {
        Word word;
#ifdef XOFF_GMII
        bool is_valid = top.gmii_tx_en;
        bool is_error = is_valid && top.gmii_tx_er;
        word[0] = is_error                ? Octet{ERROR, true}
                  : is_valid == was_valid ? (is_valid ? Octet{top.gmii_txd, false} : Octet{IDLE, true})
                  : is_valid              ? Octet{START, true}
                                          : Octet{TERMINATE, true};
        was_valid = is_valid;
#else
        for (unsigned lane = 0; lane < LANES; lane++)
            word[lane] = {uint8_t(top.xgmii_txd >> (8 * lane)), bool(top.xgmii_txc >> lane & 1)};
#endif
        return word;
    }

    // Offers a word of a frame to the MAC.
    void offer(const Host &host) {
        top.tx_axis_tvalid = host.is_sending();
        top.tx_axis_tlast = host.is_sending() && host.is_last_word();
        uint64_t data = 0;
        if (host.is_sending())
            for (unsigned byte = host.next_count(); byte-- > 0;) data = data << 8 | host.next_bytes()[byte];
        top.tx_axis_tdata = data;
#ifndef XOFF_GMII
        top.tx_axis_tkeep = host.is_sending() ? (1u << host.next_count()) - 1 : 0;
#endif
    }

    // Gives the host the bytes that the MAC has received.
    void receive(Host &host) {
        if (!top.rx_axis_tvalid) return;
        for (unsigned lane = 0; lane < LANES; lane++) {
#ifndef XOFF_GMII
            if (!(top.rx_axis_tkeep >> lane & 1)) continue;
#endif
            host.receive_byte(uint8_t(top.rx_axis_tdata >> (8 * lane)));
        }
        if (top.rx_axis_tlast) host.end_received_frame(top.rx_axis_tuser & 1);
    }

    // Runs a clock: the inputs settle, and the rising edge follows. `before_edge` runs between them.
    template <typename Handler> void run_clock(uint64_t now_ps, uint64_t clock_ps, Handler before_edge) {
        top.clk = 0;
        evaluate(now_ps + clock_ps / 2);
        before_edge();
        top.clk = 1;
        evaluate(now_ps + clock_ps);
    }

private:
    bool was_valid = false;
#if VM_TRACE
    VerilatedVcdC trace;
#endif

    void evaluate(uint64_t time_ps) {
        top.eval();
#if VM_TRACE
        if (trace.isOpen()) trace.dump(time_ps);
#else
        (void)time_ps;
#endif
    }
};

struct Options {
    const char *socket = nullptr;
    bool uses_memory = false, has_counters = true;
    std::string trace_path;
};

class Bench {
public:
    Bench(Model &model, const Options &options) : model(model), options(options) {}

    // Runs until xoff is done. Returns false after an error.
    bool run() {
        int flags = XLS_BARE_MAC | (options.uses_memory ? XLS_SHARED_MEMORY : 0);
        if (xls_connect(&link, options.socket, "MAC in Verilator", flags, 30'000) < 0) return false;
        while (!is_done) {
            if (!read_link() || !synchronise()) return false;
            if (is_done) break;
            model.drive(driver.next_word(now_ps, octet_ps));
            advance();
        }
        return true;
    }

    xls_link link = {};

private:
    Model &model;
    const Options &options;
    Host host;
    LinkDriver driver;
    LinkMonitor monitor;
    // Time of the last rising edge.
    uint64_t now_ps = 0;
    // Time of an octet. The clock is that of LANES octets.
    uint64_t octet_ps = 8'000;
    bool is_done = false;

    uint64_t clock_ps() const { return octet_ps * LANES; }

    // Sends the frames that end in this clock.
    bool read_link() {
        bool is_right = true;
        monitor.read_word(model.sent(), now_ps, octet_ps, [&](const Frame &frame, uint64_t last_bit_ps) {
            const Bytes &bytes = frame.bytes;
            if (has_type(bytes, "\x88\x08") && bytes[14] == 1 && bytes[15] == 1)
                for (unsigned number = 0; number < CLASSES; number++)
                    host.counters.sent_pfc[number] += bytes[17] >> number & 1;
            is_right &= xls_send_frame(&link, frame.first_bit_ps, last_bit_ps, bytes.data(), bytes.size(),
                                       frame.has_error) >= 0;
        });
        return is_right;
    }

    // Handles messages until the MAC may run to its next edge. No later frame of the MAC ends before that edge, and
    // requests take effect there.
    bool synchronise() {
        while (!is_done && link.horizon_ps < now_ps + clock_ps()) {
            xls_message message;
            uint64_t wait_ps = now_ps + clock_ps() - 1;
            if (xls_wait(&link, wait_ps, &message) < 0) return false;
            if (message.kind == XLS_RUN) break;
            if (message.kind == XLS_BYE) is_done = true;
            if (message.kind == XLS_FRAME)
                driver.add({message.first_bit_ps, Bytes(message.payload, message.payload + message.payload_len),
                            message.has_error != 0});
            if (message.kind == XLS_REQUEST && !answer(message, now_ps + clock_ps())) return false;
            if (message.kind == XLS_RESET && !reset(message)) return false;
        }
        return true;
    }

    void advance() {
        host.choose_frame(now_ps, octet_ps, model.top.rx_pfc_req);
        model.offer(host);
        model.top.pfc_enable = host.pfc_enable;
        model.top.pause_enable = host.is_pause_enabled;
        model.top.tx_pfc_req = host.pause_requests;
        model.run_clock(now_ps, clock_ps(), [&] {
            if (host.is_sending() && model.top.tx_axis_tready) host.take_word();
        });
        now_ps += clock_ps();
        model.receive(host);
        for (unsigned number = 0; number < CLASSES; number++) {
            host.counters.received_pfc[number] += model.top.stat_rx_pfc >> number & 1;
            if (model.top.rx_pfc_req >> number & 1) host.counters.paused_ps[number] += clock_ps();
        }
    }

    // Brings the MAC to its initial state. The speed of the link determines the clock.
    bool reset(const xls_message &message) {
        uint64_t speed_bps = message.last_bit_ps;
        if (message.payload_len || speed_bps == 0 || 8'000'000'000'000 % speed_bps) {
            static const char reason[] = "the bench has no mutants, and an octet must last whole picoseconds";
            return xls_reply(&link, message.first_bit_ps, XLS_UNSUPPORTED, reason, sizeof reason - 1) >= 0;
        }
        octet_ps = 8'000'000'000'000 / speed_bps;
        if (now_ps < message.first_bit_ps)
            now_ps = (message.first_bit_ps + clock_ps() - 1) / clock_ps() * clock_ps();
        host = Host();
        driver = LinkDriver();
        monitor = LinkMonitor();
        for (unsigned clock = 0; clock < 2 * RESET_CLOCKS; clock++) {
            model.top.rst = clock < RESET_CLOCKS;
            model.drive(Word{}, true);
            advance();
            model.sent();
        }
        host = Host();
        return xls_reply_started(&link, now_ps, MAC_ADDRESS.data()) >= 0;
    }

    bool answer(const xls_message &message, uint64_t time_ps) {
        static const char reason[] = "the bench has no such operation";
        if (message.operation == XLS_READ_COUNTERS && options.has_counters) {
            Bytes payload = counters();
            return xls_reply(&link, time_ps, XLS_COUNTERS, payload.data(), payload.size()) >= 0;
        }
        bool is_done_now = host.execute(message, time_ps);
        return xls_reply(&link, time_ps, is_done_now ? XLS_DONE : XLS_UNSUPPORTED, reason,
                         is_done_now ? 0 : sizeof reason - 1) >= 0;
    }

    Bytes counters() const {
        std::vector<uint64_t> values;
        const Counters &counted = host.counters;
        for (uint64_t value : counted.received_pfc) values.push_back(value);
        for (uint64_t value : counted.sent_pfc) values.push_back(value);
        for (uint64_t value : counted.paused_ps) values.push_back(value / 1000);
        for (uint64_t value : counted.received_frames) values.push_back(value);
        // A MAC without a buffer discards no frame.
        values.insert(values.end(), CLASSES, 0);
        // Unsupported control frames, control frames to the host, link resets, storms.
        for (uint64_t value : {uint64_t(0), counted.control_frames_to_host, uint64_t(0), uint64_t(0)})
            values.push_back(value);
        Bytes payload(values.size() * 8);
        for (size_t at = 0; at < values.size(); at++) xls_put(&payload[8 * at], values[at], 8);
        return payload;
    }
};

bool parse(int argc, char **argv, Options &options) {
    for (int at = 1; at < argc; at++) {
        std::string argument = argv[at];
        if (argument.rfind('+', 0) == 0) continue; // an option of Verilator
        if (argument == "memory") options.uses_memory = true;
        else if (argument == "no-counters") options.has_counters = false;
        else if (argument.rfind("trace=", 0) == 0) options.trace_path = argument.substr(6);
        else if (!options.socket) options.socket = argv[at];
        else return false;
    }
    return options.socket != nullptr;
}

} // namespace

int main(int argc, char **argv) {
    Options options;
    if (!parse(argc, argv, options)) {
        std::fprintf(stderr, "usage: Vxoff_mac SOCKET [memory] [no-counters] [trace=FILE.vcd]\n");
        return 2;
    }
    auto model = std::make_unique<Model>(argc, argv, options.trace_path);
    Bench bench(*model, options);
    bool is_right = bench.run();
    if (!is_right) std::fprintf(stderr, "mac_bench: %s\n", bench.link.error);
    model->top.final();
    xls_close(&bench.link);
    return is_right ? 0 : 1;
}
