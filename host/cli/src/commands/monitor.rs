//! `bulkhead monitor`: prints the lines of the server's log while they are written.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;

const ABOUT: &str = "print the lines of the server's log while they are written\n\n\
    The level is independent of the level of the server's log. The command ends with the server, \
    with a\nseal, with the token, or with Ctrl-C.";

/// Reason for the refusal of a wrapping time.
const NO_WRAPPING: &str = "the lines of a log have no end and cannot be wrapped";

const OPTIONS: [CommandOption; 2] = [
    CommandOption::text("log-level", "LEVEL", "trace, debug, info, warn or error; default info"),
    CommandOption::text("log-format", "FORMAT", "standard or json; default standard"),
];

pub(crate) const MONITOR: Command = Command {
    words: "monitor",
    takes: "",
    about: ABOUT,
    options: &[&OPTIONS],
    wrapping: AnswerWrapping::Refused(NO_WRAPPING),
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let mut call = ServerRequest::new(Method::GET, "sys/monitor");
    for (option, name) in [("log-level", "log_level"), ("log-format", "log_format")] {
        if let Some(value) = session.options.value(option) {
            call.query.push((name.to_owned(), value.to_owned()));
        }
    }
    session.follow("monitoring the log", &call)?;
    Ok(0)
}
