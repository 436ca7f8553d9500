//! `bulkhead path-help PATH`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::terminal::visible_lines;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::Value;

pub(crate) const PATH_HELP: Command = Command {
    words: "path-help",
    takes: "PATH",
    about: "print the server's help for a path: methods, fields and their meaning",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [path] = session.words()?;
    let path = path.trim_matches('/');
    let call = ServerRequest {
        query: vec![("help".to_owned(), "true".to_owned())],
        ..ServerRequest::new(Method::GET, path)
    };
    let Some(answer) = session.find(&format!("asking for help on {path}"), &call)? else {
        return Err(CommandProblem::nothing_at(path));
    };
    match answer.body.get("help").and_then(Value::as_str) {
        Some(text) if session.options.is_for_people() => {
            session.show_text(&answer, &format!("{}\n", visible_lines(text.trim_end())))
        }
        _ => session.show(&answer),
    }
}
