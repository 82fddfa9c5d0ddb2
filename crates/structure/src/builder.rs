//! Builds module trees from source files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use syn::spanned::Spanned;
use syn::{Item, ItemMod};

use crate::references;
use crate::source::SourceFile;
use crate::tree::{CrateTree, Module};

/// Builds the module trees of a package: one for the library and one for each binary below `folder`. `name`
/// is the name of the package, and the keys of `files` are paths. Also returns the paths of the files that
/// only tests use.
pub fn build_crates(
    name: &str,
    folder: &Path,
    files: &BTreeMap<PathBuf, SourceFile>,
) -> (Vec<CrateTree>, Vec<PathBuf>) {
    let mut crates = Vec::new();
    let mut production = BTreeSet::new();
    let mut test = BTreeSet::new();
    for root in files.keys().filter(|path| is_root(folder, path)) {
        let empty = CrateTree {
            name: name.to_owned(),
            files: Vec::new(),
            modules: Vec::new(),
        };
        let mut builder = TreeBuilder {
            files,
            tree: empty,
            test_files: BTreeSet::new(),
        };
        builder.add_root(root);
        production.extend(builder.tree.files.iter().cloned());
        test.extend(builder.test_files);
        crates.push(builder.tree);
    }
    let in_test_folder = |path: &Path| path.components().any(|part| part.as_os_str() == "tests");
    let test_only = |path: &&PathBuf| {
        in_test_folder(path.strip_prefix(folder).unwrap_or(path))
            || test.contains(*path) && !production.contains(*path)
    };
    (crates, files.keys().filter(test_only).cloned().collect())
}

/// Returns whether the file is the root of a library or of a binary.
fn is_root(folder: &Path, path: &Path) -> bool {
    let bin = folder.join("bin");
    let parent = path.parent();
    let is_main = path.ends_with("main.rs");
    path == folder.join("lib.rs")
        || path == folder.join("main.rs")
        || parent == Some(&bin)
        || is_main && parent.and_then(Path::parent) == Some(&bin)
}

/// The file of a module, and the folder of its child modules.
#[derive(Clone, Debug)]
struct ModuleLocation {
    /// Path of the module's file.
    file: PathBuf,
    /// Folder of the files of child modules.
    children: PathBuf,
    /// True if the module is test code.
    is_test: bool,
}

struct TreeBuilder<'a> {
    files: &'a BTreeMap<PathBuf, SourceFile>,
    tree: CrateTree,
    test_files: BTreeSet<PathBuf>,
}

impl TreeBuilder<'_> {
    fn add_root(&mut self, path: &Path) {
        let children = path.parent().unwrap_or(path).to_owned();
        self.add_file(
            ModuleLocation {
                file: path.to_owned(),
                children,
                is_test: false,
            },
            None,
            Vec::new(),
        );
    }

    /// Adds the module of a file and its submodules. Returns the index of the file's module, or `None` for
    /// test code and for a file that is missing or already added.
    fn add_file(
        &mut self,
        location: ModuleLocation,
        parent: Option<usize>,
        path: Vec<String>,
    ) -> Option<usize> {
        let source = self.files.get(&location.file)?;
        let known = self.tree.files.contains(&location.file);
        if known || location.is_test && !self.test_files.insert(location.file.clone()) {
            return None;
        }
        if location.is_test {
            self.add_test_items(&location, &source.tree.items);
            return None;
        }
        self.tree.files.push(location.file.clone());
        let file = self.tree.files.len() - 1;
        Some(self.add_module(
            &location,
            &source.tree.items,
            Module {
                path,
                file,
                parent,
                ..Module::default()
            },
        ))
    }

    /// Adds a module and its children. Returns the index of the module.
    fn add_module(&mut self, location: &ModuleLocation, items: &[Item], module: Module) -> usize {
        let index = self.tree.modules.len();
        let (path, file) = (module.path.clone(), module.file);
        self.tree.modules.push(module);
        for item in items {
            let line = item.span().start().line;
            let test = self
                .files
                .get(&location.file)
                .is_some_and(|source| source.is_test_line(line));
            let Item::Mod(child) = item else {
                if !test {
                    self.add_item(index, item);
                }
                continue;
            };
            if test {
                self.add_test_module(location, child);
                continue;
            }
            let path = [path.clone(), vec![child.ident.to_string()]].concat();
            let inner = child_location(location, child, self.files);
            let added = match &child.content {
                Some((_, items)) => {
                    let module = Module {
                        path,
                        file,
                        parent: Some(index),
                        ..Module::default()
                    };
                    Some(self.add_module(&inner, items, module))
                }
                None => self.add_file(inner, Some(index), path),
            };
            if let (Some(added), Some(module)) = (added, self.tree.modules.get_mut(index)) {
                module
                    .children
                    .entry(child.ident.to_string())
                    .or_default()
                    .push(added);
            }
        }
        index
    }

    fn add_test_module(&mut self, location: &ModuleLocation, child: &ItemMod) {
        let inner = ModuleLocation {
            is_test: true,
            ..child_location(location, child, self.files)
        };
        match &child.content {
            Some((_, items)) => self.add_test_items(&inner, items),
            None => {
                self.add_file(inner, None, Vec::new());
            }
        }
    }

    /// Records the files of the modules that test code declares.
    fn add_test_items(&mut self, location: &ModuleLocation, items: &[Item]) {
        for item in items {
            if let Item::Mod(child) = item {
                self.add_test_module(location, child);
            }
        }
    }

    /// Adds the definitions, the imports and the references of an item that is not a module.
    fn add_item(&mut self, index: usize, item: &Item) {
        let Some(module) = self.tree.modules.get_mut(index) else {
            return;
        };
        if let Some((name, is_type)) = defined_name(item) {
            let known = module.items.entry(name).or_default();
            *known |= is_type;
        }
        references::collect_references(item, module);
    }
}

/// Returns the location of a child module.
fn child_location(
    parent: &ModuleLocation,
    child: &ItemMod,
    files: &BTreeMap<PathBuf, SourceFile>,
) -> ModuleLocation {
    let name = child.ident.to_string();
    let name = name.trim_start_matches("r#");
    let is_test = parent.is_test;
    if child.content.is_some() {
        let children = parent.children.join(name);
        return ModuleLocation {
            file: parent.file.clone(),
            children,
            is_test,
        };
    }
    if let Some(path) = path_attribute(child) {
        let folder = parent.file.parent().unwrap_or(&parent.file);
        let file = normalize_path(&folder.join(path));
        let children = file.parent().unwrap_or(&file).to_owned();
        return ModuleLocation {
            file,
            children,
            is_test,
        };
    }
    let children = parent.children.join(name);
    let beside = parent.children.join(format!("{name}.rs"));
    let file = if files.contains_key(&beside) {
        beside
    } else {
        children.join("mod.rs")
    };
    ModuleLocation {
        file,
        children,
        is_test,
    }
}

/// Returns the value of `#[path = "..."]`.
fn path_attribute(module: &ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| {
        let pair = attribute.meta.require_name_value().ok()?;
        let syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) = &pair.value
        else {
            return None;
        };
        pair.path.is_ident("path").then(|| text.value())
    })
}

/// Removes `..` from a path.
fn normalize_path(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Returns the name that an item defines, and whether the name is a type or a trait.
fn defined_name(item: &Item) -> Option<(String, bool)> {
    let (name, is_type) = match item {
        Item::Const(item) => (&item.ident, false),
        Item::Enum(item) => (&item.ident, true),
        Item::Fn(item) => (&item.sig.ident, false),
        Item::Macro(item) => (item.ident.as_ref()?, false),
        Item::Static(item) => (&item.ident, false),
        Item::Struct(item) => (&item.ident, true),
        Item::Trait(item) => (&item.ident, true),
        Item::TraitAlias(item) => (&item.ident, true),
        Item::Type(item) => (&item.ident, true),
        Item::Union(item) => (&item.ident, true),
        _ => return None,
    };
    Some((name.to_string(), is_type))
}
