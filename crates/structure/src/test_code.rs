//! Finds the lines of test code in a file.

use std::ops::RangeInclusive;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, Token, punctuated::Punctuated};

/// Returns the line ranges of all items and statements that are compiled only for tests. Line numbers start
/// at 1.
pub(crate) fn test_lines(file: &syn::File) -> Vec<RangeInclusive<usize>> {
    if has_test_attribute(&file.attrs) {
        return vec![0..=usize::MAX];
    }
    let mut visitor = TestLineCollector { ranges: Vec::new() };
    visitor.visit_file(file);
    visitor.ranges
}

/// Returns whether any attribute is `#[test]`, `#[cfg(test)]`, or a `cfg` that names `test` in `any`
/// or `all`.
fn has_test_attribute(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || path.is_ident("cfg")
                && attribute
                    .parse_args::<Meta>()
                    .is_ok_and(|meta| cfg_names_test(&meta))
    })
}

fn cfg_names_test(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("any") || list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|metas| metas.iter().any(cfg_names_test)),
        _ => false,
    }
}

struct TestLineCollector {
    ranges: Vec<RangeInclusive<usize>>,
}

impl TestLineCollector {
    /// Checks whether the attributes of `node` mark test code. If so, records the lines of `node`
    /// and returns true.
    fn record_if_test(&mut self, attributes: &[Attribute], node: &impl Spanned) -> bool {
        let test = has_test_attribute(attributes);
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

/// Overrides the visitor methods of nodes with a field `attrs`.
macro_rules! record_or_descend {
    ($($method:ident($node:ident);)*) => {
        $(fn $method(&mut self, node: &'ast syn::$node) {
            if !self.record_if_test(&node.attrs, node) {
                visit::$method(self, node);
            }
        })*
    };
}

impl<'ast> Visit<'ast> for TestLineCollector {
    fn visit_item(&mut self, item: &'ast Item) {
        if !self.record_if_test(item_attributes(item), item) {
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
