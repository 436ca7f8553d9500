//! Passwords, generated and shown as in an engine.

use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::json;

pub(crate) const HOW: &[Field] = &[
    Field::text("policy", "the policy, where there is no alphabet"),
    Field::text("alphabet", "its characters"),
    Field::whole("length", "how many of them"),
    Field::whole("times", "how many passwords, 1 unless told"),
    Field::flag("tell", "in an error instead of the answer"),
];

/// Generates passwords by policy or alphabet, and returns the last one.
pub(crate) fn password(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let alphabet = call.text("alphabet");
    let (mut length, mut times, mut password) = (0_u32, 1_u32, String::new());
    call.merge("length", &mut length)?;
    call.merge("times", &mut times)?;
    for _ in 0..times {
        password = match alphabet {
            "" => host.passwords().generate(call.text("policy"))?,
            alphabet => host.passwords().generate_from(length, alphabet)?,
        };
    }
    if call.flag("tell") {
        return Err(Failure::invalid(format!("no such option: {password}")));
    }
    Answer::data(&json!({ "password": password }))
}
