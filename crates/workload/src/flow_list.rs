//! Lists of flows to replay.

use thiserror::Error;
use xoff_units::Picos;

use super::spec::{FLOWS_MAX, FlowSpec, Repeat};

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowListFormat {
    /// `src,dst,bytes,start_ns`, with or without that header line. Hosts by name, or by index where no name fits.
    Csv,
    /// The number of flows, then `src dst priority dst_port bytes start_s` of each; `src` and `dst` are node numbers. Written by
    /// HPCC's `traffic_gen.py`. Read as its ns-3 model reads it (`third.cc`, `ReadFlowInput`): words between blanks and line
    /// ends, as many flows as the first word says; the text behind them is ignored.
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
    /// Priority, where the format has one: 0 to 7. A job does not follow it: its transport has the class.
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

    /// A decimal number of a unit that has `10^digits` picoseconds. Plain decimals are not read by way of a float: ns-3's lists
    /// have seconds with nanoseconds, and a float of that size loses some. A number with an exponent is.
    fn time(&self, digits: usize) -> Result<Picos, FlowListError> {
        let (whole, fraction) = self.text.split_once('.').unwrap_or((self.text, ""));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || whole.len() + fraction.len() == 0 {
            return self.time_with_exponent(digits);
        }
        // What is finer than a picosecond is cut off.
        let fraction = &fraction[..fraction.len().min(digits)];
        let text = format!("{whole}{fraction:0<digits$}");
        let too_late = |_| self.error(format!("`{}` is later than model time can say", self.text));
        text.parse().map(Picos).map_err(too_late)
    }

    fn time_with_exponent(&self, digits: usize) -> Result<Picos, FlowListError> {
        let has_exponent = self.text.contains(['e', 'E']);
        let number = self.text.parse::<f64>().ok().filter(|_| has_exponent);
        let picos = number.map(|number| number * 10_f64.powi(digits as i32));
        match picos {
            Some(picos) if (0.0..u64::MAX as f64).contains(&picos) => Ok(Picos(picos as u64)),
            _ => Err(self.error(format!("`{}` is not a time", self.text))),
        }
    }
}

/// Reads a list. `host` gives the index of the host that a word of the list names, or says why there is none. Empty lines and
/// lines that begin with `#` do not count.
///
/// # Errors
///
/// The first field that is wrong.
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

/// The lines that count, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

fn parse_csv(text: &str, host: FindHost<'_>) -> Result<Vec<ListedFlow>, FlowListError> {
    let mut flows = Vec::new();
    for (at, (number, line)) in lines(text).enumerate() {
        let fields = fields(line, number, ',');
        if at == 0 && fields.first().is_some_and(|field| field.text == "src") {
            continue;
        }
        let [src, dst, bytes, start] = fields[..] else {
            let problem = format!(
                "{} fields where `src,dst,bytes,start_ns` are expected",
                fields.len()
            );
            return Err(end_of_line(line, number, problem));
        };
        let [from, to] = ends([src, dst], host)?;
        flows.push(ListedFlow {
            src: from,
            dst: to,
            bytes: bytes.number("bytes", u64::MAX)?,
            start: start.time(3)?,
            priority: None,
            dst_port: None,
        });
        if flows.len() > FLOWS_MAX {
            return Err(src.error(format!("there are more than {FLOWS_MAX} flows")));
        }
    }
    Ok(flows)
}

fn parse_ns3(text: &str, host: FindHost<'_>) -> Result<Vec<ListedFlow>, FlowListError> {
    const FLOW: &str = "`src dst priority dst_port bytes start_s`";
    let mut words = lines(text).flat_map(|(number, line)| {
        let words = fields(line, number, ' ');
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
    let count = first.number("the number of flows", FLOWS_MAX as u64)?;
    let mut flows = Vec::new();
    for at in 0..count {
        let mut word = || {
            words.next().ok_or_else(|| {
                let problem =
                    format!("{count} flows are announced, but only {at} are here; a flow is {FLOW}");
                FlowListError { problem, ..end() }
            })
        };
        let (src, dst, priority) = (word()?, word()?, word()?);
        let (port, bytes, start) = (word()?, word()?, word()?);
        let [from, to] = ends([src, dst], host)?;
        flows.push(ListedFlow {
            src: from,
            dst: to,
            bytes: bytes.number("bytes", u64::MAX)?,
            start: start.time(12)?,
            priority: Some(priority.number("priority", 7)? as u8),
            dst_port: Some(port.number("destination port", u64::from(u16::MAX))? as u16),
        });
    }
    Ok(flows)
}

/// Sender and receiver of a flow.
fn ends(fields: [Field<'_>; 2], host: FindHost<'_>) -> Result<[u32; 2], FlowListError> {
    let find = |field: &Field<'_>| host(field.text).map_err(|problem| field.error(problem));
    let [src, dst] = [find(&fields[0])?, find(&fields[1])?];
    match src == dst {
        true => Err(fields[1].error("a flow from a host to itself")),
        false => Ok([src, dst]),
    }
}

/// The pieces of a line between separators; a blank stands for every kind of white space.
fn fields(line: &str, number: usize, separator: char) -> Vec<Field<'_>> {
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

fn end_of_line(line: &str, number: usize, problem: String) -> FlowListError {
    FlowListError {
        line: number,
        column: line.trim_end().chars().count() + 1,
        problem,
    }
}

#[cfg(test)]
#[path = "flow_list_tests.rs"]
mod tests;
