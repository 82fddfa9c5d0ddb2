//! Parsers of flow lists, which are files with flows for a replay.

use thiserror::Error;
use xoff_units::{Picos, count_noun};

use super::spec::{FLOWS_MAX, FlowSpec, Repeat};

/// The format of a flow list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowListFormat {
    /// Lines of the form `src,dst,bytes,start_ns`. A header line that begins with `src` is optional. The
    /// caller of [`parse_flow_list`] resolves the hosts. `start_ns` may have decimals.
    Csv,
    /// The number of flows, followed by six words for each flow: `src dst priority dst_port bytes start_s`.
    /// `src` and `dst` are node numbers. HPCC's `traffic_gen.py` writes this format. As in the ns-3 model
    /// of HPCC (`third.cc`, `ReadFlowInput`), any white space separates words, and text after the last flow
    /// is ignored.
    Ns3,
}

/// A flow of a flow list: one message from a host to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedFlow {
    /// Index of the sending host, as the caller of [`parse_flow_list`] resolved it.
    pub src: u32,
    /// Index of the receiving host, as the caller of [`parse_flow_list`] resolved it. This index differs
    /// from `src`.
    pub dst: u32,
    /// Payload of the message in bytes. A message of 0 bytes is one packet without payload.
    pub bytes: u64,
    /// Start time, counted from the start of the job.
    pub start: Picos,
    /// Priority 0 to 7, or `None` for the CSV format. A job ignores the priority: the traffic class comes
    /// from the transport of the job.
    pub priority: Option<u8>,
    /// Destination port, or `None` for the CSV format. A job ignores the port: its packets always have the
    /// RoCEv2 port 4791.
    pub dst_port: Option<u16>,
}

impl From<ListedFlow> for FlowSpec {
    fn from(flow: ListedFlow) -> FlowSpec {
        FlowSpec {
            src: flow.src,
            dst: flow.dst,
            bytes: flow.bytes,
            start: flow.start,
            repeat: Repeat::Once,
        }
    }
}

/// The reason why a text is not a valid flow list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct FlowListError {
    /// Line number, starting at 1. If the list ends too early, this is the line after the last line.
    pub line: usize,
    /// Column number in characters, starting at 1.
    pub column: usize,
    /// Description of the problem.
    pub problem: String,
}

/// A field and its position.
#[derive(Clone, Copy)]
struct Field<'a> {
    text: &'a str,
    line: usize,
    column: usize,
}

impl Field<'_> {
    fn error_at_field(&self, problem: impl Into<String>) -> FlowListError {
        FlowListError {
            line: self.line,
            column: self.column,
            problem: problem.into(),
        }
    }

    fn parse_number(&self, name: &str, max: u64) -> Result<u64, FlowListError> {
        match self.text.parse::<u64>() {
            Ok(number) if number <= max => Ok(number),
            Ok(number) => Err(self.error_at_field(format!("{name} {number} is more than {max}"))),
            Err(_) => Err(self.error_at_field(format!("`{}` is not a whole number ({name})", self.text))),
        }
    }

    /// Parses a decimal time whose unit is `10^digits` picoseconds. A number without an exponent is parsed
    /// with integer arithmetic, because a float is too imprecise for large start times. A number with an
    /// exponent is parsed as a float.
    fn parse_time(&self, digits: usize) -> Result<Picos, FlowListError> {
        let (whole, fraction) = self.text.split_once('.').unwrap_or((self.text, ""));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || whole.len() + fraction.len() == 0 {
            return self.parse_time_with_exponent(digits);
        }
        // Digits finer than a picosecond are cut.
        let fraction = &fraction[..fraction.len().min(digits)];
        let text = format!("{whole}{fraction:0<digits$}");
        let too_late = |_| self.error_at_field(format!("`{}` is later than model time can say", self.text));
        text.parse().map(Picos).map_err(too_late)
    }

    fn parse_time_with_exponent(&self, digits: usize) -> Result<Picos, FlowListError> {
        let has_exponent = self.text.contains(['e', 'E']);
        let number = self.text.parse::<f64>().ok().filter(|_| has_exponent);
        let picos = number.map(|number| number * 10_f64.powi(digits as i32));
        match picos {
            Some(picos) if (0.0..u64::MAX as f64).contains(&picos) => Ok(Picos(picos as u64)),
            _ => Err(self.error_at_field(format!("`{}` is not a time", self.text))),
        }
    }
}

/// Parses a flow list. `host` returns the index of the host for a name or number in the list, or an error
/// text if the name or number matches no host. Empty lines and lines that begin with `#` are ignored.
///
/// # Errors
///
/// Returns the first field that is wrong: an unknown host, a flow from a host to itself, an invalid number,
/// or a wrong number of fields. A list with more than [`FLOWS_MAX`] flows is also an error.
pub fn parse_flow_list(
    text: &str,
    format: FlowListFormat,
    host: &dyn Fn(&str) -> Result<u32, String>,
) -> Result<Vec<ListedFlow>, FlowListError> {
    match format {
        FlowListFormat::Csv => parse_csv(text, host),
        FlowListFormat::Ns3 => parse_ns3(text, host),
    }
}

type FindHost<'a> = &'a dyn Fn(&str) -> Result<u32, String>;

/// Returns the lines that are not ignored, with their numbers starting at 1.
fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

fn parse_csv(text: &str, host: FindHost<'_>) -> Result<Vec<ListedFlow>, FlowListError> {
    let mut flows = Vec::new();
    for (at, (number, line)) in content_lines(text).enumerate() {
        let fields = split_fields(line, number, ',');
        if at == 0 && fields.first().is_some_and(|field| field.text == "src") {
            continue;
        }
        let [src, dst, bytes, start] = fields[..] else {
            let problem = format!(
                "{} where `src,dst,bytes,start_ns` are expected",
                count_noun(fields.len() as u64, "field")
            );
            return Err(error_at_end_of_line(line, number, problem));
        };
        let [from, to] = parse_endpoints([src, dst], host)?;
        flows.push(ListedFlow {
            src: from,
            dst: to,
            bytes: bytes.parse_number("bytes", u64::MAX)?,
            start: start.parse_time(3)?,
            priority: None,
            dst_port: None,
        });
        if flows.len() > FLOWS_MAX {
            return Err(src.error_at_field(format!("there are more than {FLOWS_MAX} flows")));
        }
    }
    Ok(flows)
}

fn parse_ns3(text: &str, host: FindHost<'_>) -> Result<Vec<ListedFlow>, FlowListError> {
    const FLOW: &str = "`src dst priority dst_port bytes start_s`";
    let mut words = content_lines(text).flat_map(|(number, line)| {
        let words = split_fields(line, number, ' ');
        words.into_iter().filter(|word| !word.text.is_empty())
    });
    let end = || FlowListError {
        line: text.lines().count() + 1,
        column: 1,
        problem: String::new(),
    };
    let Some(first) = words.next() else {
        let problem = "the list is empty; the first word is the number of flows".to_owned();
        return Err(FlowListError { problem, ..end() });
    };
    let count = first.parse_number("the number of flows", FLOWS_MAX as u64)?;
    let mut flows = Vec::new();
    for at in 0..count {
        let mut word = || {
            words.next().ok_or_else(|| {
                let announced = count_noun(count, "flow");
                let problem = format!("{announced} announced, but only {at} here; a flow is {FLOW}");
                FlowListError { problem, ..end() }
            })
        };
        let (src, dst, priority) = (word()?, word()?, word()?);
        let (port, bytes, start) = (word()?, word()?, word()?);
        let [from, to] = parse_endpoints([src, dst], host)?;
        flows.push(ListedFlow {
            src: from,
            dst: to,
            bytes: bytes.parse_number("bytes", u64::MAX)?,
            start: start.parse_time(12)?,
            priority: Some(priority.parse_number("priority", 7)? as u8),
            dst_port: Some(port.parse_number("destination port", u64::from(u16::MAX))? as u16),
        });
    }
    Ok(flows)
}

/// Finds the sender and the receiver of a flow. They must be different.
fn parse_endpoints(fields: [Field<'_>; 2], host: FindHost<'_>) -> Result<[u32; 2], FlowListError> {
    let find = |field: &Field<'_>| host(field.text).map_err(|problem| field.error_at_field(problem));
    let [src, dst] = [find(&fields[0])?, find(&fields[1])?];
    match src == dst {
        true => Err(fields[1].error_at_field("a flow from a host to itself")),
        false => Ok([src, dst]),
    }
}

/// Splits a line at a separator character. If `separator` is a space, any white space separates fields.
fn split_fields(line: &str, number: usize, separator: char) -> Vec<Field<'_>> {
    let separates = |letter: char| letter == separator || separator == ' ' && letter.is_whitespace();
    let mut fields = Vec::new();
    let mut at = 0;
    for piece in line.split(separates) {
        let begin = at + piece.len() - piece.trim_start().len();
        let before = line.get(..begin).unwrap_or(line);
        fields.push(Field {
            text: piece.trim(),
            line: number,
            column: before.chars().count() + 1,
        });
        let behind = line.get(at + piece.len()..).and_then(|rest| rest.chars().next());
        at += piece.len() + behind.map_or(0, char::len_utf8);
    }
    fields
}

fn error_at_end_of_line(line: &str, number: usize, problem: String) -> FlowListError {
    FlowListError {
        line: number,
        column: line.trim_end().chars().count() + 1,
        problem,
    }
}

#[cfg(test)]
#[path = "flow_list_tests.rs"]
mod tests;
