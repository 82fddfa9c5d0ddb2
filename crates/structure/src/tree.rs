//! Module trees of crates.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The module tree of a library or a binary.
#[derive(Clone, Debug)]
pub struct CrateTree {
    /// Name of the package.
    pub name: String,
    /// Source files with production code. The first file is the crate root.
    pub files: Vec<PathBuf>,
    /// Modules with production code. The first module is the crate root.
    pub modules: Vec<Module>,
}

/// A module of a crate.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Names of the modules from the crate root to this module. Empty for the crate root.
    pub path: Vec<String>,
    /// Index of the file that contains the module.
    pub file: usize,
    /// Index of the parent module.
    pub parent: Option<usize>,
    /// Indexes of the child modules by name. A name can have several modules, from which `cfg` selects one.
    pub children: BTreeMap<String, Vec<usize>>,
    /// Items that the module defines. The value tells whether the name is a type or a trait.
    pub items: BTreeMap<String, bool>,
    /// Imports with a name, by that name.
    pub imports: BTreeMap<String, Vec<Vec<String>>>,
    /// Glob imports.
    pub globs: Vec<GlobImport>,
    /// Paths that the code of the module uses.
    pub references: Vec<PathReference>,
}

/// An import of everything in a module or an enum: `use path::*`.
#[derive(Clone, Debug)]
pub struct GlobImport {
    /// Path of the module or enum.
    pub path: Vec<String>,
    /// Whether the import is a re-export.
    pub public: bool,
    /// Line of the import.
    pub line: usize,
}

/// A path in the code of a module.
#[derive(Clone, Debug)]
pub struct PathReference {
    /// Segments of the path.
    pub path: Vec<String>,
    /// Line of the path.
    pub line: usize,
    /// Whether the path is in a `use` declaration.
    pub import: bool,
}
