//! The checks that this workspace passes.

use structure::check::{Check, repository_root};
use structure::{cycles, terms};

/// Panics with the list of findings if the check has any.
fn assert_clean(check: Check) {
    let findings = check
        .findings(&repository_root())
        .expect("the workspace can be read");
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{}:\n{}", check.rule(), list.join("\n"));
}

#[test]
fn production_crates_depend_in_one_direction() {
    assert_clean(Check::Layers);
    assert_clean(Check::Clap);
}

#[test]
fn modules_and_files_form_no_import_cycles() {
    assert_clean(Check::ModuleCycles);
    assert_clean(Check::FileCycles);
}

#[test]
fn names_comments_and_pages_use_standard_terms() {
    assert_clean(Check::Terms);
}

#[test]
fn documentation_comments_have_more_than_one_word() {
    assert_clean(Check::Docs);
}

#[test]
fn comment_and_markdown_lines_have_at_most_120_characters() {
    assert_clean(Check::Lines);
}

#[test]
fn libraries_do_not_print() {
    assert_clean(Check::Printing);
}

#[test]
fn the_table_of_allowed_terms_is_short() {
    let path = repository_root().join("crates/structure/allowed-terms.txt");
    let allowed = terms::read_allowed_terms(&path).expect("the table can be read");
    assert!(
        allowed.len() <= terms::ALLOWED_MAX,
        "{} lines, maximum {}",
        allowed.len(),
        terms::ALLOWED_MAX
    );
}

#[test]
fn the_table_of_allowed_cycles_is_short() {
    let path = repository_root().join("crates/structure/allowed-cycles.txt");
    let allowed = cycles::read_allowed_cycles(&path).expect("the table can be read");
    assert!(
        allowed.len() <= cycles::ALLOWED_MAX,
        "{} lines, maximum {}",
        allowed.len(),
        cycles::ALLOWED_MAX
    );
}

#[test]
fn the_table_of_terms_can_be_read() {
    let path = repository_root().join("crates/structure/terms.txt");
    assert!(
        !terms::read_terms(&path)
            .expect("the table can be read")
            .is_empty()
    );
}
