//! Finds macros that print in the production code of libraries.

use proc_macro2::{TokenStream, TokenTree};

use crate::finding::Finding;
use crate::workspace::Workspace;

/// Name of the program's package. Only the code of this package and of tools may print.
const PROGRAM: &str = "xoff";

/// Macros that write to standard output or standard error.
const PRINTING_MACROS: [&str; 4] = ["print", "println", "eprint", "eprintln"];

/// Returns a finding for each printing macro (`print!`, `println!`, `eprint!`, `eprintln!`) in the production
/// code of libraries.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn printing_macros(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let libraries = workspace
        .members
        .iter()
        .filter(|member| member.name != PROGRAM && !member.is_tool());
    for member in libraries {
        let sources = workspace.read_sources(member)?;
        for (path, source) in sources.production_files() {
            let stream: TokenStream = source
                .text
                .parse()
                .map_err(|error: proc_macro2::LexError| format!("{}: {error}", path.display()))?;
            let mut calls = Vec::new();
            add_printing_calls(stream, &mut calls);
            for (line, name) in calls.into_iter().filter(|(line, _)| !source.is_test_line(*line)) {
                findings.push(Finding {
                    file: path.clone(),
                    line,
                    kind: "macro",
                    message: format!("`{name}!` prints; use `log`, or write to an output of the caller"),
                });
            }
        }
    }
    Ok(findings)
}

/// Adds the line and the name of each printing macro in a token stream. A printing macro is also found inside
/// the arguments of an outer macro call.
fn add_printing_calls(stream: TokenStream, calls: &mut Vec<(usize, String)>) {
    let mut previous = None;
    for tree in stream {
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == '!' => calls.extend(previous.take()),
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                let is_printing = PRINTING_MACROS.contains(&name.as_str());
                previous = is_printing.then(|| (ident.span().start().line, name));
                continue;
            }
            TokenTree::Group(group) => add_printing_calls(group.stream(), calls),
            _ => {}
        }
        previous = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines and names of the printing macros in a source.
    fn printing_calls(text: &str) -> Vec<(usize, String)> {
        let mut calls = Vec::new();
        add_printing_calls(text.parse().expect("the source has tokens"), &mut calls);
        calls
    }

    #[test]
    fn calls_in_functions_and_in_arguments_of_macros_are_found() {
        let text = "fn f() { std::println!(\"a\"); }\nfn g() { check!(x, { eprint!(\"b\") }); }";
        let expected = [(1, "println".to_owned()), (2, "eprint".to_owned())];
        assert_eq!(printing_calls(text), expected);
    }

    #[test]
    fn names_in_comments_and_functions_are_no_calls() {
        let text = "/// Like `println!()`.\nfn print() { print(); write!(out, \"println!\"); }";
        assert_eq!(printing_calls(text), []);
    }
}
