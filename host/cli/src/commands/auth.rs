//! `bulkhead auth list · enable · tune · move · disable`.

use crate::command::Command;
use crate::commands::mount::{
    self, CONFIG, LISTED, LOCKOUT, MOUNT, MOVE_IS_AWAITED, MountKind, NEW, REGRANTED, TOKEN_TYPE,
};
use crate::wrapping::AnswerWrapping;

pub(crate) const LIST: Command = Command {
    words: "auth list",
    takes: "",
    about: "list the auth methods and where they are mounted",
    options: &[&LISTED],
    wrapping: AnswerWrapping::Sent,
    run: |session| mount::list(session, MountKind::AuthMethod),
};

pub(crate) const ENABLE: Command = Command {
    words: "auth enable",
    takes: "TYPE",
    about: "mount an auth method",
    options: &[&NEW, &MOUNT, &CONFIG, &TOKEN_TYPE, &LOCKOUT],
    wrapping: AnswerWrapping::Sent,
    run: |session| mount::enable(session, MountKind::AuthMethod),
};

pub(crate) const TUNE: Command = Command {
    words: "auth tune",
    takes: "PATH",
    about: "change the settings of an auth method\n\n\
            Only the given settings change; an empty value restores the default of the system.",
    options: &[&MOUNT, &REGRANTED, &CONFIG, &TOKEN_TYPE, &LOCKOUT],
    wrapping: AnswerWrapping::Sent,
    run: |session| mount::tune(session, MountKind::AuthMethod),
};

pub(crate) const MOVE: Command = Command {
    words: "auth move",
    takes: "SOURCE TARGET",
    about: "mount an auth method elsewhere, with all data\n\n\
            The tokens of the method are revoked. Returns when the move is over; \
            ending the command does not end the move.",
    options: &[],
    wrapping: AnswerWrapping::Refused(MOVE_IS_AWAITED),
    run: |session| mount::relocate(session, MountKind::AuthMethod),
};

pub(crate) const DISABLE: Command = Command {
    words: "auth disable",
    takes: "PATH",
    about: "unmount an auth method, revoke the method's tokens and delete the method's data",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: |session| mount::disable(session, MountKind::AuthMethod),
};
