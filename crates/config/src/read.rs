//! Parsing of a `config_db.json`: checks its structure, its names and each value, and converts old forms to
//! new ones.

use super::asic;
use super::db::{ConfigDb, Entry, Value};
use super::follow_up::{Findings, Refused, without_follow_ups};
use super::json::Json;
use super::merge::{merge, split_range};
use super::natural::Name;
use super::problem::{Problem, Problems};
use super::schema::{self, Fields, Kind, Part, Table};
use super::unused::{ChassisKeys, LineCard, UnusedQueues};

/// Parses the text of a `config_db.json`. Messages use `source` as the name of the text, such as a path.
///
/// # Errors
/// The structure, a name or a value is not valid. All errors of the text are returned.
pub fn parse(text: &str, source: &str) -> Result<ConfigDb, Problems> {
    parse_asic(text, source, None)
}

/// Parses the part `asic` of a file that configures several ASICs. Other files are parsed as with [`parse`].
///
/// # Errors
/// As for [`parse`]. In addition, the file has several parts and `asic` selects none of them.
pub fn parse_asic(text: &str, source: &str, asic: Option<&str>) -> Result<ConfigDb, Problems> {
    parse_layers(&[(source, text)], asic)
}

/// Parses several layers of `(source, text)` and [merges](merge) them.
///
/// # Errors
/// As for [`parse_asic`]. The errors of all layers are returned.
pub fn parse_layers(layers: &[(&str, &str)], asic: Option<&str>) -> Result<ConfigDb, Problems> {
    let Read {
        layers,
        problems,
        refused,
    } = read(layers, asic);
    match &layers[..] {
        _ if !problems.is_empty() => {
            let found = Findings {
                values: problems,
                ..Findings::default()
            };
            Err(without_follow_ups(&merge(&layers), &refused, found))
        }
        [one] => Ok(one.clone()),
        layers => Ok(merge(layers)),
    }
}

/// Parses and merges several layers, and leaves out every table, entry and field with an error.
pub fn parse_valid_part(layers: &[(&str, &str)], asic: Option<&str>) -> ConfigDb {
    merge(&read(layers, asic).layers)
}

/// The layers that could be parsed, and the errors of all layers.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) layers: Vec<ConfigDb>,
    /// Each layer without its invalid parts.
    pub(crate) problems: Vec<Problem>,
    pub(crate) refused: Refused,
}

/// Parses layers of `(source, text)`. The result contains the valid parts, so that later checks can use them.
///
/// On a VOQ chassis, the merged layers determine the host and the ASIC whose keys are read.
pub(crate) fn read(layers: &[(&str, &str)], asic: Option<&str>) -> Read {
    let texts: Vec<_> = layers.iter().map(|(_, text)| tables_of(text, asic)).collect();
    let mut line_card = LineCard::default();
    for selected in texts.iter().flatten() {
        line_card.update(&selected.tables);
    }
    line_card.select_asic(asic);
    let mut all = Read::default();
    for ((source, _), selected) in layers.iter().zip(texts) {
        read_layer(source, selected, &line_card, &mut all);
    }
    all
}

/// Parses a text into its tables. Returns one error if the text is not an object of tables.
fn tables_of(text: &str, asic: Option<&str>) -> Result<asic::Selected, Box<Problem>> {
    let problem = |why: String| Box::new(Problem::at("", "", "", why));
    match serde_json::from_str::<Json>(text.trim_start_matches('\u{feff}')) {
        Ok(Json::Object(top)) => asic::select(top, asic),
        Ok(other) => Err(problem(format!(
            "expected an object of tables, {{\"PORT\": {{...}}}}, found {}",
            other.kind()
        ))),
        Err(error) => Err(problem(format!("not JSON: {error}"))),
    }
}

/// Reads the tables of one layer, and appends the layer and its errors to `all`.
fn read_layer(
    source: &str,
    selected: Result<asic::Selected, Box<Problem>>,
    line_card: &LineCard,
    all: &mut Read,
) {
    let mut reader = Reader {
        source,
        chassis: ChassisKeys::new(line_card.clone()),
        ..Reader::default()
    };
    match selected {
        Ok(selected) => {
            reader.db.is_asic_part = selected.is_part;
            reader.tables(selected.tables);
        }
        Err(problem) => reader.problem(*problem),
    }
    reader.note_unquoted();
    let unused = reader.chassis.note().into_iter().chain(reader.queues.notes());
    let unused: Vec<String> = unused.map(|note| format!("{source}: {note}")).collect();
    reader.db.notes.extend(unused);
    reader.db.source = source.to_owned();
    all.layers.push(reader.db);
    all.problems.extend(reader.problems);
    all.refused.tables.extend(reader.refused.tables);
    all.refused.entries.extend(reader.refused.entries);
}

/// Reason for refusing a table that neither SONiC nor xoff has.
const NO_SUCH_TABLE: &str = "no such table";
const KEY_TWICE: &str = "the key is there twice";
const FIELD_TWICE: &str = "the field is there twice";

/// Returns the similar table name that the message of a refused table suggests.
pub(crate) fn misspelt_table(problem: &Problem) -> Option<&str> {
    let suggestion = problem.fix.as_deref()?.strip_prefix("did you mean ")?;
    (problem.why == NO_SUCH_TABLE).then(|| suggestion.trim_end_matches('?'))
}

/// The state of reading one layer.
#[derive(Default)]
struct Reader<'a> {
    source: &'a str,
    db: ConfigDb,
    /// Locations of values without quotes.
    problems: Vec<Problem>,
    unquoted: Vec<String>,
    refused: Refused,
    chassis: ChassisKeys,
    queues: UnusedQueues,
}

/// The location of a field. Without a field name, the location of an entry.
#[derive(Clone, Copy)]
struct Place<'a> {
    table: &'a str,
    key: &'a str,
    field: &'a str,
}

impl Place<'_> {
    fn problem(self, why: impl Into<String>) -> Problem {
        Problem::at(self.table, self.key, self.field, why)
    }
}

impl Reader<'_> {
    /// Adds an error to the errors of this layer.
    fn problem(&mut self, problem: Problem) {
        self.problems.push(Problem {
            source: self.source.to_owned(),
            ..problem
        });
    }

    fn tables(&mut self, tables: Vec<(String, Json)>) {
        for (name, entries) in tables {
            let name = name.as_str();
            if !schema::is_table_name(name) {
                let problem = Problem::at(name, "", "", NO_SUCH_TABLE);
                self.problem(match schema::nearest(name, schema::table_names()) {
                    Some(meant) => problem.fix(format!("did you mean {meant}?")),
                    None => problem,
                });
                continue;
            }
            if self.db.tables.contains_key(&Name::from(name)) || self.db.removals.has_table(name) {
                self.problem(Problem::at(name, "", "", "the table is there twice").fix("make it one"));
            }
            if entries == Json::Null {
                self.db.removals.add_table(name);
                continue;
            }
            self.db.tables.entry(name.into()).or_default();
            match entries {
                Json::Object(entries) => self.entries(name, entries),
                other => {
                    let why = format!("expected an object of entries, found {}", other.kind());
                    self.refused.tables.insert(name.to_owned());
                    self.problem(Problem::at(name, "", "", why));
                }
            }
        }
    }

    /// Reads the entries of one table.
    fn entries(&mut self, table: &str, entries: Vec<(String, Json)>) {
        for (key, fields) in entries {
            let Some(key) = self.chassis.own_key(table, key) else {
                continue;
            };
            let known = schema::table_with_key(table, &key);
            if fields == Json::Null {
                self.remove_entry(table, known, &key);
                continue;
            }
            let Json::Object(fields) = fields else {
                let why = format!("expected an object of fields, found {}", fields.kind());
                self.problem(Problem::at(table, &key, "", why));
                self.db.insert(table, &key, "", "");
                continue;
            };
            let place = Place {
                table,
                key: &key,
                field: "",
            };
            let (entry, removed) = self.fields(place, known, fields);
            for key in expand_ports(known, &key) {
                if let Some(key) = self.queues.used_key(table, known, &key) {
                    self.entry(Place { key: &key, ..place }, known, &entry);
                    for field in &removed {
                        self.db.removals.add_field(table, &key, field);
                    }
                }
            }
        }
    }

    /// Registers the removal of an entry. Its key must be valid. The lower layers need not have the entry.
    fn remove_entry(&mut self, table: &str, known: Option<&'static Table>, key: &str) {
        for key in expand_ports(known, key) {
            let Some(key) = self.queues.used_key(table, known, &key) else {
                continue;
            };
            let is_twice = self.db.entry(table, &key).is_some() || self.db.removals.has_entry(table, &key);
            if let Some(Err(why)) = known.map(|table| table.check_key(&key)) {
                self.problem(Problem::at(table, &key, "", why));
            } else if known.is_some() && is_twice {
                self.problem(Problem::at(table, &key, "", KEY_TWICE).fix("make it one"));
            } else {
                self.db.removals.add_entry(table, &key);
            }
        }
    }

    /// Stores an entry under one key.
    fn entry(&mut self, place: Place<'_>, known: Option<&'static Table>, entry: &Entry) {
        if let Some(Err(why)) = known.map(|table| table.check_key(place.key)) {
            let object = (place.table.to_owned(), place.key.to_owned());
            self.refused.entries.insert(object);
            self.problem(place.problem(why));
            return;
        }
        if known.is_some_and(Table::has_numbers) {
            let other = self.db.keys(place.table).find(|other| overlap(other, place.key));
            if let Some(other) = other {
                let why = format!("{other} of the same table names some of these numbers too");
                self.problem(place.problem(why).fix("let each number be in one key"));
                return;
            }
        } else if known.is_some() && self.db.entry(place.table, place.key).is_some() {
            self.problem(place.problem(KEY_TWICE).fix("make it one"));
            return;
        }
        if known.is_some() && self.db.removals.has_entry(place.table, place.key) {
            self.problem(place.problem(KEY_TWICE).fix("make it one"));
            return;
        }
        let table = self.db.tables.entry(place.table.into()).or_default();
        table.insert(place.key.into(), entry.clone());
    }

    /// Reads the fields of an entry. Returns the fields with values and the names of removed fields.
    fn fields(
        &mut self,
        place: Place<'_>,
        known: Option<&'static Table>,
        fields: Vec<(String, Json)>,
    ) -> (Entry, Vec<String>) {
        let (mut entry, mut removed) = (Entry::new(), Vec::new());
        for (field, value) in fields {
            // Redis has no empty hashes. SONiC writes this field for an entry without fields.
            if field == "NULL" && value == Json::Text("NULL".to_owned()) {
                continue;
            }
            // Redis marks the name of a list with a final `@`.
            let name = field.strip_suffix('@').unwrap_or(&field);
            let place = Place { field: name, ..place };
            if value == Json::Null {
                if self.removal_of_field(place, known, entry.contains_key(&name.into())) {
                    removed.push(name.to_owned());
                }
                continue;
            }
            let Some(value) = self.value(place, known, value) else {
                continue;
            };
            let checked = match known {
                Some(table) => table.check_field(name, &value.text()),
                None => schema::check_foreign_field(place.table, name),
            };
            if let Err(why) = checked {
                self.problem(place.problem(why).value(value.text()));
            } else if self.queues.is_unused_value(place.table, known, &value.text()) {
                continue;
            } else if (entry.insert(name.into(), value).is_some()
                || removed.iter().any(|field| field == name))
                && known.is_some()
            {
                self.problem(place.problem(FIELD_TWICE).fix("make it one"));
            }
        }
        (entry, removed)
    }

    /// Whether a field can be removed: its name is valid, and the same entry has no value for it.
    fn removal_of_field(&mut self, place: Place<'_>, known: Option<&'static Table>, has_value: bool) -> bool {
        let checked = match known {
            Some(table) => table.check_field_name(place.field),
            None => schema::check_foreign_field(place.table, place.field),
        };
        if let Err(why) = checked {
            self.problem(place.problem(why));
            return false;
        }
        if has_value && known.is_some() {
            self.problem(place.problem(FIELD_TWICE).fix("make it one"));
        }
        true
    }

    /// Converts a JSON value into the value of a field. Returns `None` after an error.
    fn value(&mut self, place: Place<'_>, known: Option<&'static Table>, value: Json) -> Option<Value> {
        let kind = known.map_or(Some(Kind::Any), |table| match table.fields {
            Fields::Named(_) => match table.field(place.field) {
                Some(field) => Some(field.kind),
                None => table.has_unused_field(place.field).then_some(Kind::Any),
            },
            Fields::Map { .. } => Some(Kind::number(0, 0, "")),
            Fields::ByPort(kind) => Some(kind),
        });
        match value {
            // No code reads this value, so the text is kept.
            Json::Object(_) if kind == Some(Kind::Any) => Some(Value::Text(value.to_string())),
            Json::List(items) => {
                let items: Option<Vec<String>> =
                    items.into_iter().map(|item| self.scalar(place, item)).collect();
                match kind {
                    Some(Kind::Any) => items.map(Value::List),
                    Some(Kind::Words(_)) => items.map(Value::List),
                    Some(Kind::References(target)) => {
                        let names = items?.into_iter().map(|name| self.reference(place, target, name));
                        names.collect::<Option<_>>().map(Value::List)
                    }
                    Some(Kind::Priorities | Kind::Each(_) | Kind::Ports) => {
                        items.map(|items| Value::Text(items.join(",")))
                    }
                    // The caller reports the unknown name of the field.
                    None => items.map(|items| Value::Text(items.join(","))),
                    Some(_) => {
                        self.problem(place.problem("expected a string, found a list"));
                        None
                    }
                }
            }
            scalar => {
                let text = self.scalar(place, scalar)?;
                match kind {
                    Some(Kind::Reference(target) | Kind::ReferenceOrNull(target)) => {
                        self.reference(place, target, text).map(Value::Text)
                    }
                    Some(Kind::References(target)) => {
                        let names =
                            schema::items(&text).map(|name| self.reference(place, target, name.to_owned()));
                        names.collect::<Option<_>>().map(Value::List)
                    }
                    Some(kind @ Kind::Words(_)) => Some(Value::of(kind, &text)),
                    // orchagent reads numbers with `stoul`, which skips blanks.
                    Some(Kind::Number { .. } | Kind::NumberOr(..)) => {
                        Some(Value::Text(text.trim().to_owned()))
                    }
                    _ => Some(Value::Text(text)),
                }
            }
        }
    }

    /// Returns the name in a reference, and removes the table from an old reference such as
    /// `[BUFFER_POOL|x]`.
    fn reference(&mut self, place: Place<'_>, target: &str, text: String) -> Option<String> {
        match schema::old_reference(&text) {
            None => Some(text),
            Some((table, name)) if table == target => Some(name.to_owned()),
            Some(_) => {
                self.problem(
                    place
                        .problem(format!("expected a reference to {target}"))
                        .value(text),
                );
                None
            }
        }
    }

    /// Converts a scalar into text. Numbers and booleans without quotes are accepted with a note.
    fn scalar(&mut self, place: Place<'_>, value: Json) -> Option<String> {
        let unquoted = match value {
            Json::Text(text) => return Some(text),
            Json::Number(number) => number,
            Json::Bool(truth) => truth.to_string(),
            other => {
                self.problem(place.problem(format!("expected a string, found {}", other.kind())));
                return None;
            }
        };
        self.unquoted
            .push(format!("{}|{} {}", place.table, place.key, place.field));
        Some(unquoted)
    }

    /// Adds the note about values without quotes. SONiC's tools accept such values, so they are not an error.
    fn note_unquoted(&mut self) {
        let Some(first) = self.unquoted.first() else {
            return;
        };
        let more = match self.unquoted.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        self.db.notes.push(format!(
            "{}: {first}{more}: written without quotes; SONiC writes every value as a string, and it was read as one",
            self.source
        ));
    }
}

/// Splits an old key with several ports, such as `Ethernet0,Ethernet4|3-4`, into one key for each port.
fn expand_ports(table: Option<&Table>, key: &str) -> Vec<String> {
    let position = table.and_then(|t| {
        t.key
            .iter()
            .position(|p| matches!(p, Part::Port | Part::PortOrGlobal))
    });
    let parts: Vec<&str> = key.split('|').collect();
    match position.and_then(|p| Some((p, parts.get(p)?))) {
        Some((position, ports)) if ports.contains(',') => ports
            .split(',')
            .map(|port| {
                let mut parts = parts.clone();
                parts[position] = port.trim();
                parts.join("|")
            })
            .collect(),
        _ => vec![key.to_owned()],
    }
}

/// Whether two keys of a table have the same port and overlapping numbers.
fn overlap(a: &str, b: &str) -> bool {
    match (split_range(a), split_range(b)) {
        (Some((owner_a, first_a, last_a)), Some((owner_b, first_b, last_b))) => {
            owner_a == owner_b && first_a <= last_b && first_b <= last_a
        }
        _ => false,
    }
}
