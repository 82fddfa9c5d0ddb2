//! The lab variants of a comparison, in the order of the table.

use std::path::Path;

use super::super::lab_fields::{
    FieldOption, FieldSetting, FieldValue, apply_values, parse_changed_lab, read_lab_file,
};
use super::super::load_options::LoadOptions;
use super::super::plan::LabPlan;
use super::super::resolve::LabText;
use super::super::sweep::setting_combinations;
use super::one_switch::one_switch_lab;
use xoff_telemetry::failure::Failure;

/// Path of the field in a lab file that sets the default load-balancing scheme of all switches.
pub const LOAD_BALANCING: &str = "topology.defaults.load_balancing";

/// The field of the lab file that differs between the rows of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparedField {
    /// The field [`LOAD_BALANCING`]. The values are names of schemes. If the lab file does not have this
    /// field, the comparison adds it.
    LoadBalancing(Vec<String>),
    /// Another field with its values. The lab file must have this field.
    Field(FieldSetting),
}

impl ComparedField {
    /// Returns the path of the field and its values, in the order of the command line.
    pub fn setting(&self) -> FieldSetting {
        match self {
            ComparedField::LoadBalancing(names) => FieldSetting {
                path: LOAD_BALANCING.to_owned(),
                values: names.clone(),
            },
            ComparedField::Field(setting) => setting.clone(),
        }
    }
}

/// A variant of the lab: its plan with one combination of values.
#[derive(Clone, Debug)]
pub(super) struct LabVariant {
    /// The value of the compared field. `None`: the lab with a single switch.
    pub(super) scheme: Option<String>,
    /// All changed fields, including the compared field.
    pub(super) fields: Vec<FieldValue>,
    /// The values of the fields of `--set`, in the order of the command line.
    pub(super) values: Vec<String>,
    /// The plan of the variant.
    pub(super) plan: LabPlan,
    /// Only for a lab with a single switch: the compared value for which this lab is the reference. `None` if
    /// the lab is the reference for all values, and for a lab with several switches.
    pub(super) one_switch_for: Option<String>,
    /// Index in [`LabVariants::variants`] of the variant with a single switch, the reference of this variant.
    /// `None` if the lab cannot be built with a single switch.
    pub(super) one_switch: Option<usize>,
}

/// All variants of a comparison and the text of the lab file.
pub(super) struct LabVariants {
    /// The text of the lab file without changes.
    pub(super) text: String,
    /// The variants in the order of the table.
    pub(super) variants: Vec<LabVariant>,
    /// The reasons for which variants have no reference with a single switch.
    pub(super) warnings: Vec<String>,
}

/// Reads the lab file, and builds and checks all variants.
///
/// # Errors
/// Fails if the lab, a scheme or a value is invalid.
pub(super) fn build_variants(
    file: &Path,
    compared: &ComparedField,
    settings: &[FieldSetting],
    options: LoadOptions,
    seed_count: usize,
) -> Result<LabVariants, Failure> {
    let text = read_lab_file(file)?;
    let setting = compared.setting();
    if settings.iter().any(|other| other.path == setting.path) {
        return Err(
            Failure::usage(format!("\"{}\" is the compared field", setting.path))
                .at(format!("--set {}", setting.path))
                .fix("omit this --set"),
        );
    }
    // The lab on one switch is one more variant.
    let combinations = setting_combinations(settings, seed_count.saturating_mul(setting.values.len() + 1))?;
    let mut comparison = LabVariants {
        text: text.text.clone(),
        variants: Vec::new(),
        warnings: Vec::new(),
    };
    for combination in combinations {
        let text = text.with_text(apply_values(file, &text.text, &combination)?);
        // Errors of the file itself are reported with its line numbers, before a scheme adds a line.
        let base = parse_changed_lab(file, &text, &combination, options)?;
        add_combination(
            &mut comparison,
            file,
            &text,
            &combination,
            base,
            compared,
            options,
        )?;
    }
    Ok(comparison)
}

/// Adds the variants of one combination of `--set` values: one variant for each compared value, followed by
/// the lab with a single switch. If the compared field also changes the lab with a single switch, this lab is
/// added once for each value.
fn add_combination(
    comparison: &mut LabVariants,
    file: &Path,
    text: &LabText,
    combination: &[FieldValue],
    base: LabPlan,
    compared: &ComparedField,
    options: LoadOptions,
) -> Result<(), Failure> {
    let setting = compared.setting();
    let values: Vec<String> = combination.iter().map(|field| field.value.clone()).collect();
    let first = comparison.variants.len();
    for value in &setting.values {
        let field = FieldValue {
            path: setting.path.clone(),
            value: value.clone(),
            option: match compared {
                ComparedField::LoadBalancing(_) => FieldOption::LoadBalancing,
                ComparedField::Field(_) => FieldOption::By,
            },
        };
        let mut fields = combination.to_vec();
        fields.push(field.clone());
        let changed = apply_values(file, &text.text, std::slice::from_ref(&field))?;
        let plan = parse_changed_lab(file, &text.with_text(changed), &fields, options)?;
        comparison.variants.push(LabVariant {
            scheme: Some(value.clone()),
            plan,
            fields,
            values: values.clone(),
            one_switch_for: None,
            one_switch: None,
        });
    }
    let end = comparison.variants.len();
    for index in first..end {
        // One switch has no paths to balance. Other compared fields can change its results.
        let plan = match compared {
            ComparedField::LoadBalancing(_) => &base,
            ComparedField::Field(_) => &comparison.variants[index].plan,
        };
        let one_switch = match one_switch_lab(plan) {
            Ok(lab) => lab,
            Err(failure) => {
                let warning = format!("no percent of one switch: {failure}");
                if !comparison.warnings.contains(&warning) {
                    comparison.warnings.push(warning);
                }
                continue;
            }
        };
        let known = comparison.variants[end..]
            .iter()
            .position(|variant| variant.plan == one_switch);
        comparison.variants[index].one_switch = Some(end + known.unwrap_or(comparison.variants.len() - end));
        if let Some(known) = known {
            comparison.variants[end + known].one_switch_for = None;
        } else {
            comparison.variants.push(LabVariant {
                scheme: None,
                fields: match compared {
                    ComparedField::LoadBalancing(_) => combination.to_vec(),
                    ComparedField::Field(_) => comparison.variants[index].fields.clone(),
                },
                values: values.clone(),
                one_switch_for: match compared {
                    ComparedField::LoadBalancing(_) => None,
                    ComparedField::Field(_) => comparison.variants[index].scheme.clone(),
                },
                plan: one_switch,
                one_switch: Some(comparison.variants.len()),
            });
        }
    }
    Ok(())
}
