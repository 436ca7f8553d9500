//! Every command, as one table; help is made from it.

pub mod audit;
pub mod auth;
pub mod delete;
pub mod lease;
pub mod list;
mod listing;
mod mount;
pub mod operator;
pub mod plugin;
pub mod policy;
pub mod read;
pub mod secrets;
pub mod status;
pub mod token;
pub mod write;

use crate::options::Opt;
use crate::problem::Problem;
use crate::session::Session;
use crate::terminal::visible;
use std::ffi::OsString;
use std::fmt::Write as _;

/// One command.
pub struct Command {
    /// How it is called: `lease revoke`.
    pub words: &'static str,
    /// What follows, for help.
    pub takes: &'static str,
    /// One line for the overview; more lines for its own help.
    pub about: &'static str,
    /// Its options besides [`COMMON`], in groups that commands share.
    pub options: &'static [&'static [Opt]],
    /// Does it; answers the exit code.
    pub run: fn(&mut Session<'_, '_>) -> Result<u8, Problem>,
}

impl Command {
    /// All its options, its own first.
    pub fn options(&self) -> impl Iterator<Item = &'static Opt> {
        self.options.iter().copied().flatten().chain(&COMMON)
    }
}

/// In the order of help.
const ALL: [&Command; 41] = [
    &read::READ,
    &write::WRITE,
    &list::LIST,
    &delete::DELETE,
    &status::STATUS,
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

/// Options that every command has.
const COMMON: [Opt; 4] = [
    Opt::text(
        "address",
        "URL",
        "the server (else BULKHEAD_ADDR, VAULT_ADDR, http://127.0.0.1:8200)",
    ),
    Opt::text("format", "table|json", "how the answer is shown"),
    Opt::text("field", "NAME", "only this value, as it is"),
    Opt::switch("help", "this text"),
];

/// The command that `args` begin with, and what follows its words.
#[must_use]
pub fn find(args: &[OsString]) -> Option<(&'static Command, &[OsString])> {
    ALL.iter().find_map(|command| {
        let words = command.words.split(' ');
        let count = words.clone().count();
        let (head, rest) = args.split_at_checked(count)?;
        words.zip(head).all(|(word, arg)| arg == word).then_some((*command, rest))
    })
}

/// All commands, or those of the group that was begun (`lease`); with a word about what is no
/// command.
#[must_use]
pub fn overview(begun: &str) -> String {
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
        // writing to a String cannot fail
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
    text.push_str("\n`bulkhead COMMAND -help` says more. The token comes from BULKHEAD_TOKEN, VAULT_TOKEN or ~/.bulkhead-token.\n");
    text
}

/// All about one command.
#[must_use]
pub fn usage(command: &Command) -> String {
    let Command { words, takes, about, .. } = command;
    let mut text = format!("Usage: bulkhead {words} {takes}\n\n{about}\n\n");
    let shown = |opt: &Opt| {
        opt.takes
            .word()
            .map_or_else(|| format!("-{}", opt.name), |word| format!("-{}={word}", opt.name))
    };
    let width = command.options().map(|opt| shown(opt).len()).max().unwrap_or_default() + 3;
    for opt in command.options() {
        // writing to a String cannot fail
        writeln!(text, "  {:<width$}{}", shown(opt), opt.about).unwrap_or_default();
    }
    text
}

/// The path of what is called `name` below `base`. `noun` is what has the name, like `the policy`.
///
/// # Errors
/// An empty name, which would act on the whole collection.
fn below(base: &str, name: &str, noun: &str) -> Result<String, Problem> {
    match name.trim_matches('/') {
        "" => Err(Problem::usage(format!("{noun} needs a name"))),
        name => Ok(format!("{base}/{name}")),
    }
}
