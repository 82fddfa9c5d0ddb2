//! Splits `use` declarations into leaves. Each leaf imports one name or everything in a module.

use syn::{UseTree, Visibility};

/// Returns whether a declaration is visible outside its module.
pub(crate) fn is_public(visibility: &Visibility) -> bool {
    match visibility {
        Visibility::Public(_) => true,
        Visibility::Restricted(restricted) => !restricted.path.is_ident("self"),
        Visibility::Inherited => false,
    }
}

/// A leaf of a `use` declaration: `use a::{b, c::*}` has the leaves `a::b` and `a::c::*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UseLeaf {
    /// An import of `path` under the local name `name`.
    Named {
        path: Vec<String>,
        name: String,
        line: usize,
    },
    /// An import of everything in `path`.
    Glob { path: Vec<String>, line: usize },
}

/// Returns the leaves of a `use` declaration.
pub(crate) fn use_leaves(tree: &UseTree) -> Vec<UseLeaf> {
    let mut out = Vec::new();
    add_leaves(tree, &mut Vec::new(), &mut out);
    out
}

fn add_leaves(tree: &UseTree, prefix: &mut Vec<String>, out: &mut Vec<UseLeaf>) {
    let named = |prefix: &[String], last: &syn::Ident, name: &syn::Ident| {
        let mut path = prefix.to_vec();
        let line = last.span().start().line;
        let mut name = name.to_string();
        if last != "self" {
            path.push(last.to_string());
        } else if name == "self" {
            name = path.last().cloned().unwrap_or_default();
        }
        UseLeaf::Named { path, name, line }
    };
    match tree {
        UseTree::Path(part) => {
            prefix.push(part.ident.to_string());
            add_leaves(&part.tree, prefix, out);
            prefix.pop();
        }
        UseTree::Name(leaf) => out.push(named(prefix, &leaf.ident, &leaf.ident)),
        UseTree::Rename(leaf) => out.push(named(prefix, &leaf.ident, &leaf.rename)),
        UseTree::Glob(leaf) => {
            out.push(UseLeaf::Glob {
                path: prefix.clone(),
                line: leaf.star_token.spans[0].start().line,
            });
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| add_leaves(tree, prefix, out)),
    }
}
