//! The wire layer from outside: published vectors, captures, an independent encoder and an independent CRC.

mod against_pnet;
mod captures;
mod common;
mod fuzz;
mod packets;
mod properties;
mod refusals;
mod vectors;
