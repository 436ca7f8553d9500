//! `bulkhead write PATH name=value ...`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::Value;

pub(crate) const WRITE: Command = Command {
    words: "write",
    takes: "PATH name=value ... | PATH - | -f PATH",
    about: "write fields to a path\n\n\
            name=@FILE and name=- take the value from a file or standard input, unchanged;\n\
            name=\\@text is the text @text; a name given again makes a list;\n\
            @FILE or - alone is a whole JSON object",
    options: &[&[CommandOption::switch("force", "write without any field (also -f)")]],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let (path, rest) = session.path_and_rest()?;
    if rest.is_empty() && !session.options.switch("force") {
        return Err(CommandProblem::usage(
            "there is nothing to write; give name=value, or -f to write without fields",
        ));
    }
    let fields = session.fields(&rest)?;
    if path == "sys/wrapping/wrap" {
        session.wrap_for("5m");
    }
    let call = ServerRequest::new(Method::PUT, path.as_str()).with_fields(Value::Object(fields));
    let answer = session.ask(&format!("writing {path}"), &call)?;
    session.show_or(&answer, &format!("wrote {path}"))
}
