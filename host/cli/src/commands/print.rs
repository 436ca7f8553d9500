//! `bulkhead print token`.

use crate::command::Command;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::terminal::escape_controls;
use crate::wrapping::AnswerWrapping;

pub(crate) const TOKEN: Command = Command {
    words: "print token",
    takes: "",
    about: "print the current token of the commands; needs no server",
    options: &[],
    wrapping: AnswerWrapping::Offline,
    run: token,
};

fn token(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let Some(token) = session.token()? else {
        return Err(CommandProblem {
            code: 1,
            message: "Error: there is no token\nNext: bulkhead login".to_owned(),
        });
    };
    session.print(&format!("{}\n", escape_controls(token.expose())))
}
