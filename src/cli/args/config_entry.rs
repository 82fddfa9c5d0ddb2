//! Arguments of `xoff config set`: an entry of the configuration, and fields with values.

use std::str::FromStr;

use serde_json::{Map, Value, json};

/// The name of an entry of the configuration: `TABLE|KEY`. A key may contain further bars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryName {
    table: String,
    key: String,
}

impl FromStr for EntryName {
    type Err = String;

    fn from_str(text: &str) -> Result<EntryName, String> {
        match text.split_once('|') {
            Some((table, key)) if !table.is_empty() && !key.is_empty() => Ok(EntryName {
                table: table.to_owned(),
                key: key.to_owned(),
            }),
            _ => Err(
                "write the table and the key with a bar between them, such as 'PORT|Ethernet4'".to_owned(),
            ),
        }
    }
}

impl EntryName {
    /// Returns the merge patch that sets fields of this entry. A field with a list in `current` gets a list.
    pub(crate) fn patch(&self, fields: &[FieldValue], current: &Value) -> Value {
        let entry = &current[&self.table][&self.key];
        let value = |field: &FieldValue| match entry[&field.name] {
            Value::Array(_) => field.value.split(',').filter(|item| !item.is_empty()).collect(),
            _ => Value::from(field.value.as_str()),
        };
        let fields: Map<String, Value> = fields
            .iter()
            .map(|field| (field.name.clone(), value(field)))
            .collect();
        json!({ &self.table: { &self.key: fields } })
    }
}

/// A field and its new value: `FIELD=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldValue {
    name: String,
    value: String,
}

impl FromStr for FieldValue {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldValue, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(FieldValue {
                name: name.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("write the field and its value with an equals sign, such as speed=10000".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_makes_a_merge_patch_of_one_entry() {
        let current = json!({"ACL_TABLE": {"A": {"ports": ["Ethernet0"], "stage": "ingress"}}});
        let patch = |entry: &str, fields: &[&str]| {
            let fields: Vec<FieldValue> = fields.iter().map(|field| field.parse().unwrap()).collect();
            entry.parse::<EntryName>().unwrap().patch(&fields, &current)
        };
        assert_eq!(
            patch("BUFFER_PG|Ethernet0|3-4", &["profile=p", "x=a=b", "y="]),
            json!({"BUFFER_PG": {"Ethernet0|3-4": {"profile": "p", "x": "a=b", "y": ""}}})
        );
        assert_eq!(
            patch("ACL_TABLE|A", &["ports=Ethernet0,Ethernet4", "stage=egress"]),
            json!({"ACL_TABLE": {"A": {"ports": ["Ethernet0", "Ethernet4"], "stage": "egress"}}})
        );
        assert!("PORT".parse::<EntryName>().is_err() && "|x".parse::<EntryName>().is_err());
        assert!("speed".parse::<FieldValue>().is_err() && "=1".parse::<FieldValue>().is_err());
    }
}
