//! Line ranges of test code in a file.

use std::ops::RangeInclusive;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, Token, punctuated::Punctuated};

/// Returns the line ranges of everything that is compiled for tests only.
pub(crate) fn test_lines(file: &syn::File) -> Vec<RangeInclusive<usize>> {
    if is_test(&file.attrs) {
        return vec![0..=usize::MAX];
    }
    let mut visitor = TestLines { ranges: Vec::new() };
    visitor.visit_file(file);
    visitor.ranges
}

/// Whether one of the attributes is `#[test]`, `#[cfg(test)]` or a `cfg` that names `test` in `any` or `all`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || path.is_ident("cfg") && attribute.parse_args::<Meta>().is_ok_and(|meta| names_test(&meta))
    })
}

fn names_test(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("any") || list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|metas| metas.iter().any(names_test)),
        _ => false,
    }
}

struct TestLines {
    ranges: Vec<RangeInclusive<usize>>,
}

impl TestLines {
    /// Records the lines of `node` if its attributes mark test code. Returns whether they do.
    fn record(&mut self, attributes: &[Attribute], node: &impl Spanned) -> bool {
        let test = is_test(attributes);
        if test {
            let mut first = node.span().start().line;
            for attribute in attributes {
                first = first.min(attribute.span().start().line);
            }
            self.ranges.push(first..=node.span().end().line);
        }
        test
    }
}

/// Overrides a visitor method of a node type that has a field `attrs`.
macro_rules! record_or_descend {
    ($($method:ident($node:ident);)*) => {
        $(fn $method(&mut self, node: &'ast syn::$node) {
            if !self.record(&node.attrs, node) {
                visit::$method(self, node);
            }
        })*
    };
}

impl<'ast> Visit<'ast> for TestLines {
    fn visit_item(&mut self, item: &'ast Item) {
        if !self.record(item_attributes(item), item) {
            visit::visit_item(self, item);
        }
    }

    record_or_descend! {
        visit_impl_item_const(ImplItemConst);
        visit_impl_item_fn(ImplItemFn);
        visit_impl_item_type(ImplItemType);
        visit_trait_item_const(TraitItemConst);
        visit_trait_item_fn(TraitItemFn);
        visit_trait_item_type(TraitItemType);
        visit_field(Field);
        visit_field_value(FieldValue);
        visit_variant(Variant);
        visit_arm(Arm);
        visit_local(Local);
        visit_stmt_macro(StmtMacro);
        visit_expr_block(ExprBlock);
        visit_expr_call(ExprCall);
        visit_expr_method_call(ExprMethodCall);
        visit_expr_macro(ExprMacro);
        visit_expr_if(ExprIf);
    }
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
