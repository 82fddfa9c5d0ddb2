//! Filters of SONiC entries for queues that do not exist in xoff. These are queues above 7, queues of the CPU
//! port, and, on a VOQ chassis, queues of other line cards and ASICs. The parser drops such entries and adds
//! a note.

use std::collections::BTreeSet;

use super::json::JsonValue;
use super::schema::{self, KeyPart, TableFields, TableSchema};
use xoff_units::count_noun;

/// Tables with keys of the form `HOST|ASIC|PORT|RANGE` on a line card of a VOQ chassis.
const CHASSIS_TABLES: [&str; 2] = ["BUFFER_QUEUE", "QUEUE"];

/// The last queue of a port.
const QUEUE_LAST: u8 = 7;

/// The host name of the configured line card, and the name of the configured ASIC. `None` matches every name.
#[derive(Clone, Debug, Default)]
pub(super) struct LineCard {
    host: Option<String>,
    asic: Option<String>,
}

impl LineCard {
    /// Updates the names from the next layer: `hostname` and `asic_name` of `DEVICE_METADATA|localhost`. The
    /// value `null` removes a name.
    pub(super) fn update_names(&mut self, tables: &[(String, JsonValue)]) {
        let member = |fields: &JsonValue, name: &str| match fields {
            JsonValue::Object(fields) => fields
                .iter()
                .find(|(own, _)| own == name)
                .map(|(_, value)| value.clone()),
            _ => None,
        };
        let Some((_, metadata)) = tables.iter().find(|(name, _)| name == "DEVICE_METADATA") else {
            return;
        };
        let localhost = match metadata {
            JsonValue::Null => JsonValue::Null,
            entries => match member(entries, "localhost") {
                Some(localhost) => localhost,
                None => return,
            },
        };
        for (name, field) in [(&mut self.host, "hostname"), (&mut self.asic, "asic_name")] {
            match (&localhost, member(&localhost, field)) {
                (JsonValue::Null, _) | (_, Some(JsonValue::Null)) => *name = None,
                (_, Some(JsonValue::Text(text))) => *name = Some(text),
                _ => {}
            }
        }
    }

    /// Sets the name of the ASIC that the caller has selected. This name takes precedence over `asic_name`.
    /// `None` changes nothing.
    pub(super) fn select_asic(&mut self, asic: Option<&str>) {
        if let Some(asic) = asic {
            self.asic = Some(asic.to_owned());
        }
    }

    /// Returns whether a key `HOST|ASIC|PORT|RANGE` belongs to this line card. As in orchagent, the
    /// comparison of ASIC names ignores case.
    fn owns_key(&self, host: &str, asic: &str) -> bool {
        let is_own_host = self.host.as_deref().is_none_or(|own| own == host);
        is_own_host
            && self
                .asic
                .as_deref()
                .is_none_or(|own| own.eq_ignore_ascii_case(asic))
    }
}

/// A filter for keys of a VOQ chassis. The filter drops and counts the keys that do not belong to the line
/// card and the ASIC of this switch.
#[derive(Debug, Default)]
pub(super) struct ChassisKeyFilter {
    own: LineCard,
    others: BTreeSet<String>,
    others_count: usize,
}

impl ChassisKeyFilter {
    pub(super) fn new(own: LineCard) -> ChassisKeyFilter {
        ChassisKeyFilter {
            own,
            ..ChassisKeyFilter::default()
        }
    }

    /// Shortens a key `HOST|ASIC|PORT|RANGE` to `PORT|RANGE` if the key belongs to this line card and ASIC.
    /// Returns `None` if the key belongs to another line card or ASIC. Keys of other forms stay unchanged.
    pub(super) fn local_key(&mut self, table: &str, key: String) -> Option<String> {
        let parts: Vec<&str> = key.split('|').collect();
        let [host, asic, port, range] = parts[..] else {
            return Some(key);
        };
        if !CHASSIS_TABLES.contains(&table) {
            return Some(key);
        }
        if self.own.owns_key(host, asic) {
            return Some(format!("{port}|{range}"));
        }
        self.others.insert(format!("{host}|{asic}"));
        self.others_count += 1;
        None
    }

    /// Returns a note about the dropped keys of other line cards and ASICs. Returns `None` if no key
    /// was dropped.
    pub(super) fn describe_skipped_keys(&self) -> Option<String> {
        let first = self.others.first()?;
        let more = match self.others.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "any".to_owned());
        Some(format!(
            "no effect: {} of {} {} to other line cards or ASICs ({first}{more}); this one is {}|{}",
            count_noun(self.others_count as u64, "key"),
            CHASSIS_TABLES.join(" and "),
            if self.others_count == 1 {
                "belongs"
            } else {
                "belong"
            },
            name(&self.own.host),
            name(&self.own.asic),
        ))
    }
}

/// A filter for queues that a port of xoff does not have. The filter counts the keys and the map values with
/// queues above 7.
#[derive(Debug, Default)]
pub(super) struct QueueFilter {
    /// Tables with queues of the port `CPU`.
    cpu_tables: BTreeSet<String>,
    /// Tables with queues above 7.
    tables: BTreeSet<String>,
    count: usize,
}

impl QueueFilter {
    /// Reduces a key to the queues 0 to 7. For example, `Ethernet0|0-9` becomes `Ethernet0|0-7`. Returns
    /// `None` if no queue is left (`Ethernet0|8`), and for queues of the port `CPU`.
    pub(super) fn limit_key_to_supported_queues(
        &mut self,
        table: &str,
        table_schema: Option<&TableSchema>,
        key: &str,
    ) -> Option<String> {
        let is_queues = table_schema.is_some_and(|table| table.key.contains(&KeyPart::Queues));
        let range = key.rsplit_once('|').filter(|_| is_queues);
        let Some((port, (first, last))) =
            range.and_then(|(port, range)| Some((port, schema::parse_queue_range(range)?)))
        else {
            return Some(key.to_owned());
        };
        if port == "CPU" {
            self.cpu_tables.insert(table.to_owned());
            return None;
        }
        if last <= QUEUE_LAST {
            return Some(key.to_owned());
        }
        self.count_entry(table);
        match first {
            _ if first > QUEUE_LAST => None,
            QUEUE_LAST => Some(format!("{port}|{first}")),
            _ => Some(format!("{port}|{first}-{QUEUE_LAST}")),
        }
    }

    /// Returns whether `value`, a value in a map to queues, is a queue above 7. Such a value is counted.
    pub(super) fn is_unsupported_value(
        &mut self,
        table: &str,
        table_schema: Option<&TableSchema>,
        value: &str,
    ) -> bool {
        let Some(TableFields::Map { used_max, .. }) = table_schema.map(|table| &table.fields) else {
            return false;
        };
        let is_unused = value.parse().is_ok_and(|number: u64| number > *used_max);
        if is_unused {
            self.count_entry(table);
        }
        is_unused
    }

    /// Counts an entry that was dropped or reduced.
    fn count_entry(&mut self, table: &str) {
        self.tables.insert(table.to_owned());
        self.count += 1;
    }

    /// Returns the notes about dropped queues: one about queues of the port `CPU`, and one about queues
    /// above 7.
    pub(super) fn describe_skipped_entries(&self) -> impl Iterator<Item = String> {
        let cpu_tables = (!self.cpu_tables.is_empty()).then(|| {
            let tables: Vec<&str> = self.cpu_tables.iter().map(String::as_str).collect();
            format!(
                "no effect: queues of CPU in {}; the CPU port has no queues",
                tables.join(", ")
            )
        });
        cpu_tables.into_iter().chain(self.describe_queues_out_of_range())
    }

    /// Returns the note about queues above 7.
    fn describe_queues_out_of_range(&self) -> Option<String> {
        let tables: Vec<&str> = self.tables.iter().map(String::as_str).collect();
        (self.count > 0).then(|| {
            format!(
                "no effect: queues above {QUEUE_LAST} in {} of {}; ports have queues 0 to {QUEUE_LAST}",
                count_noun(self.count as u64, "entry"),
                tables.join(", ")
            )
        })
    }
}
