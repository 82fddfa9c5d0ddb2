//! Reads the lines of Markdown pages and of documentation comments.

use std::sync::LazyLock;

use regex::Regex;

/// Kinds of lines in a Markdown text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Text of a paragraph or a list.
    Prose,
    /// Text of a heading.
    Heading,
    /// Row of a table.
    Table,
    /// Line of a code block, with its fences.
    Code,
    /// Line without text.
    Blank,
}

/// A line of a Markdown text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkdownLine {
    /// Kind of the line.
    pub kind: LineKind,
    /// The line without the content of code spans and without the targets of links. Empty for code and
    /// blank lines.
    pub prose: String,
    /// Number of characters in the line, without the targets of links.
    pub width: usize,
}

/// Targets of links, reference definitions and plain addresses.
static LINK_TARGET: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\]\([^)]*\)|\]\[[^\]]*\]|^\s*\[[^\]]+\]: .*$|<?https?://[^\s)>]+>?").ok());

/// Returns the lines of a Markdown text, in the order of the text.
pub fn markdown_lines(text: &str) -> Vec<MarkdownLine> {
    let mut reader = MarkdownReader::default();
    text.lines().map(|line| reader.read_line(line)).collect()
}

/// The state of the reader between two lines.
#[derive(Default)]
struct MarkdownReader {
    /// Marker of the open code block (three backticks or three tildes), or `None` outside a code block.
    fence: Option<&'static str>,
    /// True if a code span continues on the next line.
    in_span: bool,
    /// True if the last line was text of a paragraph or a list.
    after_text: bool,
    /// True if the last line with text was a code line.
    after_code: bool,
    /// True if the last paragraph belongs to a list.
    in_list: bool,
}

impl MarkdownReader {
    fn read_line(&mut self, line: &str) -> MarkdownLine {
        let linked = match LINK_TARGET.as_ref() {
            Some(target) => target.replace_all(line, "]").into_owned(),
            None => line.to_owned(),
        };
        let width = linked.trim_end().chars().count();
        let kind = self.line_kind(line);
        if matches!(
            kind,
            LineKind::Blank | LineKind::Code | LineKind::Heading | LineKind::Table
        ) {
            self.in_span = false;
        }
        let prose = match kind {
            LineKind::Code | LineKind::Blank => String::new(),
            _ => self.without_code_spans(&linked),
        };
        self.after_text = kind == LineKind::Prose;
        self.after_code = kind == LineKind::Code || self.after_code && kind == LineKind::Blank;
        MarkdownLine { kind, prose, width }
    }

    fn line_kind(&mut self, line: &str) -> LineKind {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let marker = ["```", "~~~"]
            .into_iter()
            .find(|marker| trimmed.starts_with(marker));
        match (self.fence, marker) {
            (Some(open), Some(marker)) if open == marker => {
                self.fence = None;
                return LineKind::Code;
            }
            (Some(_), _) => return LineKind::Code,
            (None, Some(marker)) => {
                self.fence = Some(marker);
                return LineKind::Code;
            }
            (None, None) => {}
        }
        if trimmed.is_empty() {
            return LineKind::Blank;
        }
        let is_item = trimmed.starts_with("- ") || trimmed.starts_with("* ") || is_numbered_item(trimmed);
        let code_indent = if self.in_list { 6 } else { 4 };
        if indent >= code_indent && !self.after_text && !(is_item && self.in_list) {
            return LineKind::Code;
        }
        if indent == 0 || is_item {
            self.in_list = is_item || self.in_list && self.after_text;
        }
        match trimmed.chars().next() {
            Some('#') => LineKind::Heading,
            Some('|') => LineKind::Table,
            _ => LineKind::Prose,
        }
    }

    /// Removes the content of code spans. A span can continue on the next line of a paragraph.
    fn without_code_spans(&mut self, line: &str) -> String {
        let mut out = String::new();
        let mut rest = line;
        while let Some(start) = rest.find('`') {
            let (before, after) = rest.split_at(start);
            if !self.in_span {
                out.push_str(before);
            }
            out.push('`');
            rest = after.trim_start_matches('`');
            self.in_span = !self.in_span;
        }
        if !self.in_span {
            out.push_str(rest);
        }
        out
    }
}

/// Returns whether the line is an item of a numbered list.
fn is_numbered_item(line: &str) -> bool {
    let digits = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    digits.len() < line.len() && digits.starts_with(". ")
}
