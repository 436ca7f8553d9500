//! `bulkhead operator unseal · seal · rotate · key-status · release`: operation of the seal, and
//! the release of restored data.
//!
//! This file prevents an unseal key from entering a shell's history or a process list: `unseal`
//! asks for the key or reads it from standard input.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::status::rows as status_rows;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::json;

pub(crate) const UNSEAL: Command = Command {
    words: "operator unseal",
    takes: "[KEY|-]",
    about: "give an unseal key; the server opens after as many keys as the threshold\n\n\
            Without KEY the command asks for a hidden input; \
            with - or a pipe it reads standard input.\n\
            A KEY on the command line stays in the shell's history.",
    options: &[&[
        CommandOption::switch("reset", "discard the keys given so far"),
        CommandOption::switch(
            "migrate",
            "give the data the seal of the configuration, with every key of the threshold",
        ),
    ]],
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

pub(crate) const RELEASE: Command = Command {
    words: "operator release",
    takes: "",
    about: "start due work after a restore: leases end, passwords are rotated\n\n\
            Make sure that no other server works with the same data: \
            two servers would rotate the same\npassword, and each would store another one.",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: release,
};

fn unseal(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let body = if session.options.switch("reset") {
        let [] = session.words()?;
        json!({"reset": true})
    } else {
        let typed = session.at_most_one_word()?;
        let mut body = json!({"key": session.secret_word(typed.as_deref(), "unseal key")?});
        if let (true, Some(fields)) = (session.options.switch("migrate"), body.as_object_mut()) {
            fields.insert("migrate".to_owned(), json!(true));
        }
        body
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

fn release(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let answer = session.ask("releasing", &ServerRequest::new(Method::POST, "sys/release"))?;
    session.show_or(&answer, "due work starts now")
}

fn key_status(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let answer = session
        .ask("asking for the key's status", &ServerRequest::new(Method::GET, "sys/key-status"))?;
    session.show(&answer)
}
