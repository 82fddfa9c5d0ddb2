//! The programs of the guests and the evaluation of their output.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Failure;
use crate::forwarders::Forwarder;
use crate::guest::Guest;

/// Maximum time of one run of a program, several times its duration on a slow machine.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(90);
/// Number of round trips of one run of rping.
const PINGS: u32 = 100;
/// Counters of missing or reordered frames.
const GAP_COUNTERS: [&str; 5] = [
    "out_of_seq_request",
    "rcvd_seq_err",
    "packet_seq_err",
    "retry_exceeded_err",
    "send_err",
];
/// Counters of timeouts. On an emulated processor, a stack can time out without a loss.
const TIMEOUT_COUNTERS: [&str; 2] = ["completer_retry_err", "duplicate_request"];

pub(crate) const PROGRAMS: [Program; 4] = [
    Program::Bandwidth("ib_send_bw"),
    Program::Bandwidth("ib_write_bw"),
    Program::Bandwidth("ib_read_bw"),
    Program::Rping,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// A program of perftest.
    Bandwidth(&'static str),
    Rping,
}

impl Program {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Program::Bandwidth(name) => name,
            Program::Rping => "rping",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Program::Bandwidth(_) => "MB/s",
            Program::Rping => "rounds/s",
        }
    }

    /// Returns true if the ratio of the forwarders is a criterion. rping measures the duration of a round and
    /// not the throughput.
    pub(crate) fn is_judged(self) -> bool {
        matches!(self, Program::Bandwidth(_))
    }

    /// Runs the program once.
    pub(crate) fn run(
        self,
        server: &mut Guest,
        client: &mut Guest,
        mtu: u32,
        messages: u32,
    ) -> Result<ProgramResult, Failure> {
        match self {
            Program::Bandwidth(name) => bandwidth(name, server, client, mtu, messages),
            Program::Rping => rping(server, client).map(ProgramResult::Rate),
        }
    }
}

/// The result of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ProgramResult {
    /// Megabytes or round trips per second.
    Rate(f64),
    /// All data was transferred, but perftest could not measure the frequency of its clock, because its
    /// process was interrupted. The program prints a rate of 0.00.
    NoClock,
    /// The program did not end.
    Hung,
}

impl ProgramResult {
    pub(crate) fn rate(self) -> Option<f64> {
        match self {
            ProgramResult::Rate(rate) => Some(rate),
            ProgramResult::NoClock | ProgramResult::Hung => None,
        }
    }
}

fn bandwidth(
    name: &str,
    server: &mut Guest,
    client: &mut Guest,
    mtu: u32,
    messages: u32,
) -> Result<ProgramResult, Failure> {
    const PORT: u32 = 18515;
    let path_mtu = path_mtu(mtu);
    let command = format!("roce {name} -m {path_mtu} -s 65536 -n {messages} -p {PORT}");
    server.run(&format!("{command} >/tmp/server 2>&1 &"))?;
    server.run(&format!(
        "i=0; until netstat -ltn | grep -q :{PORT}; do i=$((i+1)); [ $i -lt 100 ] || exit 1; sleep 0.1; done"
    ))?;
    let Some(text) = client.run_within(&format!("{command} 10.0.0.1"), PROGRAM_TIMEOUT)? else {
        return Ok(ProgramResult::Hung);
    };
    // The server still has to end its side of the last exchange.
    server.run(&format!(
        "i=0; while pidof {name} >/dev/null; do i=$((i+1)); [ $i -lt 100 ] || exit 1; sleep 0.1; done"
    ))?;
    // The columns are bytes, iterations, peak, average and messages per second.
    let rate = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|fields| fields.len() >= 4 && fields[0] == "65536")
        .and_then(|fields| fields[3].parse().ok());
    match rate {
        Some(rate) if rate > 0.0 => Ok(ProgramResult::Rate(rate)),
        Some(_) if text.contains("Correlation coefficient") => Ok(ProgramResult::NoClock),
        _ => Err(format!("{name} printed no result:\n{text}")),
    }
}

/// Returns rxe's path MTU for the MTU of an interface. Headers take 80 bytes.
fn path_mtu(mtu: u32) -> u32 {
    [4096, 2048, 1024, 512]
        .into_iter()
        .find(|path| path + 80 <= mtu)
        .unwrap_or(256)
}

fn rping(server: &mut Guest, client: &mut Guest) -> Result<f64, Failure> {
    server.run(&format!("rping -s -C {PINGS} -S 4096 >/tmp/server 2>&1 &"))?;
    let command = format!(
        "sleep 0.5; t() {{ cut -d ' ' -f 1 /proc/uptime; }}; a=$(t); rping -c -a 10.0.0.1 -C {PINGS} -S 4096; r=$?; \
         echo times $a $(t); exit $r"
    );
    let text = client.run_for(&command, PROGRAM_TIMEOUT)?;
    server.run("i=0; while pidof rping >/dev/null; do i=$((i+1)); [ $i -lt 50 ] || { killall rping; exit 0; }; sleep 0.1; done")?;
    let seconds = text.lines().find_map(|line| {
        let mut times = line.strip_prefix("times ")?.split(' ').map(str::parse::<f64>);
        let (begin, end) = (times.next()?.ok()?, times.next()?.ok()?);
        Some(end - begin)
    });
    match seconds {
        Some(seconds) if seconds > 0.0 => Ok(f64::from(PINGS) / seconds),
        _ => Err(format!("rping told no times:\n{text}")),
    }
}

/// The result of one program through one forwarder.
#[derive(Debug)]
pub(crate) struct TurnResult {
    pub(crate) program: Program,
    pub(crate) forwarder: Forwarder,
    pub(crate) mtu: u32,
    /// Megabytes or round trips per second that the program printed, or `None` without a result.
    pub(crate) value: Option<f64>,
    /// Mean number of processors that xoff kept busy, including its waits for the guests.
    pub(crate) cores: Option<f64>,
    /// Events that make the bench fail.
    pub(crate) problems: Vec<String>,
    /// Events of slow machines. They are printed and do not make the bench fail.
    pub(crate) remarks: Vec<String>,
}

impl TurnResult {
    pub(crate) fn new(program: Program, forwarder: Forwarder, mtu: u32, value: Option<f64>) -> TurnResult {
        TurnResult {
            program,
            forwarder,
            mtu,
            value,
            cores: None,
            problems: Vec::new(),
            remarks: Vec::new(),
        }
    }

    pub(crate) fn add_counters(
        &mut self,
        guest: String,
        before: &BTreeMap<String, u64>,
        after: &BTreeMap<String, u64>,
    ) {
        let grown = |name: &str| {
            after
                .get(name)?
                .checked_sub(*before.get(name)?)
                .filter(|more| *more > 0)
        };
        let told = |name: &&str| Some(format!("{guest}: {name} {}", grown(name)?));
        self.problems.extend(GAP_COUNTERS.iter().filter_map(told));
        self.remarks.extend(TIMEOUT_COUNTERS.iter().filter_map(told));
    }

    /// Returns program, forwarder and MTU for messages.
    pub(crate) fn place(&self) -> String {
        format!(
            "{} {} MTU {}",
            self.forwarder.name(),
            self.program.name(),
            self.mtu
        )
    }
}

impl std::fmt::Display for TurnResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, unit, through) = (self.program.name(), self.program.unit(), self.forwarder.name());
        write!(f, "MTU {} {name:12} {through:6} ", self.mtu)?;
        match self.value {
            Some(value) => write!(f, "{value:8.2} {unit}")?,
            None => f.write_str("no result")?,
        }
        if let Some(cores) = self.cores.filter(|_| self.forwarder == Forwarder::Xoff) {
            write!(f, ", {cores:.2} cores")?;
        }
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "; {problem}"))
    }
}
