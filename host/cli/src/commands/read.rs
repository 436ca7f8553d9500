//! `bulkhead read PATH`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;

pub(crate) const READ: Command = Command {
    words: "read",
    takes: "PATH [name=value ...]",
    about: "read a path; the values become query parameters",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let (path, rest) = session.path_and_rest()?;
    let call = ServerRequest {
        query: parameters(session, &rest)?,
        may_answer_text: true,
        ..ServerRequest::new(Method::GET, path.as_str())
    };
    let Some(answer) = session.find(&format!("reading {path}"), &call)? else {
        return Err(CommandProblem::nothing_at(&path));
    };
    session.show_or(&answer, &format!("{path} is empty"))
}

/// Parses `name=value` arguments as query parameters. Files and standard input are not supported
/// here.
pub(super) fn parameters(
    session: &Session<'_, '_>,
    words: &[String],
) -> Result<Vec<(String, String)>, CommandProblem> {
    let pairs = words.iter().map(|word| word.split_once('=').filter(|(name, _)| !name.is_empty()));
    let owned = pairs.map(|pair| pair.map(|(name, value)| (name.to_owned(), value.to_owned())));
    owned.collect::<Option<Vec<_>>>().ok_or_else(|| session.usage_problem())
}
