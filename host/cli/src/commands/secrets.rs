//! `bulkhead secrets list · enable · tune · move · disable`.

use crate::command::Command;
use crate::commands::mount::{
    self, CONFIG, LISTED, MOUNT, MOVE_IS_AWAITED, MountKind, NEW, REGRANTED, VERSION,
};
use crate::wrapping::AnswerWrapping;

pub(crate) const LIST: Command = Command {
    words: "secrets list",
    takes: "",
    about: "list the secrets engines and where they are mounted",
    options: &[&LISTED],
    wrapping: AnswerWrapping::Sent,
    run: |session| mount::list(session, MountKind::SecretsEngine),
};

pub(crate) const ENABLE: Command = Command {
    words: "secrets enable",
    takes: "TYPE",
    about: "mount a secrets engine, such as database",
    options: &[&NEW, &VERSION, &MOUNT, &CONFIG],
    wrapping: AnswerWrapping::Sent,
    run: |session| mount::enable(session, MountKind::SecretsEngine),
};

pub(crate) const TUNE: Command = Command {
    words: "secrets tune",
    takes: "PATH",
    about: "change the settings of a secrets engine\n\n\
            Only the given settings change; an empty value restores the default of the system.",
    options: &[&VERSION, &MOUNT, &REGRANTED, &CONFIG],
    wrapping: AnswerWrapping::Sent,
    run: |session| mount::tune(session, MountKind::SecretsEngine),
};

pub(crate) const MOVE: Command = Command {
    words: "secrets move",
    takes: "SOURCE TARGET",
    about: "mount a secrets engine elsewhere, with all data\n\n\
            The leases of the engine are revoked. Returns when the move is over; \
            ending the command does not end the move.",
    options: &[],
    wrapping: AnswerWrapping::Refused(MOVE_IS_AWAITED),
    run: |session| mount::relocate(session, MountKind::SecretsEngine),
};

pub(crate) const DISABLE: Command = Command {
    words: "secrets disable",
    takes: "PATH",
    about: "unmount a secrets engine, revoke the engine's leases and delete the engine's data",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: |session| mount::disable(session, MountKind::SecretsEngine),
};
