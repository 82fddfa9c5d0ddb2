//! Runs the examples. Each example checks its own results with assertions.

use std::path::PathBuf;
use std::process::Command;

/// Runs the example `name`, which `cargo test` has built beside the program. Returns its standard output.
fn run_example(name: &str) -> String {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_xoff"))
        .with_file_name("examples")
        .join(name);
    let output = Command::new(&program).output().unwrap_or_else(|error| {
        panic!(
            "{}: {error}; `cargo build --examples` builds the examples",
            program.display()
        )
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).expect("the output is text")
}

#[test]
fn a_switch_pauses_all_senders_and_drops_nothing() {
    assert!(run_example("switch").ends_with(" frames sent, 0 dropped\n"));
}

#[test]
fn a_fabric_delivers_all_frames_to_its_hosts() {
    let output = run_example("fabric");
    assert_eq!(output.matches("received 1000 frames").count(), 4, "{output}");
}

#[test]
fn a_congestion_control_reduces_pfc() {
    assert!(run_example("congestion_control").contains("PFC frames with AIMD"));
}

#[test]
fn a_load_balancer_uses_all_uplinks_equally() {
    assert!(
        run_example("load_balancer")
            .contains("least bytes:  101 us, frames by uplink [2048, 2048, 2048, 2048]")
    );
}

#[test]
fn a_port_backend_carries_frames_in_real_time() {
    assert_eq!(
        run_example("port_backend"),
        "60 bytes arrived from Ethernet0 at Ethernet1\n"
    );
}

#[test]
fn the_checks_find_the_defect_of_a_device() {
    let output = run_example("conform");
    assert!(
        output.contains("A8 PASS") && output.contains("A8 FAIL: class 3"),
        "{output}"
    );
}
