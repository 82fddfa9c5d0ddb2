//! `XOFF_LB_LOAD`: measurement of the load of ports.

use xoff_dataplane::config::{LoadConfig, Measure};
use xoff_units::Picos;

use super::super::context::Context;
use crate::problem::Problem;
use crate::schema::LB_GLOBAL;

const TABLE: &str = "XOFF_LB_LOAD";

/// Applies the fields of `XOFF_LB_LOAD` to `load`.
pub(super) fn resolve(context: &mut Context<'_>, mut load: LoadConfig) -> LoadConfig {
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
    measure(context, "past", &mut load.past);
    measure(context, "future", &mut load.future);
    measure(context, "current", &mut load.current);
    load
}

/// Reports an error if the sum of all weights is 0. `profile` is the key in `ARS_PROFILE`.
pub(super) fn check_weights(context: &mut Context<'_>, load: &LoadConfig, profile: Option<&str>) {
    if load.past.weight != 0 || load.future.weight != 0 || load.current.weight != 0 {
        return;
    }
    let why = "the weights sum to zero: no measure counts, and all links would be equally good";
    let (problem, fix) = match profile {
        Some(profile) if context.db.entry(TABLE, LB_GLOBAL).is_none() => (
            Problem::at("ARS_PROFILE", profile, "", why),
            "give past_load_weight or future_load_weight a weight",
        ),
        _ => (
            Problem::at(TABLE, LB_GLOBAL, "", why),
            "give past_weight, future_weight or current_weight a weight",
        ),
    };
    context.problem(problem.fix(fix));
}

/// Applies the weight and the limits of one measure.
fn measure(context: &mut Context<'_>, name: &str, measure: &mut Measure) {
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
        context
            .problem(Problem::at(TABLE, LB_GLOBAL, &format!("{name}_min"), why).fix("write a smaller one"));
    }
}
