//! The fields of lab files (`*.xoff.yml`), read from YAML with their locations.
//!
//! [`parse_lab`] checks the structure of the file: the names and types of the fields, and the presence of
//! fields that every file needs. The resolver of the crate `xoff-lab` checks the values. Values that can be
//! invalid have the type [`Spanned`], so that messages can contain the line. The page `docs/lab.md` describes
//! the fields, with the same names as here. Quantities with a unit, such as `10us`, are texts.
//!
//! This is a crate of its own because the deserializers of the fields are more code than the rest of
//! `xoff-lab`. They are compiled once, and not again when `xoff-lab` changes.
//!
//! # Examples
//!
//! Read the name and the nodes of a lab:
//!
//! ```
//! let text = "
//! name: pair
//! topology:
//!   nodes:
//!     sw1: {kind: switch}
//!     h1: {kind: model}
//!   links:
//!     - {endpoints: ['sw1:Ethernet0', 'h1:eth0'], speed: 10g}
//! ";
//! let lab = xoff_lab_file::parse_lab(text)?;
//! assert_eq!(lab.name.value, "pair");
//! let (name, node) = &lab.topology.nodes.0[1];
//! assert_eq!((name.value.as_str(), name.referenced.line()), ("h1", 6));
//! assert_eq!(node.kind.as_ref().map(|kind| kind.value.as_str()), Some("model"));
//! # Ok::<(), xoff_lab_file::YamlError>(())
//! ```
#![forbid(unsafe_code)]

mod form;
mod jobs;
mod nic;
mod script;
mod topology;
mod tree;
mod values;
mod workload;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_saphyr::options::DuplicateKeyPolicy;

pub use form::{CheckedForm, FormError, LeftOut};
pub use jobs::{JobFields, JobFlowFields, TransportFields};
pub use nic::{DcbxFields, DcbxSettings, EtsFields};
pub use script::{
    BlockFields, ConfigureFields, FaultFields, InjectFields, PauseFields, SendFields, StepFields, WaitFields,
};
pub use serde_saphyr::{Error as YamlError, Location, Spanned};
pub use topology::{
    LinkFields, LoadBalancingFields, NicFields, NodeDefaults, NodeFields, RouteOverride, RouteSource,
    TemplateFields, TopologyFields,
};
pub use tree::YamlTree;
pub use values::{ConfigSource, Endpoint, OneOrMore, OrderedMap};
pub use workload::{FlowFields, WorkloadFields};

/// The maximum number of parser events from YAML aliases. The limit is high, because thousands of switches
/// can share one configuration through an alias.
const ALIAS_EVENTS_MAX: usize = 8_000_000;

/// Parses a YAML document. The limit of YAML nodes grows with the length of the text, so that a lab file can
/// contain a long list of flows. YAML aliases have a separate limit. `duplicate_keys` selects whether a mapping
/// with two equal keys is an error of the parser.
fn parse_yaml<T: DeserializeOwned>(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<T, YamlError> {
    let default = serde_saphyr::Budget::default();
    let options = serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        budget: serde_saphyr::budget! {
            max_nodes: default.max_nodes.max(text.len()),
            max_events: default.max_events.max(2 * text.len()),
            max_total_scalar_bytes: default.max_total_scalar_bytes.max(text.len()),
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIAS_EVENTS_MAX,
        },
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Parses a lab file.
///
/// # Errors
/// Returns the error of the YAML parser, with its location, if the text is not YAML or does not have the
/// structure of a lab file. [`check_lab`] then finds all errors.
pub fn parse_lab(text: &str) -> Result<LabFile, YamlError> {
    parse_yaml(text, DuplicateKeyPolicy::Error)
}

/// Finds all errors in the structure of a lab file, and reads the parts without errors.
///
/// # Errors
/// Returns the error of the YAML parser, with its location, if the text is not YAML.
///
/// # Examples
///
/// ```
/// let text = "
/// name: pair
/// topology:
///   nodes:
///     sw1: {kind: switch, colour: red}
///   links:
///     - {endpoints: ['sw1:Ethernet0', 'h1:eth0'], mtu: large}
/// ";
/// let checked = xoff_lab_file::check_lab(text)?;
/// let lines: Vec<u64> = checked.errors.iter().map(|error| error.at.line()).collect();
/// assert_eq!(lines, [5, 7]);
/// # Ok::<(), xoff_lab_file::YamlError>(())
/// ```
pub fn check_lab(text: &str) -> Result<CheckedForm<LabFile>, YamlError> {
    let tree: Spanned<YamlTree> = parse_yaml(text, DuplicateKeyPolicy::PassThrough)?;
    Ok(form::check_form(&tree))
}

/// Parses any YAML document into a tree with locations.
///
/// # Errors
/// Returns the error of the YAML parser, with its location, if the text is not YAML.
pub fn parse_tree(text: &str) -> Result<Spanned<YamlTree>, YamlError> {
    parse_yaml(text, DuplicateKeyPolicy::Error)
}

/// Parses a step of a script.
///
/// # Errors
/// Returns all errors with their locations if the tree does not have the structure of a step.
pub fn parse_step(step: &Spanned<YamlTree>) -> Result<StepFields, Vec<FormError>> {
    let checked = form::check_form(step);
    match checked.value {
        Some(step) if checked.errors.is_empty() => Ok(step),
        _ => Err(checked.errors),
    }
}

/// A lab file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabFile {
    /// The name of the lab: 1 to 48 letters, digits, `-` and `_`. The first character is a letter or digit.
    /// Running labs of one user have different names.
    pub name: Spanned<String>,
    /// The nodes of the lab and the links between them.
    pub topology: TopologyFields,
    /// Load-balancing options of the whole lab. `None` means the default of each option.
    pub load_balancing: Option<LoadBalancingFields>,
    /// The transports: named sets of options for the queue pairs of jobs. A job without a transport uses the
    /// name `default`, which exists even if the file does not define it.
    #[serde(default)]
    pub transports: OrderedMap<TransportFields>,
    /// The traffic of the hosts. `None` means no traffic.
    pub workload: Option<WorkloadFields>,
    /// The steps as trees. They are parsed after the expansion of `repeat`.
    #[serde(default)]
    pub script: Vec<Spanned<YamlTree>>,
}
