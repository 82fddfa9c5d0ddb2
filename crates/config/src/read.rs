//! Parser of `config_db.json`. The parser checks the structure, all names and each value, and converts old
//! forms of keys and references to the current forms.

use super::db::{ConfigDb, ConfigEntry, FieldValue};
use super::json::JsonValue;
use super::merge::{merge_layers, parse_range_key};
use super::multi_asic;
use super::natural::NaturalName;
use super::problem::{Problem, Problems};
use super::queue_filter::{ChassisKeyFilter, LineCard, QueueFilter};
use super::root_cause::{FoundErrors, NO_SUCH_TABLE, RefusedObjects, remove_consequences};
use super::schema::{self, KeyPart, TableFields, TableSchema, ValueKind};
use xoff_units::{count_noun, group_thousands, nearest_name};

/// Parses the text of a `config_db.json`. `source` is the name of the text in messages, such as a path.
///
/// # Errors
///
/// Returns all errors of the text: errors of its structure, and invalid names and values. A text with parts
/// for several ASICs is also an error.
pub fn parse(text: &str, source: &str) -> Result<ConfigDb, Problems> {
    parse_asic_part(text, source, None)
}

/// Parses the part `asic`, such as `asic0`, of a file that configures several ASICs. A file without such
/// parts is parsed as with [`parse`].
///
/// # Errors
///
/// Returns all errors of the part, as [`parse`] does. Also returns an error if the file has parts, and `asic`
/// is `None` or names no part.
pub fn parse_asic_part(text: &str, source: &str, asic: Option<&str>) -> Result<ConfigDb, Problems> {
    parse_layers(&[(source, text)], asic)
}

/// Parses several layers and [merges](crate::merge_layers) them. Each layer is a pair: the name of the layer
/// for messages, and the JSON text of the layer. `asic` selects a part as in [`parse_asic_part`].
///
/// # Errors
///
/// Returns the errors of all layers, in the same cases as [`parse_asic_part`].
pub fn parse_layers(layers: &[(&str, &str)], asic: Option<&str>) -> Result<ConfigDb, Problems> {
    let ParsedLayers {
        layers,
        problems,
        refused,
    } = parse_all_layers(layers, asic);
    match &layers[..] {
        _ if !problems.is_empty() => {
            let found = FoundErrors {
                values: problems,
                ..FoundErrors::default()
            };
            Err(remove_consequences(&merge_layers(&layers), &refused, found))
        }
        [one] => Ok(one.clone()),
        layers => Ok(merge_layers(layers)),
    }
}

/// Parses and merges several layers like [`parse_layers`], but leaves out tables, entries and fields with
/// an error.
pub fn parse_valid_entries(layers: &[(&str, &str)], asic: Option<&str>) -> ConfigDb {
    merge_layers(&parse_all_layers(layers, asic).layers)
}

/// All layers, and the errors of all layers.
#[derive(Default)]
pub(crate) struct ParsedLayers {
    /// Each layer without its invalid parts.
    pub(crate) layers: Vec<ConfigDb>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) refused: RefusedObjects,
}

/// Parses several layers, given as pairs of a name and a text. The result contains the valid parts of each
/// layer, so that later checks can use the valid parts.
///
/// In files of a VOQ chassis, only the queues of one host and one ASIC are read. The names of this host and
/// this ASIC are in `DEVICE_METADATA`, in any of the layers.
pub(crate) fn parse_all_layers(layers: &[(&str, &str)], asic: Option<&str>) -> ParsedLayers {
    let texts: Vec<_> = layers.iter().map(|(_, text)| parse_tables(text, asic)).collect();
    let mut line_card = LineCard::default();
    for selected in texts.iter().flatten() {
        line_card.update_names(&selected.tables);
    }
    line_card.select_asic(asic);
    let mut all = ParsedLayers::default();
    for ((source, _), selected) in layers.iter().zip(texts) {
        read_layer(source, selected, &line_card, &mut all);
    }
    all
}

/// Parses a text into its tables. Returns one error if the text is not an object of tables.
fn parse_tables(text: &str, asic: Option<&str>) -> Result<multi_asic::SelectedTables, Box<Problem>> {
    let problem = |why: String| Box::new(Problem::at_field("", "", "", why));
    match serde_json::from_str::<JsonValue>(text.trim_start_matches('\u{feff}')) {
        Ok(JsonValue::Object(top)) => multi_asic::select_asic_part(top, asic),
        Ok(other) => Err(problem(format!(
            "expected an object of tables, {{\"PORT\": {{...}}}}, found {}",
            other.describe_kind()
        ))),
        Err(error) => Err(problem(match looks_like_lab(text) {
            true => format!("not JSON: {error}; for a lab file, use `xoff lab check`"),
            false => format!("not JSON: {error}"),
        })),
    }
}

/// Returns whether a text that is not JSON looks like a lab file.
fn looks_like_lab(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("topology:"))
}

/// Reads the tables of one layer, and appends the layer and its errors to `layers`.
fn read_layer(
    source: &str,
    selected: Result<multi_asic::SelectedTables, Box<Problem>>,
    line_card: &LineCard,
    layers: &mut ParsedLayers,
) {
    let mut reader = LayerReader {
        source,
        chassis: ChassisKeyFilter::new(line_card.clone()),
        ..LayerReader::default()
    };
    match selected {
        Ok(selected) => {
            reader.db.is_asic_part = selected.is_part;
            reader.read_tables(selected.tables);
        }
        Err(problem) => reader.report(*problem),
    }
    reader.add_unquoted_note();
    let unused = reader
        .chassis
        .describe_skipped_keys()
        .into_iter()
        .chain(reader.queues.describe_skipped_entries());
    let unused: Vec<String> = unused.map(|note| format!("{source}: {note}")).collect();
    reader.db.notes.extend(unused);
    reader.db.source = source.to_owned();
    layers.layers.push(reader.db);
    layers.problems.extend(reader.problems);
    layers.refused.tables.extend(reader.refused.tables);
    layers.refused.entries.extend(reader.refused.entries);
}

const DUPLICATE_KEY: &str = "the key occurs twice";
const DUPLICATE_FIELD: &str = "the field occurs twice";
/// Longest key of an entry in bytes. A key with a list of 512 ports is shorter. Each error of an entry contains its
/// key, so without a limit, the errors of one entry could fill the memory.
const KEY_BYTES_MAX: usize = 8_192;
/// Number of characters of a key that is too long in its error.
const SHOWN_KEY_CHARS: usize = 40;

/// The state of reading one layer.
#[derive(Default)]
struct LayerReader<'a> {
    source: &'a str,
    db: ConfigDb,
    problems: Vec<Problem>,
    /// Locations of values without quotes.
    unquoted_locations: Vec<String>,
    refused: RefusedObjects,
    chassis: ChassisKeyFilter,
    queues: QueueFilter,
}

/// The location of a field. If the name of the field is empty, the location of an entry.
#[derive(Clone, Copy)]
struct FieldLocation<'a> {
    table: &'a str,
    key: &'a str,
    field: &'a str,
}

impl FieldLocation<'_> {
    fn problem(self, why: impl Into<String>) -> Problem {
        Problem::at_field(self.table, self.key, self.field, why)
    }
}

/// Returns the error for a key that is too long.
fn describe_long_key(table: &str, key: &str) -> Problem {
    let start: String = key.chars().take(SHOWN_KEY_CHARS).collect();
    let length = count_noun(key.len() as u64, "byte");
    let limit = group_thousands(KEY_BYTES_MAX as u64);
    let why = format!("the key has {length}, at most {limit} are possible");
    Problem::at_field(table, &format!("{start}..."), "", why).with_fix("use a shorter name")
}

impl LayerReader<'_> {
    /// Adds an error to the errors of this layer.
    fn report(&mut self, problem: Problem) {
        self.problems.push(Problem {
            source: self.source.to_owned(),
            ..problem
        });
    }

    fn read_tables(&mut self, tables: Vec<(String, JsonValue)>) {
        for (name, entries) in tables {
            let name = name.as_str();
            if !schema::is_table_name(name) {
                let problem = Problem::at_field(name, "", "", NO_SUCH_TABLE);
                self.report(match nearest_name(name, schema::table_names()) {
                    Some(meant) => problem.with_fix(format!("did you mean {meant}?")),
                    None if name == "preset" => problem.with_fix(
                        "name a preset with --preset NAME, or in a lab file with `config: {preset: NAME}`",
                    ),
                    None => problem,
                });
                continue;
            }
            if self.db.tables.contains_key(&name as &dyn NaturalName) || self.db.removals.has_table(name) {
                self.report(
                    Problem::at_field(name, "", "", "the table occurs twice").with_fix("remove one of them"),
                );
            }
            if entries == JsonValue::Null {
                self.db.removals.add_table(name);
                continue;
            }
            self.db.tables.entry(name.into()).or_default();
            match entries {
                JsonValue::Object(entries) => self.read_entries(name, entries),
                other => {
                    let why = format!("expected an object of entries, found {}", other.describe_kind());
                    self.refused.tables.insert(name.to_owned());
                    self.report(Problem::at_field(name, "", "", why));
                }
            }
        }
    }

    /// Reads the entries of one table.
    fn read_entries(&mut self, table: &str, entries: Vec<(String, JsonValue)>) {
        for (key, fields) in entries {
            if key.len() > KEY_BYTES_MAX {
                self.report(describe_long_key(table, &key));
                continue;
            }
            let Some(key) = self.chassis.local_key(table, key) else {
                continue;
            };
            let table_schema = schema::find_table_for_key(table, &key);
            if fields == JsonValue::Null {
                self.read_entry_removal(table, table_schema, &key);
                continue;
            }
            let JsonValue::Object(fields) = fields else {
                let why = format!("expected an object of fields, found {}", fields.describe_kind());
                self.report(Problem::at_field(table, &key, "", why));
                self.db.insert(table, &key, "", "");
                continue;
            };
            let location = FieldLocation {
                table,
                key: &key,
                field: "",
            };
            let (entry, removed) = self.read_fields(location, table_schema, fields);
            for key in split_port_list(table_schema, &key) {
                if let Some(key) = self
                    .queues
                    .limit_key_to_supported_queues(table, table_schema, &key)
                {
                    self.store_entry(
                        FieldLocation {
                            key: &key,
                            ..location
                        },
                        table_schema,
                        &entry,
                    );
                    for field in &removed {
                        self.db.removals.add_field(table, &key, field);
                    }
                }
            }
        }
    }

    /// Registers the removal of an entry (`null`). The key must be valid, but the lower layers need not
    /// contain the entry.
    fn read_entry_removal(&mut self, table: &str, table_schema: Option<&'static TableSchema>, key: &str) {
        for key in split_port_list(table_schema, key) {
            let Some(key) = self
                .queues
                .limit_key_to_supported_queues(table, table_schema, &key)
            else {
                continue;
            };
            let is_twice = self.db.entry(table, &key).is_some() || self.db.removals.has_entry(table, &key);
            if let Some(Err(why)) = table_schema.map(|table| table.check_key(&key)) {
                self.report(Problem::at_field(table, &key, "", why));
            } else if table_schema.is_some() && is_twice {
                self.report(Problem::at_field(table, &key, "", DUPLICATE_KEY).with_fix("remove one of them"));
            } else {
                self.db.removals.add_entry(table, &key);
            }
        }
    }

    /// Stores an entry under one key.
    fn store_entry(
        &mut self,
        location: FieldLocation<'_>,
        table_schema: Option<&'static TableSchema>,
        entry: &ConfigEntry,
    ) {
        if let Some(Err(why)) = table_schema.map(|table| table.check_key(location.key)) {
            let object = (location.table.to_owned(), location.key.to_owned());
            self.refused.entries.insert(object);
            self.report(location.problem(why));
            return;
        }
        if table_schema.is_some_and(TableSchema::has_number_range) {
            let other = self
                .db
                .keys(location.table)
                .find(|other| ranges_overlap(other, location.key));
            if let Some(other) = other {
                let why = format!("{other} of the same table has some of the same numbers");
                self.report(location.problem(why).with_fix("use each number in one key only"));
                return;
            }
        } else if table_schema.is_some() && self.db.entry(location.table, location.key).is_some() {
            self.report(location.problem(DUPLICATE_KEY).with_fix("remove one of them"));
            return;
        }
        if table_schema.is_some() && self.db.removals.has_entry(location.table, location.key) {
            self.report(location.problem(DUPLICATE_KEY).with_fix("remove one of them"));
            return;
        }
        let table = self.db.tables.entry(location.table.into()).or_default();
        table.insert(location.key.into(), entry.clone());
    }

    /// Reads the fields of an entry. Returns the fields with a value, and the names of the fields that the
    /// layer removes (`null`).
    fn read_fields(
        &mut self,
        location: FieldLocation<'_>,
        table_schema: Option<&'static TableSchema>,
        fields: Vec<(String, JsonValue)>,
    ) -> (ConfigEntry, Vec<String>) {
        let (mut entry, mut removed) = (ConfigEntry::new(), Vec::new());
        for (field, value) in fields {
            // Redis has no empty hashes. SONiC therefore writes the field `NULL` into an entry
            // without fields.
            if field == "NULL" && value == JsonValue::Text("NULL".to_owned()) {
                continue;
            }
            // In files from Redis, the name of a list ends with `@`.
            let name = field.strip_suffix('@').unwrap_or(&field);
            let location = FieldLocation {
                field: name,
                ..location
            };
            if value == JsonValue::Null {
                if self.check_field_removal(
                    location,
                    table_schema,
                    entry.contains_key(&name as &dyn NaturalName),
                ) {
                    removed.push(name.to_owned());
                }
                continue;
            }
            let Some(value) = self.read_value(location, table_schema, value) else {
                continue;
            };
            let checked = match table_schema {
                Some(table) => table.check_field(name, &value.text()),
                None => schema::check_ignored_field(location.table, name),
            };
            if let Err(why) = checked {
                self.report(location.problem(why).with_value(value.text()));
            } else if self
                .queues
                .is_unsupported_value(location.table, table_schema, &value.text())
            {
                continue;
            } else if (entry.insert(name.into(), value).is_some()
                || removed.iter().any(|field| field == name))
                && table_schema.is_some()
            {
                self.report(location.problem(DUPLICATE_FIELD).with_fix("remove one of them"));
            }
        }
        (entry, removed)
    }

    /// Checks that a layer can remove a field. The name of the field must be valid, and the same entry must
    /// not contain a value of the field. Returns false if the name is not valid.
    fn check_field_removal(
        &mut self,
        location: FieldLocation<'_>,
        table_schema: Option<&'static TableSchema>,
        has_value: bool,
    ) -> bool {
        let checked = match table_schema {
            Some(table) => table.check_field_name(location.field),
            None => schema::check_ignored_field(location.table, location.field),
        };
        if let Err(why) = checked {
            self.report(location.problem(why));
            return false;
        }
        if has_value && table_schema.is_some() {
            self.report(location.problem(DUPLICATE_FIELD).with_fix("remove one of them"));
        }
        true
    }

    /// Converts a JSON value into the value of a field. If the value is not valid, reports an error and
    /// returns `None`.
    fn read_value(
        &mut self,
        location: FieldLocation<'_>,
        table_schema: Option<&'static TableSchema>,
        value: JsonValue,
    ) -> Option<FieldValue> {
        let kind = table_schema.map_or(Some(ValueKind::Any), |table| match table.fields {
            TableFields::Named(_) => match table.find_field(location.field) {
                Some(field) => Some(field.kind),
                None => table.has_ignored_field(location.field).then_some(ValueKind::Any),
            },
            TableFields::Map { .. } => Some(ValueKind::number(0, 0, "")),
            TableFields::ByPort(kind) => Some(kind),
        });
        match value {
            // No code reads this value, so the text is kept.
            JsonValue::Object(_) if kind == Some(ValueKind::Any) => Some(FieldValue::Text(value.to_string())),
            JsonValue::List(items) => {
                let items: Option<Vec<String>> = items
                    .into_iter()
                    .map(|item| self.read_scalar(location, item))
                    .collect();
                match kind {
                    Some(ValueKind::Any) => items.map(FieldValue::List),
                    Some(ValueKind::Words(_)) => items.map(FieldValue::List),
                    Some(ValueKind::References(target)) => {
                        let names = items?
                            .into_iter()
                            .map(|name| self.read_reference(location, target, name));
                        names.collect::<Option<_>>().map(FieldValue::List)
                    }
                    Some(ValueKind::Priorities | ValueKind::Each(_) | ValueKind::Ports) => {
                        items.map(|items| FieldValue::Text(items.join(",")))
                    }
                    // The caller reports the unknown name of the field.
                    None => items.map(|items| FieldValue::Text(items.join(","))),
                    Some(_) => {
                        self.report(location.problem("expected a string, found a list"));
                        None
                    }
                }
            }
            scalar => {
                let text = self.read_scalar(location, scalar)?;
                match kind {
                    Some(ValueKind::Reference(target) | ValueKind::ReferenceOrNull(target)) => {
                        self.read_reference(location, target, text).map(FieldValue::Text)
                    }
                    Some(ValueKind::References(target)) => {
                        let names = schema::split_list(&text)
                            .map(|name| self.read_reference(location, target, name.to_owned()));
                        names.collect::<Option<_>>().map(FieldValue::List)
                    }
                    Some(kind @ ValueKind::Words(_)) => Some(FieldValue::from_text(kind, &text)),
                    // orchagent reads numbers with `stoul`, which skips blanks.
                    Some(ValueKind::Number { .. } | ValueKind::NumberOr(..)) => {
                        Some(FieldValue::Text(text.trim().to_owned()))
                    }
                    _ => Some(FieldValue::Text(text)),
                }
            }
        }
    }

    /// Returns the name in a reference. In old files, a reference such as `[BUFFER_POOL|x]` also contains the
    /// table `target`, which is removed.
    fn read_reference(&mut self, location: FieldLocation<'_>, target: &str, text: String) -> Option<String> {
        match schema::parse_old_reference(&text) {
            None => Some(text),
            Some((table, name)) if table == target => Some(name.to_owned()),
            Some(_) => {
                self.report(
                    location
                        .problem(format!("expected a reference to {target}"))
                        .with_value(text),
                );
                None
            }
        }
    }

    /// Converts a scalar into text. A note later lists the numbers and booleans without quotes.
    fn read_scalar(&mut self, location: FieldLocation<'_>, value: JsonValue) -> Option<String> {
        let unquoted_locations = match value {
            JsonValue::Text(text) => return Some(text),
            JsonValue::Number(number) => number,
            JsonValue::Bool(truth) => truth.to_string(),
            other => {
                self.report(location.problem(format!("expected a string, found {}", other.describe_kind())));
                return None;
            }
        };
        self.unquoted_locations
            .push(format!("{}|{} {}", location.table, location.key, location.field));
        Some(unquoted_locations)
    }

    /// Adds a note about values without quotes. Such values are no error, because the tools of SONiC
    /// accept them.
    fn add_unquoted_note(&mut self) {
        let Some(first) = self.unquoted_locations.first() else {
            return;
        };
        let more = match self.unquoted_locations.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        self.db.notes.push(format!(
            "{}: {first}{more}: written without quotes; SONiC writes every value as a string, and xoff reads it as a string",
            self.source
        ));
    }
}

/// Splits a key with several ports, such as `Ethernet0,Ethernet4|3-4` in old files, into one key for
/// each port.
fn split_port_list(table: Option<&TableSchema>, key: &str) -> Vec<String> {
    let position = table.and_then(|t| {
        t.key
            .iter()
            .position(|p| matches!(p, KeyPart::Port | KeyPart::PortOrGlobal))
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

/// Returns whether two keys of a table have the same port and overlapping numbers.
fn ranges_overlap(a: &str, b: &str) -> bool {
    match (parse_range_key(a), parse_range_key(b)) {
        (Some((owner_a, first_a, last_a)), Some((owner_b, first_b, last_b))) => {
            owner_a == owner_b && first_a <= last_b && first_b <= last_a
        }
        _ => false,
    }
}
