//! `bulkhead kv put`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::kv::secret_location::{MOUNT, SecretLocation};
use crate::commands::kv::sections;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Map, Value, json};

pub(crate) const PUT: Command = Command {
    words: "kv put",
    takes: "PATH name=value ... | -mount=MOUNT NAME name=value ...",
    about: "write a secret; on a versioned mount this makes a new version\n\n\
            The new version has only the given values; `kv patch` changes some and keeps the \
            others.\n\
            name=@FILE and name=- take a value from a file or standard input;\n\
            @FILE or - alone is a whole JSON object.",
    options: &[&[MOUNT, CAS]],
    wrapping: AnswerWrapping::Sent,
    run,
};

/// Check-and-set.
pub(super) const CAS: CommandOption = CommandOption::number(
    "cas",
    "write only if this is the newest version; 0: only if the secret does not exist",
);

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let (typed, rest) = session.path_and_rest()?;
    if rest.is_empty() {
        return Err(CommandProblem::usage("there is nothing to write; give name=value"));
    }
    let fields = session.fields(&rest)?;
    let place = SecretLocation::of_secret(session, &typed)?;
    let cas = session.options.number("cas");
    if cas.is_some() {
        place.need_versions("-cas")?;
    }
    let path = place.path("data");
    let body = if place.is_versioned() { versioned(fields, cas) } else { Value::Object(fields) };
    let call = ServerRequest::new(Method::PUT, path.as_str()).with_fields(body);
    let answer = session.ask(&format!("writing {path}"), &call)?;
    sections::show_written(session, &answer, &path)
}

/// Returns the body that writes a version.
pub(super) fn versioned(data: Map<String, Value>, cas: Option<u64>) -> Value {
    let options = cas.map_or_else(|| json!({}), |version| json!({ "cas": version }));
    json!({ "data": data, "options": options })
}
