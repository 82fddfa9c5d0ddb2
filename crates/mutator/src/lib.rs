//! Changes input files of xoff at random and checks that every command handles every changed file.
//!
//! A command may refuse a file, and it may stop at a limit. It must not panic, end by a signal, use more than
//! 10 seconds of processor time, or need more than 1 GiB of memory.
//!
//! Run 100 000 mutants of a release build, and save the mutants that fail:
//!
//! ```text
//! cargo build --release
//! cargo run --release -p mutator -- --program target/release/xoff --mutants 100000 --save mutants/
//! ```
//!
//! `tests/mutants.rs` of the program runs 200 mutants of a fixed seed.
#![forbid(unsafe_code)]

mod corpus;
mod mutate;
mod random;
mod run;

pub use corpus::{Corpus, CorpusFile, FileKind};
pub use mutate::{Mutant, create_mutant};
pub use random::Random;
pub use run::{Finding, MutantLimits, MutantRunner, RunCounts};
