//! Joins the notes about the devices of several ports that differ only in the names of port and device.

/// Number of names that a joined note lists. Further names are only counted ("and N more").
const NAMES_LISTED: usize = 4;

/// A note about the device of a port. The text begins with the name of the port and a colon.
#[derive(Clone, Debug)]
pub(super) struct PortNote {
    /// The name of the port.
    pub(super) port: String,
    /// The complete text.
    pub(super) text: String,
}

/// Several notes that differ only in names.
struct NoteGroup {
    /// The text without names.
    pattern: String,
    /// The text of the first note, without its port.
    first: String,
    ports: Vec<String>,
    /// The first device in the text of each note, with the names in parentheses after it.
    devices: Vec<String>,
}

/// Joins notes with the same text, except for the names of port and device. The order of the first notes is
/// kept.
pub(super) fn join_port_notes(notes: Vec<PortNote>) -> Vec<String> {
    let mut groups: Vec<NoteGroup> = Vec::new();
    for PortNote { port, text } in notes {
        let body = text
            .strip_prefix(&format!("{port}: "))
            .unwrap_or(&text)
            .to_owned();
        let devices = quoted_names(&body);
        let pattern = replace_names(&body, &devices, &port);
        let device = devices
            .first()
            .map_or_else(String::new, |device| label_of_device(&body, device));
        match groups.iter_mut().find(|group| group.pattern == pattern) {
            Some(group) => {
                group.ports.push(port);
                group.devices.push(device);
            }
            None => groups.push(NoteGroup {
                pattern,
                first: body,
                ports: vec![port],
                devices: vec![device],
            }),
        }
    }
    groups.into_iter().map(NoteGroup::into_text).collect()
}

impl NoteGroup {
    fn into_text(self) -> String {
        let ports = list_names(&self.ports);
        match self
            .devices
            .get(1..)
            .filter(|others| others.iter().any(|device| !device.is_empty()))
        {
            None => format!("{ports}: {}", self.first),
            Some(others) => {
                format!("{ports}: {}; the same for {}", self.first, list_names(others))
            }
        }
    }
}

/// Returns a device in quotes, with the part in parentheses that directly follows its name in the text. This part
/// tells apart far ends that have the same name in different namespaces.
fn label_of_device(text: &str, device: &str) -> String {
    let quoted = format!("'{device}'");
    let details = text
        .split_once(&quoted)
        .and_then(|(_, after)| after.strip_prefix(" ("))
        .and_then(|after| after.split_once(')'))
        .map(|(details, _)| details)
        .filter(|details| details.starts_with('\''));
    match details {
        Some(details) => format!("{quoted} ({details})"),
        None => quoted,
    }
}

/// Returns the names in single quotes. An apostrophe within a word, as in `kernel's`, is no quote.
fn quoted_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('\'') {
        let is_quote = !rest[..open].ends_with(|c: char| c.is_alphanumeric());
        rest = &rest[open + 1..];
        if is_quote && let Some((name, after)) = rest.split_once('\'') {
            if !name.is_empty() && !name.contains(' ') {
                names.push(name);
            }
            rest = after;
        }
    }
    names
}

/// Replaces the names of devices and of the port by their positions.
fn replace_names(text: &str, devices: &[&str], port: &str) -> String {
    let is_part_of_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut pattern = String::new();
    let mut word = String::new();
    let finish_word = |word: &mut String, pattern: &mut String| {
        match devices.iter().position(|device| device == word) {
            Some(index) => pattern.push_str(&format!("\u{0}{index}")),
            None if word == port => pattern.push('\u{1}'),
            None => pattern.push_str(word),
        }
        word.clear();
    };
    for c in text.chars() {
        if is_part_of_name(c) {
            word.push(c);
            continue;
        }
        finish_word(&mut word, &mut pattern);
        pattern.push(c);
    }
    finish_word(&mut word, &mut pattern);
    pattern
}

/// Formats a list as `a, b, c, d and 28 more`.
fn list_names(names: &[String]) -> String {
    let listed = names[..names.len().min(NAMES_LISTED)].join(", ");
    match names.len().saturating_sub(NAMES_LISTED) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes_of(port: &str, device: &str, peer: &str) -> Vec<PortNote> {
        let texts = [
            format!(
                "{port}: the kernel's IPv6 on '{device}' is off now (`sysctl -w net.ipv6.conf.{device}.disable_ipv6=1`)"
            ),
            format!(
                "{port}: offloads of the far end of '{device}' ('eth0' in namespace '{peer}') are off now (`ip netns \
                 exec {peer} ethtool -K eth0 tx off`)"
            ),
        ];
        let note = |text| PortNote {
            port: port.to_owned(),
            text,
        };
        texts.into_iter().map(note).collect()
    }

    #[test]
    fn notes_that_differ_in_names_are_one_note() {
        let ports =
            (0..6).map(|n| notes_of(&format!("Ethernet{}", 4 * n), &format!("v{n}"), &format!("h{n}")));
        let joined = join_port_notes(ports.flatten().collect());
        assert_eq!(
            joined,
            [
                "Ethernet0, Ethernet4, Ethernet8, Ethernet12 and 2 more: the kernel's IPv6 on 'v0' is off now (`sysctl \
                 -w net.ipv6.conf.v0.disable_ipv6=1`); the same for 'v1', 'v2', 'v3', 'v4' and 1 more",
                "Ethernet0, Ethernet4, Ethernet8, Ethernet12 and 2 more: offloads of the far end of 'v0' ('eth0' in \
                 namespace 'h0') are off now (`ip netns exec h0 ethtool -K eth0 tx off`); the same for 'v1' ('eth0' in \
                 namespace 'h1'), 'v2' ('eth0' in namespace 'h2'), 'v3' ('eth0' in namespace 'h3'), 'v4' ('eth0' in \
                 namespace 'h4') and 1 more",
            ]
        );
    }

    #[test]
    fn other_notes_stay_as_they_are() {
        let mut notes = notes_of("Ethernet0", "v0", "h0");
        let texts: Vec<String> = notes.iter().map(|note| note.text.clone()).collect();
        assert_eq!(join_port_notes(notes.clone()), texts);
        notes.push(PortNote {
            port: "Ethernet4".to_owned(),
            text: "port Ethernet4: there is no network device 'v1'; Ethernet4 is down".to_owned(),
        });
        assert_eq!(join_port_notes(notes).len(), 3);
    }
}
