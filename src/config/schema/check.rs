//! Whether a key, and a field with its value, are what their table may hold.

use super::{Fields, Part, Table, nearest, value};

impl Table {
    /// Whether every part of a key is well-formed; `Err` says what is expected.
    pub(crate) fn check_key(&self, key: &str) -> Result<(), String> {
        let parts: Vec<&str> = key.split('|').collect();
        if parts.len() != self.key.len() {
            return Err(format!("expected a key of the form {}", self.key_form()));
        }
        for (part, text) in self.key.iter().zip(parts) {
            part.check(text)
                .map_err(|expected| format!("{text:?} in the key: expected {expected}"))?;
        }
        Ok(())
    }

    fn key_form(&self) -> String {
        let part = |part: &Part| match part {
            Part::Port => "PORT",
            Part::PortOrGlobal => "PORT or global",
            Part::Only(word) => word,
            Part::Object => "NAME",
            Part::Numbers => "NUMBER or FIRST-LAST",
            Part::Vlan | Part::VlanReference => "VlanNUMBER",
        };
        self.key.iter().map(part).collect::<Vec<_>>().join("|")
    }

    /// Whether the field exists and may have the value.
    pub(crate) fn check_field(&self, field: &str, value: &str) -> Result<(), String> {
        match self.fields {
            Fields::Map { from, to } => {
                let plain = field == "0" || !field.starts_with('0');
                if !plain || !in_range(field, from.1) {
                    return Err(format!(
                        "expected a {} from 0 to {} as the field's name",
                        from.0, from.1
                    ));
                }
                if !in_range(value, to.1) {
                    return Err(format!("expected a {} from 0 to {}", to.0, to.1));
                }
                Ok(())
            }
            Fields::Named(fields) => match self.field(field) {
                Some(known) => known.kind.check(value),
                None => match nearest(field, fields.iter().map(|f| f.name)) {
                    Some(meant) => Err(format!("no such field; did you mean {meant}?")),
                    None => Err("no such field".to_owned()),
                },
            },
        }
    }
}

fn in_range(text: &str, max: u64) -> bool {
    value::parse_number(text).is_some_and(|number| (0..=i128::from(max)).contains(&number))
}

impl Part {
    fn check(self, text: &str) -> Result<(), String> {
        let (fits, expected) = match self {
            Part::Port => (value::is_object_name(text), "a port name such as Ethernet0"),
            Part::PortOrGlobal => (
                value::is_object_name(text),
                "a port name such as Ethernet0, or global",
            ),
            Part::Only(word) => (text == word, word),
            Part::Object => (
                value::is_object_name(text),
                "a name of letters, digits and . _ - / :",
            ),
            Part::Numbers => (
                value::parse_numbers(text).is_some(),
                "a number from 0 to 7, or a range such as 3-4",
            ),
            Part::Vlan | Part::VlanReference => {
                (value::parse_vlan(text).is_some(), "a VLAN from Vlan2 to Vlan4094")
            }
        };
        if fits { Ok(()) } else { Err(expected.to_owned()) }
    }
}
