//! Finds code that prints: macros, and calls that open standard output or standard error.

use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::finding::Finding;
use crate::workspace::Workspace;

/// The only file of the product that may print.
const OUTPUT_MODULE: &str = "src/cli/output.rs";

/// Macros that write to standard output or standard error.
const PRINTING_MACROS: [&str; 4] = ["print", "println", "eprint", "eprintln"];

/// Functions of the standard library that return standard output or standard error.
const OUTPUT_FUNCTIONS: [&str; 2] = ["stdout", "stderr"];

/// Returns a finding for each printing macro (`print!`, `println!`, `eprint!`, `eprintln!`) and for each call of
/// `stdout()` or `stderr()` in the production code of the product. Two uses are permitted: `is_terminal` of
/// the result, and `as_fd`, which gives a process its output.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn printing_code(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for member in workspace.members.iter().filter(|member| !member.is_tool()) {
        let sources = workspace.read_sources(member)?;
        for (path, source) in sources.production_files() {
            if path == Path::new(OUTPUT_MODULE) {
                continue;
            }
            let stream: TokenStream = source
                .text
                .parse()
                .map_err(|error: proc_macro2::LexError| format!("{}: {error}", path.display()))?;
            let mut calls = Vec::new();
            add_printing_calls(stream, &mut calls);
            for (line, call) in calls.into_iter().filter(|(line, _)| !source.is_test_line(*line)) {
                findings.push(Finding {
                    file: path.clone(),
                    line,
                    kind: "call",
                    message: format!("`{call}` prints; use `log`, or write to an output of the caller"),
                });
            }
        }
    }
    Ok(findings)
}

/// Adds the line and the text of each call that prints in a token stream. A call is also found inside the
/// arguments of an outer macro call.
fn add_printing_calls(stream: TokenStream, calls: &mut Vec<(usize, String)>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    for (index, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                let line = ident.span().start().line;
                let next = trees.get(index + 1);
                if PRINTING_MACROS.contains(&name.as_str()) && next.is_some_and(|next| is_punct(next, '!')) {
                    calls.push((line, format!("{name}!")));
                } else if OUTPUT_FUNCTIONS.contains(&name.as_str()) && opens_output(&trees, index) {
                    calls.push((line, format!("{name}()")));
                }
            }
            TokenTree::Group(group) => add_printing_calls(group.stream(), calls),
            _ => {}
        }
    }
}

fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// Returns whether the name at `index` is a call of a function without arguments that is not a method, is not
/// defined here, and is not followed by `.is_terminal` or `.as_fd`.
fn opens_output(trees: &[TokenTree], index: usize) -> bool {
    let previous = index.checked_sub(1).map(|previous| &trees[previous]);
    let is_definition_or_method = previous.is_some_and(|previous| {
        is_punct(previous, '.') || matches!(previous, TokenTree::Ident(ident) if *ident == "fn")
    });
    let is_call = matches!(trees.get(index + 1), Some(TokenTree::Group(group))
        if group.delimiter() == Delimiter::Parenthesis && group.stream().is_empty());
    let is_permitted = matches!(trees.get(index + 3), Some(TokenTree::Ident(ident)) if *ident == "is_terminal" || *ident == "as_fd");
    is_call && !is_definition_or_method && !is_permitted
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
        let expected = [(1, "println!".to_owned()), (2, "eprint!".to_owned())];
        assert_eq!(printing_calls(text), expected);
    }

    #[test]
    fn calls_that_open_an_output_are_found() {
        let text = "fn f() { run(&mut io::stdout()); }\nfn g() { let mut err = stderr().lock(); }";
        let expected = [(1, "stdout()".to_owned()), (2, "stderr()".to_owned())];
        assert_eq!(printing_calls(text), expected);
        let text = "fn stdout() {} fn f() { io::stderr().is_terminal(); stderr().as_fd(); command.stdout(pipe); child.stdout(); }";
        assert_eq!(printing_calls(text), []);
    }

    #[test]
    fn names_in_comments_and_functions_are_no_calls() {
        let text = "/// Like `println!()`.\nfn print() { print(); write!(out, \"println!\"); }";
        assert_eq!(printing_calls(text), []);
    }
}
