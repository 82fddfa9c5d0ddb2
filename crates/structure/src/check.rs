//! The checks, with their rules.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::cycles;
use crate::dependencies;
use crate::finding::Finding;
use crate::printing;
use crate::style;
use crate::terms;
use crate::workspace::Workspace;

/// A check of the sources and the structure of this workspace. Each variant names the defects that
/// it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// Import cycles between top-level modules.
    ModuleCycles,
    /// Import cycles between files.
    FileCycles,
    /// Terms that have a standard replacement.
    Terms,
    /// Documentation comments of one word, and headings with text.
    Docs,
    /// Comment lines and Markdown lines of more than 120 characters.
    Lines,
    /// Dependencies between members that break the layers.
    Layers,
    /// Dependencies on clap, except those of xoff and the tools.
    Clap,
    /// Macros that print in libraries.
    Printing,
}

impl Check {
    /// Every check, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::ModuleCycles,
        Self::FileCycles,
        Self::Terms,
        Self::Docs,
        Self::Lines,
        Self::Layers,
        Self::Clap,
        Self::Printing,
    ];

    /// Returns the rule that the check enforces.
    pub fn rule(self) -> &'static str {
        match self {
            Self::ModuleCycles => "no crate has an import cycle between top-level modules",
            Self::FileCycles => "every import cycle between files is in allowed-cycles.txt",
            Self::Terms => "names, comments, pages and messages use standard terms",
            Self::Docs => "documentation comments have more than one word, and headings have no text",
            Self::Lines => "comment lines and Markdown lines have at most 120 characters",
            Self::Layers => "the data plane depends on units and wire only, and no crate depends on xoff",
            Self::Clap => "only xoff and tools depend on clap",
            Self::Printing => "only xoff and tools print to standard output and standard error",
        }
    }

    /// Runs the check on a workspace. Returns the findings, sorted and without repetitions. The tables of allowed
    /// cycles and terms come from this repository.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub fn findings(self, workspace: &Workspace) -> Result<Vec<Finding>, String> {
        let tables = repository_root().join("crates/structure");
        let mut findings = match self {
            Self::ModuleCycles => cycles::module_cycle_findings(&cycles::find_cycles(workspace)?),
            Self::FileCycles => {
                let allowed = cycles::read_allowed_cycles(&tables.join("allowed-cycles.txt"))?;
                cycles::file_cycle_findings(&cycles::find_cycles(workspace)?, &allowed)
            }
            Self::Terms => {
                let terms = terms::read_terms(&tables.join("terms.txt"))?;
                let allowed = terms::read_allowed_terms(&tables.join("allowed-terms.txt"))?;
                terms::find_terms(workspace, &terms, &allowed)?
            }
            Self::Docs => {
                let mut findings = style::one_word_docs(workspace)?;
                findings.extend(style::headings_with_text(workspace)?);
                findings
            }
            Self::Lines => style::long_lines(workspace)?,
            Self::Layers => dependencies::layer_findings(workspace),
            Self::Clap => dependencies::clap_findings(workspace),
            Self::Printing => printing::printing_code(workspace)?,
        };
        findings.sort();
        findings.dedup();
        Ok(findings)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        formatter.write_str(value.as_ref().map_or("check", |value| value.get_name()))
    }
}

/// Returns the root folder of this repository.
pub fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
