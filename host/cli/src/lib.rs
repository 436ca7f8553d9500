//! The client side of the `bulkhead` program: a command line, an HTTP request, a table.
//!
//! This crate knows only the HTTP API and the signatures of components: neither the core nor its
//! rules. Messages of the server are printed unchanged, with control characters made visible.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! input → keyboard → nearest → option → problem → terminal → tls → yaml → client → download
//! → upload → io → options → token_file → curl → output → refusal → sample_policy → wrapping
//! → settings → session → command → commands → completion
//! ```

mod client;
mod command;
mod commands;
mod completion;
mod curl;
mod download;
mod input;
mod io;
pub mod keyboard;
mod nearest;
mod option;
mod options;
mod output;
mod problem;
mod refusal;
mod sample_policy;
mod session;
mod settings;
mod terminal;
mod tls;
mod token_file;
mod upload;
mod wrapping;
mod yaml;

pub use io::{CommandIo, DataRestorer, RestorePlace, SnapshotInspector};
pub use nearest::find_nearest;
pub use options::double_dashes;

use completion::Shell;
use problem::CommandProblem;
use session::Session;
use std::ffi::OsString;

/// Runs the command that `args` name (without the program's name) and returns the exit code: 0
/// success, 1 refused or failed by the server, 2 wrong usage or server not reachable. `status` has
/// its own codes (decision P16).
pub fn run(args: impl Iterator<Item = OsString>, io: &mut CommandIo<'_>) -> u8 {
    match execute(args.collect(), io) {
        Ok(code) => code,
        Err(CommandProblem { code: 0, message }) => {
            print(io, &format!("{}\n", terminal::visible_lines(&message)))
                .unwrap_or_else(|problem| problem.code)
        }
        Err(CommandProblem { code, message }) => {
            // If standard error is closed, the exit code has to suffice.
            writeln!(io.stderr, "{}", terminal::visible_lines(&message)).unwrap_or_default();
            code
        }
    }
}

fn execute(args: Vec<OsString>, io: &mut CommandIo<'_>) -> Result<u8, CommandProblem> {
    let words: Vec<&str> = args.iter().map_while(|arg| arg.to_str()).collect();
    if matches!(words.as_slice(), ["help" | "--help" | "-help" | "-h", ..]) {
        return print(io, &commands::list_commands("").unwrap_or_default());
    }
    if matches!(words.as_slice(), ["version" | "--version" | "-version" | "-v", ..]) {
        return print(io, concat!("Bulkhead ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    if let ["completion", rest @ ..] = words.as_slice() {
        return print(io, &completion_script(rest)?);
    }
    let Some((command, rest)) = commands::find(&args) else {
        return list_group(&words, io);
    };
    let options = command.parse(rest.iter().cloned())?;
    if options.help {
        return print(io, &command.help());
    }
    let mut session = Session::new((command.wrapping, command.usage_problem()), options, io)?;
    (command.run)(&mut session)
}

/// Lists the commands of a group, or reports an unknown command. `words` name no command.
fn list_group(words: &[&str], io: &mut CommandIo<'_>) -> Result<u8, CommandProblem> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        words.iter().copied().partition(|word| word.starts_with('-'));
    let group = names.join(" ");
    match commands::list_commands(&group) {
        None => Err(commands::unknown_command(&names)),
        Some(text) if options.iter().any(|option| HELP.contains(option)) => print(io, &text),
        Some(text) => Err(CommandProblem { code: 2, message: text }),
    }
}

fn completion_script(words: &[&str]) -> Result<String, CommandProblem> {
    match words {
        [name] => Shell::find_shell(name).map(Shell::script),
        _ => None,
    }
    .ok_or_else(|| {
        CommandProblem::usage(
            "type: bulkhead completion bash|zsh|fish; in bash, run: source <(bulkhead completion \
             bash)",
        )
    })
}

/// Options that ask for help.
const HELP: [&str; 3] = ["-h", "-help", "--help"];

fn print(io: &mut CommandIo<'_>, text: &str) -> Result<u8, CommandProblem> {
    io.stdout.write_all(text.as_bytes()).map_err(CommandProblem::unwritable)?;
    Ok(0)
}

#[cfg(test)]
mod tests;
