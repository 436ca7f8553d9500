//! The validator of OpenAPI documents, with the calls of `openapi_calls.py`: generators of clients
//! refuse a document that is not valid.

use crate::program::Program;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;

const PROGRAM: Program = Program {
    interpreter: "python3",
    file: "openapi_calls.py",
    client: "openapi",
    path: "PYTHONPATH",
};

#[track_caller]
fn call(part: &str) {
    let environment = [("VAULT_TOKEN", ROOT), ("PYTHONDONTWRITEBYTECODE", "1")];
    PROGRAM.call(&Bulkhead::start(), part, &environment);
}

#[test]
fn a_document_of_every_plugin_is_valid() {
    call("every_plugin");
}

#[test]
fn many_mounts_are_described_once() {
    call("many_mounts");
}
