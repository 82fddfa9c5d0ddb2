// A small MAC with PFC and 802.3x PAUSE, as an example of a top module for the test benches of docs/lockstep.md. It
// processes the octets of a clock in a loop, so it is a model for simulation and no synthesizable design.
//
// LANES is the number of octets in a clock: 4 or 8 with XGMII, 1 with GMII (-DXOFF_GMII).
// The argument +defect=N of the simulator selects a defect: 1 a running timer is not reloaded, 2 the enable vector is
// off by one, 3 quanta of the next class, 4 pauses are not refreshed.
//
// SPDX-License-Identifier: Apache-2.0 OR MIT
`timescale 1ns/1ps

module xoff_mac #(
`ifdef XOFF_GMII
    parameter LANES = 1
`else
    parameter LANES = 8
`endif
) (
    input clk,
    input rst,
    input [47:0] mac_address,

`ifdef XOFF_GMII
    input [7:0] gmii_rxd,
    input gmii_rx_dv,
    input gmii_rx_er,
    output reg [7:0] gmii_txd,
    output reg gmii_tx_en,
    output reg gmii_tx_er,
`else
    input [LANES*8-1:0] xgmii_rxd,
    input [LANES-1:0] xgmii_rxc,
    output reg [LANES*8-1:0] xgmii_txd,
    output reg [LANES-1:0] xgmii_txc,
`endif

    // Frames of the host, without FCS.
    input [LANES*8-1:0] tx_axis_tdata,
    input [LANES-1:0] tx_axis_tkeep,
    input tx_axis_tvalid,
    output tx_axis_tready,
    input tx_axis_tlast,

    // Frames to the host, without FCS. tuser: the host must discard the frame.
    output reg [LANES*8-1:0] rx_axis_tdata,
    output reg [LANES-1:0] rx_axis_tkeep,
    output reg rx_axis_tvalid,
    output reg rx_axis_tlast,
    output reg rx_axis_tuser,

    input [7:0] pfc_enable,
    input pause_enable,
    output [7:0] rx_pfc_req,
    input [7:0] tx_pfc_req,
    output reg [7:0] stat_rx_pfc
);
    localparam [7:0] IDLE = 8'h07, START = 8'hfb, TERMINATE = 8'hfd, ERROR = 8'hfe;
    localparam [7:0] PREAMBLE = 8'h55, START_OF_FRAME = 8'hd5;
    localparam [31:0] CRC_RESIDUE = 32'hdebb20e3;
    localparam [47:0] CONTROL_ADDRESS = 48'h0180c2000001;
    localparam CONTROL_BYTES = 60, GAP_BYTES = 12;
    // A pause quantum is 512 bits.
    localparam QUANTUM_BYTES = 64;
    localparam [15:0] LONGEST_PAUSE = 16'hffff, REFRESH_QUANTA = 16'h7fff;

    integer defect;
    initial if (!$value$plusargs("defect=%d", defect)) defect = 0;

    function [31:0] add_to_crc(input [31:0] crc, input [7:0] octet);
        integer index;
        begin
            add_to_crc = crc ^ {24'd0, octet};
            for (index = 0; index < 8; index = index + 1)
                add_to_crc = {1'b0, add_to_crc[31:1]} ^ (add_to_crc[0] ? 32'hedb88320 : 32'd0);
        end
    endfunction

    // The octets of this clock, in the control characters of XGMII.
    wire [LANES*8-1:0] rx_word;
    wire [LANES-1:0] rx_control;
`ifdef XOFF_GMII
    reg was_valid;
    assign rx_control = gmii_rx_er | ~gmii_rx_dv | ~was_valid;
    assign rx_word = gmii_rx_er ? ERROR : ~gmii_rx_dv ? (was_valid ? TERMINATE : IDLE) : was_valid ? gmii_rxd : START;
    always @(posedge clk) was_valid <= gmii_rx_dv & ~rst;
`else
    assign rx_word = xgmii_rxd;
    assign rx_control = xgmii_rxc;
`endif

    // Reception. The last four octets wait, because they may be the FCS.
    localparam RX_IDLE = 0, RX_PREAMBLE = 1, RX_DATA = 2;
    reg [1:0] rx_state;
    reg [15:0] rx_count;
    reg [31:0] rx_crc, rx_waiting;
    reg rx_error, rx_is_ending;
    reg [8*34-1:0] rx_head;
    reg [LANES*8-1:0] rx_data;
    reg [7:0] rx_data_count;
    reg [7:0] octet;
    reg is_control_frame, is_good;
    integer lane, rx_class, index;

    // Time in octets until the end of each pause. Index 8 is the pause of the link.
    reg [23:0] timers [0:8];
    genvar number;
    generate
        for (number = 0; number < 8; number = number + 1)
            assign rx_pfc_req[number] = timers[number] != 0 || timers[8] != 0;
    endgenerate

    // Byte `at` of the first 34 bytes of a frame.
    function [7:0] head_byte(input integer at);
        head_byte = rx_head[8*(33 - at) +: 8];
    endfunction

    task honour_control_frame;
        reg [7:0] enable;
        reg [15:0] quanta;
        begin
            if (rx_head[8*18 +: 16] == 16'h0101 && pfc_enable != 0) begin
                enable = rx_head[8*16 +: 8];
                stat_rx_pfc <= enable;
                if (defect == 2) enable = {enable[6:0], enable[7]};
                for (rx_class = 0; rx_class < 8; rx_class = rx_class + 1) begin
                    index = defect == 3 ? (rx_class + 1) % 8 : rx_class;
                    quanta = {head_byte(18 + 2*index), head_byte(19 + 2*index)};
                    if (enable[rx_class] && pfc_enable[rx_class] && !(defect == 1 && timers[rx_class] != 0 && quanta != 0))
                        timers[rx_class] = quanta * QUANTUM_BYTES;
                end
            end else if (rx_head[8*18 +: 16] == 16'h0001 && pause_enable) begin
                timers[8] = rx_head[8*16 +: 16] * QUANTUM_BYTES;
            end
        end
    endtask

    task end_received_frame;
        begin
            is_good = rx_crc == CRC_RESIDUE && rx_count >= 64 && !rx_error;
            is_control_frame = rx_head[8*20 +: 16] == 16'h8808 && rx_head[8*28 +: 48] == CONTROL_ADDRESS;
            if (is_good && is_control_frame) honour_control_frame;
            rx_is_ending = 1;
        end
    endtask

    task receive_octet;
        begin
            rx_crc = add_to_crc(rx_crc, octet);
            if (rx_count < 34) rx_head = {rx_head[8*33-1:0], octet};
            if (rx_count >= 4) begin
                if (rx_data_count == LANES) begin
                    rx_axis_tdata <= rx_data;
                    rx_axis_tkeep <= {LANES{1'b1}};
                    rx_axis_tvalid <= 1;
                    rx_data_count = 0;
                end
                rx_data[8*rx_data_count +: 8] = rx_waiting[31:24];
                rx_data_count = rx_data_count + 1;
            end
            rx_waiting = {rx_waiting[23:0], octet};
            if (rx_count != 16'hffff) rx_count = rx_count + 1;
        end
    endtask

    always @(posedge clk) begin
        rx_axis_tvalid <= 0;
        rx_axis_tlast <= 0;
        rx_axis_tuser <= 0;
        stat_rx_pfc <= 0;
        for (rx_class = 0; rx_class < 9; rx_class = rx_class + 1)
            timers[rx_class] = timers[rx_class] > LANES ? timers[rx_class] - LANES : 0;
        if (rx_is_ending) begin
            // The end of a frame is one clock late, because a clock has one word for the host.
            rx_axis_tdata <= rx_data;
            rx_axis_tkeep <= {LANES{1'b1}} >> (LANES - rx_data_count);
            rx_axis_tvalid <= rx_data_count != 0;
            rx_axis_tlast <= 1;
            rx_axis_tuser <= !is_good || is_control_frame;
            rx_is_ending = 0;
        end
        if (rx_word != {LANES{IDLE}} || rx_state != RX_IDLE) begin
            for (lane = 0; lane < LANES; lane = lane + 1) begin
                octet = rx_word[8*lane +: 8];
                if (rx_control[lane] && octet == START) begin
                    rx_state = RX_PREAMBLE;
                end else if (rx_control[lane] && octet == ERROR) begin
                    rx_error = 1;
                    if (rx_state == RX_DATA) receive_octet;
                end else if (rx_control[lane]) begin
                    if (rx_state == RX_DATA) end_received_frame;
                    rx_state = RX_IDLE;
                end else if (rx_state == RX_PREAMBLE && octet == START_OF_FRAME) begin
                    rx_state = RX_DATA;
                    rx_count = 0;
                    rx_data_count = 0;
                    rx_crc = 32'hffffffff;
                    rx_error = 0;
                end else if (rx_state == RX_DATA) begin
                    receive_octet;
                end
            end
        end
        if (rst) begin
            rx_state = RX_IDLE;
            rx_is_ending = 0;
            for (rx_class = 0; rx_class < 9; rx_class = rx_class + 1) timers[rx_class] = 0;
        end
    end

    // Transmission. A frame starts in lane 0, and its preamble has whole words.
    localparam TX_GAP = 0, TX_PREAMBLE = 1, TX_DATA = 2, TX_PAD = 3, TX_FCS = 4, TX_END = 5;
    reg [2:0] tx_state;
    reg [15:0] tx_count;
    reg [31:0] tx_crc;
    reg tx_is_control, tx_is_last;
    reg [7:0] tx_octet;
    reg tx_octet_is_control;
    reg [7:0] announced;
    reg [23:0] refresh_left;
    reg [8*CONTROL_BYTES-1:0] control_frame;
    reg [LANES*8-1:0] tx_word;
    reg [LANES-1:0] tx_control;
    integer tx_lane, tx_class;

    assign tx_axis_tready = tx_state == TX_DATA && !tx_is_control;

    // Prepares a PFC frame: pauses for the requested classes, and time 0 for the classes that end their request.
    task prepare_control_frame;
        reg [127:0] times;
        begin
            for (tx_class = 0; tx_class < 8; tx_class = tx_class + 1)
                times[16*(7 - tx_class) +: 16] = tx_pfc_req[tx_class] ? LONGEST_PAUSE : 16'd0;
            control_frame = {CONTROL_ADDRESS, mac_address, 16'h8808, 16'h0101, 8'd0, tx_pfc_req | announced, times,
                             {8*(CONTROL_BYTES - 34){1'b0}}};
            announced = tx_pfc_req;
            refresh_left = REFRESH_QUANTA * QUANTUM_BYTES;
        end
    endtask

    task start_frame(input is_control);
        begin
            tx_is_control = is_control;
            tx_state = TX_PREAMBLE;
            tx_count = 0;
        end
    endtask

    // Sets the next octet of a frame.
    task send_octet;
        begin
            tx_octet_is_control = 0;
            case (tx_state)
                TX_PREAMBLE: begin
                    tx_octet_is_control = tx_count == 0;
                    tx_octet = tx_count == 0 ? START : tx_count == 7 ? START_OF_FRAME : PREAMBLE;
                    tx_count = tx_count + 1;
                    if (tx_count == 8) begin
                        tx_state = TX_DATA;
                        tx_count = 0;
                        tx_crc = 32'hffffffff;
                    end
                end
                TX_DATA, TX_PAD: begin
                    if (tx_state == TX_PAD) begin
                        tx_octet = 0;
                    end else if (tx_is_control) begin
                        tx_octet = control_frame[8*(CONTROL_BYTES - 1 - tx_count) +: 8];
                        tx_is_last = tx_count == CONTROL_BYTES - 1;
                    end else begin
                        tx_octet = tx_axis_tdata[8*tx_lane +: 8];
                        tx_is_last = tx_axis_tlast && (tx_axis_tkeep >> tx_lane) == 1;
                    end
                    tx_crc = add_to_crc(tx_crc, tx_octet);
                    tx_count = tx_count + 1;
                    if (tx_is_last) tx_state = tx_count < 60 ? TX_PAD : TX_FCS;
                    if (tx_state == TX_FCS) tx_count = 0;
                end
                TX_FCS: begin
                    tx_octet = ~tx_crc[7:0];
                    tx_crc = {8'd0, tx_crc[31:8]};
                    tx_count = tx_count + 1;
                    if (tx_count == 4) tx_state = TX_END;
                end
                default: begin
                    tx_octet_is_control = 1;
                    tx_octet = tx_state == TX_END ? TERMINATE : IDLE;
                    if (tx_state == TX_END) tx_count = 0;
                    tx_state = TX_GAP;
                    if (tx_count != 16'hffff) tx_count = tx_count + 1;
                end
            endcase
        end
    endtask

    always @(posedge clk) begin
        refresh_left = refresh_left > LANES ? refresh_left - LANES : 0;
        if (tx_state == TX_GAP && tx_count >= GAP_BYTES) begin
            if (announced != tx_pfc_req || (announced != 0 && refresh_left == 0 && defect != 4)) begin
                prepare_control_frame;
                start_frame(1);
            end else if (tx_axis_tvalid) begin
                start_frame(0);
            end
        end
        if (tx_state == TX_GAP && tx_count >= GAP_BYTES) begin
            tx_word = {LANES{IDLE}};
            tx_control = {LANES{1'b1}};
        end else begin
            for (tx_lane = 0; tx_lane < LANES; tx_lane = tx_lane + 1) begin
                send_octet;
                tx_word[8*tx_lane +: 8] = tx_octet;
                tx_control[tx_lane] = tx_octet_is_control;
            end
        end
        if (rst) begin
            tx_state = TX_GAP;
            tx_count = GAP_BYTES;
            tx_is_last = 0;
            announced = 0;
            refresh_left = 0;
            tx_word = {LANES{IDLE}};
            tx_control = {LANES{1'b1}};
        end
`ifdef XOFF_GMII
        gmii_tx_en <= !tx_control || tx_word == START;
        gmii_txd <= tx_word == START ? PREAMBLE : tx_word;
        gmii_tx_er <= 0;
`else
        xgmii_txd <= tx_word;
        xgmii_txc <= tx_control;
`endif
    end
endmodule
