//! Resolution of paths to the modules that define the named items.

use crate::tree::{Crate, Glob};

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A module of the crate.
    Module(usize),
    /// An item that the module with this index defines.
    Item(usize),
    /// Something of another crate, or a name that is not in scope as an item.
    Outside,
}

/// Which names a lookup accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// Modules, types and traits: what may stand before `::`.
    Types,
    /// Every name.
    All,
}

/// Lookups that are in progress. They break the recursion of imports that name each other.
type Pending = Vec<(usize, String, Space)>;

impl Crate {
    /// Returns the targets of a path in the module `from`. Re-exports are followed to the definition.
    pub(crate) fn resolve(&self, from: usize, path: &[String]) -> Vec<Target> {
        self.targets(from, path, Space::All, &mut Vec::new())
    }

    /// Whether a path of the module `from` uses a name that the glob import brings into scope.
    pub(crate) fn uses_glob(&self, from: usize, glob: &Glob) -> bool {
        let Some(module) = self.modules.get(from) else {
            return false;
        };
        let targets = self.targets(from, &glob.path, Space::Types, &mut Vec::new());
        let named = |name: &String| {
            self.own_names(from, name, Space::All, &mut Vec::new()).is_empty()
                && targets.iter().any(|target| match target {
                    Target::Module(module) => {
                        !self.lookup(*module, name, Space::All, &mut Vec::new()).is_empty()
                    }
                    _ => false,
                })
        };
        module
            .references
            .iter()
            .filter_map(|reference| reference.path.first())
            .any(named)
    }

    fn targets(&self, from: usize, path: &[String], space: Space, pending: &mut Pending) -> Vec<Target> {
        let mut current = vec![Target::Module(from)];
        for (index, segment) in path.iter().enumerate() {
            let space = if index + 1 < path.len() {
                Space::Types
            } else {
                space
            };
            let mut next = Vec::new();
            for target in current {
                match target {
                    Target::Module(module) => {
                        let found = self.step(module, segment, index == 0, space, pending);
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
    fn step(
        &self,
        module: usize,
        segment: &str,
        first: bool,
        space: Space,
        pending: &mut Pending,
    ) -> Vec<Target> {
        match segment {
            "crate" => return vec![Target::Module(0)],
            "self" => return vec![Target::Module(module)],
            "super" => {
                let parent = self.modules.get(module).and_then(|module| module.parent);
                return vec![parent.map_or(Target::Outside, Target::Module)];
            }
            _ => {}
        }
        let found = self.lookup(module, segment, space, pending);
        match (found.is_empty(), first) {
            (false, _) => found,
            (true, true) => vec![Target::Outside],
            // A macro of the module defines the name.
            (true, false) => vec![Target::Item(module)],
        }
    }

    /// Looks up a name in a module, in its imports, and then in its glob imports.
    fn lookup(&self, module: usize, name: &str, space: Space, pending: &mut Pending) -> Vec<Target> {
        let key = (module, name.to_owned(), space);
        if pending.contains(&key) {
            return Vec::new();
        }
        pending.push(key);
        let mut found = self.own_names(module, name, space, pending);
        if found.is_empty() {
            let globs = self.modules.get(module).map_or(&[][..], |module| &module.globs);
            for glob in globs {
                for target in self.targets(module, &glob.path, Space::Types, pending) {
                    if let Target::Module(other) = target {
                        found.extend(self.lookup(other, name, space, pending));
                    }
                }
            }
        }
        pending.pop();
        found
    }

    /// Looks up a name in the items, the child modules and the named imports of a module.
    fn own_names(&self, index: usize, name: &str, space: Space, pending: &mut Pending) -> Vec<Target> {
        let Some(module) = self.modules.get(index) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if module
            .items
            .get(name)
            .is_some_and(|is_type| *is_type || space == Space::All)
        {
            found.push(Target::Item(index));
        }
        let children = module.children.get(name).into_iter().flatten();
        found.extend(children.map(|child| Target::Module(*child)));
        for path in module.imports.get(name).into_iter().flatten() {
            found.extend(self.targets(index, path, space, pending));
        }
        found.dedup();
        found
    }
}
