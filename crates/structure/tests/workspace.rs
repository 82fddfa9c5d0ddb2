//! The checks that this workspace passes.

use structure::check::{Check, repository_root};
use structure::workspace::Workspace;
use structure::{cycles, terms};

/// Panics with the findings of the checks, if there are any. The checks share the parsed files.
fn assert_clean(checks: impl Iterator<Item = Check>) {
    let workspace = Workspace::open(&repository_root()).expect("the manifests can be read");
    let mut failed = String::new();
    for check in checks {
        let findings = check.findings(&workspace).expect("the workspace can be read");
        if !findings.is_empty() {
            let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
            failed += &format!("{check}: {}:\n{}\n", check.rule(), list.join("\n"));
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// Returns whether a check reads the text of comments and pages. These checks have a test of their own, so that two
/// threads share the work.
fn reads_words(check: Check) -> bool {
    matches!(check, Check::Terms | Check::Lines)
}

#[test]
fn the_text_of_the_workspace_passes_all_checks() {
    assert_clean(Check::ALL.into_iter().filter(|check| reads_words(*check)));
}

#[test]
fn the_structure_of_the_workspace_passes_all_checks() {
    assert_clean(Check::ALL.into_iter().filter(|check| !reads_words(*check)));
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
