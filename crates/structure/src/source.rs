//! A Rust source file with its syntax tree, its tokens and its comments.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use crate::test_code;

/// A parsed Rust source file.
#[derive(Clone)]
pub struct SourceFile {
    /// Path of the file, relative to the root of the workspace.
    pub path: PathBuf,
    /// Content of the file.
    pub text: String,
    /// Syntax tree of the file.
    pub tree: syn::File,
    tokens: Vec<Lexeme>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The feature "extra-traits" of syn, which prints syntax trees, takes long to compile.
        formatter
            .debug_struct("SourceFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Kinds of text in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// Documentation comment, such as `///` or `//!`.
    Doc,
    /// Any other comment.
    Comment,
    /// String literal.
    Literal,
}

/// Successive comment lines of the same kind, or a string literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextBlock {
    /// Kind of the text.
    pub kind: TextKind,
    /// Line number of the first line, from 1.
    pub line: usize,
    /// The text. Comments have no comment markers, and string literals keep their quotes. Lines are separated
    /// by `\n`.
    pub text: String,
}

/// A token with its position.
#[derive(Clone, Debug)]
struct Lexeme {
    kind: LexemeKind,
    bytes: Range<usize>,
    lines: RangeInclusive<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LexemeKind {
    Code,
    Literal,
    Doc,
}

impl SourceFile {
    /// Parses the text of a source file. `path` is relative to the root of the workspace.
    ///
    /// # Errors
    /// The text is not valid Rust. The message names the file and the line.
    pub fn parse(path: &Path, text: String) -> Result<Self, String> {
        let failed = |line: usize, message: String| format!("{}:{line}: {message}", path.display());
        let stream: TokenStream = text
            .parse()
            .map_err(|error: proc_macro2::LexError| failed(error.span().start().line, error.to_string()))?;
        let mut tokens = Vec::new();
        flatten_tokens(stream.clone(), &text, &mut tokens);
        let tree: syn::File =
            syn::parse2(stream).map_err(|error| failed(error.span().start().line, error.to_string()))?;
        let test_lines = test_code::test_lines(&tree);
        Ok(Self {
            path: path.to_owned(),
            text,
            tree,
            tokens,
            test_lines,
        })
    }

    /// Returns whether a line belongs to test code. `line` counts from 1.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// Returns the numbers of the lines with production code, from 1, in ascending order. Blank lines,
    /// comment lines and test code are left out.
    pub fn code_lines(&self) -> Vec<usize> {
        let texts: Vec<&str> = self.text.lines().collect();
        let mut marked = vec![false; texts.len()];
        for token in self.tokens.iter().filter(|token| token.kind != LexemeKind::Doc) {
            for line in token.lines.clone() {
                if let Some(mark) = marked.get_mut(line.wrapping_sub(1)) {
                    *mark = true;
                }
            }
        }
        let lines = texts.iter().zip(marked).zip(1..);
        let code = lines.filter(|((text, marked), _)| *marked && !text.trim().is_empty());
        code.map(|(_, line)| line)
            .filter(|line| !self.is_test_line(*line))
            .collect()
    }

    /// Returns the comments, documentation comments and string literals of the file, in the order of
    /// the text.
    pub fn text_blocks(&self) -> Vec<TextBlock> {
        let mut blocks = TextBlockBuilder {
            list: Vec::new(),
            last: 0,
        };
        let mut position = 0;
        for token in &self.tokens {
            self.add_comments(position..token.bytes.start, &mut blocks);
            let text = self.text.get(token.bytes.clone()).unwrap_or_default();
            match token.kind {
                LexemeKind::Code => {}
                LexemeKind::Literal => blocks.add_text(TextKind::Literal, *token.lines.start(), text),
                LexemeKind::Doc => blocks.add_text(TextKind::Doc, *token.lines.start(), text),
            }
            position = token.bytes.end.max(position);
        }
        self.add_comments(position..self.text.len(), &mut blocks);
        blocks.list
    }

    /// Adds the comments in the text between two tokens.
    fn add_comments(&self, gap: Range<usize>, blocks: &mut TextBlockBuilder) {
        let Some(mut rest) = self.text.get(gap.clone()) else {
            return;
        };
        let mut position = gap.start;
        while let Some(start) = rest.find('/') {
            let comment = rest.get(start..).unwrap_or_default();
            let length = comment_length(comment);
            let before = self.text.get(..position + start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            blocks.add_text(TextKind::Comment, line, comment.get(..length).unwrap_or_default());
            position += start + length;
            rest = comment.get(length..).unwrap_or_default();
        }
    }
}

/// Returns the length of the comment at the start of `text`, in bytes. The result is at least 1.
fn comment_length(text: &str) -> usize {
    if !text.starts_with("/*") {
        return text.find('\n').unwrap_or(text.len()).max(1);
    }
    let mut depth = 0_usize;
    let mut position = 0;
    while let Some(rest) = text.get(position..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            position += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            position += 2;
            if depth == 0 {
                return position;
            }
        } else {
            position += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Comment blocks under construction.
struct TextBlockBuilder {
    list: Vec<TextBlock>,
    /// Last line of the last block.
    last: usize,
}

impl TextBlockBuilder {
    /// Adds a comment or literal. If the previous line is a comment of the same kind, the comment continues
    /// the block of the previous line.
    fn add_text(&mut self, kind: TextKind, line: usize, raw: &str) {
        let text = if kind == TextKind::Literal {
            raw.to_owned()
        } else {
            strip_comment_markers(raw)
        };
        let end = line + raw.matches('\n').count();
        match self.list.last_mut() {
            Some(block) if kind != TextKind::Literal && block.kind == kind && line == self.last + 1 => {
                block.text.push('\n');
                block.text.push_str(&text);
            }
            _ => self.list.push(TextBlock { kind, line, text }),
        }
        self.last = end;
    }
}

/// Removes the comment markers (`//`, `///`, `//!`, `/*` and `*/`) from every line of a comment. The space
/// after a marker is removed too.
fn strip_comment_markers(raw: &str) -> String {
    let strip = |line: &str| {
        let line = line.trim_start().trim_end_matches("*/").trim_end();
        let line = line.trim_start_matches(['/', '*']);
        let line = line.strip_prefix('!').unwrap_or(line);
        line.strip_prefix(' ').unwrap_or(line).to_owned()
    };
    raw.lines().map(strip).collect::<Vec<_>>().join("\n")
}

/// Appends the tokens of a stream in the order of the text. A group is replaced by its tokens.
fn flatten_tokens(stream: TokenStream, text: &str, out: &mut Vec<Lexeme>) {
    let mut doc_end = 0;
    for tree in stream {
        let span = tree.span();
        if span.byte_range().end <= doc_end {
            continue;
        }
        match tree {
            TokenTree::Punct(_)
                if text
                    .get(span.byte_range())
                    .is_some_and(|own| own.starts_with('/')) =>
            {
                // The lexer turns a documentation comment into the tokens of an attribute. Each of these
                // tokens spans the comment.
                if text.get(span.byte_range()).is_some_and(|own| own.len() > 1) {
                    doc_end = span.byte_range().end;
                    out.push(new_lexeme(LexemeKind::Doc, span));
                } else {
                    out.push(new_lexeme(LexemeKind::Code, span));
                }
            }
            TokenTree::Group(group) => {
                let delimited = group.delimiter() != Delimiter::None;
                if delimited {
                    out.push(new_lexeme(LexemeKind::Code, group.span_open()));
                }
                flatten_tokens(group.stream(), text, out);
                if delimited {
                    out.push(new_lexeme(LexemeKind::Code, group.span_close()));
                }
            }
            TokenTree::Literal(literal) if literal.to_string().contains('"') => {
                out.push(new_lexeme(LexemeKind::Literal, span));
            }
            _ => out.push(new_lexeme(LexemeKind::Code, span)),
        }
    }
}

fn new_lexeme(kind: LexemeKind, span: Span) -> Lexeme {
    Lexeme {
        kind,
        bytes: span.byte_range(),
        lines: span.start().line..=span.end().line,
    }
}
