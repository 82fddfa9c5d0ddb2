// A byte-wide MAC: it sends test frames back to back while not paused, and honours PFC of one class. The test bench has the frames and the receiver.
`timescale 1ns/1ps
module mac(input clk, input rst, input [15:0] pause_quanta, input pause_strobe,
           input enable, output reg tx_valid, output reg tx_start, output reg tx_end);
  // Pause time in clocks: 1 quantum is 64 clocks of 8 ns at 1 Gb/s.
  reg [23:0] pause_left;
  reg [11:0] count;
  reg busy;
  always @(posedge clk) begin
    if (rst) begin
      pause_left <= 0; count <= 0; busy <= 0; tx_valid <= 0; tx_start <= 0; tx_end <= 0;
    end else begin
      tx_start <= 0; tx_end <= 0;
      if (pause_strobe) pause_left <= {pause_quanta, 6'b0};
      else if (pause_left != 0) pause_left <= pause_left - 1;
      if (!busy) begin
        if (enable && pause_left == 0 && !pause_strobe) begin busy <= 1; count <= 0; tx_start <= 1; tx_valid <= 1; end
      end else begin
        count <= count + 1;
        if (count == 12'd1093) begin tx_valid <= 0; tx_end <= 1; end  // 8 + 1086 bytes
        if (count == 12'd1105 + 12'd1086) busy <= 0;                  // gap, and half of the rate
      end
    end
  end
endmodule
