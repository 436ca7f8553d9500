//! `bulkhead kv list`.

use crate::command::Command;
use crate::commands::kv::secret_location::{MOUNT, SecretLocation};
use crate::commands::list::list_names;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;

pub(crate) const LIST: Command = Command {
    words: "kv list",
    takes: "PATH | -mount=MOUNT [PATH]",
    about: "list the names of secrets",
    options: &[&[MOUNT]],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let typed = session.at_most_one_word()?.unwrap_or_default();
    let place = SecretLocation::find(session, &typed)?;
    list_names(session, &place.path("metadata"))
}
