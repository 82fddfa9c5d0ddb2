//! The wire layer from outside: published vectors, captures, independent encoders and an independent CRC.

mod captures;
mod common;
mod vectors;
