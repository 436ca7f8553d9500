//! `cubbyhole`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let one = "cubbyhole/team/note";
    vec![
        row("cubbyhole-cubbyhole_path.write", one, json!({ "k": "v", "n": [1] }), 204),
        row("cubbyhole-cubbyhole_path.read", one, Value::Null, 200),
        row("cubbyhole.list", "cubbyhole", Value::Null, 200),
        row("cubbyhole-cubbyhole_path.list", "cubbyhole/team", Value::Null, 200),
        row("cubbyhole-cubbyhole_path.delete", one, Value::Null, 204),
    ]
}
