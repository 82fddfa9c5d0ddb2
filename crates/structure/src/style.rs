//! Finds documentation comments of one word, and lines that are too long.

use std::path::Path;

use crate::files;
use crate::finding::Finding;
use crate::markdown::{self, LineKind};
use crate::source::{SourceFile, TextKind};
use crate::workspace::Workspace;

/// Largest permitted number of characters in a comment line and in a line of Markdown.
pub const WIDTH_MAX: usize = 120;

/// Returns a finding for each documentation comment with only one word in production code.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn one_word_docs(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for member in &workspace.members {
        let sources = workspace.read_sources(member)?;
        for (path, source) in sources.production_files() {
            let blocks = source.text_blocks().into_iter();
            for block in
                blocks.filter(|block| block.kind == TextKind::Doc && !source.is_test_line(block.line))
            {
                if block.text.split_whitespace().count() == 1 {
                    let message = format!("`{}` has only one word", block.text.trim());
                    findings.push(Finding {
                        file: path.clone(),
                        line: block.line,
                        kind: "rustdoc",
                        message,
                    });
                }
            }
        }
    }
    Ok(findings)
}

/// The standard sections of documentation comments.
const STANDARD_SECTIONS: [&str; 5] = ["Errors", "Examples", "Example", "Panics", "Safety"];

/// Returns a finding for each heading of a standard section, such as `# Errors`, with the text of the section on
/// the same line. Rustdoc would show the whole line as a heading.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn headings_with_text(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for path in files::files_below(&workspace.root, "rs")? {
        let source = SourceFile::parse(relative_path(&path, &workspace.root), files::read_text(&path)?)?;
        for block in source.text_blocks() {
            if block.kind != TextKind::Doc {
                continue;
            }
            let lines = block.text.lines().zip(block.line..);
            findings.extend(
                lines
                    .filter(|(line, _)| is_heading_with_text(line))
                    .map(|(line, number)| Finding {
                        file: source.path.clone(),
                        line: number,
                        kind: "rustdoc",
                        message: format!("`{}` is a heading with text", line.trim()),
                    }),
            );
        }
    }
    Ok(findings)
}

/// Returns whether a line of a documentation comment is the heading of a standard section and has further words. A
/// title such as `# Errors and warnings` is a heading of its own.
fn is_heading_with_text(line: &str) -> bool {
    let Some(title) = line.trim().strip_prefix("# ") else {
        return false;
    };
    let (section, rest) = title.split_once(' ').unwrap_or((title, ""));
    STANDARD_SECTIONS.contains(&section) && !rest.is_empty() && !rest.starts_with("and ")
}

/// Returns a finding for each line that is longer than [`WIDTH_MAX`]. Comment lines and lines of Markdown
/// prose are checked.
///
/// Tables and code blocks have no limit. The targets of links do not count.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn long_lines(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for path in files::files_below(&workspace.root, "rs")? {
        let source = SourceFile::parse(relative_path(&path, &workspace.root), files::read_text(&path)?)?;
        add_long_comments(&source, &mut findings);
    }
    for path in files::files_below(&workspace.root, "md")? {
        let text = files::read_text(&path)?;
        for (line, number) in markdown::markdown_lines(&text).iter().zip(1..) {
            if matches!(line.kind, LineKind::Prose | LineKind::Heading) {
                let file = relative_path(&path, &workspace.root);
                findings.extend(too_long_finding(file, number, "markdown", line.width));
            }
        }
    }
    Ok(findings)
}

/// Adds a finding for each comment line that is too long. The length includes the indentation and the comment
/// marker, but not the targets of links.
fn add_long_comments(source: &SourceFile, findings: &mut Vec<Finding>) {
    let lines: Vec<&str> = source.text.lines().collect();
    for block in source
        .text_blocks()
        .iter()
        .filter(|block| block.kind != TextKind::Literal)
    {
        for (line, number) in markdown::markdown_lines(&block.text).iter().zip(block.line..) {
            let whole = lines.get(number.wrapping_sub(1)).copied().unwrap_or_default();
            let own = block.text.lines().nth(number - block.line).unwrap_or_default();
            let targets = own.chars().count().saturating_sub(line.width);
            let width = whole.chars().count().saturating_sub(targets);
            if matches!(line.kind, LineKind::Prose | LineKind::Heading) {
                findings.extend(too_long_finding(&source.path, number, "comment", width));
            }
        }
    }
}

fn too_long_finding(file: &Path, line: usize, kind: &'static str, width: usize) -> Option<Finding> {
    let message = format!("{width} characters, maximum {WIDTH_MAX}");
    (width > WIDTH_MAX).then(|| Finding {
        file: file.to_owned(),
        line,
        kind,
        message,
    })
}

fn relative_path<'a>(path: &'a Path, root: &Path) -> &'a Path {
    path.strip_prefix(root).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_sections_have_no_text() {
        for line in [
            "# Panics `switch` is out of range.",
            " # Errors The file is missing",
            "# Safety x",
        ] {
            assert!(is_heading_with_text(line), "{line}");
        }
        for line in [
            "# Panics",
            " # Errors ",
            "# Errors and warnings",
            "Errors x",
            "# Formats x",
            "",
        ] {
            assert!(!is_heading_with_text(line), "{line}");
        }
    }
}
