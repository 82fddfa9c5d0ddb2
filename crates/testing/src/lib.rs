//! What tests of several crates share.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// A sequence of numbers below the bounds that it is given, always the same for a seed.
pub fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    }
}

/// The top folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file of the repository.
pub fn document(path: &str) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails unless the repository has a test of each of these names. Each comes with what it is named for.
pub fn assert_tests_exist<'a>(named: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let root = repository();
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
    for (what, test) in named {
        assert!(
            source.contains(&format!("fn {test}()")),
            "{what}: there is no test {test}"
        );
    }
}
