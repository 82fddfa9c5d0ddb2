//! Configuration files of devices with several ASICs.
//!
//! A device with several ASICs has one configuration for the host and one configuration for each ASIC. The
//! tools of SONiC write all these configurations into one file, with an extra level above the tables:
//!
//! ```json
//! {"localhost": {"DEVICE_METADATA": {}}, "asic0": {"PORT": {}}, "asic1": {"PORT": {}}}
//! ```
//!
//! One switch of xoff corresponds to one ASIC. The caller selects a part of the file by the name of the part,
//! such as `asic0`.

use super::json::JsonValue;
use super::natural;
use super::problem::Problem;

/// Name of the part that configures the host of the device.
const HOST_PART: &str = "localhost";

/// The tables of a file or of the selected part of a file.
pub(super) struct SelectedTables {
    pub(super) tables: Vec<(String, JsonValue)>,
    /// Whether the file has several parts.
    pub(super) is_part: bool,
}

/// Selects the tables of one switch. If the file has parts, returns the tables of the part `asic`. Otherwise,
/// returns all tables of the file.
///
/// # Errors
///
/// Returns an error for a file with parts in these cases:
///
/// - `asic` is `None`, or no part has this name.
/// - The part occurs twice, or is not an object of tables.
/// - The file also has tables outside its parts.
pub(super) fn select_asic_part(
    top: Vec<(String, JsonValue)>,
    asic: Option<&str>,
) -> Result<SelectedTables, Box<Problem>> {
    let is_part = |name: &str| name == HOST_PART || is_asic_name(name);
    if !top.iter().any(|(name, _)| is_part(name)) {
        return Ok(SelectedTables {
            tables: top,
            is_part: false,
        });
    }
    let names = join_part_names(&top, is_part);
    if let Some((table, _)) = top.iter().find(|(name, _)| !is_part(name)) {
        let why = format!("the file has a part for each of {names}, but this table is not in a part");
        return Err(Box::new(
            Problem::at_field(table, "", "", why).with_fix("move it into the part of an ASIC"),
        ));
    }
    let Some(asic) = asic else {
        let why = format!("the file configures a device with several ASICs: {names}");
        let problem = Problem::at_field("", "", "", why);
        return Err(Box::new(problem.with_fix(
            "select one with the key `asic` of a lab's switch, or with `xoff switch run --asic NAME`",
        )));
    };
    let mut parts = top.into_iter().filter(|(name, _)| name == asic);
    match (parts.next(), parts.next()) {
        (Some((_, JsonValue::Object(tables))), None) => Ok(SelectedTables {
            tables,
            is_part: true,
        }),
        (Some((_, other)), None) => {
            let why = format!("expected an object of tables, found {}", other.describe_kind());
            Err(Box::new(Problem::at_field(asic, "", "", why)))
        }
        (Some(_), Some(_)) => Err(Box::new(
            Problem::at_field(asic, "", "", "the part occurs twice").with_fix("remove one of them"),
        )),
        (None, _) => {
            let why = format!("the file has no part {asic:?}, its parts are {names}");
            Err(Box::new(
                Problem::at_field("", "", "", why).with_fix("select one of these"),
            ))
        }
    }
}

/// Returns whether the name is `asic` and a number, such as `asic0`.
fn is_asic_name(name: &str) -> bool {
    name.strip_prefix("asic")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the names of all parts in natural order, separated by commas.
fn join_part_names(top: &[(String, JsonValue)], is_part: impl Fn(&str) -> bool) -> String {
    let mut names: Vec<&str> = top.iter().map(|(name, _)| name.as_str()).collect();
    names.retain(|name| is_part(name));
    names.sort_by(|a, b| natural::compare_naturally(a, b));
    names.dedup();
    names.join(", ")
}
