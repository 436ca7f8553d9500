//! `bulkhead operator init · unseal · seal · rotate · key-status`: operation of the seal.
//!
//! Prevents an unseal key from entering a shell's history or a process list: `unseal` asks for the
//! key or reads it from standard input. Only `init` shows keys, once.

use crate::client::{Answer, Call};
use crate::command::Command;
use crate::commands::status;
use crate::option::Opt;
use crate::output::Rows;
use crate::problem::Problem;
use crate::session::Session;
use hyper::Method;
use serde_json::{Value, json};

/// Default number of unseal keys, and of the keys that unseal the server.
const SHARES: u64 = 5;
const THRESHOLD: u64 = 3;

pub(crate) const INIT: Command = Command {
    words: "operator init",
    takes: "",
    about: "initialise an empty server: prints its unseal keys and root token, this once\n\n\
            Give each key to another person. Who has as many as the threshold says has the data.",
    options: &[&[
        Opt::number("key-shares", "how many keys are made, 1 to 255; 5 unless told"),
        Opt::number("key-threshold", "how many of them open the server; 3 unless told"),
    ]],
    run: init,
};

pub(crate) const UNSEAL: Command = Command {
    words: "operator unseal",
    takes: "[KEY|-]",
    about: "give one unseal key; the server opens when it has as many as its threshold\n\n\
            Without KEY it asks for it and does not show it; \
            - or a pipe gives it on standard input.\n\
            A KEY on the command line stays in the shell's history.",
    options: &[&[Opt::switch("reset", "forget the keys that were given so far")]],
    run: unseal,
};

pub(crate) const SEAL: Command = Command {
    words: "operator seal",
    takes: "",
    about: "close the server: nothing can be read until it is unsealed again",
    options: &[],
    run: seal,
};

pub(crate) const ROTATE: Command = Command {
    words: "operator rotate",
    takes: "",
    about: "encrypt from now on with a new key; what older keys encrypted stays readable",
    options: &[],
    run: rotate,
};

pub(crate) const KEY_STATUS: Command = Command {
    words: "operator key-status",
    takes: "",
    about: "show which key encrypts now, and since when",
    options: &[],
    run: key_status,
};

fn init(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let [] = session.words()?;
    let shares = session.options.number("key-shares");
    let threshold = session.options.number("key-threshold");
    // A single number suffices: the other default adapts to it.
    let shares = shares.unwrap_or_else(|| SHARES.max(threshold.unwrap_or_default()));
    let threshold = threshold.unwrap_or_else(|| THRESHOLD.min(shares));
    let body = json!({"secret_shares": shares, "secret_threshold": threshold});
    let answer =
        session.ask("initialising", &Call::new(Method::PUT, "sys/init").with_fields(body))?;
    let below = format!(
        "\nThese keys and this token are shown this once, and are stored nowhere. \
         Keep the keys apart from each\n\
         other: after each start {threshold} of {shares} open the server, \
         and without them its data are lost.\n\
         Next: bulkhead operator unseal\n"
    );
    let shown = session.show_rows(&answer, keys(&answer), &below);
    shown.map_err(|problem| Problem {
        message: format!(
            "{}; the keys were not shown: \
             remove the server's data directory and initialise it again",
            problem.message
        ),
        ..problem
    })
}

/// Returns a row for each key, in order, and the root token.
fn keys(answer: &Answer) -> Rows {
    let keys = answer.body.get("keys_base64").and_then(Value::as_array).into_iter().flatten();
    let mut rows: Rows = keys
        .enumerate()
        .map(|(index, key)| (format!("unseal_key_{}", index + 1), key.clone()))
        .collect();
    rows.extend(
        answer.body.get("root_token").map(|token| ("root_token".to_owned(), token.clone())),
    );
    rows
}

fn unseal(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let body = if session.options.switch("reset") {
        let [] = session.words()?;
        json!({"reset": true})
    } else {
        let typed = session.at_most_one_word()?;
        json!({"key": session.secret_word(typed.as_deref(), "unseal key")?})
    };
    let answer =
        session.ask("unsealing", &Call::new(Method::PUT, "sys/unseal").with_fields(body))?;
    session.show_rows(&answer, status::rows(&answer), "")
}

fn seal(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let [] = session.words()?;
    let answer = session.ask("sealing", &Call::new(Method::PUT, "sys/seal"))?;
    session.show_or(&answer, "the server is sealed")
}

fn rotate(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let [] = session.words()?;
    let answer = session.ask("rotating", &Call::new(Method::PUT, "sys/rotate"))?;
    session.show_or(&answer, "a new key encrypts from now on")
}

fn key_status(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let [] = session.words()?;
    let answer =
        session.ask("asking for the key's status", &Call::new(Method::GET, "sys/key-status"))?;
    session.show(&answer)
}
