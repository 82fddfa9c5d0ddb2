//! Lists of flows to replay.

use thiserror::Error;
use xoff_dataplane::Picos;

use super::spec::{FLOWS_MAX, FlowSpec, Repeat};

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowListFormat {
    /// `src,dst,bytes,start_ns`, with or without that header line. Hosts by name, or by index where no name fits.
    Csv,
    /// `src dst priority dst_port bytes start_s`, hosts by index; the first line is the number of flows. Written by
    /// HPCC's `traffic_gen.py` and read by its ns-3 models.
    Ns3,
}

/// A flow of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedFlow {
    /// Index of the host that has the data.
    pub src: u32,
    /// Index of the host that gets it.
    pub dst: u32,
    /// Payload in bytes.
    pub bytes: u64,
    /// When it starts, from the start of the job.
    pub start: Picos,
    /// Priority, where the format has one: 0 to 7.
    pub priority: Option<u8>,
    /// Destination port, where the format has one. RoCEv2 has its own; it is read for completeness.
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

/// Why a text is no list of flows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct FlowListError {
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: String,
}

/// A field and where it begins.
#[derive(Clone, Copy)]
struct Field<'a> {
    text: &'a str,
    line: usize,
    column: usize,
}

impl Field<'_> {
    fn error(&self, problem: impl Into<String>) -> FlowListError {
        FlowListError {
            line: self.line,
            column: self.column,
            problem: problem.into(),
        }
    }

    fn number(&self, what: &str, most: u64) -> Result<u64, FlowListError> {
        match self.text.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            Ok(number) => Err(self.error(format!("{what} {number} is more than {most}"))),
            Err(_) => Err(self.error(format!("`{}` is not a whole number ({what})", self.text))),
        }
    }

    /// A decimal number of a unit that has `10^digits` picoseconds. Not by way of a float: ns-3's lists have times
    /// of seconds to the nanosecond, which a float of that size cannot keep for ever.
    fn time(&self, digits: usize) -> Result<Picos, FlowListError> {
        let (whole, fraction) = self.text.split_once('.').unwrap_or((self.text, ""));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || whole.len() + fraction.len() == 0 {
            return Err(self.error(format!("`{}` is not a time", self.text)));
        }
        // What is finer than a picosecond is cut off.
        let fraction = &fraction[..fraction.len().min(digits)];
        let text = format!("{whole}{fraction:0<digits$}");
        let too_late = |_| self.error(format!("`{}` is later than model time can say", self.text));
        text.parse().map(Picos).map_err(too_late)
    }
}

/// Reads a list. `host` gives the index of a name; `hosts` is how many there are. Empty lines and lines that begin with
/// `#` do not count.
///
/// # Errors
///
/// The first field that is wrong.
pub fn parse_flow_list(
    text: &str,
    format: FlowListFormat,
    host: &dyn Fn(&str) -> Option<u32>,
    hosts: u32,
) -> Result<Vec<ListedFlow>, FlowListError> {
    let mut flows = Vec::new();
    let mut first = true;
    let mut announced = None;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let fields = fields(line, index + 1, format);
        if std::mem::replace(&mut first, false) {
            match (format, &fields[..]) {
                (FlowListFormat::Csv, [head, ..]) if head.text == "src" => continue,
                (FlowListFormat::Ns3, [count]) => {
                    announced = Some((*count, count.number("the number of flows", FLOWS_MAX as u64)?));
                    continue;
                }
                _ => {}
            }
        }
        flows.push(parse_flow(&fields, line, index + 1, format, host, hosts)?);
        if flows.len() > FLOWS_MAX {
            let here = fields.first().copied();
            let error = here.map(|field| field.error(format!("there are more than {FLOWS_MAX} flows")));
            return Err(
                error.unwrap_or_else(|| end_of_line(line, index + 1, "there are too many flows".to_owned()))
            );
        }
    }
    match announced {
        Some((field, count)) if count != flows.len() as u64 => Err(field.error(format!(
            "{count} flows are announced, but there are {}",
            flows.len()
        ))),
        _ => Ok(flows),
    }
}

fn fields(line: &str, number: usize, format: FlowListFormat) -> Vec<Field<'_>> {
    let is_separator = |letter: char| match format {
        FlowListFormat::Csv => letter == ',',
        FlowListFormat::Ns3 => letter.is_whitespace(),
    };
    let mut fields = Vec::new();
    let mut at = 0;
    for piece in line.split(is_separator) {
        let text = piece.trim();
        let begin = at + piece.len() - piece.trim_start().len();
        at += piece.len() + 1;
        if format == FlowListFormat::Csv || !text.is_empty() {
            let before = line.get(..begin).unwrap_or(line);
            fields.push(Field {
                text,
                line: number,
                column: before.chars().count() + 1,
            });
        }
    }
    fields
}

fn end_of_line(line: &str, number: usize, problem: String) -> FlowListError {
    FlowListError {
        line: number,
        column: line.trim_end().chars().count() + 1,
        problem,
    }
}

fn parse_flow(
    fields: &[Field<'_>],
    line: &str,
    number: usize,
    format: FlowListFormat,
    host: &dyn Fn(&str) -> Option<u32>,
    hosts: u32,
) -> Result<ListedFlow, FlowListError> {
    let by_index = |field: &Field<'_>| match field.text.parse::<u32>() {
        Ok(index) if index < hosts => Ok(index),
        _ => Err(field.error(format!("there is no host `{}`", field.text))),
    };
    let flow = match (format, fields) {
        (FlowListFormat::Csv, [src, dst, bytes, start]) => {
            let find = |field: &Field<'_>| host(field.text).map_or_else(|| by_index(field), Ok);
            ListedFlow {
                src: find(src)?,
                dst: find(dst)?,
                bytes: bytes.number("bytes", u64::MAX)?,
                start: start.time(3)?,
                priority: None,
                dst_port: None,
            }
        }
        (FlowListFormat::Ns3, [src, dst, priority, port, bytes, start]) => ListedFlow {
            src: by_index(src)?,
            dst: by_index(dst)?,
            bytes: bytes.number("bytes", u64::MAX)?,
            start: start.time(12)?,
            priority: Some(priority.number("priority", 7)? as u8),
            dst_port: Some(port.number("destination port", u64::from(u16::MAX))? as u16),
        },
        _ => {
            let expected = match format {
                FlowListFormat::Csv => "src,dst,bytes,start_ns",
                FlowListFormat::Ns3 => "src dst priority dst_port bytes start_s",
            };
            let problem = format!("{} fields where `{expected}` are expected", fields.len());
            return Err(end_of_line(line, number, problem));
        }
    };
    match &fields[1] {
        dst if flow.src == flow.dst => Err(dst.error("a flow from a host to itself")),
        _ => Ok(flow),
    }
}

#[cfg(test)]
#[path = "flow_list_tests.rs"]
mod tests;
