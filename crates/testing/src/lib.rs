//! Functions that the tests and benchmarks of several crates share: random numbers, files of the repository, runs of
//! programs, and a check that tests exist.
//!
//! The crate is only a development dependency. Its functions panic if a file is missing or cannot be read.
//!
//! # Examples
//!
//! ```
//! let mut next_below = xoff_testing::random_generator(7);
//! assert!((0..100).all(|_| next_below(6) < 6));
//!
//! let readme = xoff_testing::read_document("README.md");
//! assert!(readme.contains("xoff"));
//! ```
#![forbid(unsafe_code)]

mod bench_outcome;
mod program;

use std::path::{Path, PathBuf};

pub use bench_outcome::{BenchOutcome, finish_bench};
pub use program::{ProgramResult, TWO_HOST_LAB, bench_result_json, run_program, write_file};

/// Returns a generator of pseudo-random numbers. Each call of the generator returns a number from 0 to its
/// argument minus 1. The sequence depends only on `seed`.
///
/// # Panics
/// The generator panics if its argument is 0.
pub fn random_generator(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    }
}

/// Returns the path of the repository's root folder.
pub fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a text file of the repository. `path` is relative to the root folder.
///
/// # Panics
/// The file cannot be read.
pub fn read_document(path: &str) -> String {
    let path = repository_root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks that a test function exists in the repository for each pair. The second string of a pair is the
/// name of the test function. The first string is the subject that the panic message names.
///
/// # Panics
/// A test function is missing, or a source file cannot be read.
pub fn assert_tests_exist<'a>(subjects_and_tests: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let root = repository_root();
    let mut folders: Vec<_> = ["src", "tests", "dataplane/src", "dataplane/tests", "crates"]
        .map(|folder| root.join(folder))
        .into();
    let mut source = String::new();
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                source.push_str(&std::fs::read_to_string(&path).expect("Rust is text"));
            }
        }
    }
    for (subject, test) in subjects_and_tests {
        assert!(
            source.contains(&format!("fn {test}()")),
            "{subject}: there is no test {test}"
        );
    }
}
