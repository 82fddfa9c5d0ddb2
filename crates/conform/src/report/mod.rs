//! Output formats of checks, runs and matrices.

mod check_text;
mod html;
mod junit;
mod ktap;
mod matrix_text;
mod run_table;
mod timeline;

pub use check_text::{explain_check, list_checks};
pub use html::format_html;
pub use junit::format_junit;
pub use ktap::format_ktap;
pub use matrix_text::{format_matrix, format_matrix_markdown, matrix_json};
pub use run_table::format_run;
