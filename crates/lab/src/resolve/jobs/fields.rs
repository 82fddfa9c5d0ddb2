//! Checks that a job has the fields of its kind.

use serde_saphyr::{Location, Spanned};

use super::super::LabResolver;
use xoff_lab_file::JobFields;

/// The kinds of jobs, each with its required and its optional fields.
const JOB_KINDS: [(&str, &[&str], &[&str]); 10] = [
    ("flows", &["flows"], &[]),
    ("permutation", &["hosts", "bytes"], &["iterations", "gap"]),
    ("incast", &["from", "to", "bytes"], &["iterations", "gap"]),
    ("ring-allreduce", &["hosts", "bytes"], SLICED_COLLECTIVE_FIELDS),
    ("tree-allreduce", &["hosts", "bytes"], SLICED_COLLECTIVE_FIELDS),
    ("allgather", &["hosts", "bytes"], SLICED_COLLECTIVE_FIELDS),
    ("reduce-scatter", &["hosts", "bytes"], SLICED_COLLECTIVE_FIELDS),
    (
        "alltoall",
        &["hosts", "bytes"],
        &[
            "iterations",
            "warmup",
            "compute_gap",
            "gpus_per_node",
            "nvlink",
            "rail_aligned",
        ],
    ),
    (
        "poisson",
        &["sizes", "load"],
        &["hosts", "from", "to", "until", "flows_max", "seed"],
    ),
    ("replay", &["file"], &["format", "nodes"]),
];
/// Optional fields of the collectives that send their data in slices.
const SLICED_COLLECTIVE_FIELDS: &[&str] = &[
    "iterations",
    "warmup",
    "compute_gap",
    "gpus_per_node",
    "nvlink",
    "slice",
];

/// Returns the kinds of jobs that are collectives. All collectives have the field `gpus_per_node`.
pub(crate) fn collective_kinds() -> impl Iterator<Item = &'static str> {
    let collectives = JOB_KINDS
        .iter()
        .filter(|(_, _, optional)| optional.contains(&"gpus_per_node"));
    collectives.map(|(name, ..)| *name)
}

impl LabResolver<'_> {
    /// Checks that the kind of a job exists and that the job has the fields of this kind. Returns whether the job
    /// has the right fields. `None` if the kind does not exist.
    pub(super) fn check_job_fields(&mut self, job: &JobFields) -> Option<bool> {
        let kind = &job.kind;
        let Some((name, required, optional)) = JOB_KINDS.iter().find(|(name, ..)| *name == kind.value) else {
            let what = format!("there is no kind of job \"{}\"", kind.value);
            let fix = self.suggest(&kind.value, JOB_KINDS.map(|(name, ..)| name), "kinds");
            self.report_problem(kind.referenced, what, fix);
            return None;
        };
        let mut is_valid = true;
        for (field, location) in job_field_locations(job) {
            match location {
                Some(location) if !required.contains(&field) && !optional.contains(&field) => {
                    let fix = format!("its fields are {}", [*required, *optional].concat().join(", "));
                    self.report_problem(location, format!("a job of kind {name} has no `{field}`"), fix);
                    is_valid = false;
                }
                None if required.contains(&field) && self.left_out.fields.contains(field) => is_valid = false,
                None if required.contains(&field) => {
                    let what = format!("the job \"{}\" of kind {name} has no `{field}`", job.name.value);
                    self.report_problem(
                        job.name.referenced,
                        what,
                        format!("add it: it needs {}", required.join(", ")),
                    );
                    is_valid = false;
                }
                _ => {}
            }
        }
        Some(is_valid)
    }
}

/// Returns the names of all fields that only some kinds of jobs have, each with its location in the job. The
/// location is `None` if the job does not set the field.
fn job_field_locations(job: &JobFields) -> [(&'static str, Option<Location>); 21] {
    [
        ("hosts", field_location(&job.hosts)),
        ("from", field_location(&job.from)),
        ("to", field_location(&job.to)),
        ("bytes", field_location(&job.bytes)),
        ("iterations", field_location(&job.iterations)),
        ("warmup", field_location(&job.warmup)),
        ("gap", field_location(&job.gap)),
        ("compute_gap", field_location(&job.compute_gap)),
        ("gpus_per_node", field_location(&job.gpus_per_node)),
        ("slice", field_location(&job.slice)),
        ("nvlink", field_location(&job.nvlink)),
        ("rail_aligned", field_location(&job.rail_aligned)),
        ("sizes", field_location(&job.sizes)),
        ("load", field_location(&job.load)),
        ("until", field_location(&job.until)),
        ("flows_max", field_location(&job.flows_max)),
        ("seed", field_location(&job.seed)),
        ("file", field_location(&job.file)),
        ("format", field_location(&job.format)),
        ("nodes", field_location(&job.nodes)),
        ("flows", field_location(&job.flows)),
    ]
}

/// Returns the location of a field that is set.
fn field_location<T>(field: &Option<Spanned<T>>) -> Option<Location> {
    field.as_ref().map(|field| field.referenced)
}
