//! `bulkhead delete PATH`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::read;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;

pub(crate) const DELETE: Command = Command {
    words: "delete",
    takes: "PATH [name=value ...]",
    about: "delete a path; the values become query parameters",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let (path, rest) = session.path_and_rest()?;
    let call = ServerRequest {
        query: read::parameters(session, &rest)?,
        ..ServerRequest::new(Method::DELETE, path.as_str())
    };
    let answer = session.ask(&format!("deleting {path}"), &call)?;
    session.show_or(&answer, &format!("deleted {path}"))
}
