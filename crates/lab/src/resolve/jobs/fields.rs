//! Which fields a kind of job has.

use serde_saphyr::{Location, Spanned};

use super::super::super::file::Job;
use super::super::Resolver;

/// The kinds of jobs, with the fields that each must have and those that it may have.
const KINDS: [(&str, &[&str], &[&str]); 10] = [
    ("flows", &["flows"], &[]),
    ("permutation", &["hosts", "bytes"], &["iterations", "gap"]),
    ("incast", &["from", "to", "bytes"], &["iterations", "gap"]),
    ("ring-allreduce", &["hosts", "bytes"], SLICED),
    ("tree-allreduce", &["hosts", "bytes"], SLICED),
    ("allgather", &["hosts", "bytes"], SLICED),
    ("reduce-scatter", &["hosts", "bytes"], SLICED),
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
const SLICED: &[&str] = &[
    "iterations",
    "warmup",
    "compute_gap",
    "gpus_per_node",
    "nvlink",
    "slice",
];

impl Resolver<'_> {
    /// Whether a job is of a kind that there is, and has the fields of that kind.
    pub(super) fn job_fields(&mut self, job: &Job) -> bool {
        let kind = &job.kind;
        let Some((name, required, optional)) = KINDS.iter().find(|(name, ..)| *name == kind.value) else {
            let what = format!("there is no kind of job \"{}\"", kind.value);
            let fix = format!("the kinds are {}", KINDS.map(|(name, ..)| name).join(", "));
            self.wrong(kind.referenced, what, fix);
            return false;
        };
        let mut good = true;
        for (field, at) in fields(job) {
            match at {
                Some(at) if !required.contains(&field) && !optional.contains(&field) => {
                    let fix = format!("its fields are {}", [*required, *optional].concat().join(", "));
                    self.wrong(at, format!("a job of kind {name} has no `{field}`"), fix);
                    good = false;
                }
                None if required.contains(&field) => {
                    let what = format!("the job \"{}\" of kind {name} has no `{field}`", job.name.value);
                    self.wrong(
                        job.name.referenced,
                        what,
                        format!("add it: it needs {}", required.join(", ")),
                    );
                    good = false;
                }
                _ => {}
            }
        }
        good
    }
}

fn fields(job: &Job) -> [(&'static str, Option<Location>); 21] {
    [
        ("hosts", at(&job.hosts)),
        ("from", at(&job.from)),
        ("to", at(&job.to)),
        ("bytes", at(&job.bytes)),
        ("iterations", at(&job.iterations)),
        ("warmup", at(&job.warmup)),
        ("gap", at(&job.gap)),
        ("compute_gap", at(&job.compute_gap)),
        ("gpus_per_node", at(&job.gpus_per_node)),
        ("slice", at(&job.slice)),
        ("nvlink", at(&job.nvlink)),
        ("rail_aligned", at(&job.rail_aligned)),
        ("sizes", at(&job.sizes)),
        ("load", at(&job.load)),
        ("until", at(&job.until)),
        ("flows_max", at(&job.flows_max)),
        ("seed", at(&job.seed)),
        ("file", at(&job.file)),
        ("format", at(&job.format)),
        ("nodes", at(&job.nodes)),
        ("flows", at(&job.flows)),
    ]
}

fn at<T>(field: &Option<Spanned<T>>) -> Option<Location> {
    field.as_ref().map(|field| field.referenced)
}
