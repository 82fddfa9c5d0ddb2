//! Module trees of crates.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The module tree of a library or a binary.
#[derive(Clone, Debug)]
pub struct CrateTree {
    /// Name of the package.
    pub name: String,
    /// Source files with production code, relative to the root of the workspace. The first file is the
    /// crate root.
    pub files: Vec<PathBuf>,
    /// Modules with production code. The first module is the crate root.
    pub modules: Vec<Module>,
}

/// A module of a crate, with its items, imports and references.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Names of the modules from the crate root to this module. Empty for the crate root.
    pub path: Vec<String>,
    /// Index in [`CrateTree::files`] of the file that contains the module.
    pub file: usize,
    /// Index of the parent module in [`CrateTree::modules`], or `None` for the crate root.
    pub parent: Option<usize>,
    /// Indices of the child modules in [`CrateTree::modules`], by name. A name can belong to several modules
    /// if a `cfg` attribute selects one of these modules at compile time.
    pub children: BTreeMap<String, Vec<usize>>,
    /// Names of the items that the module defines. The value is true for a type or a trait.
    pub items: BTreeMap<String, bool>,
    /// Imported paths, by the name that the import gives to them. A name can have several paths.
    pub imports: BTreeMap<String, Vec<Vec<String>>>,
    /// The glob imports of the module.
    pub globs: Vec<GlobImport>,
    /// Paths that the code of the module uses.
    pub references: Vec<PathReference>,
}

/// An import of everything in a module or an enum: `use path::*`.
#[derive(Clone, Debug)]
pub struct GlobImport {
    /// Path of the module or enum.
    pub path: Vec<String>,
    /// True if the import is a re-export, such as `pub use path::*`.
    pub public: bool,
    /// Line number of the import, from 1.
    pub line: usize,
}

/// A path in the code of a module.
#[derive(Clone, Debug)]
pub struct PathReference {
    /// Segments of the path.
    pub path: Vec<String>,
    /// Line number of the path, from 1.
    pub line: usize,
    /// True if the path is in a `use` declaration.
    pub import: bool,
}
