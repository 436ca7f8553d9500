//! Clients of the scheduler's API: python-nomad and its Ansible module with the calls of
//! `scheduler_calls.py`, and the Go module with the calls of `go/nomad/main.go`.

use crate::program::{Program, expect_done, go_program};
use bulkhead_tests::scheduler::Scheduler;

const PYTHON: Program = Program {
    interpreter: "python3",
    file: "scheduler_calls.py",
    client: "hvac",
    path: "PYTHONPATH",
};

/// Runs one part of the Python program against this server, with this token.
#[track_caller]
fn call(scheduler: &Scheduler, part: &str, token: Option<&str>) {
    let address = format!("http://{}", scheduler.address());
    let environment = [("NOMAD_ADDR", address.as_str()), ("PYTHONDONTWRITEBYTECODE", "1")];
    let token = token.map(|token| ("NOMAD_TOKEN", token));
    let environment: Vec<_> = environment.into_iter().chain(token).collect();
    PYTHON.call(&scheduler.server, part, &environment);
}

/// Runs one part of the Python program with a management token.
#[track_caller]
fn call_as_management(part: &str) {
    let scheduler = Scheduler::start();
    call(&scheduler, part, Some(&scheduler.management));
}

/// Runs one part of the Go program with a management token.
#[track_caller]
fn call_go(part: &str) {
    let scheduler = Scheduler::start();
    let mut command = go_program("nomad", part);
    command
        .env("NOMAD_ADDR", format!("http://{}", scheduler.address()))
        .env("NOMAD_TOKEN", &scheduler.management);
    expect_done(&mut command, part, &scheduler.server);
}

#[test]
fn roles_by_python_nomad_are_answered_as_it_expects() {
    call_as_management("roles");
}

#[test]
fn blocking_reads_by_python_nomad_are_answered_as_it_expects() {
    call_as_management("waiting");
}

#[test]
fn policies_and_tokens_by_python_nomad_are_answered_as_it_expects() {
    call_as_management("tokens");
}

#[test]
fn a_bootstrap_by_python_nomad_is_answered_as_it_expects() {
    call(&Scheduler::before_bootstrap(), "bootstrap", None);
}

#[test]
fn the_module_of_ansible_bootstraps_and_keeps_tokens() {
    call(&Scheduler::before_bootstrap(), "ansible", None);
}

#[test]
fn roles_by_the_go_module_are_answered_as_it_expects() {
    call_go("roles");
}

#[test]
fn blocking_reads_by_the_go_module_are_answered_as_it_expects() {
    call_go("waiting");
}

#[test]
fn tokens_by_the_go_module_are_answered_as_it_expects() {
    call_go("tokens");
}
