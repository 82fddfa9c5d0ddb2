//! Reads tables and fields from SONiC's YANG models.
//!
//! The structure of a SONiC module is:
//!
//! - A module has one container with the name of the module. This container has one container for each table.
//! - A table contains lists and containers. A list describes entries with a key. A container describes a
//!   single entry, and the name of the container is the key of the entry.
//! - The leaves of an entry are fields, except the leaves that form the key. If an entry contains a list, the
//!   fields of the table can have any name, as in `DSCP_TO_TC_MAP`.

use std::collections::BTreeMap;

use super::table_names::TableNames;

/// A YANG statement: keyword, argument and child statements.
#[derive(Debug, Default, Clone)]
struct YangStatement {
    keyword: String,
    argument: String,
    children: Vec<YangStatement>,
}

/// The modules that have been read.
#[derive(Debug, Default)]
pub(super) struct YangModels {
    modules: Vec<YangStatement>,
}

impl YangModels {
    /// Adds one module.
    ///
    /// # Errors
    ///
    /// The text is not YANG.
    pub(super) fn add(&mut self, text: &str) -> Result<(), String> {
        let without_jinja: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("{%"))
            .collect();
        let tokens = tokenize(&without_jinja.join("\n"))?;
        let mut position = 0;
        while position < tokens.len() {
            let module = parse_statement(&tokens, &mut position)?;
            self.modules.push(module);
        }
        Ok(())
    }

    /// Returns all tables with their fields.
    pub(super) fn table_names(&self) -> TableNames {
        let groupings = Groupings::new(&self.modules);
        let mut names = TableNames::default();
        for module in &self.modules {
            for top in module.children_with_keyword("container") {
                for table in groupings.expanded_children(module, top) {
                    if table.keyword == "container" && is_table_name(&table.argument) {
                        names.add_table(&table.argument);
                        add_entries(&mut names, &groupings, module, table);
                    }
                }
            }
        }
        names
    }
}

/// Returns whether a container with this name is a table. Names of tables have upper-case letters. Containers
/// of events and alarms have lower-case names and are not tables.
fn is_table_name(name: &str) -> bool {
    name.bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

fn add_entries(
    names: &mut TableNames,
    groupings: &Groupings<'_>,
    module: &YangStatement,
    table: &YangStatement,
) {
    for entry in groupings.expanded_children(module, table) {
        match entry.keyword.as_str() {
            "list" | "container" => add_fields(names, groupings, module, &table.argument, entry),
            // A leaf outside of an entry is a field of the table, too.
            "leaf" | "leaf-list" => names.add_field(&table.argument, &entry.argument),
            _ => {}
        }
    }
}

fn add_fields(
    names: &mut TableNames,
    groupings: &Groupings<'_>,
    module: &YangStatement,
    table: &str,
    entry: &YangStatement,
) {
    let key = entry
        .children_with_keyword("key")
        .next()
        .map_or("", |key| key.argument.as_str());
    for child in groupings.expanded_children(module, entry) {
        match child.keyword.as_str() {
            "leaf" | "leaf-list" if !key.split_whitespace().any(|part| part == child.argument) => {
                names.add_field(table, &child.argument);
            }
            "list" | "container" => names.allow_any_field(table),
            _ => {}
        }
    }
}

impl YangStatement {
    fn children_with_keyword<'a>(&'a self, keyword: &'a str) -> impl Iterator<Item = &'a YangStatement> {
        self.children.iter().filter(move |child| child.keyword == keyword)
    }
}

/// All groupings, with the module and the name as the key. Also contains the prefixes by which each module
/// refers to imported modules.
struct Groupings<'a> {
    groupings: BTreeMap<(&'a str, &'a str), &'a YangStatement>,
    prefixes: BTreeMap<(&'a str, &'a str), &'a str>,
}

impl<'a> Groupings<'a> {
    fn new(modules: &'a [YangStatement]) -> Groupings<'a> {
        let mut all = Groupings {
            groupings: BTreeMap::new(),
            prefixes: BTreeMap::new(),
        };
        for module in modules {
            for import in module.children_with_keyword("import") {
                if let Some(prefix) = import.children_with_keyword("prefix").next() {
                    all.prefixes
                        .insert((&module.argument, &prefix.argument), &import.argument);
                }
            }
            all.add_groupings(&module.argument, module);
        }
        all
    }

    fn add_groupings(&mut self, module: &'a str, statement: &'a YangStatement) {
        for child in &statement.children {
            if child.keyword == "grouping" {
                self.groupings.insert((module, &child.argument), child);
            }
            self.add_groupings(module, child);
        }
    }

    /// Returns the children of a statement. The statements `uses`, `choice` and `case` are replaced
    /// by their contents.
    fn expanded_children<'s>(
        &self,
        module: &'s YangStatement,
        statement: &'s YangStatement,
    ) -> Vec<&'s YangStatement>
    where
        'a: 's,
    {
        let mut children = Vec::new();
        self.expand(&module.argument, statement, &mut children);
        children
    }

    fn expand<'s>(&self, module: &'s str, statement: &'s YangStatement, children: &mut Vec<&'s YangStatement>)
    where
        'a: 's,
    {
        for child in &statement.children {
            match child.keyword.as_str() {
                "choice" | "case" => self.expand(module, child, children),
                "uses" => {
                    let (home, name) = match child.argument.split_once(':') {
                        Some((prefix, name)) => {
                            let home = self.prefixes.get(&(module, prefix)).copied();
                            (home.unwrap_or(module), name)
                        }
                        None => (module, child.argument.as_str()),
                    };
                    if let Some(grouping) = self.groupings.get(&(home, name)) {
                        self.expand(home, grouping, children);
                    }
                }
                _ => children.push(child),
            }
        }
    }
}

#[derive(Debug, PartialEq)]
enum YangToken {
    Word(String),
    Open,
    Close,
    End,
}

fn parse_statement(tokens: &[YangToken], position: &mut usize) -> Result<YangStatement, String> {
    let mut words = Vec::new();
    loop {
        let token = tokens
            .get(*position)
            .ok_or("the module ends inside a statement")?;
        *position += 1;
        match token {
            YangToken::Word(word) => words.push(word.clone()),
            YangToken::End | YangToken::Open => {
                let mut words = words.into_iter();
                let mut statement = YangStatement {
                    keyword: words.next().ok_or("a statement has no keyword")?,
                    // YANG joins `"a" + "b"` to one argument.
                    argument: words.filter(|word| word != "+").collect(),
                    children: Vec::new(),
                };
                if *token == YangToken::Open {
                    while tokens.get(*position) != Some(&YangToken::Close) {
                        statement.children.push(self::parse_statement(tokens, position)?);
                    }
                    *position += 1;
                }
                return Ok(statement);
            }
            YangToken::Close => return Err(format!("a brace closes inside {}", words.join(" "))),
        }
    }
}

fn tokenize(text: &str) -> Result<Vec<YangToken>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        let used = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").ok_or("a comment does not end")? + 2
        } else if let Some(token) = match first {
            '{' => Some(YangToken::Open),
            '}' => Some(YangToken::Close),
            ';' => Some(YangToken::End),
            _ => None,
        } {
            tokens.push(token);
            1
        } else if first == '"' || first == '\'' {
            let length = quoted_len(rest, first).ok_or("a string does not end")?;
            tokens.push(YangToken::Word(rest[1..length - 1].to_owned()));
            length
        } else {
            let length = rest
                .find(|c: char| c.is_whitespace() || "{};".contains(c))
                .unwrap_or(rest.len());
            tokens.push(YangToken::Word(rest[..length].to_owned()));
            length
        };
        rest = &rest[used..];
    }
}

/// Returns the length of a quoted string including both quotes, or `None` if the string
/// does not end.
fn quoted_len(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of_modules(modules: &[&str]) -> String {
        let mut models = YangModels::default();
        for module in modules {
            models.add(module).expect("YANG");
        }
        models.table_names().to_string()
    }

    #[test]
    fn keys_are_skipped_and_groupings_are_expanded() {
        let common =
            r#"module common { prefix c; grouping address { leaf ip { type string; } leaf "po" + "rt"; } }"#;
        let device = r#"
            module device { // not a table; {
              import common { prefix cc; }
              {% if model == "cvl" %}
              container device {
                container TABLE { /* leaf x; */
                  list TABLE_LIST { key "name vrf"; leaf name; leaf vrf; uses cc:address; choice c { case a { leaf a; } leaf-list b; } }
                  container global { leaf enabled { pattern "\"[a-z]{1}'"; } }
                }
                container MAP { list MAP_LIST { key name; leaf name; list MAP { key dscp; leaf dscp; leaf tc; } } }
                container event-of-something { leaf time; }
              }
              {% endif %}
            }"#;
        assert_eq!(
            names_of_modules(&[common, device]),
            "MAP *\nTABLE a b enabled ip port\n"
        );
    }

    #[test]
    fn invalid_yang_is_an_error() {
        for text in ["module m {", "module m { leaf \"x; }", "}", "/* ", "module m }"] {
            assert!(YangModels::default().add(text).is_err(), "{text}");
        }
    }
}
