//! Mutations of lines and of indented blocks of lines, which are the structure of YAML.

use super::super::random::Random;
use super::MUTANT_BYTES_MAX;

/// Changes single lines.
pub(super) fn change_lines(text: &str, other: &str, random: &mut Random) -> (String, &'static str) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (at, to) = (random.below(lines.len()), random.below(lines.len() + 1));
    if lines.is_empty() {
        return (other.to_owned(), "replace an empty file");
    }
    let name = match random.below(7) {
        0 => {
            lines.remove(at);
            "delete a line"
        }
        1 => {
            let line = lines[at].clone();
            lines.insert(to, line);
            "copy a line"
        }
        2 => {
            let count = [2, 100, 5_000][random.below(3)];
            let line = lines[at].clone();
            let count = count.min(copies_max(line.len()));
            lines.splice(at..at, std::iter::repeat_n(line, count));
            "repeat a line"
        }
        3 => {
            let to = to.min(lines.len() - 1);
            lines.swap(at, to);
            "swap two lines"
        }
        4 => {
            let spaces = " ".repeat(1 + random.below(4));
            lines[at] = match random.one_in(2) {
                true => format!("{spaces}{}", lines[at]),
                false => lines[at].trim_start().to_owned(),
            };
            "indent a line"
        }
        5 => {
            let foreign: Vec<&str> = other.lines().collect();
            let line = random.pick(&foreign).copied().unwrap_or_default().to_owned();
            lines.insert(to, line);
            "insert a line of another file"
        }
        _ => {
            let next = lines.get(at + 1).cloned().unwrap_or_default();
            lines[at].push_str(next.trim_start());
            "join two lines"
        }
    };
    (lines.join("\n") + "\n", name)
}

/// Changes a block: a line and all following lines with a deeper indentation.
pub(super) fn change_block(text: &str, other: &str, random: &mut Random) -> (String, &'static str) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let block = random_block(&lines, random);
    let content: Vec<String> = lines[block.clone()].to_vec();
    let to = random.below(lines.len() + 1);
    let name = match random.below(8) {
        0 => {
            lines.drain(block);
            "delete a block"
        }
        1 => {
            lines.splice(block.end..block.end, content);
            "duplicate a block"
        }
        2 => {
            lines.drain(block.clone());
            let to = to.min(lines.len());
            let moved = indent_as(&content, lines.get(to));
            lines.splice(to..to, moved);
            "move a block"
        }
        3 => {
            let nested = nest(&content, 1 + random.below(3));
            lines.splice(block, nested);
            "nest a block"
        }
        4 => {
            let depth = [50, 200, 2_000][random.below(3)];
            let opened = ["[", "{a: "][random.below(2)].repeat(depth);
            let indent = indentation(content.first());
            lines.splice(block, [format!("{}x: {opened}", " ".repeat(indent))]);
            "nest deeply"
        }
        5 => {
            let foreign: Vec<String> = other.lines().map(str::to_owned).collect();
            let range = random_block(&foreign, random);
            let inserted = indent_as(&foreign[range], lines.get(block.start));
            lines.splice(block.start..block.start, inserted);
            "insert a block of another file"
        }
        6 => {
            let count = [10, 300][random.below(2)];
            let count = count.min(copies_max(content.iter().map(String::len).sum()));
            let copies: Vec<String> = (0..count).flat_map(|_| content.clone()).collect();
            lines.splice(block, copies);
            "repeat a block"
        }
        _ => {
            lines.splice(0..0, alias_bomb());
            if let Some(line) = lines.last_mut() {
                line.push_str("\nextra: *i");
            }
            "insert aliases of aliases"
        }
    };
    (lines.join("\n") + "\n", name)
}

/// Returns the largest useful number of copies of `bytes` bytes: the mutant is cut at [`MUTANT_BYTES_MAX`]. The memory
/// of this program must stay small: the kernel counts the peak of the parent in the peak of each command that starts.
fn copies_max(bytes: usize) -> usize {
    MUTANT_BYTES_MAX / (bytes + 1) + 1
}

/// Returns the lines of a random block.
fn random_block(lines: &[String], random: &mut Random) -> std::ops::Range<usize> {
    if lines.is_empty() {
        return 0..0;
    }
    let start = random.below(lines.len());
    let indent = indentation(lines.get(start));
    let inner = lines[start + 1..]
        .iter()
        .take_while(|line| line.trim().is_empty() || indentation(Some(*line)) > indent);
    start..start + 1 + inner.count()
}

fn indentation(line: Option<&String>) -> usize {
    line.map_or(0, |line| line.len() - line.trim_start_matches(' ').len())
}

/// Returns a block with the indentation of another line.
fn indent_as(block: &[String], neighbour: Option<&String>) -> Vec<String> {
    let (old, new) = (indentation(block.first()), indentation(neighbour));
    block
        .iter()
        .map(|line| {
            format!(
                "{}{}",
                " ".repeat(new),
                line.get(old..).unwrap_or(line.trim_start())
            )
        })
        .collect()
}

/// Returns a block below `depth` new keys.
fn nest(block: &[String], depth: usize) -> Vec<String> {
    let indent = indentation(block.first());
    let mut lines: Vec<String> = (0..depth)
        .map(|level| format!("{}nested:", " ".repeat(indent + 2 * level)))
        .collect();
    lines.extend(
        block
            .iter()
            .map(|line| format!("{}{line}", " ".repeat(2 * depth))),
    );
    lines
}

/// Returns definitions whose expansion has 10^9 elements.
fn alias_bomb() -> Vec<String> {
    let mut lines = vec!["a: &a [x, x, x, x, x, x, x, x, x, x]".to_owned()];
    for (name, below) in ["b", "c", "d", "e", "f", "g", "h", "i"]
        .iter()
        .zip(["a", "b", "c", "d", "e", "f", "g", "h"])
    {
        let aliases = vec![format!("*{below}"); 10].join(", ");
        lines.push(format!("{name}: &{name} [{aliases}]"));
    }
    lines
}
