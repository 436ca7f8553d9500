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
fn python_nomad_role_calls_are_answered_as_expected() {
    call_as_management("roles");
}

#[test]
fn python_nomad_blocking_reads_are_answered_as_expected() {
    call_as_management("waiting");
}

#[test]
fn python_nomad_policy_and_token_calls_are_answered() {
    call_as_management("tokens");
}

#[test]
fn python_nomad_bootstrap_is_answered_as_expected() {
    call(&Scheduler::before_bootstrap(), "bootstrap", None);
}

#[test]
fn the_module_of_ansible_bootstraps_and_keeps_tokens() {
    call(&Scheduler::before_bootstrap(), "ansible", None);
}

#[test]
fn go_module_role_calls_are_answered_as_expected() {
    call_go("roles");
}

#[test]
fn go_module_blocking_reads_are_answered_as_expected() {
    call_go("waiting");
}

#[test]
fn go_module_token_calls_are_answered_as_expected() {
    call_go("tokens");
}
