//! Checks of keys, field names and values against the schema of their table.

use super::{KeyPart, TableFields, TableSchema, all_tables, sonic_names, unknown_field_message, value};

impl TableSchema {
    /// Checks every part of a key. The error contains the expected form.
    pub(crate) fn check_key(&self, key: &str) -> Result<(), String> {
        let parts: Vec<&str> = key.split('|').collect();
        if parts.len() != self.key.len() {
            let forms: Vec<String> = all_tables()
                .filter(|table| table.name == self.name)
                .map(TableSchema::key_form)
                .collect();
            return Err(format!("expected a key of the form {}", forms.join(", or ")));
        }
        for (part, text) in self.key.iter().zip(parts) {
            part.check_text(text)
                .map_err(|expected| format!("{text:?} in the key: expected {expected}"))?;
        }
        Ok(())
    }

    /// Returns the form of the keys as text, such as `PORT|NUMBER or FIRST-LAST`, for messages and documents.
    pub(super) fn key_form(&self) -> String {
        let part = |part: &KeyPart| match part {
            KeyPart::Port => "PORT",
            KeyPart::PortOrGlobal => "PORT or global",
            KeyPart::Only(word) => word,
            KeyPart::Object => "NAME",
            KeyPart::Numbers | KeyPart::Queues => "NUMBER or FIRST-LAST",
            KeyPart::PortOrLag => "PORT or PortChannelNUMBER",
            KeyPart::Vlan | KeyPart::VlanReference => "VlanNUMBER",
            KeyPart::Lag | KeyPart::LagReference => "PortChannelNUMBER",
            KeyPart::Loopback => "LoopbackNUMBER",
            KeyPart::Interface => "INTERFACE",
            KeyPart::Address => "ADDRESS",
            KeyPart::Prefix => "ADDRESS/LENGTH",
            KeyPart::Vrf => "VRF",
        };
        self.key.iter().map(part).collect::<Vec<_>>().join("|")
    }

    /// Checks the name and the value of a field. The error contains the expected names or values.
    pub(crate) fn check_field(&self, field: &str, value: &str) -> Result<(), String> {
        self.check_field_name(field)?;
        match self.fields {
            TableFields::Map { to, .. } if !is_number_in_range(value, to.1) => {
                Err(format!("expected a {} from 0 to {}", to.0, to.1))
            }
            TableFields::Map { .. } => Ok(()),
            TableFields::ByPort(kind) => kind.check_value(value),
            TableFields::Named(_) => self
                .find_field(field)
                .map_or(Ok(()), |known| known.kind.check_value(value)),
        }
    }

    /// Checks the name of a field. The error contains the expected form, or a similar name.
    pub(crate) fn check_field_name(&self, field: &str) -> Result<(), String> {
        match self.fields {
            TableFields::Map { from, .. } => {
                let plain = field == "0" || !field.starts_with('0');
                match plain && is_number_in_range(field, from.1) {
                    true => Ok(()),
                    false => Err(format!(
                        "expected a {} from 0 to {} as the field's name",
                        from.0, from.1
                    )),
                }
            }
            TableFields::ByPort(_) if value::is_object_name(field) => Ok(()),
            TableFields::ByPort(_) => {
                Err("expected a port name such as Ethernet0 as the field's name".to_owned())
            }
            TableFields::Named(_) if self.find_field(field).is_some() || self.has_ignored_field(field) => {
                Ok(())
            }
            TableFields::Named(fields) => {
                let unused = sonic_names::field_names(self.name).filter(|name| self.has_ignored_field(name));
                let known = fields.iter().map(|known| known.name).chain(unused);
                Err(unknown_field_message(field, known))
            }
        }
    }
}

/// Returns whether the name begins with `lo`, as loopback interfaces of Linux do. SONiC's model accepts
/// such names.
fn is_linux_loopback(text: &str) -> bool {
    text.starts_with("lo") && value::is_object_name(text)
}

/// Returns whether the text is a whole number from 0 to `max`.
fn is_number_in_range(text: &str, max: u64) -> bool {
    value::parse_number(text).is_some_and(|number| (0..=i128::from(max)).contains(&number))
}

impl KeyPart {
    /// Checks the text of one part of a key. The error contains the expected form.
    fn check_text(self, text: &str) -> Result<(), String> {
        let (fits, expected) = match self {
            KeyPart::Port => (value::is_object_name(text), "a port name such as Ethernet0"),
            KeyPart::PortOrGlobal => (
                value::is_object_name(text),
                "a port name such as Ethernet0, or global",
            ),
            KeyPart::Only(word) => (text == word, word),
            KeyPart::Object => (
                value::is_object_name(text),
                "a name of letters, digits and . _ - / : @ # + ~ % & = *",
            ),
            KeyPart::Numbers => (
                value::parse_number_range(text).is_some(),
                "a number from 0 to 7, or a range such as 3-4",
            ),
            KeyPart::Queues => (
                value::parse_queue_range(text).is_some(),
                "a queue from 0 to 15, or a range such as 3-4",
            ),
            KeyPart::Vlan | KeyPart::VlanReference => (
                value::parse_vlan_id(text).is_some(),
                "a VLAN from Vlan2 to Vlan4094",
            ),
            KeyPart::PortOrLag => (
                value::is_object_name(text),
                "a port or LAG such as Ethernet0 or PortChannel1",
            ),
            KeyPart::Lag | KeyPart::LagReference => (
                value::is_lag_name(text),
                "a LAG from PortChannel0 to PortChannel9999",
            ),
            KeyPart::Loopback => (
                value::is_loopback_name(text) || is_linux_loopback(text),
                "a loopback interface from Loopback0 to Loopback999",
            ),
            KeyPart::Interface => (
                value::is_object_name(text),
                "an interface such as Ethernet0 or Vlan10",
            ),
            KeyPart::Address => (
                value::is_ip_address(text),
                "an IP address such as 10.0.0.1 or 2001:db8::1",
            ),
            KeyPart::Prefix => (
                value::parse_prefix(text).is_some(),
                "an IP address, with or without the length of its network, such as 10.0.0.1/31 or 2001:db8::1",
            ),
            KeyPart::Vrf => (
                value::is_vrf_name(text),
                "default, mgmt or a name that begins with Vrf",
            ),
        };
        if fits { Ok(()) } else { Err(expected.to_owned()) }
    }
}
