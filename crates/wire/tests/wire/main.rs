//! Tests of the public interface: published vectors, captures, an independent encoder and
//! an independent ICRC.

mod against_pnet;
mod captures;
mod common;
mod fuzz;
mod lldp;
mod packets;
mod properties;
mod refusals;
mod vectors;
