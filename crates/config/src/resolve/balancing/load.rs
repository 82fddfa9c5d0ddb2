//! `XOFF_LB_LOAD`: measurement of the load of ports.

use xoff_dataplane::config::{LoadConfig, LoadMeasure};
use xoff_units::Picos;

use super::super::context::ResolveContext;
use crate::problem::Problem;
use crate::schema::LB_GLOBAL;

const TABLE: &str = "XOFF_LB_LOAD";

/// Returns `load` with the fields of `XOFF_LB_LOAD`. Missing fields keep the values of `load`.
pub(super) fn apply_load_table(context: &mut ResolveContext<'_>, mut load: LoadConfig) -> LoadConfig {
    if context.db.entry(TABLE, LB_GLOBAL).is_none() {
        return load;
    }
    let number = |field: &str| context.number(TABLE, LB_GLOBAL, field);
    if let Some(micros) = number("sampling_interval") {
        load.interval = Picos::from_micros(micros);
    }
    if let Some(exponent) = number("exponent") {
        load.exponent = exponent as u8;
    }
    if let Some(word) = context.text(TABLE, LB_GLOBAL, "instant_drop") {
        load.instant_drop = word == "true";
    }
    apply_measure_fields(context, "past", &mut load.past);
    apply_measure_fields(context, "future", &mut load.future);
    apply_measure_fields(context, "current", &mut load.current);
    load
}

/// Reports an error if all three weights are 0. `profile` is the key in `ARS_PROFILE`, if an entry exists.
pub(super) fn check_weights(context: &mut ResolveContext<'_>, load: &LoadConfig, profile: Option<&str>) {
    if load.past.weight != 0 || load.future.weight != 0 || load.current.weight != 0 {
        return;
    }
    let why = "the sum of the weights is 0, so all links would have the same quality";
    let (problem, fix) = match profile {
        Some(profile) if context.db.entry(TABLE, LB_GLOBAL).is_none() => (
            Problem::at_field("ARS_PROFILE", profile, "", why),
            "set past_load_weight or future_load_weight to at least 1",
        ),
        _ => (
            Problem::at_field(TABLE, LB_GLOBAL, "", why),
            "set past_weight, future_weight or current_weight to at least 1",
        ),
    };
    context.report_entry_contradiction(problem.with_fix(fix));
}

/// Applies the weight and the limits of one measure.
fn apply_measure_fields(context: &mut ResolveContext<'_>, name: &str, measure: &mut LoadMeasure) {
    let number = |field: &str| context.number(TABLE, LB_GLOBAL, &format!("{name}_{field}"));
    let (weight, min, max) = (number("weight"), number("min"), number("max"));
    measure.weight = weight.map_or(measure.weight, |weight| weight as u32);
    measure.min_permille = min.map_or(measure.min_permille, |min| min as u32);
    measure.max_permille = max.map_or(measure.max_permille, |max| max as u32);
    if measure.min_permille >= measure.max_permille {
        let why = format!(
            "{name}_min {} is not below {name}_max {}",
            measure.min_permille, measure.max_permille
        );
        context.report_entry_contradiction(
            Problem::at_field(TABLE, LB_GLOBAL, &format!("{name}_min"), why).with_fix("use a smaller value"),
        );
    }
}
