//! `bulkhead kv enable-versioning`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::paths::join_path;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::json;

pub(crate) const ENABLE_VERSIONING: Command = Command {
    words: "kv enable-versioning",
    takes: "MOUNT",
    about: "keep versions on a key-value mount without versions; this cannot be undone",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [mount] = session.words()?;
    let target = join_path("sys/mounts", &mount, "the mount")?;
    let body = json!({ "options": { "version": "2" } });
    let call = ServerRequest::new(Method::POST, format!("{target}/tune")).with_fields(body);
    let answer = session.ask(&format!("tuning {mount}"), &call)?;
    session.show_or(&answer, &format!("{mount} keeps versions"))
}
