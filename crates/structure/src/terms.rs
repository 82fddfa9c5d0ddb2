//! Finds forbidden terms: private terms for which networking has a standard term with the same meaning.

use std::path::Path;

use regex::{Regex, RegexBuilder};

use crate::files;
use crate::finding::Finding;
use crate::markdown::{self, LineKind};
use crate::names::{self, NameKind};
use crate::source::{SourceFile, TextBlock, TextKind};
use crate::workspace::Workspace;

/// Largest permitted number of lines in the table of allowed terms.
pub const ALLOWED_MAX: usize = 20;

/// The kinds of text in which a term must not appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TermScope {
    /// Names of structs, enums, unions, type aliases and traits.
    Type,
    /// Names of functions and methods.
    Function,
    /// Names of modules.
    Module,
    /// Names of fields, variants, constants and statics.
    Field,
    /// Every declared name.
    Name,
    /// Comments and Markdown pages.
    Prose,
    /// Headings of Markdown pages and of documentation comments.
    Heading,
    /// String literals.
    String,
}

/// A term that must not appear: one line of the table of terms.
#[derive(Clone, Debug)]
pub struct ForbiddenTerm {
    scopes: Vec<TermScope>,
    /// Folder or file to which the term applies. Empty for every path.
    below: String,
    pattern: String,
    regex: Regex,
    instead: String,
}

/// An exception for a term: one line of the table of allowed terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedTerm {
    /// Regular expression of the term, as in the table of terms.
    pub pattern: String,
    /// Folder or file in which the term may appear, relative to the root of the workspace.
    pub location: String,
    /// The reason for which the term may appear there.
    pub reason: String,
}

/// Reads the table of terms from the file `path`.
///
/// Each line has three columns, separated by tabs: scopes, regular expression, replacement. Scopes are
/// separated by commas. With `SCOPES@PATH`, the term applies only to the folder or file `PATH`.
///
/// # Errors
/// The file cannot be read, a line does not have three columns, a scope is unknown, or a regular expression
/// is not valid.
pub fn read_terms(path: &Path) -> Result<Vec<ForbiddenTerm>, String> {
    let text = files::read_text(path)?;
    let failed = |message: String| format!("{}: {message}", path.display());
    files::table_rows(&text)
        .iter()
        .map(|cells| parse_term(cells).map_err(failed))
        .collect()
}

fn parse_term(cells: &[&str]) -> Result<ForbiddenTerm, String> {
    let [scopes, pattern, instead] = cells else {
        return Err(format!(
            "`{}` needs three columns: scopes, expression, replacement",
            cells.join(" ")
        ));
    };
    let (scopes, below) = scopes.split_once('@').unwrap_or((scopes, ""));
    let scope = |name: &str| match name {
        "type" => Ok(TermScope::Type),
        "function" => Ok(TermScope::Function),
        "module" => Ok(TermScope::Module),
        "field" => Ok(TermScope::Field),
        "name" => Ok(TermScope::Name),
        "prose" => Ok(TermScope::Prose),
        "heading" => Ok(TermScope::Heading),
        "string" => Ok(TermScope::String),
        _ => Err(format!("`{name}` is not a scope")),
    };
    let scopes = scopes.split(',').map(scope).collect::<Result<_, _>>()?;
    // A phrase can continue on the next line.
    let regex = RegexBuilder::new(&pattern.replace(' ', r"\s+"))
        .case_insensitive(true)
        .multi_line(true)
        .build()
        .map_err(|error| error.to_string())?;
    let (pattern, instead) = ((*pattern).to_owned(), (*instead).to_owned());
    Ok(ForbiddenTerm {
        scopes,
        below: below.to_owned(),
        pattern,
        regex,
        instead,
    })
}

/// Reads the table of allowed terms from the file `path`.
///
/// Each line has three columns, separated by tabs: the regular expression of the term, the folder or file,
/// and the reason.
///
/// # Errors
/// The file cannot be read, or a line does not have three columns.
pub fn read_allowed_terms(path: &Path) -> Result<Vec<AllowedTerm>, String> {
    let text = files::read_text(path)?;
    let row = |cells: Vec<&str>| match cells.as_slice() {
        [pattern, location, reason] => Ok(AllowedTerm {
            pattern: (*pattern).to_owned(),
            location: (*location).to_owned(),
            reason: (*reason).to_owned(),
        }),
        _ => Err(format!(
            "{}: a line needs three columns: term, path, reason",
            path.display()
        )),
    };
    files::table_rows(&text).into_iter().map(row).collect()
}

/// Finds the terms in the production code of every member and in every Markdown page. Returns a finding for
/// each occurrence that `allowed` does not permit.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn find_terms(
    workspace: &Workspace,
    terms: &[ForbiddenTerm],
    allowed: &[AllowedTerm],
) -> Result<Vec<Finding>, String> {
    let mut search = TermSearch {
        terms,
        allowed,
        findings: Vec::new(),
    };
    for member in &workspace.members {
        let sources = workspace.read_sources(member)?;
        for (_, source) in sources.production_files() {
            search.search_names(source);
            search.search_source_texts(source);
        }
    }
    for path in files::files_below(&workspace.root, "md")? {
        let text = files::read_text(&path)?;
        search.search_markdown(
            path.strip_prefix(&workspace.root).unwrap_or(&path),
            1,
            &text,
            "markdown",
        );
    }
    Ok(search.findings)
}

struct TermSearch<'a> {
    terms: &'a [ForbiddenTerm],
    allowed: &'a [AllowedTerm],
    findings: Vec<Finding>,
}

impl TermSearch<'_> {
    /// Searches the names that a file declares.
    fn search_names(&mut self, source: &SourceFile) {
        for name in names::declared_names(&source.tree) {
            let (scope, kind) = match name.kind {
                NameKind::Type => (TermScope::Type, "type name"),
                NameKind::Function => (TermScope::Function, "function name"),
                NameKind::Module => (TermScope::Module, "module name"),
                NameKind::Field => (TermScope::Field, "field name"),
            };
            if !source.is_test_line(name.line) {
                self.search_text(
                    &source.path,
                    name.line,
                    &name.words(),
                    &[scope, TermScope::Name],
                    kind,
                );
            }
        }
    }

    /// Searches the comments and the string literals of a file.
    fn search_source_texts(&mut self, source: &SourceFile) {
        let blocks = source.text_blocks().into_iter();
        for TextBlock { kind, line, text } in blocks.filter(|block| !source.is_test_line(block.line)) {
            match kind {
                TextKind::Doc => self.search_markdown(&source.path, line, &text, "rustdoc"),
                TextKind::Comment => self.search_markdown(&source.path, line, &text, "comment"),
                TextKind::Literal => {
                    self.search_text(&source.path, line, &text, &[TermScope::String], "string")
                }
            }
        }
    }

    /// Searches a Markdown text. `first` is the line number of its first line in the file.
    fn search_markdown(&mut self, path: &Path, first: usize, text: &str, kind: &'static str) {
        let lines = markdown::markdown_lines(text);
        let prose: Vec<&str> = lines.iter().map(|line| line.prose.as_str()).collect();
        self.search_text(path, first, &prose.join("\n"), &[TermScope::Prose], kind);
        for (line, number) in lines
            .iter()
            .zip(first..)
            .filter(|(line, _)| line.kind == LineKind::Heading)
        {
            let heading = line.prose.trim_start_matches(['#', ' ']);
            self.search_text(path, number, heading, &[TermScope::Heading], "heading");
        }
    }

    fn search_text(
        &mut self,
        path: &Path,
        first: usize,
        text: &str,
        scopes: &[TermScope],
        kind: &'static str,
    ) {
        for term in self.terms.iter().filter(|term| path.starts_with(&term.below)) {
            if !term.scopes.iter().any(|scope| scopes.contains(scope)) || self.is_allowed(path, term) {
                continue;
            }
            for found in term.regex.find_iter(text) {
                let before = text.get(..found.start()).unwrap_or_default();
                let line = first + before.matches('\n').count();
                let words: Vec<&str> = found.as_str().split_whitespace().collect();
                let message = format!("`{}`: use {}", words.join(" "), term.instead);
                self.findings.push(Finding {
                    file: path.to_owned(),
                    line,
                    kind,
                    message,
                });
            }
        }
    }

    fn is_allowed(&self, path: &Path, term: &ForbiddenTerm) -> bool {
        self.allowed
            .iter()
            .any(|allowed| allowed.pattern == term.pattern && path.starts_with(&allowed.location))
    }
}
