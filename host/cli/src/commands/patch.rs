//! `bulkhead patch PATH`: changes some fields of a path and keeps the others.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::Value;

pub(crate) const PATCH: Command = Command {
    words: "patch",
    takes: "PATH name=value ... | PATH - | -f PATH",
    about: "change some fields of a path and keep the others, where the path takes a patch\n\n\
            Values come from files and standard input as for `bulkhead write`. A null in a JSON\n\
            object, as in @FILE, removes a field. `bulkhead kv patch` changes secrets.",
    options: &[&[CommandOption::switch("force", "send a patch without any field (also -f)")]],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let (path, rest) = session.path_and_rest()?;
    if rest.is_empty() && !session.options.switch("force") {
        return Err(CommandProblem::usage(
            "there is nothing to change; give name=value, or -f to send a patch without fields",
        ));
    }
    let fields = Value::Object(session.fields(&rest)?);
    let call = ServerRequest::new(Method::PATCH, path.as_str()).with_merge_patch(fields);
    let Some(answer) = session.find(&format!("patching {path}"), &call)? else {
        return Err(CommandProblem::nothing_at(&path));
    };
    session.show_or(&answer, &format!("changed {path}"))
}
