//! The logger of the program. It writes the log records of the crates of xoff to standard error.

use std::fmt::{self, Display, Formatter};

use log::{Level, LevelFilter, Log, Metadata, Record};
use xoff_runtime::workers::EVENT_LOG_TARGET;

use super::output;

/// Installs the logger. Call this once, before all other code of the program.
pub(crate) fn install_logger() {
    // The call fails only if a logger is installed already.
    if log::set_logger(&StderrLogger).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Writes a line for each log record of level `info`, `warn` or `error` from a crate of xoff.
struct StderrLogger;

impl Log for StderrLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Info && metadata.target().starts_with("xoff")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            output::print_note(&LogLine(record).to_string());
        }
    }

    fn flush(&self) {}
}

/// Displays a log record as one line without the line end. Warnings begin with `warning: `. Lines of errors
/// and switch events have no prefix. Lines of all remaining kinds begin with `note: `.
struct LogLine<'a>(&'a Record<'a>);

impl Display for LogLine<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let prefix = match self.0.level() {
            Level::Error => "",
            Level::Warn => "warning: ",
            _ if self.0.target() == EVENT_LOG_TARGET => "",
            _ => "note: ",
        };
        write!(formatter, "{prefix}{}", self.0.args())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line of a record with the text `port Ethernet0 is down`.
    fn line_of(level: Level, target: &str) -> String {
        let record = Record::builder()
            .level(level)
            .target(target)
            .args(format_args!("port Ethernet0 is down"))
            .build();
        LogLine(&record).to_string()
    }

    #[test]
    fn lines_have_the_prefix_of_their_level() {
        assert_eq!(line_of(Level::Error, "xoff_lab"), "port Ethernet0 is down");
        assert_eq!(
            line_of(Level::Warn, "xoff_lab"),
            "warning: port Ethernet0 is down"
        );
        assert_eq!(line_of(Level::Info, "xoff_lab"), "note: port Ethernet0 is down");
        assert_eq!(line_of(Level::Info, EVENT_LOG_TARGET), "port Ethernet0 is down");
    }

    #[test]
    fn records_of_other_crates_are_not_printed() {
        let is_enabled =
            |target| StderrLogger.enabled(&Metadata::builder().level(Level::Warn).target(target).build());
        assert!(is_enabled("xoff_lab::commands"));
        assert!(!is_enabled("netlink_proto::connection"));
    }
}
