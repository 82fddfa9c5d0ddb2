//! The loads by name.

use super::Load;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::balanced::{Balanced, Case, cases};
use super::configured::Configured;
use super::fabric::Fabric;
use super::many_to_one::{ManyToOne, Way as ManyToOneWay};
use super::mesh::{FEATURES, Features, Mesh, Shape, Way};
use super::stages::{STAGES, Stage};
use xoff_telemetry::failure::Failure;

/// The load that the budget of a frame is about (DESIGN.md 7), and the one with 10 000 flows and 32 ports.
pub const BUDGET: [&str; 2] = ["ecmp", "ecmp-large"];

/// A load that can be asked for by name.
#[derive(Clone, Debug)]
pub struct Workload {
    /// `ecmp`, `many-to-one`; the first part of its figures' names.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// What is counted: a frame, or a frame-hop.
    pub per: &'static str,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Mesh(Shape, Features),
    ManyToOne(ManyToOneWay),
    Balanced(Case),
    Stage(Stage),
    Fabric,
    Lab(PathBuf),
    Config(PathBuf),
}

impl Workload {
    fn new(name: &str, about: &str, kind: Kind) -> Workload {
        let per = match kind {
            Kind::Fabric | Kind::Lab(_) => "frame-hop",
            _ => "frame",
        };
        Workload {
            name: name.to_owned(),
            about: about.to_owned(),
            per,
            kind,
        }
    }

    /// A lab of the user's, in virtual time.
    pub fn lab(path: &Path) -> Workload {
        Workload::new("lab", "a lab in virtual time", Kind::Lab(path.to_owned()))
    }

    /// A configuration of the user's.
    pub fn config(path: &Path) -> Workload {
        let about = "every port sends to the next one";
        Workload::new("config", about, Kind::Config(path.to_owned()))
    }

    /// What names it on the command line of `xoff bench core`.
    pub fn arguments(&self) -> Vec<OsString> {
        let (option, value) = match &self.kind {
            Kind::Lab(path) => ("--lab", path.clone().into_os_string()),
            Kind::Config(path) => ("--config", path.clone().into_os_string()),
            _ => ("--workload", self.name.clone().into()),
        };
        vec![option.into(), value]
    }

    /// Builds it, in steady state.
    ///
    /// # Errors
    /// A lab that cannot run.
    pub fn build(&self) -> Result<Box<dyn Load>, Failure> {
        Ok(match &self.kind {
            Kind::Mesh(shape, features) => Box::new(Mesh::with(*shape, *features)),
            Kind::ManyToOne(way) => Box::new(ManyToOne::new(*way)),
            Kind::Balanced(case) => Box::new(Balanced::new(case.scheme.clone(), case.queue_pairs)),
            Kind::Stage(stage) => (stage.build)(),
            Kind::Fabric => Box::new(Fabric::permutation()?),
            Kind::Lab(path) => Box::new(Fabric::of_file(path)?),
            Kind::Config(path) => Box::new(Configured::of_file(path)?),
        })
    }

    /// Whether the whole path of a frame is in it, not a stage, and its set-up short enough for every run.
    pub fn is_default(&self) -> bool {
        match &self.kind {
            Kind::Balanced(case) => case.queue_pairs < 10_000,
            Kind::ManyToOne(ManyToOneWay::Routed { routes }) => *routes < 10_000,
            _ => true,
        }
    }
}

/// All of them, in the order of a table.
pub fn workloads() -> Vec<Workload> {
    let many = |name, about, way| Workload::new(name, about, Kind::ManyToOne(way));
    let mut all = meshes();
    all.extend([
        many("many-to-one", "4 ports to 1, bridged", ManyToOneWay::Bridged),
        many(
            "many-to-one-1k",
            "the same by 1000 routes",
            ManyToOneWay::Routed { routes: 1_000 },
        ),
        many(
            "many-to-one-100k",
            "the same by 100 000 routes",
            ManyToOneWay::Routed { routes: 100_000 },
        ),
    ]);
    all.extend(cases().into_iter().map(|case| {
        let name = format!("lb-{}", case.name.replace(", ", "-").replace(' ', "-"));
        let about = format!("4 ports to 8 next hops, {} queue pairs", case.queue_pairs);
        Workload::new(&name, &about, Kind::Balanced(case))
    }));
    all.extend(STAGES.map(|stage| Workload::new(stage.name, stage.about, Kind::Stage(stage))));
    all.push(Workload::new(
        "fabric",
        "virtual time: 16 hosts, 4 leaves, 4 spines; a frame over a link",
        Kind::Fabric,
    ));
    all
}

/// The whole path by way, by length of frames, by features.
fn meshes() -> Vec<Workload> {
    let shape = |way, frame_bytes| Shape {
        way,
        ports: 8,
        flows: 64,
        frame_bytes,
    };
    let large = Shape {
        ports: 32,
        flows: 10_000,
        ..shape(Way::Ecmp, 1_082)
    };
    let mesh = |(name, about, shape)| Workload::new(name, about, Kind::Mesh(shape, Features::default()));
    let mut all: Vec<Workload> = [
        (
            "bridged",
            "8 ports, 64 flows, by MAC addresses",
            shape(Way::Bridged, 1_082),
        ),
        (
            "bridged-64",
            "the same, frames of 64 octets",
            shape(Way::Bridged, 64),
        ),
        (
            "bridged-4200",
            "the same, frames of 4200 octets",
            shape(Way::Bridged, 4_200),
        ),
        (
            "routed",
            "as bridged, by a route for each link",
            shape(Way::Routed, 1_082),
        ),
        (
            "ecmp",
            "the same over 4 equal-cost next hops: the budget's load",
            shape(Way::Ecmp, 1_082),
        ),
        ("ecmp-64", "the same, frames of 64 octets", shape(Way::Ecmp, 64)),
        (
            "ecmp-4200",
            "the same, frames of 4200 octets",
            shape(Way::Ecmp, 4_200),
        ),
        ("ecmp-large", "32 ports, 10 000 flows, 16 next hops", large),
    ]
    .map(mesh)
    .into();
    all.extend(FEATURES.map(|(name, about, features)| {
        let kind = Kind::Mesh(shape(Way::Ecmp, 1_082), features);
        Workload::new(&format!("ecmp-{name}"), &format!("ecmp, {about}"), kind)
    }));
    all
}

/// Those of these names; `default` stands for all but the largest, `all` for all.
///
/// # Errors
/// A name that there is not.
pub fn chosen(names: &[String]) -> Result<Vec<Workload>, Failure> {
    let all = workloads();
    let known = |name: &str| ["all", "default"].contains(&name) || all.iter().any(|load| load.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let near = all
            .iter()
            .max_by(|a, b| strsim::jaro(&a.name, unknown).total_cmp(&strsim::jaro(&b.name, unknown)));
        let near = near.map_or("ecmp", |load| &load.name);
        return Err(Failure::usage(format!("there is no workload \"{unknown}\""))
            .at(format!("--workload {unknown}"))
            .fix(format!(
                "did you mean `{near}`? `xoff bench core --list` has all of them"
            )));
    }
    let wanted = |load: &Workload| {
        names
            .iter()
            .any(|name| name == "all" || *name == load.name || (name == "default" && load.is_default()))
    };
    Ok(workloads().into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_that_a_figure_can_be_called_by() {
        let all = workloads();
        for load in &all {
            let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(load.name.chars().all(word), "{}", load.name);
            assert_eq!(
                all.iter().filter(|other| other.name == load.name).count(),
                1,
                "{}",
                load.name
            );
        }
        assert!(
            BUDGET
                .iter()
                .all(|name| all.iter().any(|load| load.name == *name))
        );
    }

    #[test]
    fn every_default_load_runs_and_checks_out() {
        for load in chosen(&["default".to_owned()]).unwrap() {
            let mut built = load.build().unwrap();
            assert!(built.run(5_000) >= 5_000, "{}", load.name);
            built.check().unwrap_or_else(|why| panic!("{}: {why}", load.name));
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_its_neighbour() {
        let failure = chosen(&["ecmp-larg".to_owned()]).unwrap_err();
        assert_eq!(failure.exit as u8, 2);
        assert!(failure.to_string().contains("ecmp-large"), "{failure}");
    }
}
