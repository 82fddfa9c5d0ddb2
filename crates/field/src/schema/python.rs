//! Finds the tables and fields that a Python program writes, such as `config_db.set_entry('PORT',
//! name, {'mtu': mtu})`.

/// Returns the tables that a program writes with `set_entry` and `mod_entry`, and the fields of each table.
/// The fields are keys of a dictionary in the call, or of a variable that the call uses.
///
/// The name of a table can be a constant of the program. A table with a name that is known only at run time
/// is skipped.
pub(super) fn written_entries(program: &str) -> Vec<(&str, Vec<&str>)> {
    let mut entries = Vec::new();
    for call in ["set_entry(", "mod_entry("] {
        for (at, _) in program.match_indices(call) {
            let arguments = call_arguments(&program[at + call.len()..]);
            let Some(table) = arguments.first().and_then(|name| table_name(program, name)) else {
                continue;
            };
            let fields = match arguments.get(2).map(|fields| fields.trim()) {
                Some(fields) if fields.starts_with('{') => dictionary_keys(fields),
                Some(variable) if is_identifier(variable) => {
                    assigned_keys(function_before(program, at), variable)
                }
                _ => Vec::new(),
            };
            entries.push((table, fields));
        }
    }
    entries
}

/// Returns the arguments of a call. `text` begins after the opening bracket. The result is empty if the
/// closing bracket is missing.
fn call_arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut quote) = (0_usize, 0, None);
    let mut arguments = Vec::new();
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth == 0 => {
                arguments.push(&text[begin..at]);
                return arguments;
            }
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                arguments.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    Vec::new()
}

/// Returns the table name that an argument stands for. The argument is a string literal or the name of a
/// constant such as `CFG_TABLE = "PORT"`. Returns `None` for any other form of argument.
fn table_name<'a>(program: &'a str, argument: &'a str) -> Option<&'a str> {
    let argument = argument.trim();
    let name = string_literal(argument).or_else(|| {
        let is_constant =
            |name: &&str| is_identifier(name) && !name.contains(|c: char| c.is_ascii_lowercase());
        let constant = argument.rsplit('.').next().filter(is_constant)?;
        program.lines().find_map(|line| {
            let value = line
                .trim()
                .strip_prefix(constant)?
                .trim_start()
                .strip_prefix('=')?;
            string_literal(value.trim())
        })
    })?;
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn string_literal(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inside = text[1..].strip_suffix(quote)?;
    (!inside.contains(quote)).then_some(inside)
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the text from the start of the function that contains the position `at` up to this position.
fn function_before(program: &str, at: usize) -> &str {
    let before = &program[..at];
    before.rfind("\ndef ").map_or(before, |begin| &before[begin..])
}

/// Returns the keys of a dictionary literal.
fn dictionary_keys(dictionary: &str) -> Vec<&str> {
    let Some(inside) = dictionary.strip_prefix('{') else {
        return Vec::new();
    };
    let pairs = call_arguments(inside);
    pairs
        .iter()
        .filter_map(|pair| string_literal(pair.split_once(':')?.0.trim()))
        .collect()
}

/// Returns the keys that a function assigns to a variable, such as `data = {'mtu': mtu}` or
/// `data['mtu'] = mtu`.
fn assigned_keys<'a>(function: &'a str, variable: &str) -> Vec<&'a str> {
    let mut keys = Vec::new();
    for (at, _) in function.match_indices(variable) {
        let is_part = function[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let rest = &function[at + variable.len()..];
        if is_part {
            continue;
        }
        let assigned = rest.trim_start().strip_prefix('=');
        if let Some(value) = assigned.filter(|value| !value.starts_with('=')) {
            // The last assignment determines the keys of the variable.
            keys = dictionary_keys(value.trim_start());
        } else if let Some((key, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let is_assigned = behind.trim_start().starts_with('=') && !behind.trim_start().starts_with("==");
            keys.extend(string_literal(key.trim()).filter(|_| is_assigned));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_fields_of_a_python_program_are_found() {
        let program = r#"
WATCHDOG = 'PFC_WD'

def first(db, port):
    db.set_entry('PORT', port, {'mtu': "9100", "alias": get(port, {'not': 1}),
                                'lanes': '1,2'})
    db.mod_entry(WATCHDOG, 'GLOBAL', None)

def second(db, info):
    data = {'ignored': 1}

def third(db, info):
    data = {'old': 1}
    data = {}
    table = 'VLAN'
    if info['other'] == 1:
        data["BIG_RED_SWITCH"] = info
    db.mod_entry(module.WATCHDOG, "GLOBAL", data)
    db.set_entry(table, "x", {'a': 1})
"#;
        let mut entries = written_entries(program);
        entries.sort();
        let expected = [
            ("PFC_WD", vec![]),
            ("PFC_WD", vec!["BIG_RED_SWITCH"]),
            ("PORT", vec!["mtu", "alias", "lanes"]),
        ];
        assert_eq!(entries, expected);
    }
}
