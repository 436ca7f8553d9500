//! The rows of the scheduler's engine that operators use. Its own API is plain HTTP, and has its
//! tests in `tests/e2e/scheduler.rs`.

use super::{Row, row};
use serde_json::json;

pub(super) fn rows() -> Vec<Row> {
    vec![row("acl-bootstrap-reset.write", "acl/bootstrap-reset", json!({}), 200)]
}
