//! Reads tables and fields from SONiC's YANG models.
//!
//! A SONiC module has one container with the name of the module. This container has one container
//! for each table. A table contains lists and containers. A list describes the entries with a key,
//! and a container is an entry whose key is the name of the container. The leaves of an entry are
//! its fields, except the leaves of the key. A list inside an entry means fields with free names,
//! as in `DSCP_TO_TC_MAP`.

use std::collections::BTreeMap;

use super::names::Names;

/// A YANG statement: keyword, argument and child statements.
#[derive(Debug, Default, Clone)]
struct Statement {
    keyword: String,
    argument: String,
    children: Vec<Statement>,
}

/// The modules that have been read.
#[derive(Debug, Default)]
pub(super) struct Models {
    modules: Vec<Statement>,
}

impl Models {
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
            let module = statement(&tokens, &mut position)?;
            self.modules.push(module);
        }
        Ok(())
    }

    /// Returns all tables with their fields.
    pub(super) fn names(&self) -> Names {
        let groupings = Groupings::new(&self.modules);
        let mut names = Names::default();
        for module in &self.modules {
            for top in module.all("container") {
                for table in groupings.expanded(module, top) {
                    if table.keyword == "container" && is_table_name(&table.argument) {
                        names.table(&table.argument);
                        add_entries(&mut names, &groupings, module, table);
                    }
                }
            }
        }
        names
    }
}

/// Returns whether a container is a table. Containers of events and alarms have lower-case names
/// and are not tables.
fn is_table_name(name: &str) -> bool {
    name.bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

fn add_entries(names: &mut Names, groupings: &Groupings<'_>, module: &Statement, table: &Statement) {
    for entry in groupings.expanded(module, table) {
        match entry.keyword.as_str() {
            "list" | "container" => add_fields(names, groupings, module, &table.argument, entry),
            // This leaf is not part of an entry.
            "leaf" | "leaf-list" => names.field(&table.argument, &entry.argument),
            _ => {}
        }
    }
}

fn add_fields(
    names: &mut Names,
    groupings: &Groupings<'_>,
    module: &Statement,
    table: &str,
    entry: &Statement,
) {
    let key = entry.all("key").next().map_or("", |key| key.argument.as_str());
    for child in groupings.expanded(module, entry) {
        match child.keyword.as_str() {
            "leaf" | "leaf-list" if !key.split_whitespace().any(|part| part == child.argument) => {
                names.field(table, &child.argument);
            }
            "list" | "container" => names.free_fields(table),
            _ => {}
        }
    }
}

impl Statement {
    fn all<'a>(&'a self, keyword: &'a str) -> impl Iterator<Item = &'a Statement> {
        self.children.iter().filter(move |child| child.keyword == keyword)
    }
}

/// The groupings by module and name, and the prefixes that each module uses for other modules.
struct Groupings<'a> {
    groupings: BTreeMap<(&'a str, &'a str), &'a Statement>,
    prefixes: BTreeMap<(&'a str, &'a str), &'a str>,
}

impl<'a> Groupings<'a> {
    fn new(modules: &'a [Statement]) -> Groupings<'a> {
        let mut all = Groupings {
            groupings: BTreeMap::new(),
            prefixes: BTreeMap::new(),
        };
        for module in modules {
            for import in module.all("import") {
                if let Some(prefix) = import.all("prefix").next() {
                    all.prefixes
                        .insert((&module.argument, &prefix.argument), &import.argument);
                }
            }
            all.collect(&module.argument, module);
        }
        all
    }

    fn collect(&mut self, module: &'a str, statement: &'a Statement) {
        for child in &statement.children {
            if child.keyword == "grouping" {
                self.groupings.insert((module, &child.argument), child);
            }
            self.collect(module, child);
        }
    }

    /// Returns the children of a statement. `uses`, `choice` and `case` are replaced by their
    /// contents.
    fn expanded<'s>(&self, module: &'s Statement, statement: &'s Statement) -> Vec<&'s Statement>
    where
        'a: 's,
    {
        let mut children = Vec::new();
        self.expand(&module.argument, statement, &mut children);
        children
    }

    fn expand<'s>(&self, module: &'s str, statement: &'s Statement, children: &mut Vec<&'s Statement>)
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
enum Token {
    Word(String),
    Open,
    Close,
    End,
}

fn statement(tokens: &[Token], position: &mut usize) -> Result<Statement, String> {
    let mut words = Vec::new();
    loop {
        let token = tokens
            .get(*position)
            .ok_or("the module ends inside a statement")?;
        *position += 1;
        match token {
            Token::Word(word) => words.push(word.clone()),
            Token::End | Token::Open => {
                let mut words = words.into_iter();
                let mut statement = Statement {
                    keyword: words.next().ok_or("a statement has no keyword")?,
                    // YANG joins `"a" + "b"` to one argument.
                    argument: words.filter(|word| word != "+").collect(),
                    children: Vec::new(),
                };
                if *token == Token::Open {
                    while tokens.get(*position) != Some(&Token::Close) {
                        statement.children.push(self::statement(tokens, position)?);
                    }
                    *position += 1;
                }
                return Ok(statement);
            }
            Token::Close => return Err(format!("a brace closes inside {}", words.join(" "))),
        }
    }
}

fn tokenize(text: &str) -> Result<Vec<Token>, String> {
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
            '{' => Some(Token::Open),
            '}' => Some(Token::Close),
            ';' => Some(Token::End),
            _ => None,
        } {
            tokens.push(token);
            1
        } else if first == '"' || first == '\'' {
            let length = quoted(rest, first).ok_or("a string does not end")?;
            tokens.push(Token::Word(rest[1..length - 1].to_owned()));
            length
        } else {
            let length = rest
                .find(|c: char| c.is_whitespace() || "{};".contains(c))
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..length].to_owned()));
            length
        };
        rest = &rest[used..];
    }
}

/// Returns the length of a quoted string including both quotes, or `None` if the string does not
/// end.
fn quoted(text: &str, quote: char) -> Option<usize> {
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

    fn names(modules: &[&str]) -> String {
        let mut models = Models::default();
        for module in modules {
            models.add(module).expect("YANG");
        }
        models.names().to_string()
    }

    #[test]
    fn keys_are_no_fields_and_groupings_and_choices_are_expanded() {
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
        assert_eq!(names(&[common, device]), "MAP *\nTABLE a b enabled ip port\n");
    }

    #[test]
    fn broken_text_is_an_error() {
        for text in ["module m {", "module m { leaf \"x; }", "}", "/* ", "module m }"] {
            assert!(Models::default().add(text).is_err(), "{text}");
        }
    }
}
