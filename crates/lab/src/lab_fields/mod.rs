//! Changes fields of a lab file: the option `--set PATH=VALUE`.

mod changed_lab;
mod setting;
mod yaml_edit;

pub use changed_lab::load_with_values;
pub(crate) use changed_lab::{apply_values, parse_changed_lab, read_lab_file};
pub(crate) use setting::format_field_options;
pub use setting::{FieldOption, FieldSetting, FieldValue};
