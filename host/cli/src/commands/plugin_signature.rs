//! `bulkhead plugin keygen · sign`: keys and signatures of components, made without a server.
//!
//! This file prevents a private key that other users of the machine can read: a new key file is
//! closed to them from the start, and an open one is refused.

use crate::client::ServerAnswer;
use crate::command::Command;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_crypto::{KeyParameters, PrivateKey};
use bulkhead_wire::component_signature::{key_line, signed_text};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::hexadecimal;
use bulkhead_wire::secret::Secret;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

pub(crate) const KEYGEN: Command = Command {
    words: "plugin keygen",
    takes: "FILE",
    about: "make a key for signatures of components; needs no server\n\n\
            Writes the private key to FILE, which must not exist, and shows the public key. \
            Servers trust the\n\
            public keys of their configuration: plugin_signatures { trusted_keys }.",
    options: &[],
    wrapping: AnswerWrapping::Offline,
    run: keygen,
};

pub(crate) const SIGN: Command = Command {
    words: "plugin sign",
    takes: "-key=FILE COMPONENT",
    about: "sign a component with a private key; needs no server\n\n\
            Shows the signature for `bulkhead plugin register -signature`.",
    options: &[&[KEY]],
    wrapping: AnswerWrapping::Offline,
    run: sign,
};

const KEY: CommandOption =
    CommandOption::text("key", "FILE", "the private key from `bulkhead plugin keygen`");

/// Maximum length of a key file, in bytes.
const KEY_BYTES: u64 = 16 << 10;

/// Permission bits that a key file must not have.
const OTHERS: u32 = 0o077;

fn keygen(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [file] = session.words()?;
    let key_pair = KeyParameters::read("ed25519", 0, "pkcs8").and_then(KeyParameters::generate_key);
    let key_pair = key_pair.map_err(|failure| failed("making a key", failure))?;
    let public = key_pair.public_key.pem().map_err(|failure| failed("making a key", failure))?;
    write_key(&file, key_pair.private_key.as_bytes()).map_err(|error| {
        CommandProblem::usage(format!(
            "{file} cannot be written: {error}; give the name of a new file"
        ))
    })?;
    session
        .note(&format!("the private key is in {file}; anyone with the file can sign components"));
    session.show(&answer(json!({ "public_key": key_line(&public) })))
}

/// Writes a new file that only its owner can read.
fn write_key(file: &str, text: &[u8]) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    opened.write_all(text)?;
    opened.sync_all()
}

fn sign(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [component] = session.words()?;
    let file =
        session.options.value("key").map(str::to_owned).ok_or_else(|| session.usage_problem())?;
    let key = read_key(&file)?;
    let bytes = session.bytes(&component)?;
    if !bytes.starts_with(b"\0asm") {
        return Err(CommandProblem::usage(format!("{component} is not a WebAssembly component")));
    }
    let sha256 = hexadecimal::text(&bulkhead_crypto::sha256(&bytes));
    let signed = key.public().and_then(|public| public.pem()).and_then(|public| {
        let signature = bulkhead_crypto::sign("EdDSA", &key, signed_text(&sha256).as_bytes())?;
        Ok((STANDARD.encode(signature), key_line(&public)))
    });
    let (signature, signed_by) = signed.map_err(|failure| of_key(&file, &failure))?;
    session.show(&answer(json!({
        "sha256": sha256, "signature": signature, "signed_by": signed_by,
    })))
}

/// Reads a private key that is closed to other users.
fn read_key(file: &str) -> Result<PrivateKey, CommandProblem> {
    let unreadable =
        |error: io::Error| CommandProblem::usage(format!("the key {file} cannot be read: {error}"));
    let opened = File::open(file).map_err(unreadable)?;
    let mode = opened.metadata().map_err(unreadable)?.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(CommandProblem::usage(format!(
            "the key {file} is open to others (mode {mode:04o}) and may have been copied; run \
             chmod 600 {file}, or make another key"
        )));
    }
    let mut text = String::new();
    opened.take(KEY_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > KEY_BYTES {
        let why = format!("the file has more than {KEY_BYTES} bytes and is not a key");
        return Err(unreadable(io::Error::other(why)));
    }
    let text = Secret::new(text);
    PrivateKey::read(text.expose()).map_err(|failure| of_key(file, &failure))
}

fn of_key(file: &str, failure: &Failure) -> CommandProblem {
    CommandProblem::usage(format!(
        "the key {file} signs no component: {}; give a key of `bulkhead plugin keygen`",
        failure.message
    ))
}

fn failed(doing: &str, failure: Failure) -> CommandProblem {
    CommandProblem::refused(doing, failure.message)
}

/// Returns members in the form of a server's answer, so that they are shown like any answer. The
/// member `request_id` makes the body an envelope.
fn answer(data: Value) -> ServerAnswer {
    ServerAnswer { status: 200, body: json!({ "request_id": "", "data": data }) }
}
