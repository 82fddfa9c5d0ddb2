//! Collects the paths that the items of a module use.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, TraitItem};

use crate::imports::{self, UseLeaf};
use crate::tree::{GlobImport, Module, PathReference};

/// Keys of attributes whose value is a string with a path. Examples are attributes of serde.
const PATH_KEYS: [&str; 8] = [
    "default",
    "deserialize_with",
    "from",
    "into",
    "serialize_with",
    "skip_serializing_if",
    "try_from",
    "with",
];

/// Adds the imports and the used paths of an item to its module.
pub(crate) fn collect_references(item: &Item, module: &mut Module) {
    ReferenceCollector {
        module,
        locals: Vec::new(),
    }
    .visit_item(item);
}

struct ReferenceCollector<'a> {
    module: &'a mut Module,
    /// Names of parameters, variables and type parameters, for each function or item around the current node.
    locals: Vec<BTreeSet<String>>,
}

impl ReferenceCollector<'_> {
    fn add_path(&mut self, path: Vec<String>, line: usize) {
        let local = |name: &String| self.locals.iter().any(|names| names.contains(name));
        if path.first().is_some_and(|first| path.len() > 1 || !local(first)) {
            self.module.references.push(PathReference {
                path,
                line,
                import: false,
            });
        }
    }

    /// Calls `visit` for a function or another item. Meanwhile, `names` are local names.
    fn visit_with_local_names(&mut self, names: BTreeSet<String>, visit: impl FnOnce(&mut Self)) {
        self.locals.push(names);
        visit(self);
        self.locals.pop();
    }

    /// Adds every path in the tokens of a macro or an attribute.
    fn add_paths_of_tokens(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut index = 0;
        while let Some(tree) = trees.get(index) {
            match tree {
                TokenTree::Group(group) => self.add_paths_of_tokens(group.stream()),
                TokenTree::Ident(ident) => {
                    let (path, next) = read_path_at(&trees, index);
                    let before = index.checked_sub(1).and_then(|before| trees.get(before));
                    if !matches!(before, Some(TokenTree::Punct(punct)) if punct.as_char() == '.') {
                        self.add_path(path, ident.span().start().line);
                    }
                    index = next;
                    continue;
                }
                TokenTree::Literal(literal) => {
                    let key = index
                        .checked_sub(2)
                        .and_then(|key| trees.get(key))
                        .map(TokenTree::to_string);
                    if key.is_some_and(|key| PATH_KEYS.contains(&key.as_str())) {
                        self.add_quoted_path(&literal.to_string(), literal.span().start().line);
                    }
                }
                TokenTree::Punct(_) => {}
            }
            index += 1;
        }
    }

    /// Adds the path in a string of an attribute.
    fn add_quoted_path(&mut self, literal: &str, line: usize) {
        if let Ok(path) = syn::parse_str::<syn::Path>(literal.trim_matches('"')) {
            self.add_path(path_segments(&path), line);
        }
    }
}

/// Reads a path such as `a::b::c` that starts at `index`. Returns the path and the index of the next token.
fn read_path_at(trees: &[TokenTree], index: usize) -> (Vec<String>, usize) {
    let is_colon =
        |index: usize| matches!(trees.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    let mut path = Vec::new();
    let mut next = index;
    while let Some(TokenTree::Ident(ident)) = trees.get(next) {
        path.push(ident.to_string());
        next += 1;
        let followed = matches!(trees.get(next + 2), Some(TokenTree::Ident(_)));
        if !(is_colon(next) && is_colon(next + 1) && followed) {
            break;
        }
        next += 2;
    }
    (path, next)
}

fn path_segments(path: &syn::Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect()
}

impl<'ast> Visit<'ast> for ReferenceCollector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        self.visit_with_local_names(declared_names(item), |this| visit::visit_item(this, item));
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let mut names = LocalNames::default();
        names.visit_impl_item(item);
        self.visit_with_local_names(names.0, |this| visit::visit_impl_item(this, item));
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let mut names = LocalNames::default();
        names.visit_trait_item(item);
        self.visit_with_local_names(names.0, |this| visit::visit_trait_item(this, item));
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        let public = imports::is_public(&item.vis);
        for leaf in imports::use_leaves(&item.tree) {
            match leaf {
                UseLeaf::Named { path, name, line } => {
                    self.module.imports.entry(name).or_default().push(path.clone());
                    if !public {
                        self.module.references.push(PathReference {
                            path,
                            line,
                            import: true,
                        });
                    }
                }
                UseLeaf::Glob { path, line } => self.module.globs.push(GlobImport { path, public, line }),
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let line = path
                .segments
                .first()
                .map_or(0, |first| first.ident.span().start().line);
            self.add_path(path_segments(path), line);
        }
        visit::visit_path(self, path);
    }

    fn visit_qself(&mut self, qself: &'ast syn::QSelf) {
        self.visit_type(&qself.ty);
    }

    fn visit_expr_path(&mut self, node: &'ast syn::ExprPath) {
        match &node.qself {
            Some(qself) if qself.position == 0 => self.visit_qself(qself),
            _ => visit::visit_expr_path(self, node),
        }
    }

    fn visit_type_path(&mut self, node: &'ast syn::TypePath) {
        match &node.qself {
            Some(qself) if qself.position == 0 => self.visit_qself(qself),
            _ => visit::visit_type_path(self, node),
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.add_paths_of_tokens(list.tokens.clone());
        }
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.visit_path(&mac.path);
        self.add_paths_of_tokens(mac.tokens.clone());
    }
}

/// Returns the local names that an item declares. For a function, these are its parameters, variables and
/// type parameters. For any other item, these are its type parameters.
fn declared_names(item: &Item) -> BTreeSet<String> {
    let mut names = LocalNames::default();
    match item {
        Item::Enum(item) => names.visit_generics(&item.generics),
        Item::Fn(item) => names.visit_item_fn(item),
        Item::Impl(item) => names.visit_generics(&item.generics),
        Item::Struct(item) => names.visit_generics(&item.generics),
        Item::Trait(item) => names.visit_generics(&item.generics),
        Item::Type(item) => names.visit_generics(&item.generics),
        _ => {}
    }
    names.0
}

/// Collects the names of variables, parameters and type parameters.
#[derive(Default)]
struct LocalNames(BTreeSet<String>);

impl<'ast> Visit<'ast> for LocalNames {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.to_string();
        // A pattern in capitals is a constant.
        if name.chars().any(char::is_lowercase) {
            self.0.insert(name);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_type_param(&mut self, parameter: &'ast syn::TypeParam) {
        self.0.insert(parameter.ident.to_string());
        visit::visit_type_param(self, parameter);
    }

    fn visit_const_param(&mut self, parameter: &'ast syn::ConstParam) {
        self.0.insert(parameter.ident.to_string());
        visit::visit_const_param(self, parameter);
    }
}
