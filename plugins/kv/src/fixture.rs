//! Fixture shared by the tests: test beds of both versions of the API.

use crate::KeyValue;
use bulkhead_sdk::Failure;
use bulkhead_sdk::testbed::{Reply, TestBed};

/// Returns the engine with version 1 of the API.
pub(crate) fn v1() -> TestBed<KeyValue> {
    TestBed::new().unwrap()
}

/// Returns the engine with version 2 of the API.
pub(crate) fn v2() -> TestBed<KeyValue> {
    let mut bed = TestBed::new().unwrap();
    bed.mount.options = vec![("version".to_owned(), "2".to_owned())];
    bed
}

/// Returns the message of a refusal.
pub(crate) fn message(refused: Result<Reply, Failure>) -> String {
    refused.err().unwrap().message
}
