//! Mutations of input files.

mod bytes;
mod json;
mod lines;
mod values;

use super::corpus::{Corpus, CorpusFile, FileKind};
use super::random::Random;

/// A lab of a large fabric is chosen this many times less often than another lab.
const LARGE_FABRIC_SHARE: usize = 4;
/// The largest number of mutations of a mutant.
const MUTATIONS_MAX: usize = 4;
/// The largest mutant in bytes. Repeated duplication would make mutants that only test the limit of file sizes.
const MUTANT_BYTES_MAX: usize = 4 << 20;

/// A changed input file.
#[derive(Clone, Debug)]
pub struct Mutant<'a> {
    /// The file before the changes.
    pub file: &'a CorpusFile,
    /// The content after the changes.
    pub bytes: Vec<u8>,
    /// The names of the mutations.
    pub mutations: Vec<&'static str>,
}

/// Returns mutant `number` of a run. The same corpus, seed and number give the same mutant.
pub fn create_mutant(corpus: &Corpus, seed: u64, number: u64) -> Mutant<'_> {
    let random = &mut Random::new(seed, number);
    // Each kind has its share, although there are more labs than captures.
    let kind = match random.below(20) {
        0..13 => FileKind::Lab,
        13..18 => FileKind::Configuration,
        _ => FileKind::Capture,
    };
    let candidates = match corpus.of_kind(kind) {
        files if files.is_empty() => corpus.files().iter().collect(),
        files => files,
    };
    let mut file = candidates[random.below(candidates.len())];
    // A lab with thousands of hosts takes as much time as a hundred small ones.
    if file.describes_large_fabric() && !random.one_in(LARGE_FABRIC_SHARE) {
        file = candidates[random.below(candidates.len())];
    }
    let mut mutant = Mutant {
        file,
        bytes: file.bytes.clone(),
        mutations: Vec::new(),
    };
    for _ in 0..=random.below(MUTATIONS_MAX) {
        let other = candidates[random.below(candidates.len())];
        let name = mutate_once(&mut mutant.bytes, file.kind, &other.bytes, random);
        mutant.mutations.push(name);
        mutant.bytes.truncate(MUTANT_BYTES_MAX);
    }
    mutant
}

/// Changes a file once and returns the name of the mutation. `other` is another file of the same kind.
fn mutate_once(file: &mut Vec<u8>, kind: FileKind, other: &[u8], random: &mut Random) -> &'static str {
    if kind == FileKind::Capture {
        return match random.below(3) {
            0 => bytes::change_word(file, random),
            _ => bytes::change_bytes(file, other, random),
        };
    }
    if random.one_in(6) {
        return bytes::change_bytes(file, other, random);
    }
    let (text, other) = (String::from_utf8_lossy(file), String::from_utf8_lossy(other));
    let (changed, name) = match (random.below(10), kind) {
        (0..4, _) => values::change_value(&text, &other, random),
        (4..7, FileKind::Configuration) => json::change_structure(&text, &other, random),
        (4..7, _) => lines::change_block(&text, &other, random),
        _ => lines::change_lines(&text, &other, random),
    };
    *file = changed.into_bytes();
    name
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;

    fn corpus() -> Corpus {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        Corpus::of_repository(root).expect("the repository")
    }

    #[test]
    fn the_same_seed_gives_the_same_mutants() {
        let corpus = corpus();
        for number in 0..50 {
            let (a, b) = (
                create_mutant(&corpus, 7, number),
                create_mutant(&corpus, 7, number),
            );
            assert_eq!((a.bytes, &a.file.path), (b.bytes, &b.file.path));
        }
    }

    /// Every mutation is used, and nearly every mutant differs from its file.
    #[test]
    fn mutants_cover_all_files_and_mutations() {
        let corpus = corpus();
        let (mut files, mut names, mut unchanged) = (HashSet::new(), HashSet::new(), 0);
        for number in 0..3000 {
            let mutant = create_mutant(&corpus, 1, number);
            files.insert(mutant.file.path.clone());
            names.extend(mutant.mutations);
            unchanged += usize::from(mutant.bytes == mutant.file.bytes);
        }
        assert!(
            files.len() * 10 > corpus.files().len() * 9,
            "{} of {}",
            files.len(),
            corpus.files().len()
        );
        assert!(names.len() >= 30, "{names:?}");
        assert!(unchanged < 150, "{unchanged}");
    }
}
