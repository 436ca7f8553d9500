//! Every code of this plugin's refusals, and the sentence that the description fixes for it.
//!
//! The sentences are complete before anything runs: no value of a running system can get into one
//! but the names and numbers that its braces ask for.

use bulkhead_sdk::database_plugin::Refusal;

/// Why the plugin refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Unreachable,
    Refused,
    TimedOut,
    Conflict,
    PermissionDenied,
    ForbiddenAddress,
    InvalidConfig,
    StatementFailed,
    InvalidStatement,
    InsufficientPrivilege,
    PasswordPolicy,
    Unsupported,
    UserNotFound,
    ConnectionUser,
    CreationStatementsRequired,
    ConnectionUrlMissing,
    ConnectionUrlForm,
    TlsMode,
    TlsContradiction,
    AuthType,
    SelfManaged,
}

/// Each code with its word and its sentence, in the order of [`Code`].
pub(crate) const CODES: [(Code, &str, &str); 21] = [
    (
        Code::Unreachable,
        "unreachable",
        "the database of connection {connection} did not answer ({targets}); check that it runs \
         and that connection_url names it",
    ),
    (
        Code::Refused,
        "refused",
        "the database refused user {user} (error {vendor-code}); check username, password and TLS \
         of connection {connection}",
    ),
    (
        Code::TimedOut,
        "timed-out",
        "the database of connection {connection} ({targets}) did not finish in time; check its \
         load and its locks, then try again",
    ),
    (
        Code::Conflict,
        "conflict",
        "other sessions kept locking what {what} needs (error {vendor-code}); try again",
    ),
    (
        Code::PermissionDenied,
        "permission-denied",
        "this mount has no grant to reach {targets}; add it to the mount's grants",
    ),
    (
        Code::ForbiddenAddress,
        "forbidden-address",
        "connection {connection} names an address that is never dialled ({targets}): a link-local, \
         multicast or cloud-metadata one, or that of this server itself; give the address of the \
         database",
    ),
    (
        Code::InvalidConfig,
        "invalid-config",
        "connection {connection} cannot be dialled with its settings; check the certificates and \
         the key, which must be unencrypted PEM, and use TLS: without it this server's way of \
         asking for a password is not answered",
    ),
    (
        Code::StatementFailed,
        "statement-failed",
        "the database of connection {connection} refused {what} (error {vendor-code})",
    ),
    (
        Code::InvalidStatement,
        "invalid-statement",
        "statement {statement}, character {position}: the text {fault}",
    ),
    (
        Code::InsufficientPrivilege,
        "insufficient-privilege",
        "user {user} of connection {connection} may not do what {what} needs (error \
         {vendor-code}); give it CREATE USER, SELECT on mysql.user, and with grant option the \
         privileges that it hands out",
    ),
    (
        Code::PasswordPolicy,
        "password-policy",
        "the database's own rules refused the password (error {vendor-code}); give the connection \
         a password_policy that meets them",
    ),
    (
        Code::Unsupported,
        "unsupported",
        "this plugin handles passwords and client certificates; set credential_type to one of them",
    ),
    (
        Code::UserNotFound,
        "user-not-found",
        "the database of connection {connection} has no such user any more; ask for a new \
         credential",
    ),
    (
        Code::ConnectionUser,
        "connection-user",
        "the user to be removed is the one that connection {connection} logs in with; remove it by \
         hand if it must go",
    ),
    (
        Code::CreationStatementsRequired,
        "creation-statements-required",
        "creation_statements is required: give at least one statement that creates {placeholder}",
    ),
    (
        Code::ConnectionUrlMissing,
        "connection-url-missing",
        "connection_url is required: write {placeholder}, and give username and password as \
         settings",
    ),
    (
        Code::ConnectionUrlForm,
        "connection-url-form",
        "{setting} is neither user:password@tcp(host:3306)/database nor mysql://host:3306/database",
    ),
    (
        Code::TlsMode,
        "tls-mode",
        "{setting} has a parameter tls that is none of true, false, skip-verify and preferred; \
         give certificates as tls_ca and tls_certificate_key",
    ),
    (
        Code::TlsContradiction,
        "tls-contradiction",
        "{setting} is given, but the parameter tls of connection_url checks no certificate; write \
         tls=true",
    ),
    (
        Code::AuthType,
        "auth-type-unsupported",
        "{setting} is not available in this version; use username and password",
    ),
    (
        Code::SelfManaged,
        "self-managed",
        "connection {connection} is self-managed: it has no user of its own, and users change \
         their own passwords; give it username and password to let it do more",
    ),
];

impl Code {
    /// A refusal with nothing but this code.
    pub(crate) fn refusal(self) -> Refusal {
        let found = CODES.iter().find(|(code, ..)| *code == self);
        Refusal::of(found.map_or("", |(_, word, _)| word))
    }

    /// A refusal of one setting.
    pub(crate) fn about(self, setting: &str) -> Refusal {
        self.refusal().about(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_in_the_table_under_its_own_word() {
        for (place, (code, word, sentence)) in CODES.iter().enumerate() {
            assert_eq!(*code as usize, place, "{word}");
            assert!(sentence.len() > 20, "{word}");
            assert_eq!(CODES.iter().filter(|(_, other, _)| other == word).count(), 1, "{word}");
        }
        assert_eq!(Code::SelfManaged as usize + 1, CODES.len());
    }

    #[test]
    fn sentences_ask_only_for_what_refusals_carry() {
        let carried = [
            "setting",
            "statement",
            "vendor-code",
            "connection",
            "targets",
            "user",
            "what",
            "position",
            "fault",
            "placeholder",
        ];
        for (_, word, sentence) in CODES {
            for asked in sentence.split('{').skip(1) {
                let name = asked.split('}').next().unwrap();
                assert!(carried.contains(&name), "{word} asks for {name:?}");
            }
        }
    }
}
