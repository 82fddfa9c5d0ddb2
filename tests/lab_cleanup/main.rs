//! Tests that a lab leaves nothing behind, however it ends: no process, namespace, link, socket or file.
//! Borrowed devices get their previous state back.
//!
//! All tests run in a user namespace of the test program. The kernel counts the network namespaces of that
//! user namespace against a limit that the tests can set, including namespaces that are still being removed.
//! The limit therefore shows namespaces that no process list contains.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nix::sched::CloneFlags;
use xoff_ports::net::{self, Netns};

use test_lab::TestLab;

mod devices;
mod endings;
mod test_lab;
mod unprivileged;

type Test = fn(&TestLab) -> Result<(), Failed>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // All tests share the limit of network namespaces.
    arguments.test_threads = Some(1);
    let unprivileged = if arguments.list {
        Err("only listed".into())
    } else {
        unprivileged::run_without_root()
    };
    let refusal = net::enter_user_namespace(CloneFlags::CLONE_NEWNET)
        .err()
        .map(|error| error.to_string());
    let refusal = refusal.or_else(|| Netns::create().err().map(|error| error.to_string()));
    let tests: [(&str, Test); 14] = [
        (
            "the_namespace_limit_counts_open_namespaces",
            test_lab::the_namespace_limit_counts_open_namespaces,
        ),
        (
            "a_finished_run_leaves_nothing",
            endings::a_finished_run_leaves_nothing,
        ),
        (
            "lab_down_removes_what_lab_up_created",
            endings::lab_down_removes_what_lab_up_created,
        ),
        (
            "an_interrupted_run_leaves_nothing",
            endings::an_interrupted_run_leaves_nothing,
        ),
        (
            "a_closed_terminal_stops_the_run",
            endings::a_closed_terminal_stops_the_run,
        ),
        (
            "a_run_under_nohup_ignores_hangups",
            endings::a_run_under_nohup_ignores_hangups,
        ),
        (
            "lab_up_survives_its_terminal",
            endings::lab_up_survives_its_terminal,
        ),
        (
            "a_run_ends_in_good_order_on_any_output",
            endings::a_run_ends_in_good_order_on_any_output,
        ),
        (
            "killing_any_process_ends_the_lab",
            endings::killing_any_process_ends_the_lab,
        ),
        (
            "killing_all_processes_at_random_times_leaves_nothing",
            endings::killing_all_processes_at_random_times_leaves_nothing,
        ),
        (
            "a_killed_lab_of_several_switches_leaves_nothing",
            endings::a_killed_lab_of_several_switches_leaves_nothing,
        ),
        (
            "borrowed_devices_get_their_state_back",
            devices::borrowed_devices_get_their_state_back,
        ),
        (
            "the_example_of_an_external_device_works",
            devices::the_example_of_an_external_device_works,
        ),
        ("refused_labs_leave_nothing", devices::refused_labs_leave_nothing),
    ];
    let mut trials: Vec<Trial> = tests
        .into_iter()
        .map(|(name, test)| {
            let refusal = refusal.clone();
            Trial::ignorable_test(name, move || match refusal {
                Some(reason) => Ok(Completion::ignored_with(reason)),
                None => test(&TestLab::new()?).map(|()| Completion::Completed),
            })
        })
        .collect();
    trials.push(Trial::ignorable_test(
        "a_lab_runs_without_root",
        move || match unprivileged {
            Ok(None) => Ok(Completion::Completed),
            Ok(Some(reason)) => Ok(Completion::ignored_with(reason)),
            Err(error) => Err(error.into()),
        },
    ));
    trials.push(Trial::ignorable_test(
        "a_tap_is_moved_to_its_host",
        move || match refusal {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => Netns::create()?.run(devices::a_tap_is_moved_to_its_host)?,
        },
    ));
    libtest_mimic::run(&arguments, trials).exit_code()
}
