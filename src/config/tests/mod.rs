//! Tests of the configuration.

mod testbeds;

use xoff_dataplane::Picos;

use super::{Loaded, Problems, Resolve, load};

/// Resolving with these ports on the command line and the default reaction budget of 20 ms.
fn how(ports: &[&str]) -> Resolve {
    Resolve {
        ports: ports.iter().map(|port| (*port).to_owned()).collect(),
        seed: 7,
        reaction_budget: Picos::from_millis(20),
    }
}

fn load_text(text: &str, ports: &[&str]) -> Result<Loaded, Problems> {
    load(&[("test.json", text)], &how(ports))
}

#[track_caller]
fn good(text: &str, ports: &[&str]) -> Loaded {
    load_text(text, ports).unwrap_or_else(|problems| panic!("refused:\n{problems}"))
}

/// The lines of the error, sorted as a user sees them.
#[track_caller]
fn bad(text: &str, ports: &[&str]) -> Vec<String> {
    match load_text(text, ports) {
        Ok(_) => panic!("accepted: {text}"),
        Err(problems) => problems.to_string().lines().map(str::to_owned).collect(),
    }
}
