//! Resolves paths: finds the module that defines the named item.

use crate::tree::{CrateTree, GlobImport};

/// The module or item that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathTarget {
    /// A module of the crate, as an index in [`CrateTree::modules`].
    Module(usize),
    /// An item. The index in [`CrateTree::modules`] is that of the defining module.
    Item(usize),
    /// An item that is defined outside this crate, or a name that does not refer to an item.
    Outside,
}

/// The kinds of names that a lookup accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameSpace {
    /// Modules, types and traits, which can be before `::` in a path.
    Types,
    /// Every name.
    All,
}

/// Lookups that are in progress. This list ends the recursion if two imports refer to each other.
type PendingLookups = Vec<(usize, String, NameSpace)>;

impl CrateTree {
    /// Returns the targets of a path in the module with the index `from`. If a target is a re-export, returns
    /// its definition instead.
    pub(crate) fn resolve(&self, from: usize, path: &[String]) -> Vec<PathTarget> {
        self.resolve_from(from, path, NameSpace::All, &mut Vec::new())
    }

    /// Returns whether any path in the module with the index `from` uses a name that the glob import brings
    /// into scope.
    pub(crate) fn uses_glob(&self, from: usize, glob: &GlobImport) -> bool {
        let Some(module) = self.modules.get(from) else {
            return false;
        };
        let targets = self.resolve_from(from, &glob.path, NameSpace::Types, &mut Vec::new());
        let named = |name: &String| {
            self.look_up_own_name(from, name, NameSpace::All, &mut Vec::new())
                .is_empty()
                && targets.iter().any(|target| match target {
                    PathTarget::Module(module) => !self
                        .look_up_name(*module, name, NameSpace::All, &mut Vec::new())
                        .is_empty(),
                    _ => false,
                })
        };
        module
            .references
            .iter()
            .filter_map(|reference| reference.path.first())
            .any(named)
    }

    fn resolve_from(
        &self,
        from: usize,
        path: &[String],
        space: NameSpace,
        pending: &mut PendingLookups,
    ) -> Vec<PathTarget> {
        let mut current = vec![PathTarget::Module(from)];
        for (index, segment) in path.iter().enumerate() {
            let space = if index + 1 < path.len() {
                NameSpace::Types
            } else {
                space
            };
            let mut next = Vec::new();
            for target in current {
                match target {
                    PathTarget::Module(module) => {
                        let found = self.resolve_segment(module, segment, index == 0, space, pending);
                        next.extend(found);
                    }
                    // Variants and associated items belong to the file of their type.
                    target => next.push(target),
                }
            }
            current = next;
        }
        current
    }

    /// Resolves one segment of a path in `module`.
    fn resolve_segment(
        &self,
        module: usize,
        segment: &str,
        first: bool,
        space: NameSpace,
        pending: &mut PendingLookups,
    ) -> Vec<PathTarget> {
        match segment {
            "crate" => return vec![PathTarget::Module(0)],
            "self" => return vec![PathTarget::Module(module)],
            "super" => {
                let parent = self.modules.get(module).and_then(|module| module.parent);
                return vec![parent.map_or(PathTarget::Outside, PathTarget::Module)];
            }
            _ => {}
        }
        let found = self.look_up_name(module, segment, space, pending);
        match (found.is_empty(), first) {
            (false, _) => found,
            (true, true) => vec![PathTarget::Outside],
            // A macro of the module defines the name.
            (true, false) => vec![PathTarget::Item(module)],
        }
    }

    /// Looks up a name in a module: first in its items and imports, then in its glob imports.
    fn look_up_name(
        &self,
        module: usize,
        name: &str,
        space: NameSpace,
        pending: &mut PendingLookups,
    ) -> Vec<PathTarget> {
        let key = (module, name.to_owned(), space);
        if pending.contains(&key) {
            return Vec::new();
        }
        pending.push(key);
        let mut found = self.look_up_own_name(module, name, space, pending);
        if found.is_empty() {
            let globs = self.modules.get(module).map_or(&[][..], |module| &module.globs);
            for glob in globs {
                for target in self.resolve_from(module, &glob.path, NameSpace::Types, pending) {
                    if let PathTarget::Module(other) = target {
                        found.extend(self.look_up_name(other, name, space, pending));
                    }
                }
            }
        }
        pending.pop();
        found
    }

    /// Looks up a name in the items, the child modules and the named imports of a module.
    fn look_up_own_name(
        &self,
        index: usize,
        name: &str,
        space: NameSpace,
        pending: &mut PendingLookups,
    ) -> Vec<PathTarget> {
        let Some(module) = self.modules.get(index) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if module
            .items
            .get(name)
            .is_some_and(|is_type| *is_type || space == NameSpace::All)
        {
            found.push(PathTarget::Item(index));
        }
        let children = module.children.get(name).into_iter().flatten();
        found.extend(children.map(|child| PathTarget::Module(*child)));
        for path in module.imports.get(name).into_iter().flatten() {
            found.extend(self.resolve_from(index, path, space, pending));
        }
        found.dedup();
        found
    }
}
