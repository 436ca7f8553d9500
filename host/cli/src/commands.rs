//! The table of all commands, from which the help is generated.

mod audit;
mod auth;
mod delete;
mod generate_root;
mod key_holders;
mod kv;
mod lease;
mod list;
mod listing;
mod login;
mod monitor;
mod mount;
mod nodes;
mod operator;
mod operator_init;
mod patch;
mod path_help;
mod paths;
mod plugin;
mod plugin_file_name;
mod plugin_list;
mod plugin_signature;
mod policy;
mod policy_fmt;
mod print;
mod read;
mod rekey;
mod secrets;
mod snapshot;
mod snapshot_restore;
mod status;
mod token;
mod unwrap;
mod write;

use crate::command::Command;
use crate::nearest::find_nearest;
use crate::problem::CommandProblem;
use crate::terminal::escape_controls;
use std::ffi::OsString;
use std::fmt::Write as _;

/// All commands, in the order of the help.
const ALL: [&Command; 75] = [
    &read::READ,
    &write::WRITE,
    &patch::PATCH,
    &list::LIST,
    &delete::DELETE,
    &unwrap::UNWRAP,
    &path_help::PATH_HELP,
    &status::STATUS,
    &monitor::MONITOR,
    &login::LOGIN,
    &print::TOKEN,
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
    &policy_fmt::FMT,
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
    &operator_init::INIT,
    &operator::UNSEAL,
    &operator::SEAL,
    &operator::ROTATE,
    &operator::KEY_STATUS,
    &nodes::MEMBERS,
    &nodes::STEP_DOWN,
    &generate_root::GENERATE_ROOT,
    &rekey::REKEY,
    &snapshot::SAVE,
    &snapshot::RAFT_SAVE,
    &snapshot_restore::RESTORE,
    &snapshot_restore::RAFT_RESTORE,
    &operator::RELEASE,
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

/// Returns all commands of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    ALL.into_iter()
}

/// Lists all commands, or the commands of the group `begun` (for example `lease`). Returns `None`
/// if no command begins so.
#[must_use]
pub(crate) fn list_commands(begun: &str) -> Option<String> {
    let is_begun = |words: &str| {
        begun.is_empty() || words.strip_prefix(begun).is_some_and(|rest| rest.starts_with(' '))
    };
    let own =
        ALL.iter().map(|command| (command.words, command.about.lines().next().unwrap_or_default()));
    let listed: Vec<(&str, &str)> =
        own.chain(OTHERS).filter(|(words, _)| is_begun(words)).collect();
    if listed.is_empty() {
        return None;
    }
    let mut text = "Usage: bulkhead COMMAND ...\n\n".to_owned();
    for (words, about) in listed {
        // Writing to a String cannot fail.
        writeln!(text, "  {words:<23}{about}").unwrap_or_default();
    }
    text.push_str(
        "\n`bulkhead COMMAND -help` explains a command. \
         The token comes from BULKHEAD_TOKEN, VAULT_TOKEN or `bulkhead login`.\n",
    );
    Some(text)
}

/// Commands of the program that are not part of this table.
pub(crate) const OTHERS: [(&str, &str); 10] = [
    (
        "plugin inspect",
        "list every endpoint of the plugins in this program (-all: of the server, too)",
    ),
    ("operator diagnose", "check whether a server can start here with a configuration file"),
    ("operator snapshot inspect", "print the manifest of a snapshot and check its digests"),
    ("operator raft snapshot inspect", "for scripts of Vault: as `operator snapshot inspect`"),
    ("operator check", "read every record of a data directory or a snapshot, and report damage"),
    ("operator migrate", "copy all data of a server to another database, and compare every record"),
    ("server", "run a server; -dev starts a server for trials"),
    ("completion", "print the completion script for a shell: bash, zsh or fish"),
    ("help", "print this text"),
    ("version", "print the version"),
];

/// Returns the problem for words that name no command, with the nearest command.
#[must_use]
pub(crate) fn unknown_command(names: &[&str]) -> CommandProblem {
    let command_names =
        || ALL.iter().map(|command| command.words).chain(OTHERS.map(|(words, _)| words));
    let first = names.first().copied().unwrap_or_default();
    let is_group =
        command_names().any(|words| words.split_once(' ').is_some_and(|(one, _)| one == first));
    let least = if is_group { 2 } else { 1 };
    let near = (least..=names.len().min(WORDS_MAX)).rev().find_map(|count| {
        let typed = names.get(..count)?.join(" ");
        let of_as_many = command_names().filter(|words| words.split(' ').count() == count);
        Some((find_nearest(&typed, of_as_many)?, typed))
    });
    let message = match near {
        Some((near, typed)) => {
            format!(
                "there is no command {:?}; did you mean `bulkhead {near}`?",
                escape_controls(&typed)
            )
        }
        None => {
            let typed = names.get(..least).unwrap_or(names).join(" ");
            let list = if is_group { format!("bulkhead {first}") } else { "bulkhead help".into() };
            format!(
                "there is no command {:?}; `{list}` lists the commands",
                escape_controls(&typed)
            )
        }
    };
    CommandProblem::usage(message)
}

/// Maximum number of words in a command's name.
const WORDS_MAX: usize = 3;
