//! `bulkhead operator init · unseal · seal · rotate · key-status`: operation of the seal.
//!
//! This file prevents an unseal key from entering a shell's history or a process list: `unseal`
//! asks for the key or reads it from standard input. Only `init` shows keys, once.

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::commands::status::rows as status_rows;
use crate::option::CommandOption;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::terminal::escape_controls;
use crate::wrapping::{AnswerWrapping, NEVER_WRAPPED};
use hyper::Method;
use serde_json::{Value, json};

/// Default number of unseal keys, and of the keys that unseal the server.
const SHARES: u64 = 5;
const THRESHOLD: u64 = 3;

pub(crate) const INIT: Command = Command {
    words: "operator init",
    takes: "",
    about: "initialise an empty server: prints the unseal keys and the root token, this once\n\n\
            Give each key to another person. \
            Anyone with as many keys as the threshold can\n\
            decrypt the data.",
    options: &[&[
        CommandOption::number("key-shares", "number of keys, 1 to 255; 5 without this option"),
        CommandOption::number(
            "key-threshold",
            "number of keys to open the server; 3 without this option",
        ),
        CommandOption::switch(
            "status",
            "only ask: exit code 0 initialised, 2 not initialised, 1 error",
        ),
    ]],
    wrapping: AnswerWrapping::Refused(NEVER_WRAPPED),
    run: init,
};

pub(crate) const UNSEAL: Command = Command {
    words: "operator unseal",
    takes: "[KEY|-]",
    about: "give an unseal key; the server opens after as many keys as the threshold\n\n\
            Without KEY the command asks for a hidden input; \
            with - or a pipe it reads standard input.\n\
            A KEY on the command line stays in the shell's history.",
    options: &[&[CommandOption::switch("reset", "discard the keys given so far")]],
    wrapping: AnswerWrapping::Public,
    run: unseal,
};

pub(crate) const SEAL: Command = Command {
    words: "operator seal",
    takes: "",
    about: "close the server: nothing can be read until the next unseal",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: seal,
};

pub(crate) const ROTATE: Command = Command {
    words: "operator rotate",
    takes: "",
    about: "start a new encryption key; data of older keys stay readable",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: rotate,
};

pub(crate) const KEY_STATUS: Command = Command {
    words: "operator key-status",
    takes: "",
    about: "show which key encrypts now, and since when",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: key_status,
};

fn init(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    if session.options.switch("status") {
        return status(session);
    }
    let shares = session.options.number("key-shares");
    let threshold = session.options.number("key-threshold");
    // A single number suffices: the other default adapts to it.
    let shares = shares.unwrap_or_else(|| SHARES.max(threshold.unwrap_or_default()));
    let threshold = threshold.unwrap_or_else(|| THRESHOLD.min(shares));
    let body = json!({"secret_shares": shares, "secret_threshold": threshold});
    let answer = session
        .ask("initialising", &ServerRequest::new(Method::PUT, "sys/init").with_fields(body))?;
    let below = format!(
        "\nThese keys and this token are shown this once, and are stored nowhere. \
         Keep the keys apart from each\n\
         other: after each start {threshold} of {shares} open the server, \
         and without these keys the data are lost.\n\
         Next: bulkhead operator unseal\n"
    );
    let answer = ServerAnswer { body: for_programs(&answer.body, shares, threshold), ..answer };
    let shown = match session.options.is_for_people() {
        true => session.show_text(&answer, &format!("{}{below}", keys(&answer))),
        false => session.show(&answer),
    };
    shown.map_err(|problem| CommandProblem {
        message: format!(
            "{}; the keys were not shown: remove the server's data directory and initialise the \
             server again",
            problem.message
        ),
        ..problem
    })
}

/// Returns the answer with the names that Vault's command prints, which scripts read.
fn for_programs(body: &Value, shares: u64, threshold: u64) -> Value {
    json!({
        "unseal_keys_b64": body.get("keys_base64"),
        "unseal_keys_hex": body.get("keys"),
        "unseal_shares": shares,
        "unseal_threshold": threshold,
        "recovery_keys_b64": [],
        "recovery_keys_hex": [],
        "recovery_keys_shares": 0,
        "recovery_keys_threshold": 0,
        "root_token": body.get("root_token"),
    })
}

/// Renders a line for each key, in order, and the root token. Scripts search for these words.
fn keys(answer: &ServerAnswer) -> String {
    let keys = answer.body.get("unseal_keys_b64").and_then(Value::as_array).into_iter().flatten();
    let mut lines: Vec<String> = keys
        .enumerate()
        .map(|(index, key)| format!("Unseal Key {}: {}\n", index + 1, format_value(key)))
        .collect();
    let token = answer.body.get("root_token").map(format_value).unwrap_or_default();
    lines.push(format!("\nInitial Root Token: {token}\n"));
    lines.concat()
}

fn format_value(value: &Value) -> String {
    escape_controls(&output::text(value))
}

/// Reports whether the server is initialised.
fn status(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let doing = "asking whether the server is initialised";
    let result = session.ask(doing, &ServerRequest::new(Method::GET, "sys/init"));
    // Exit code 2 means not initialised in this command, so an unreachable server gets 1.
    let answer =
        result.map_err(|problem| CommandProblem { code: problem.code.min(1), ..problem })?;
    let is_initialised = answer.body.get("initialized").and_then(Value::as_bool);
    let (code, text) = match is_initialised {
        Some(true) => (0, "the server is initialised\n"),
        Some(false) => (2, "the server is not initialised\n"),
        None => return Err(CommandProblem::refused(doing, "the answer does not say")),
    };
    match session.options.is_for_people() {
        true => session.print(text)?,
        false => session.show(&answer)?,
    };
    Ok(code)
}

fn unseal(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let body = if session.options.switch("reset") {
        let [] = session.words()?;
        json!({"reset": true})
    } else {
        let typed = session.at_most_one_word()?;
        json!({"key": session.secret_word(typed.as_deref(), "unseal key")?})
    };
    let answer = session
        .ask("unsealing", &ServerRequest::new(Method::PUT, "sys/unseal").with_fields(body))?;
    session.show_rows(&answer, status_rows(&answer))
}

fn seal(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let answer = session.ask("sealing", &ServerRequest::new(Method::PUT, "sys/seal"))?;
    session.show_or(&answer, "the server is sealed")
}

fn rotate(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let answer = session.ask("rotating", &ServerRequest::new(Method::PUT, "sys/rotate"))?;
    session.show_or(&answer, "a new key encrypts from now on")
}

fn key_status(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let answer = session
        .ask("asking for the key's status", &ServerRequest::new(Method::GET, "sys/key-status"))?;
    session.show(&answer)
}
