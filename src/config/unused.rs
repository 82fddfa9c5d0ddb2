//! Keys and values of SONiC that concern queues which this switch does not have: queues above 7, and queues of other line
//! cards and ASICs of a VOQ chassis. Reading leaves them out and names them in a note.

use std::collections::BTreeSet;

use super::json::Json;
use super::schema::{self, Fields, Part, Table};

/// Tables whose keys are `HOST|ASIC|PORT|RANGE` on a line card of a VOQ chassis.
const CHASSIS_TABLES: [&str; 2] = ["BUFFER_QUEUE", "QUEUE"];

/// The last queue of a port.
const QUEUE_LAST: u8 = 7;

/// The names of this line card and ASIC, and the keys that belong to others.
#[derive(Debug, Default)]
pub(super) struct ChassisKeys {
    host: Option<String>,
    asic: Option<String>,
    others: BTreeSet<String>,
    others_count: usize,
}

impl ChassisKeys {
    /// Reads `hostname` and `asic_name` of `DEVICE_METADATA|localhost`. A selected ASIC wins over `asic_name`. A name that
    /// is missing matches every key.
    pub(super) fn new(tables: &[(String, Json)], asic: Option<&str>) -> ChassisKeys {
        let metadata = member(tables, "DEVICE_METADATA").and_then(|entries| member(entries, "localhost"));
        let text = |field: &str| {
            let (_, value) = metadata?.iter().find(|(name, _)| name == field)?;
            match value {
                Json::Text(text) => Some(text.clone()),
                _ => None,
            }
        };
        ChassisKeys {
            host: text("hostname"),
            asic: asic.map(str::to_owned).or_else(|| text("asic_name")),
            ..ChassisKeys::default()
        }
    }

    /// `PORT|RANGE` of a key `HOST|ASIC|PORT|RANGE` of this line card and ASIC; `None` for one of another. Other keys are
    /// returned as they are.
    pub(super) fn own_key(&mut self, table: &str, key: String) -> Option<String> {
        let parts: Vec<&str> = key.split('|').collect();
        let [host, asic, port, range] = parts[..] else {
            return Some(key);
        };
        if !CHASSIS_TABLES.contains(&table) {
            return Some(key);
        }
        let is_own = |own: &Option<String>, name: &str| {
            own.as_deref().is_none_or(|own| own.eq_ignore_ascii_case(name))
        };
        if is_own(&self.host, host) && is_own(&self.asic, asic) {
            return Some(format!("{port}|{range}"));
        }
        self.others.insert(format!("{host}|{asic}"));
        self.others_count += 1;
        None
    }

    /// The keys of others, in one sentence.
    pub(super) fn note(&self) -> Option<String> {
        let first = self.others.first()?;
        let more = match self.others.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "any".to_owned());
        Some(format!(
            "no effect: {} keys of {} belong to other line cards or ASICs ({first}{more}); this one is {}|{}",
            self.others_count,
            CHASSIS_TABLES.join(" and "),
            name(&self.host),
            name(&self.asic),
        ))
    }
}

fn member<'a>(fields: &'a [(String, Json)], name: &str) -> Option<&'a Vec<(String, Json)>> {
    match fields.iter().find(|(own, _)| own == name)? {
        (_, Json::Object(fields)) => Some(fields),
        _ => None,
    }
}

/// Keys and map values that name queues above 7.
#[derive(Debug, Default)]
pub(super) struct UnusedQueues {
    tables: BTreeSet<String>,
    count: usize,
}

impl UnusedQueues {
    /// The part of a key that this switch has: `Ethernet0|0-7` of `Ethernet0|0-9`, `None` of `Ethernet0|8`.
    pub(super) fn used_key(&mut self, table: &str, known: Option<&Table>, key: &str) -> Option<String> {
        let is_queues = known.is_some_and(|table| table.key.contains(&Part::Queues));
        let range = key.rsplit_once('|').filter(|_| is_queues);
        let Some((port, (first, last))) =
            range.and_then(|(port, range)| Some((port, schema::parse_queues(range)?)))
        else {
            return Some(key.to_owned());
        };
        if last <= QUEUE_LAST {
            return Some(key.to_owned());
        }
        self.add(table);
        match first {
            _ if first > QUEUE_LAST => None,
            QUEUE_LAST => Some(format!("{port}|{first}")),
            _ => Some(format!("{port}|{first}-{QUEUE_LAST}")),
        }
    }

    /// Whether a map's value is a queue that this switch does not have.
    pub(super) fn is_unused_value(&mut self, table: &str, known: Option<&Table>, value: &str) -> bool {
        let Some(Fields::Map { used_max, .. }) = known.map(|table| &table.fields) else {
            return false;
        };
        let is_unused = value.parse().is_ok_and(|number: u64| number > *used_max);
        if is_unused {
            self.add(table);
        }
        is_unused
    }

    fn add(&mut self, table: &str) {
        self.tables.insert(table.to_owned());
        self.count += 1;
    }

    /// The tables that name such queues, in one sentence.
    pub(super) fn note(&self) -> Option<String> {
        let tables: Vec<&str> = self.tables.iter().map(String::as_str).collect();
        (self.count > 0).then(|| {
            format!(
                "no effect: queues above {QUEUE_LAST} in {} entries of {}; ports have queues 0 to {QUEUE_LAST}",
                self.count,
                tables.join(", ")
            )
        })
    }
}
