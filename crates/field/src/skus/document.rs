//! The JSON examples of SONiC's `Configuration.md`.

use serde_json::Value;

/// A fenced block of a document.
#[derive(Debug, PartialEq)]
pub(super) struct Example {
    /// The line of its opening fence, from 1.
    pub(super) line: usize,
    /// Its tables, or why it is not JSON.
    pub(super) tables: Result<Value, String>,
}

/// Every fenced block that begins as JSON does. A block may lack the outer braces.
pub(super) fn examples(text: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        match (&mut open, is_fence) {
            (None, true) => open = Some((number + 1, String::new())),
            (None, false) => {}
            (Some((_, block)), false) => {
                block.push_str(line);
                block.push('\n');
            }
            (Some(_), true) => {
                if let Some((line, block)) = open.take()
                    && block.trim_start().starts_with(['{', '"'])
                {
                    let tables = parse(block.trim());
                    examples.push(Example { line, tables });
                }
            }
        }
    }
    examples
}

fn parse(block: &str) -> Result<Value, String> {
    let braced = format!("{{{}}}", block.trim_end_matches(','));
    serde_json::from_str(block)
        .or_else(|error| serde_json::from_str(&braced).map_err(|_| error))
        .map_err(|error| format!("not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_with_and_without_braces_are_examples() {
        let text = "# A\n```\n{\"PORT\": {}}\n```\ntext\n```json\n\"VLAN\": {}\n```\n```\nredis-cli keys\n```\n```\n{\"X\": }\n```\n";
        let examples = examples(text);
        let lines: Vec<usize> = examples.iter().map(|example| example.line).collect();
        assert_eq!(lines, [2, 6, 12]);
        assert_eq!(examples[0].tables, Ok(json!({"PORT": {}})));
        assert_eq!(examples[1].tables, Ok(json!({"VLAN": {}})));
        assert!(examples[2].tables.is_err());
    }
}
