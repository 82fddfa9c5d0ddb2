//! Import cycles, lines and texts of small sources.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program prints its results"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use structure::builder;
use structure::cycles::{self, CrateImportCycles};
use structure::markdown::{self, LineKind};
use structure::source::{SourceFile, TextKind};

/// Parses files below `src/`.
fn parse(files: &[(&str, &str)]) -> BTreeMap<PathBuf, SourceFile> {
    let source = |(path, text): &(&str, &str)| {
        let path = Path::new("src").join(path);
        let source = SourceFile::parse(&path, (*text).to_owned()).expect("the source is Rust");
        (path, source)
    };
    files.iter().map(source).collect()
}

/// Returns the cycles of a crate with the given files.
fn cycles_of(files: &[(&str, &str)]) -> CrateImportCycles {
    let (crates, _) = builder::build_crates("sample", Path::new("src"), &parse(files));
    cycles::cycles_of_crate(&crates[0])
}

/// Returns the members of the cycles between files.
fn file_cycles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    cycles_of(files)
        .files
        .into_iter()
        .map(|cycle| cycle.members)
        .collect()
}

#[test]
fn a_use_of_super_closes_a_cycle() {
    let found = cycles_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use super::b::B;\npub struct A(B);"),
        ("b.rs", "pub struct B;\nfn f() -> crate::a::A { todo() }"),
    ]);
    assert_eq!(found.modules.len(), 1);
    assert_eq!(found.modules[0].members, ["a", "b"]);
    assert_eq!(found.files.len(), 1);
    let steps: Vec<String> = found.files[0].steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        steps,
        [
            "src/a.rs:1 -> src/b.rs: super::b::B",
            "src/b.rs:2 -> src/a.rs: crate::a::A"
        ]
    );
}

#[test]
fn a_module_and_its_submodules_form_no_cycle() {
    let found = cycles_of(&[
        ("lib.rs", "mod a;"),
        (
            "a/mod.rs",
            "mod child;\nmod other;\npub struct A;\nfn f() { child::run() }",
        ),
        (
            "a/child.rs",
            "use super::A;\npub fn run() { let _ = A; super::other::run(); }",
        ),
        ("a/other.rs", "pub fn run() {}"),
    ]);
    assert!(found.modules.is_empty());
    assert!(found.files.is_empty(), "{:?}", found.files);
}

#[test]
fn a_re_export_is_followed_to_the_definition() {
    let found = file_cycles(&[
        ("lib.rs", "mod a; mod b; pub use a::*; pub use b::inner::B;"),
        ("a.rs", "pub struct A;\nfn f(_: crate::B) {}"),
        ("b/mod.rs", "pub mod inner;"),
        ("b/inner.rs", "pub struct B;\nfn f(_: crate::A) {}"),
    ]);
    assert_eq!(found, [["src/a.rs", "src/b/inner.rs"]]);
}

#[test]
fn a_re_export_of_a_sibling_by_the_parent_is_no_cycle() {
    let found = file_cycles(&[
        ("lib.rs", "mod a; mod b; pub use a::A; pub(crate) use b::B;"),
        ("a.rs", "pub struct A;"),
        ("b.rs", "use crate::A;\npub struct B(A);\nfn f(a: super::A) {}"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_renamed_module_is_followed() {
    let found = file_cycles(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b as other;\npub const A: u8 = other::B;"),
        (
            "b.rs",
            "use super::a::{self};\npub const B: u8 = 1;\nfn f() -> u8 { a::A }",
        ),
    ]);
    assert_eq!(found, [["src/a.rs", "src/b.rs"]]);
}

#[test]
fn a_function_and_its_module_can_have_the_same_name() {
    let found = file_cycles(&[
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod run; mod other; pub use run::run;"),
        ("a/run.rs", "pub fn run() { super::other::go() }"),
        ("a/other.rs", "pub fn go() { super::run() }"),
    ]);
    assert_eq!(found, [["src/a/other.rs", "src/a/run.rs"]]);
}

#[test]
fn names_of_a_glob_import_are_followed() {
    let found = file_cycles(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub use crate::b::B;"),
        ("b.rs", "pub struct B;\nfn f() { crate::c::go() }"),
        ("c.rs", "use crate::a::*;\npub fn go() { let _ = B; }"),
    ]);
    assert_eq!(found, [["src/b.rs", "src/c.rs"]]);
}

#[test]
fn paths_in_macros_and_attributes_count() {
    let in_macro = ("a.rs", "pub struct A;\nfn f() { println!(\"{}\", super::b::B) }");
    let in_attribute = (
        "b.rs",
        "pub const B: u8 = 1;\n#[serde(with = \"crate::a::A\")] struct S;",
    );
    assert_eq!(
        file_cycles(&[("lib.rs", "mod a; mod b;"), in_macro, in_attribute]),
        [["src/a.rs", "src/b.rs"]]
    );
}

#[test]
fn test_code_and_variables_do_not_count() {
    let found = file_cycles(&[
        ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod tests;"),
        (
            "a.rs",
            "mod child; pub(crate) use child::count;\nfn f(count: u8) -> u8 { count }",
        ),
        (
            "a/child.rs",
            "pub(crate) fn count() { super::f(1); }\n#[cfg(test)]\nmod tests { use crate::b::b; }",
        ),
        (
            "b.rs",
            "pub fn b() { crate::a::count() }\n#[cfg(test)] mod tests { use crate::a::f; }",
        ),
        ("tests.rs", "use crate::a::f;"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn files_that_only_tests_include_are_test_files() {
    let files = parse(&[
        (
            "lib.rs",
            "mod a;\n#[cfg(test)]\nmod helper;\n#[cfg(any(test, feature = \"x\"))]\npub mod samples;",
        ),
        ("a.rs", "#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;"),
        ("a_tests.rs", "mod inner;"),
        ("inner.rs", ""),
        ("helper.rs", ""),
        ("samples.rs", ""),
    ]);
    let (_, tests) = builder::build_crates("sample", Path::new("src"), &files);
    let expected = [
        "src/a_tests.rs",
        "src/helper.rs",
        "src/inner.rs",
        "src/samples.rs",
    ];
    assert_eq!(tests, expected.map(PathBuf::from));
}

#[test]
fn comments_blank_lines_and_tests_are_no_code_lines() {
    let code = "//! Page.\n\nfn a() {\n    // Comment.\n    b(\"x\n\ny\"); /* c */\n}\n/* d\n */\n";
    let text = format!("{code}#[cfg(test)]\nmod tests {{\n    fn t() {{}}\n}}\n");
    let source = SourceFile::parse(Path::new("a.rs"), text).expect("the source is Rust");
    assert_eq!(source.code_lines(), [3, 5, 7, 8]);
}

#[test]
fn adjacent_comment_lines_form_a_block() {
    let text = "/// One\n/// two.\nfn a() {} // three\n// four\n\n// five\nconst S: &str = \"// six\";\n";
    let source = SourceFile::parse(Path::new("a.rs"), text.to_owned()).expect("the source is Rust");
    let blocks: Vec<(TextKind, usize, String)> = source
        .text_blocks()
        .into_iter()
        .map(|block| (block.kind, block.line, block.text))
        .collect();
    let expected = [
        (TextKind::Doc, 1, "One\ntwo."),
        (TextKind::Comment, 3, "three\nfour"),
        (TextKind::Comment, 6, "five"),
        (TextKind::Literal, 7, "\"// six\""),
    ];
    assert_eq!(
        blocks,
        expected.map(|(kind, line, text)| (kind, line, text.to_owned()))
    );
}

#[test]
fn markdown_lines_have_kinds() {
    let list =
        "# Title\n\nText with `code` and [link](https://example.org).\n- item\n    more\n\n    command\n\n";
    let rest = "Text\n\n    command\n| a |\n```\nx\n```\n";
    let lines = markdown::markdown_lines(&format!("{list}{rest}"));
    let kinds: Vec<LineKind> = lines.iter().map(|line| line.kind).collect();
    use LineKind::{Blank, Code, Heading, Prose, Table};
    let expected = [
        Heading, Blank, Prose, Prose, Prose, Blank, Prose, Blank, Prose, Blank, Code, Table, Code, Code, Code,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(lines[2].prose, "Text with `` and [link].");
    assert_eq!(lines[2].width, 28);
}

#[test]
fn text_that_is_not_rust_is_an_error() {
    for text in ["fn (", "\"open", "fn a() { ) }"] {
        let error =
            SourceFile::parse(Path::new("a.rs"), text.to_owned()).expect_err("the source is not Rust");
        assert!(error.starts_with("a.rs:"), "{error}");
    }
}
