//! The password and the certificates of a new session, read from their files for each session.
//!
//! This file prevents a server that has to be restarted after a change of a password or a
//! certificate, and a password from a file that every user of the machine can read.

use std::path::Path;

use bulkhead_tls::NamedFile;
use bulkhead_wire::secret::Secret;

use bulkhead_place::postgres_place::{PasswordSource, PostgresPlace, PostgresServer};

use super::tls_route::TlsSettings;

/// Names of the files in messages.
const PASSWORD_FILE: &str = "the password file";
const PASS_FILE: &str = "passfile";

/// The password and the TLS settings of a new session.
pub(super) struct LoginFiles {
    pub(super) password: Option<Secret>,
    /// `None`: no TLS.
    pub(super) tls: Option<TlsSettings>,
}

impl LoginFiles {
    /// Reads the files for a session with `server`.
    ///
    /// # Errors
    /// The file that cannot be used, the reason and the remedy.
    pub(super) async fn read(
        place: &PostgresPlace,
        server: &PostgresServer,
    ) -> Result<LoginFiles, String> {
        let (place, server) = (place.clone(), server.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let tls = match server.is_socket() {
                true => None,
                false => TlsSettings::read(&place.tls, &server)?,
            };
            Ok(LoginFiles { password: password(&place, &server)?, tls })
        });
        reading.await.unwrap_or_else(|_| Err("the files of the login were not read".to_owned()))
    }
}

fn password(place: &PostgresPlace, server: &PostgresServer) -> Result<Option<Secret>, String> {
    match &place.password {
        PasswordSource::Missing => Ok(None),
        PasswordSource::Fixed(password) => Ok(Some(password.clone())),
        PasswordSource::File(path) => {
            let text = secret_text(&NamedFile::new(PASSWORD_FILE, path))?;
            let line = text.expose();
            let line = line.strip_suffix('\n').unwrap_or(line);
            let line = line.strip_suffix('\r').unwrap_or(line);
            match line.is_empty() {
                true => Err(format!("{PASSWORD_FILE} {} is empty", path.display())),
                false => Ok(Some(Secret::new(line))),
            }
        }
        PasswordSource::PassFile(path) => pass_file_entry(path, place, server).map(Some),
    }
}

fn pass_file_entry(
    path: &Path,
    place: &PostgresPlace,
    server: &PostgresServer,
) -> Result<Secret, String> {
    let text = secret_text(&NamedFile::new(PASS_FILE, path))?;
    let port = server.port.to_string();
    let wanted = [&server.host, &port, &place.database, &place.user].map(String::as_str);
    matching_password(text.expose(), wanted).ok_or_else(|| {
        format!(
            "{PASS_FILE} {} has no line for {}:{}:{}:{}; add host:port:database:user:password",
            path.display(),
            server.host,
            server.port,
            place.database,
            place.user
        )
    })
}

/// Returns the password of the first line that matches host, port, database and user. A field `*`
/// matches any value, and a backslash takes the meaning from the next character.
fn matching_password(text: &str, wanted: [&str; 4]) -> Option<Secret> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| password_for(line, wanted)).next()
}

fn password_for(line: &str, wanted: [&str; 4]) -> Option<Secret> {
    let mut rest = line;
    for value in wanted {
        let end = end_of_field(rest)?;
        let (field, after) = rest.split_at_checked(end)?;
        if field != "*" && unescaped(field) != value {
            return None;
        }
        rest = after.strip_prefix(':')?;
    }
    let end = end_of_field(rest).unwrap_or(rest.len());
    let password = unescaped(rest.get(..end)?);
    (!password.is_empty()).then(|| Secret::new(password))
}

/// Returns the position of the first colon without a backslash before it.
fn end_of_field(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (position, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ':' => return Some(position),
            _ => {}
        }
    }
    None
}

fn unescaped(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    text
}

fn secret_text(file: &NamedFile) -> Result<Secret, String> {
    let content = file.secret()?;
    let text = std::str::from_utf8(&content).map_err(|_| format!("{file} is not UTF-8"))?;
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests;
