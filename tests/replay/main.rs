//! Tests of `xoff replay`: the output equals the input except for the fields that the configuration rewrites.

mod capture_formats;
mod captures;
mod compare;
mod errors;
mod softroce;
