//! Collects the names that the items of a file declare.

use syn::visit::{self, Visit};

/// Kinds of declared names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// Struct, enum, union, type alias or trait.
    Type,
    /// Function or method.
    Function,
    /// Module of a crate.
    Module,
    /// Field, variant, constant or static.
    Field,
}

/// A declared name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredName {
    /// Kind of the declared item.
    pub(crate) kind: NameKind,
    /// The name as it is in the code.
    pub(crate) text: String,
    /// Line number of the declaration, from 1.
    pub(crate) line: usize,
}

impl DeclaredName {
    /// Returns the words of the name in lower case, separated by spaces.
    pub(crate) fn words(&self) -> String {
        let mut out = String::new();
        let mut was_lower = false;
        for letter in self.text.chars() {
            if letter == '_' || letter.is_uppercase() && was_lower {
                out.push(' ');
            }
            was_lower = letter.is_lowercase() || letter.is_numeric();
            if letter != '_' {
                out.extend(letter.to_lowercase());
            }
        }
        out.trim().to_owned()
    }
}

/// Returns the names that a file declares, including the names in its test code.
pub(crate) fn declared_names(file: &syn::File) -> Vec<DeclaredName> {
    let mut names = NameCollector(Vec::new());
    names.visit_file(file);
    names.0
}

struct NameCollector(Vec<DeclaredName>);

impl NameCollector {
    fn add_name(&mut self, kind: NameKind, ident: &syn::Ident) {
        let text = ident.to_string().trim_start_matches("r#").to_owned();
        self.0.push(DeclaredName {
            kind,
            text,
            line: ident.span().start().line,
        });
    }
}

/// Overrides the visitor methods of nodes that declare a name.
macro_rules! add_and_descend {
    ($($method:ident($node:ident, $kind:ident, $($field:ident).+);)*) => {
        $(fn $method(&mut self, node: &'ast syn::$node) {
            self.add_name(NameKind::$kind, &node.$($field).+);
            visit::$method(self, node);
        })*
    };
}

impl<'ast> Visit<'ast> for NameCollector {
    add_and_descend! {
        visit_item_struct(ItemStruct, Type, ident);
        visit_item_enum(ItemEnum, Type, ident);
        visit_item_union(ItemUnion, Type, ident);
        visit_item_type(ItemType, Type, ident);
        visit_item_trait(ItemTrait, Type, ident);
        visit_item_fn(ItemFn, Function, sig.ident);
        visit_trait_item_fn(TraitItemFn, Function, sig.ident);
        visit_item_mod(ItemMod, Module, ident);
        visit_item_const(ItemConst, Field, ident);
        visit_item_static(ItemStatic, Field, ident);
        visit_impl_item_const(ImplItemConst, Field, ident);
        visit_trait_item_const(TraitItemConst, Field, ident);
        visit_variant(Variant, Field, ident);
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        // The methods of an implementation of a trait have the names of the trait.
        for item in &node.items {
            match item {
                syn::ImplItem::Fn(method) if node.trait_.is_some() => self.visit_block(&method.block),
                item => self.visit_impl_item(item),
            }
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.add_name(NameKind::Function, &node.sig.ident);
        self.visit_block(&node.block);
    }

    fn visit_field(&mut self, node: &'ast syn::Field) {
        if let Some(ident) = &node.ident {
            self.add_name(NameKind::Field, ident);
        }
    }
}
