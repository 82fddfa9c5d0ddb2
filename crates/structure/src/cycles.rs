//! Finds import cycles between the modules and between the files of a crate.
//!
//! A file imports another file if its production code uses an item that the other file defines. If the
//! item is re-exported, the file with the definition counts. A `mod` declaration or a re-export alone is
//! not an import. Imports between a module and its own submodules do not count. A cycle is a group of
//! modules or files that all import each other, directly or through members of the group (a strongly
//! connected component).

use std::fmt;
use std::path::{Path, PathBuf};

use crate::files;
use crate::finding::Finding;
use crate::graph::Graph;
use crate::resolve::PathTarget;
use crate::tree::{CrateTree, PathReference};
use crate::workspace::Workspace;

/// Largest permitted number of cycles in the table of allowed cycles.
pub const ALLOWED_MAX: usize = 5;

/// The use of an item of another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Path of the file that uses the item, relative to the root of the workspace.
    pub from: PathBuf,
    /// Line number of the use, from 1.
    pub line: usize,
    /// Path of the file that defines the item.
    pub to: PathBuf,
    /// Path of the item in the code, such as `graph::Graph`.
    pub item: String,
}

impl fmt::Display for Import {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, line, to, item } = self;
        write!(formatter, "{}:{line} -> {}: {item}", from.display(), to.display())
    }
}

/// A group of modules or files that import each other, directly or through other members of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportCycle {
    /// Names of the modules or paths of the files, sorted.
    pub members: Vec<String>,
    /// One import for each step of a shortest cycle of the group.
    pub steps: Vec<Import>,
    /// One import for each pair of members in which the first imports the second.
    pub imports: Vec<Import>,
}

/// The import cycles of a library or binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrateImportCycles {
    /// Name of the package.
    pub name: String,
    /// Cycles between top-level modules. The crate root does not count as a top-level module.
    pub modules: Vec<ImportCycle>,
    /// Cycles between files.
    pub files: Vec<ImportCycle>,
}

/// Finds the import cycles of every library and binary of the workspace.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn find_cycles(workspace: &Workspace) -> Result<Vec<CrateImportCycles>, String> {
    let mut crates = Vec::new();
    for member in &workspace.members {
        let sources = workspace.read_sources(member)?;
        crates.extend(sources.crates.iter().map(cycles_of_crate));
    }
    Ok(crates)
}

/// Finds the import cycles of one library or binary.
pub fn cycles_of_crate(tree: &CrateTree) -> CrateImportCycles {
    let mut modules = Graph::default();
    let mut files = Graph::default();
    for (from, module) in tree.modules.iter().enumerate() {
        for (line, item, target) in imported_items(tree, from) {
            let Some(defining) = tree.modules.get(target) else {
                continue;
            };
            let path = |file: usize| tree.files.get(file).cloned().unwrap_or_default();
            let import = Import {
                from: path(module.file),
                line,
                to: path(defining.file),
                item,
            };
            if let (Some(from), Some(to)) = (module.path.first(), defining.path.first()) {
                modules.add_edge(from.clone(), to.clone(), import.clone());
            }
            if is_submodule(&module.path, &defining.path) || is_submodule(&defining.path, &module.path) {
                continue;
            }
            let name = |path: &Path| path.display().to_string();
            files.add_edge(name(&import.from), name(&import.to), import);
        }
    }
    CrateImportCycles {
        name: tree.name.clone(),
        modules: cycles_of_graph(&modules),
        files: cycles_of_graph(&files),
    }
}

/// Returns whether the module `path` is below the module `ancestor`. The crate root counts as an ancestor.
fn is_submodule(path: &[String], ancestor: &[String]) -> bool {
    path.len() > ancestor.len() && path.starts_with(ancestor)
}

/// Returns all uses of items in a module. Each entry has the line number, the path of the item, and the index
/// of the module that defines the item.
fn imported_items(tree: &CrateTree, from: usize) -> Vec<(usize, String, usize)> {
    let Some(module) = tree.modules.get(from) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for PathReference {
        path,
        line,
        import: _,
    } in &module.references
    {
        for target in tree.resolve(from, path) {
            if let PathTarget::Item(target) = target {
                found.push((*line, path.join("::"), target));
            }
        }
    }
    for glob in module.globs.iter().filter(|glob| !glob.public) {
        let item = format!("{}::*", glob.path.join("::"));
        for target in tree.resolve(from, &glob.path) {
            match target {
                PathTarget::Module(target) if !tree.uses_glob(from, glob) => {
                    found.push((glob.line, item.clone(), target))
                }
                PathTarget::Item(target) => found.push((glob.line, item.clone(), target)),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn cycles_of_graph(graph: &Graph<String, Import>) -> Vec<ImportCycle> {
    let cycle = |members: Vec<String>| {
        let nodes = graph.shortest_cycle(&members);
        let next = nodes.iter().skip(1).chain(nodes.first());
        let steps = nodes
            .iter()
            .zip(next)
            .filter_map(|(from, to)| graph.label(from, to).cloned())
            .collect();
        let imports = graph
            .edges_within(&members)
            .map(|(_, _, import)| import.clone())
            .collect();
        ImportCycle {
            members,
            steps,
            imports,
        }
    };
    graph.components().into_iter().map(cycle).collect()
}

/// A cycle between files that is accepted for a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCycle {
    /// Name of the package.
    pub name: String,
    /// Paths of the files in the cycle, sorted.
    pub files: Vec<String>,
    /// The reason for which the cycle is accepted.
    pub reason: String,
}

/// Reads the table of allowed cycles from the file `path`.
///
/// Each line has three columns, separated by tabs: package, files and reason. The files are separated by a
/// comma and a space, in any order. The result has them sorted. Empty lines and lines that start with `#`
/// are skipped.
///
/// # Errors
/// The file cannot be read, or a line does not have three columns.
pub fn read_allowed_cycles(path: &Path) -> Result<Vec<AllowedCycle>, String> {
    let text = files::read_text(path)?;
    let row = |cells: Vec<&str>| match cells.as_slice() {
        [name, files, reason] => {
            let mut files: Vec<String> = files.split(", ").map(str::to_owned).collect();
            files.sort();
            Ok(AllowedCycle {
                name: (*name).to_owned(),
                files,
                reason: (*reason).to_owned(),
            })
        }
        _ => Err(format!(
            "{}: a line needs three columns: package, files, reason",
            path.display()
        )),
    };
    files::table_rows(&text).into_iter().map(row).collect()
}

/// Returns a finding for each cycle between top-level modules.
pub fn module_cycle_findings(crates: &[CrateImportCycles]) -> Vec<Finding> {
    let cycles = crates.iter().flat_map(|own| &own.modules);
    cycles
        .map(|cycle| cycle_finding(cycle, "cycle between top-level modules"))
        .collect()
}

/// Returns a finding for each cycle between files that is not in `allowed`. Also returns a finding for each
/// entry of `allowed` that is not a cycle any more.
pub fn file_cycle_findings(crates: &[CrateImportCycles], allowed: &[AllowedCycle]) -> Vec<Finding> {
    let matches = |allowed: &AllowedCycle, own: &CrateImportCycles, cycle: &ImportCycle| {
        allowed.name == own.name && allowed.files == cycle.members
    };
    let mut findings = Vec::new();
    for own in crates {
        for cycle in &own.files {
            if !allowed.iter().any(|allowed| matches(allowed, own, cycle)) {
                findings.push(cycle_finding(cycle, "cycle between files"));
            }
        }
    }
    for allowed in allowed {
        let exists = |own: &CrateImportCycles| own.files.iter().any(|cycle| matches(allowed, own, cycle));
        if !crates.iter().any(exists) {
            let file = PathBuf::from("crates/structure/allowed-cycles.txt");
            let message = format!("no such cycle: {}", allowed.files.join(", "));
            findings.push(Finding {
                file,
                line: 1,
                kind: "allowed cycle",
                message,
            });
        }
    }
    findings
}

fn cycle_finding(cycle: &ImportCycle, kind: &'static str) -> Finding {
    let (file, line) = cycle
        .steps
        .first()
        .map(|step| (step.from.clone(), step.line))
        .unwrap_or_default();
    let steps: Vec<String> = cycle.steps.iter().map(Import::to_string).collect();
    let message = format!("{} [{}]", cycle.members.join(", "), steps.join("; "));
    Finding {
        file,
        line,
        kind,
        message,
    }
}
