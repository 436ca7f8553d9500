//! `bulkhead operator generate-root`: a root token made by key holders.
//!
//! This file prevents a key and the token from entering a shell's history: the key is asked for or
//! read from standard input, and the token is shown only to the caller with the OTP.

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::commands::key_holders::{
    SHARED, act, give_key, is_complete, member, path, progress_rows, show_with,
};
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::{AnswerWrapping, NEVER_WRAPPED};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bulkhead_wire::secret::Secret;
use hyper::Method;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, Read};

/// Maximum length of an OTP, in characters.
const OTP_LENGTH_MAX: usize = 256;

pub(crate) const GENERATE_ROOT: Command = Command {
    words: "operator generate-root",
    takes: "[KEY|-]",
    about: "make a root token with the unseal keys, when no token is left\n\n\
            1. -init begins, and prints a nonce, and the OTP for the token.\n\
            2. Each holder of a key runs the command without options and gives the key.\n\
            3. The last holder gets the encoded token; decode: -decode=ENCODED -otp=OTP.\n\n\
            Without KEY the command asks for a hidden input; \
            with - or a pipe it reads standard input.",
    options: &[
        &[
            CommandOption::switch("init", "begin; the keys are given afterwards"),
            CommandOption::switch(
                "generate-otp",
                "print an OTP for -init -otp=OTP; changes nothing at the server",
            ),
            CommandOption::text(
                "otp",
                "OTP",
                "the OTP to begin or to decode with; the server's if left out",
            ),
            CommandOption::text(
                "decode",
                "ENCODED",
                "read the encoded token with -otp; asks no server",
            ),
        ],
        SHARED,
    ],
    wrapping: AnswerWrapping::Refused(NEVER_WRAPPED),
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    if let Some(encoded) = session.options.value("decode") {
        let encoded = encoded.to_owned();
        return show_token(session, &encoded);
    }
    if session.options.switch("generate-otp") {
        return show_otp(session);
    }
    let attempt = path(session, "sys/generate-root/attempt", "sys/generate-root-token/attempt");
    match act(session)? {
        Some("init") => begin(session, &attempt),
        Some("cancel") => {
            let call = ServerRequest::new(Method::DELETE, &attempt);
            let answer = session.ask("cancelling", &call)?;
            session.show_or(&answer, "the root generation is cancelled")
        }
        Some(_) => {
            let answer =
                session.ask("asking for the status", &ServerRequest::new(Method::GET, &attempt))?;
            session.show_rows(&answer, progress_rows(&answer))
        }
        None => give(session, &attempt),
    }
}

fn begin(session: &mut Session<'_, '_>, attempt: &str) -> Result<u8, CommandProblem> {
    let otp = session.options.value("otp").unwrap_or_default();
    let body = if otp.is_empty() { json!({}) } else { json!({ "otp": otp }) };
    let call = ServerRequest::new(Method::PUT, attempt).with_fields(body);
    let answer = session.ask("beginning", &call)?;
    let below = "\nKeep the OTP, which decodes the token and is shown only once.\n\
         Next: each holder of a key runs bulkhead operator generate-root\n";
    show_with(session, &answer, &progress_rows(&answer), below)
}

fn give(session: &mut Session<'_, '_>, attempt: &str) -> Result<u8, CommandProblem> {
    let update = path(session, "sys/generate-root/update", "sys/generate-root-token/update");
    let answer = give_key(session, &update, attempt)?;
    let below = match member(&answer, "encoded_token").and_then(Value::as_str) {
        Some(_) if is_complete(&answer) => {
            "\nNext: bulkhead operator generate-root -decode=ENCODED_TOKEN -otp=OTP\n"
        }
        _ => "",
    };
    show_with(session, &answer, &progress_rows(&answer), below)
}

/// Prints a random OTP of the length that the server asks for.
fn show_otp(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    if act(session)?.is_some() || session.options.value("otp").is_some() {
        return Err(CommandProblem::usage(
            "-generate-otp only prints an OTP; give the OTP to -init with -otp afterwards",
        ));
    }
    let attempt = path(session, "sys/generate-root/attempt", "sys/generate-root-token/attempt");
    let doing = "asking for the length of an OTP";
    let status = session.ask(doing, &ServerRequest::new(Method::GET, &attempt))?;
    let length = member(&status, "otp_length").and_then(Value::as_u64);
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length =
        length.filter(|length| (1..=OTP_LENGTH_MAX).contains(length)).ok_or_else(|| {
            CommandProblem::refused(doing, "the answer names no valid length of an OTP")
        })?;
    let otp =
        random_letters(length).map_err(|error| CommandProblem::refused("making an OTP", error))?;
    let body = json!({ "otp": otp, "otp_length": length });
    let answer = ServerAnswer { status: 200, body };
    match session.options.is_for_people() {
        true => session.print(&format!("{otp}\n")),
        false => session.show(&answer),
    }
}

/// Returns random letters and digits. Random bytes that are none are rejected, so that no letter is
/// favoured.
fn random_letters(length: usize) -> io::Result<String> {
    let random = BufReader::new(File::open("/dev/urandom")?).bytes();
    let letters = random.filter(|byte| byte.as_ref().map_or(true, u8::is_ascii_alphanumeric));
    letters.take(length).map(|byte| byte.map(char::from)).collect()
}

fn show_token(session: &mut Session<'_, '_>, encoded: &str) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let otp = match session.options.value("otp") {
        Some(otp) => Secret::new(otp),
        None => Secret::new(session.secret_word(None, "OTP")?),
    };
    let token = decode(encoded, otp.expose())?;
    session.print(&format!("{}\n", token.expose()))
}

/// Returns the token of an encoded token and its OTP.
fn decode(encoded: &str, otp: &str) -> Result<Secret, CommandProblem> {
    let wrong = || {
        CommandProblem::usage(
            "the OTP does not read this token: give both as they were printed, from the same \
             root generation",
        )
    };
    let mixed = STANDARD_NO_PAD.decode(encoded.trim_end_matches('=')).map_err(|_| wrong())?;
    if mixed.len() != otp.len() {
        return Err(wrong());
    }
    let token: Vec<u8> = mixed.iter().zip(otp.bytes()).map(|(one, other)| one ^ other).collect();
    let is_token = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    String::from_utf8(token).ok().filter(|_| is_token).map(Secret::new).ok_or_else(wrong)
}
