//! Checks of keys, field names and values against the schema of their table.

use super::{Fields, Part, Table, no_such_field, sonic, tables, value};

impl Table {
    /// Checks every part of a key. The error contains the expected form.
    pub(crate) fn check_key(&self, key: &str) -> Result<(), String> {
        let parts: Vec<&str> = key.split('|').collect();
        if parts.len() != self.key.len() {
            let forms: Vec<String> = tables()
                .filter(|table| table.name == self.name)
                .map(Table::key_form)
                .collect();
            return Err(format!("expected a key of the form {}", forms.join(", or ")));
        }
        for (part, text) in self.key.iter().zip(parts) {
            part.check(text)
                .map_err(|expected| format!("{text:?} in the key: expected {expected}"))?;
        }
        Ok(())
    }

    /// The form of the keys in messages and documents, such as `PORT|NUMBER or FIRST-LAST`.
    pub(super) fn key_form(&self) -> String {
        let part = |part: &Part| match part {
            Part::Port => "PORT",
            Part::PortOrGlobal => "PORT or global",
            Part::Only(word) => word,
            Part::Object => "NAME",
            Part::Numbers | Part::Queues => "NUMBER or FIRST-LAST",
            Part::PortOrLag => "PORT or PortChannelNUMBER",
            Part::Vlan | Part::VlanReference => "VlanNUMBER",
            Part::Lag | Part::LagReference => "PortChannelNUMBER",
            Part::Loopback => "LoopbackNUMBER",
            Part::Interface => "INTERFACE",
            Part::Address => "ADDRESS",
            Part::Prefix => "ADDRESS/LENGTH",
            Part::Vrf => "VRF",
        };
        self.key.iter().map(part).collect::<Vec<_>>().join("|")
    }

    /// Checks the name and the value of a field.
    pub(crate) fn check_field(&self, field: &str, value: &str) -> Result<(), String> {
        self.check_field_name(field)?;
        match self.fields {
            Fields::Map { to, .. } if !in_range(value, to.1) => {
                Err(format!("expected a {} from 0 to {}", to.0, to.1))
            }
            Fields::Map { .. } => Ok(()),
            Fields::ByPort(kind) => kind.check(value),
            Fields::Named(_) => self.field(field).map_or(Ok(()), |known| known.kind.check(value)),
        }
    }

    /// Checks the name of a field.
    pub(crate) fn check_field_name(&self, field: &str) -> Result<(), String> {
        match self.fields {
            Fields::Map { from, .. } => {
                let plain = field == "0" || !field.starts_with('0');
                match plain && in_range(field, from.1) {
                    true => Ok(()),
                    false => Err(format!(
                        "expected a {} from 0 to {} as the field's name",
                        from.0, from.1
                    )),
                }
            }
            Fields::ByPort(_) if value::is_object_name(field) => Ok(()),
            Fields::ByPort(_) => Err("expected a port name such as Ethernet0 as the field's name".to_owned()),
            Fields::Named(_) if self.field(field).is_some() || self.has_unused_field(field) => Ok(()),
            Fields::Named(fields) => {
                let unused = sonic::field_names(self.name).filter(|name| self.has_unused_field(name));
                let known = fields.iter().map(|known| known.name).chain(unused);
                Err(no_such_field(field, known))
            }
        }
    }
}

/// Whether the name begins with `lo`. SONiC's model accepts any name of a loopback interface.
fn is_linux_loopback(text: &str) -> bool {
    text.starts_with("lo") && value::is_object_name(text)
}

/// Whether the text is a whole number from 0 to `max`.
fn in_range(text: &str, max: u64) -> bool {
    value::parse_number(text).is_some_and(|number| (0..=i128::from(max)).contains(&number))
}

impl Part {
    /// Checks the text of one part of a key. The error contains the expected form.
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
                "a name of letters, digits and . _ - / : @ # + ~ % & = *",
            ),
            Part::Numbers => (
                value::parse_numbers(text).is_some(),
                "a number from 0 to 7, or a range such as 3-4",
            ),
            Part::Queues => (
                value::parse_queues(text).is_some(),
                "a queue from 0 to 15, or a range such as 3-4",
            ),
            Part::Vlan | Part::VlanReference => {
                (value::parse_vlan(text).is_some(), "a VLAN from Vlan2 to Vlan4094")
            }
            Part::PortOrLag => (
                value::is_object_name(text),
                "a port or LAG such as Ethernet0 or PortChannel1",
            ),
            Part::Lag | Part::LagReference => {
                (value::is_lag(text), "a LAG from PortChannel0 to PortChannel9999")
            }
            Part::Loopback => (
                value::is_loopback(text) || is_linux_loopback(text),
                "a loopback interface from Loopback0 to Loopback999",
            ),
            Part::Interface => (
                value::is_object_name(text),
                "an interface such as Ethernet0 or Vlan10",
            ),
            Part::Address => (
                value::is_address(text),
                "an IP address such as 10.0.0.1 or 2001:db8::1",
            ),
            Part::Prefix => (
                value::parse_prefix(text).is_some(),
                "an IP address, with or without the length of its network, such as 10.0.0.1/31 or 2001:db8::1",
            ),
            Part::Vrf => (
                value::is_vrf(text),
                "default, mgmt or a name that begins with Vrf",
            ),
        };
        if fits { Ok(()) } else { Err(expected.to_owned()) }
    }
}
