//! The table of all commands, from which the help is generated.

mod audit;
mod auth;
mod delete;
mod kv;
mod lease;
mod list;
mod listing;
mod mount;
mod operator;
mod paths;
mod plugin;
mod plugin_signature;
mod policy;
mod read;
mod secrets;
mod status;
mod token;
mod write;

use crate::command::Command;
use crate::terminal::visible;
use std::ffi::OsString;
use std::fmt::Write as _;

/// All commands, in the order of the help.
const ALL: [&Command; 59] = [
    &read::READ,
    &write::WRITE,
    &list::LIST,
    &delete::DELETE,
    &status::STATUS,
    &kv::GET,
    &kv::PUT,
    &kv::PATCH,
    &kv::LIST,
    &kv::DELETE,
    &kv::UNDELETE,
    &kv::DESTROY,
    &kv::ROLLBACK,
    &kv::METADATA_GET,
    &kv::METADATA_PUT,
    &kv::METADATA_PATCH,
    &kv::METADATA_DELETE,
    &kv::ENABLE_VERSIONING,
    &secrets::LIST,
    &secrets::ENABLE,
    &secrets::TUNE,
    &secrets::MOVE,
    &secrets::DISABLE,
    &auth::LIST,
    &auth::ENABLE,
    &auth::TUNE,
    &auth::MOVE,
    &auth::DISABLE,
    &lease::LIST,
    &lease::LOOKUP,
    &lease::RENEW,
    &lease::REVOKE,
    &token::CREATE,
    &token::LOOKUP,
    &token::RENEW,
    &token::REVOKE,
    &token::CAPABILITIES,
    &policy::LIST,
    &policy::READ,
    &policy::WRITE,
    &policy::DELETE,
    &plugin::REGISTER,
    &plugin::LIST,
    &plugin::INFO,
    &plugin::DEREGISTER,
    &plugin::PIN,
    &plugin::UNPIN,
    &plugin::RELOAD,
    &plugin_signature::KEYGEN,
    &plugin_signature::SIGN,
    &audit::LIST,
    &audit::ENABLE,
    &audit::HASH,
    &audit::DISABLE,
    &operator::INIT,
    &operator::UNSEAL,
    &operator::SEAL,
    &operator::ROTATE,
    &operator::KEY_STATUS,
];

/// Returns the command whose name `args` begin with, and the remaining arguments.
#[must_use]
pub(crate) fn find(args: &[OsString]) -> Option<(&'static Command, &[OsString])> {
    ALL.iter().find_map(|command| {
        let words = command.words.split(' ');
        let count = words.clone().count();
        let (head, rest) = args.split_at_checked(count)?;
        words.zip(head).all(|(word, arg)| arg == word).then_some((*command, rest))
    })
}

/// Lists all commands, or the commands of the group `begun` (for example `lease`). Reports an
/// unknown command.
#[must_use]
pub(crate) fn overview(begun: &str) -> String {
    let group: Vec<&&Command> = ALL
        .iter()
        .filter(|command| command.words.split_once(' ').is_some_and(|(first, _)| first == begun))
        .collect();
    let mut text = String::new();
    if !begun.is_empty() && group.is_empty() {
        text.push_str(&format!("Error: there is no command {:?}\n\n", visible(begun)));
    }
    text.push_str("Usage: bulkhead COMMAND ...\n\n");
    let mut row = |words: &str, about: &str| {
        // Writing to a String cannot fail.
        writeln!(text, "  {words:<22}{about}").unwrap_or_default();
    };
    for command in if group.is_empty() { ALL.iter().collect() } else { group } {
        row(command.words, command.about.lines().next().unwrap_or_default());
    }
    row(
        "plugin inspect",
        "every endpoint of the plugins inside this program (-all: of the server, too)",
    );
    row("server", "run a server: sealed, on data that stay (-dev to try things out)");
    row("version", "print the version");
    text.push_str(
        "\n`bulkhead COMMAND -help` says more. \
         The token comes from BULKHEAD_TOKEN, VAULT_TOKEN or ~/.bulkhead-token.\n",
    );
    text
}
