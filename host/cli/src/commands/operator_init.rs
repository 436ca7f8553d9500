//! `bulkhead operator init`: initialises an empty server, and shows its keys, once.
//!
//! This file prevents keys that nobody has: if the keys cannot be shown, the command says that they
//! are lost and names the remedy.

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::option::CommandOption;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::terminal::escape_controls;
use crate::wrapping::{AnswerWrapping, NEVER_WRAPPED};
use hyper::Method;
use serde_json::{Value, json};

/// Default number of keys, and of the keys that are a quorum.
const SHARES: u64 = 5;
const THRESHOLD: u64 = 3;

pub(crate) const INIT: Command = Command {
    words: "operator init",
    takes: "",
    about: "initialise an empty server: prints the keys and the root token, this once\n\n\
            Give each key to another person. \
            Anyone with as many keys as the threshold can\n\
            decrypt the data. A server with an automatic seal opens by itself, \
            and its keys are\n\
            recovery keys: for generate-root, rekey, and the loss of the seal's key.",
    options: &[&[
        CommandOption::number("key-shares", "number of keys, 1 to 255; 5 without this option"),
        CommandOption::number(
            "key-threshold",
            "number of keys to open the server; 3 without this option",
        ),
        CommandOption::number(
            "recovery-shares",
            "number of recovery keys, 0 to 255; 5 without this option",
        ),
        CommandOption::number(
            "recovery-threshold",
            "number of recovery keys that are a quorum; 3 without this option",
        ),
        CommandOption::switch(
            "status",
            "only ask: exit code 0 initialised, 2 not initialised, 1 error",
        ),
    ]],
    wrapping: AnswerWrapping::Refused(NEVER_WRAPPED),
    run: init,
};

/// The keys that an initialisation makes.
struct WantedKeys {
    is_recovery: bool,
    shares: u64,
    threshold: u64,
}

impl WantedKeys {
    /// Reads the numbers of the command line. Without a number, the server's seal decides which
    /// keys are made.
    fn of(session: &mut Session<'_, '_>) -> Result<Self, CommandProblem> {
        let number = |name| session.options.number(name);
        let unseal = (number("key-shares"), number("key-threshold"));
        let recovery = (number("recovery-shares"), number("recovery-threshold"));
        let is_recovery = match (unseal, recovery) {
            ((None, None), (None, None)) => asks_for_recovery_keys(session)?,
            (_, (None, None)) => false,
            ((None, None), _) => true,
            _ => {
                return Err(CommandProblem::usage(
                    "a server has unseal keys or recovery keys: give -key-… or -recovery-…"
                        .to_owned(),
                ));
            }
        };
        let (shares, threshold) = if is_recovery { recovery } else { unseal };
        // A single number suffices: the other default adapts to it.
        let shares = shares.unwrap_or_else(|| SHARES.max(threshold.unwrap_or_default()));
        let threshold = threshold.unwrap_or_else(|| THRESHOLD.min(shares));
        Ok(Self { is_recovery, shares, threshold })
    }

    fn fields(&self) -> Value {
        let Self { is_recovery, shares, threshold } = self;
        if *is_recovery {
            json!({"recovery_shares": shares, "recovery_threshold": threshold})
        } else {
            json!({"secret_shares": shares, "secret_threshold": threshold})
        }
    }

    /// Returns the answer with the names that Vault's command prints, which scripts read.
    fn for_programs(&self, body: &Value) -> Value {
        let of = |is_meant: bool, number: u64| if is_meant { number } else { 0 };
        let list = |name| body.get(name).cloned().unwrap_or_else(|| json!([]));
        json!({
            "unseal_keys_b64": list("keys_base64"),
            "unseal_keys_hex": list("keys"),
            "unseal_shares": of(!self.is_recovery, self.shares),
            "unseal_threshold": of(!self.is_recovery, self.threshold),
            "recovery_keys_b64": list("recovery_keys_base64"),
            "recovery_keys_hex": list("recovery_keys"),
            "recovery_keys_shares": of(self.is_recovery, self.shares),
            "recovery_keys_threshold": of(self.is_recovery, self.threshold),
            "root_token": body.get("root_token"),
        })
    }

    /// Returns the advice below the keys.
    fn advice(&self) -> String {
        let Self { shares, threshold, .. } = self;
        if self.is_recovery {
            format!(
                "\nThese keys and this token are shown this once, and are stored nowhere. \
                 Keep the keys apart from each\n\
                 other. The server opens by itself; {threshold} of {shares} recovery keys generate \
                 a root token, and open the\n\
                 data if the key of the seal is lost.\n\
                 Next: bulkhead status\n"
            )
        } else {
            format!(
                "\nThese keys and this token are shown this once, and are stored nowhere. \
                 Keep the keys apart from each\n\
                 other: after each start {threshold} of {shares} open the server, \
                 and without these keys the data are lost.\n\
                 Next: bulkhead operator unseal\n"
            )
        }
    }
}

/// Asks the server whether an initialisation makes recovery keys.
fn asks_for_recovery_keys(session: &mut Session<'_, '_>) -> Result<bool, CommandProblem> {
    let call = ServerRequest::new(Method::GET, "sys/seal-status");
    let status = session.ask("asking for the seal", &call)?;
    Ok(status.body.get("recovery_seal").and_then(Value::as_bool) == Some(true))
}

fn init(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    if session.options.switch("status") {
        return status(session);
    }
    let wanted = WantedKeys::of(session)?;
    let call = ServerRequest::new(Method::PUT, "sys/init").with_fields(wanted.fields());
    let answer = session.ask("initialising", &call)?;
    let answer = ServerAnswer { body: wanted.for_programs(&answer.body), ..answer };
    let shown = match session.options.is_for_people() {
        true => session.show_text(&answer, &format!("{}{}", keys(&answer), wanted.advice())),
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

/// Renders a line for each key, in order, and the root token. Scripts search for these words.
fn keys(answer: &ServerAnswer) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (title, member) in
        [("Unseal Key", "unseal_keys_b64"), ("Recovery Key", "recovery_keys_b64")]
    {
        let keys = answer.body.get(member).and_then(Value::as_array).into_iter().flatten();
        lines.extend(
            keys.enumerate()
                .map(|(index, key)| format!("{title} {}: {}\n", index + 1, format_value(key))),
        );
    }
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
