//! Memory management unit: who may occupy which cells.
