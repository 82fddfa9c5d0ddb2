//! Checks the dependencies of the workspace members.

use crate::finding::Finding;
use crate::workspace::{Member, Workspace};

/// The packages of this workspace on which the data plane may depend.
const DATAPLANE_DEPENDENCIES: [&str; 2] = ["xoff-units", "xoff-wire"];

/// Returns a finding for each dependency that breaks the rules for the layers of the workspace.
///
/// There are two rules. First, `xoff-dataplane` may depend on only two packages of this workspace:
/// `xoff-units` and `xoff-wire`. Second, no member of the workspace may depend on `xoff`.
pub fn layer_findings(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_member = |name: &String| workspace.members.iter().any(|member| member.name == *name);
    for member in &workspace.members {
        if member.name == "xoff-dataplane" {
            let own = dependencies(member, &["dependencies", "build-dependencies"]);
            let wrong = own.into_iter().filter(|name| is_member(name));
            let wrong = wrong.filter(|name| !DATAPLANE_DEPENDENCIES.contains(&name.as_str()));
            findings.extend(wrong.map(|name| dependency_finding(member, &name)));
        }
        let all = dependencies(
            member,
            &["dependencies", "build-dependencies", "dev-dependencies"],
        );
        findings.extend(
            all.iter()
                .filter(|name| *name == "xoff")
                .map(|name| dependency_finding(member, name)),
        );
    }
    findings
}

/// Returns a finding for each member that depends on clap. `xoff` and the tools may depend on clap.
pub fn clap_findings(workspace: &Workspace) -> Vec<Finding> {
    let libraries = workspace
        .members
        .iter()
        .filter(|member| member.name != "xoff" && !member.is_tool());
    let clap = |member: &&Member| {
        dependencies(member, &["dependencies", "build-dependencies"])
            .iter()
            .any(|name| name == "clap")
    };
    libraries
        .filter(clap)
        .map(|member| dependency_finding(member, "clap"))
        .collect()
}

fn dependency_finding(member: &Member, name: &str) -> Finding {
    let file = member.folder.join("Cargo.toml");
    let message = format!("{} must not depend on {name}", member.name);
    Finding {
        file,
        line: 1,
        kind: "dependency",
        message,
    }
}

/// Returns the names of the packages in sections of a manifest, such as `dependencies`. The sections for
/// single targets are included.
fn dependencies(member: &Member, sections: &[&str]) -> Vec<String> {
    let targets = member.manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets
        .into_iter()
        .flat_map(toml::Table::values)
        .filter_map(toml::Value::as_table);
    let mut names = Vec::new();
    for table in targets.chain([&member.manifest]) {
        for section in sections {
            let entries = table.get(*section).and_then(toml::Value::as_table);
            for (key, value) in entries.into_iter().flatten() {
                let package = value.get("package").and_then(toml::Value::as_str);
                names.push(package.unwrap_or(key).to_owned());
            }
        }
    }
    names
}
