//! `bulkhead operator rekey`: other unseal keys in the place of the old ones.
//!
//! This file prevents new keys from being the only ones before their holders have them: with
//! `-verify`, the old keys stay valid until enough new keys were given back.

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::commands::key_holders::{
    SHARED, act, give_key, is_complete, member, path, progress_rows, show_with,
};
use crate::option::CommandOption;
use crate::output::TableRows;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::terminal::escape_controls;
use crate::wrapping::{AnswerWrapping, NEVER_WRAPPED};
use hyper::Method;
use serde_json::{Value, json};

/// Default number of unseal keys, and of the keys that unseal the server.
const SHARES: u64 = 5;
const THRESHOLD: u64 = 3;

pub(crate) const REKEY: Command = Command {
    words: "operator rekey",
    takes: "[KEY|-]",
    about: "replace the unseal keys or the recovery keys by others, and their number\n\n\
            1. -init begins, and prints a nonce.\n\
            2. Each holder of an old key runs the command without options and gives the key.\n\
            3. The last holder gets the new keys, this once. The old keys become invalid.\n\n\
            With -init -verify the old keys stay valid until enough new keys were given back: \
            with -verify.\n\
            Without KEY the command asks for a hidden input; \
            with - or a pipe it reads standard input.",
    options: &[
        &[
            CommandOption::switch("init", "begin; the keys are given afterwards"),
            CommandOption::number(
                "key-shares",
                "number of new keys, 1 to 255; 5 without this option",
            ),
            CommandOption::number(
                "key-threshold",
                "number of new keys to open the server; 3 without this option",
            ),
            CommandOption::switch(
                "verify",
                "with -init: use new keys once given back; else: give a new key back",
            ),
            CommandOption::text(
                "target",
                "KEYS",
                "barrier for the unseal keys, the default, or recovery for the recovery keys",
            ),
        ],
        SHARED,
    ],
    wrapping: AnswerWrapping::Refused(NEVER_WRAPPED),
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let target = RekeyTarget::of(session)?;
    let (init, verify) = (target.path(session, "init"), target.path(session, "verify"));
    let is_verification = session.options.switch("verify");
    let status_path = if is_verification { &verify } else { &init };
    match act(session)? {
        Some("init") => begin(session, target, is_verification),
        Some("cancel") if is_verification => {
            let answer =
                session.ask("beginning again", &ServerRequest::new(Method::DELETE, &verify))?;
            session.show_rows(&answer, progress_rows(&answer))
        }
        Some("cancel") => {
            let answer = session.ask("cancelling", &ServerRequest::new(Method::DELETE, &init))?;
            session.show_or(&answer, "the rekey is cancelled; the keys stay the same")
        }
        Some(_) => {
            let call = ServerRequest::new(Method::GET, status_path);
            let answer = session.ask("asking for the status", &call)?;
            session.show_rows(&answer, progress_rows(&answer))
        }
        None if is_verification => give_back(session, &verify),
        None => give(session, target),
    }
}

/// The keys to replace.
#[derive(Clone, Copy)]
enum RekeyTarget {
    Unseal,
    Recovery,
}

impl RekeyTarget {
    fn of(session: &Session<'_, '_>) -> Result<Self, CommandProblem> {
        match session.options.value("target") {
            None | Some("barrier" | "unseal") => Ok(Self::Unseal),
            Some("recovery") => Ok(Self::Recovery),
            Some(other) => Err(CommandProblem::usage(format!(
                "-target={} names no keys; give barrier or recovery",
                escape_controls(other)
            ))),
        }
    }

    fn path(self, session: &Session<'_, '_>, leaf: &str) -> String {
        let (open, authenticated) = match self {
            Self::Unseal => ("sys/rekey", "sys/rotate/root"),
            Self::Recovery => ("sys/rekey-recovery-key", "sys/rotate/recovery"),
        };
        path(session, &format!("{open}/{leaf}"), &format!("{authenticated}/{leaf}"))
    }

    /// Returns the option of the next commands.
    fn option(self) -> &'static str {
        match self {
            Self::Unseal => "",
            Self::Recovery => " -target=recovery",
        }
    }

    /// Returns the start of a row's name.
    fn row(self) -> &'static str {
        match self {
            Self::Unseal => "unseal_key",
            Self::Recovery => "recovery_key",
        }
    }
}

fn begin(
    session: &mut Session<'_, '_>,
    target: RekeyTarget,
    is_verified: bool,
) -> Result<u8, CommandProblem> {
    let shares = session.options.number("key-shares");
    let threshold = session.options.number("key-threshold");
    // A single number suffices: the other default adapts to it.
    let shares = shares.unwrap_or_else(|| SHARES.max(threshold.unwrap_or_default()));
    let threshold = threshold.unwrap_or_else(|| THRESHOLD.min(shares));
    let body = json!({
        "secret_shares": shares,
        "secret_threshold": threshold,
        "require_verification": is_verified,
    });
    let call = ServerRequest::new(Method::PUT, target.path(session, "init")).with_fields(body);
    let answer = session.ask("beginning", &call)?;
    let below = format!(
        "\nNext: each holder of an old key runs bulkhead operator rekey{}\n",
        target.option()
    );
    show_with(session, &answer, &progress_rows(&answer), &below)
}

fn give(session: &mut Session<'_, '_>, target: RekeyTarget) -> Result<u8, CommandProblem> {
    let (update, init) = (target.path(session, "update"), target.path(session, "init"));
    let answer = give_key(session, &update, &init)?;
    if !is_complete(&answer) {
        return session.show_rows(&answer, progress_rows(&answer));
    }
    let is_awaited =
        member(&answer, "verification_required").and_then(Value::as_bool) == Some(true);
    let below = if is_awaited {
        format!(
            "\nThese keys are shown this once. The old keys stay valid until enough of these were \
             given back.\n\
             Next: each holder of a new key runs bulkhead operator rekey -verify{}\n",
            target.option()
        )
    } else {
        "\nThese keys are shown this once, and are stored nowhere. The old keys open nothing any \
         more.\n"
            .to_owned()
    };
    let shown = show_with(session, &answer, &keys(&answer, target.row()), &below);
    let remedy = if is_awaited {
        "cancel the rekey and begin again; the old keys are valid"
    } else {
        match target {
            RekeyTarget::Unseal => {
                "the server stays open until the next seal, and nobody can open the server \
                 afterwards: move all secrets to another server before"
            }
            RekeyTarget::Recovery => {
                "the server opens by its seal alone, and nobody has recovery keys: move all \
                 secrets to another server"
            }
        }
    };
    shown.map_err(|problem| CommandProblem {
        message: format!("{}; the keys were not shown: {remedy}", problem.message),
        ..problem
    })
}

fn give_back(session: &mut Session<'_, '_>, verify: &str) -> Result<u8, CommandProblem> {
    let answer = give_key(session, verify, verify)?;
    let below = if is_complete(&answer) {
        "\nThe new keys are in use. The old keys open nothing any more.\n"
    } else {
        ""
    };
    show_with(session, &answer, &progress_rows(&answer), below)
}

/// Returns a row for each key, in order, and the nonces.
fn keys(answer: &ServerAnswer, row: &str) -> TableRows {
    let keys = member(answer, "keys_base64").and_then(Value::as_array).into_iter().flatten();
    let mut rows: TableRows = keys
        .enumerate()
        .map(|(index, key)| (format!("{row}_{}", index + 1), key.clone()))
        .collect();
    let nonces = ["nonce", "verification_nonce"].into_iter();
    rows.extend(nonces.filter_map(|name| {
        let nonce = member(answer, name).filter(|nonce| nonce.as_str() != Some(""))?;
        Some((name.to_owned(), nonce.clone()))
    }));
    rows
}
