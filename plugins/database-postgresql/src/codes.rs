//! Every code of this plugin's refusals, and the sentence that the description fixes for it.
//!
//! The sentences are complete before anything runs: no value of a running system can get into one
//! but the names and numbers that its braces ask for.

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
    TooManyDirectGrants,
    InsufficientPrivilege,
    Unsupported,
    UserNotFound,
    ConnectionUser,
    OwnsObjects,
    StillHolds,
    CreationStatementsRequired,
    PasswordNotAscii,
    UsernameTemplate,
    UsernameTemplateRepeats,
    UsernameEmpty,
    UsernameTooLong,
    TextExpected,
    FlagExpected,
    NumberExpected,
    DurationExpected,
    PemExpected,
    ConnectionUrlMissing,
    UrlScheme,
    UrlEscaping,
    UrlHost,
    UrlPort,
    KeywordSyntax,
    UnixSocket,
    TooManyHosts,
    ParameterUnknown,
    ParameterUnsupported,
    ParameterValue,
    FilePath,
    PlaceholderUnknown,
    PlaceholderMisplaced,
    CredentialMissing,
    CredentialTemplate,
    SslMode,
    TlsContradiction,
    CertificateWithoutKey,
    PasswordAuthentication,
    SelfManaged,
    AuthType,
}

/// Each code with its word and its sentence, in the order of [`Code`]. Braces are the host's to
/// fill, so a placeholder of statements cannot be written in a sentence; it travels as a pair.
pub(crate) const CODES: [(Code, &str, &str); 49] = [
    (
        Code::Unreachable,
        "unreachable",
        "the database of connection {connection} did not answer ({targets}); check that it runs \
         and that connection_url names it",
    ),
    (
        Code::Refused,
        "refused",
        "the database refused user {user} (SQLSTATE {vendor-code}); check username and password of \
         connection {connection}",
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
        "other sessions kept changing the same rows of the database's catalog; try again, or grant \
         through a group role (IN ROLE) instead of on single tables",
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
         the key, which must be unencrypted PEM",
    ),
    (
        Code::StatementFailed,
        "statement-failed",
        "the database of connection {connection} refused {what} (SQLSTATE {vendor-code}); nothing \
         of that transaction was kept",
    ),
    (
        Code::InvalidStatement,
        "invalid-statement",
        "statement {statement}, character {position}: the text {fault}",
    ),
    (
        Code::TooManyDirectGrants,
        "too-many-direct-grants",
        "an object cannot hold one more direct grant (SQLSTATE 54000, {what}); grant to a group \
         role once and create users IN ROLE it",
    ),
    (
        Code::InsufficientPrivilege,
        "insufficient-privilege",
        "user {user} of connection {connection} may not do what {what} needs (SQLSTATE 42501); \
         give it CREATEROLE, and with grant option the privileges that it hands out",
    ),
    (
        Code::Unsupported,
        "unsupported",
        "this plugin handles passwords only; set credential_type to password",
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
        Code::OwnsObjects,
        "owns-objects",
        "the user owns {objects}; it can no longer log in, and nothing was dropped: give the \
         objects another owner (REASSIGN OWNED), then revoke again",
    ),
    (
        Code::StillHolds,
        "still-holds-privileges",
        "the user can no longer log in but still holds privileges that user {user} cannot revoke, \
         on {held}; let their grantor revoke them, or run DROP OWNED BY in that database, then \
         revoke again",
    ),
    (
        Code::CreationStatementsRequired,
        "creation-statements-required",
        "creation_statements is required: give at least one statement that creates {placeholder}",
    ),
    (
        Code::PasswordNotAscii,
        "password-not-ascii",
        "password_authentication is scram-sha-256, which needs passwords of printable ASCII; \
         change the password policy",
    ),
    (Code::UsernameTemplate, "invalid-username-template", "{setting} cannot be used: {fault}"),
    (
        Code::UsernameTemplateRepeats,
        "username-template-repeats",
        "{setting} leaves fewer than eight random characters in the name, so that two users could \
         share one; put (random 20) before anything that truncate may cut",
    ),
    (
        Code::UsernameEmpty,
        "username-empty",
        "{setting} makes an empty name; let it make 1 to 63 characters",
    ),
    (
        Code::UsernameTooLong,
        "username-too-long",
        "{setting} makes a name of {bytes} bytes, and PostgreSQL cuts names after 63; end it with \
         | truncate 63",
    ),
    (Code::TextExpected, "text-expected", "{setting} must be a text"),
    (Code::FlagExpected, "flag-expected", "{setting} must be true or false"),
    (Code::NumberExpected, "number-expected", "{setting} must be a whole number, 0 or more"),
    (
        Code::DurationExpected,
        "duration-expected",
        "{setting} must be a duration such as 30s or 1h, or a number of seconds",
    ),
    (Code::PemExpected, "pem-expected", "{setting} must hold PEM text that begins with -----BEGIN"),
    (
        Code::ConnectionUrlMissing,
        "connection-url-missing",
        "connection_url is required: write postgresql://host:5432/database and give username and \
         password as settings",
    ),
    (
        Code::UrlScheme,
        "url-scheme",
        "{setting} must begin with postgresql:// or postgres://, or be a list such as host=… \
         port=… dbname=…",
    ),
    (
        Code::UrlEscaping,
        "url-escaping",
        "{setting} has a character that must be percent-encoded, such as # / ? @ or % in a user \
         name or password; better, leave both out and give them as the settings username and \
         password",
    ),
    (
        Code::UrlHost,
        "url-host",
        "{setting} has no usable host name; write postgresql://host:5432/database",
    ),
    (
        Code::UrlPort,
        "url-port",
        "{setting} has a port that is not a number from 1 to 65535, or not one port a host; write \
         postgresql://host:5432/database",
    ),
    (
        Code::KeywordSyntax,
        "keyword-syntax",
        "{setting} is not a list of keyword=value pairs from pair {position} on; put values with \
         spaces in '…'",
    ),
    (
        Code::UnixSocket,
        "unix-socket",
        "{setting} names a Unix socket; a plugin reaches databases over the network only, so name \
         a host",
    ),
    (Code::TooManyHosts, "too-many-hosts", "{setting} names more than sixteen hosts; name fewer"),
    (
        Code::ParameterUnknown,
        "parameter-unknown",
        "{setting} has an unknown parameter in place {position}; check its spelling or leave it \
         out",
    ),
    (
        Code::ParameterUnsupported,
        "parameter-unsupported",
        "{setting} has the parameter {parameter}, which this plugin cannot honour; leave it out",
    ),
    (
        Code::ParameterValue,
        "parameter-value",
        "{setting} gives the parameter {parameter} a value that it cannot have; it may be \
         {accepted}",
    ),
    (
        Code::FilePath,
        "file-path",
        "{setting} names a file in {parameter}, and a plugin reads no files; put the PEM text into \
         tls_ca, tls_certificate or private_key",
    ),
    (
        Code::PlaceholderUnknown,
        "placeholder-unknown",
        "{setting} has an unknown placeholder; there are username, name and password, each in two \
         pairs of braces, without spaces",
    ),
    (
        Code::PlaceholderMisplaced,
        "placeholder-misplaced",
        "{setting} has a placeholder outside user name, password and database name; move it there",
    ),
    (
        Code::CredentialMissing,
        "credential-missing",
        "{setting} is required, because connection_url does not hold it",
    ),
    (
        Code::CredentialTemplate,
        "credential-template",
        "{setting} must be the value itself and cannot contain a placeholder",
    ),
    (
        Code::SslMode,
        "sslmode",
        "{setting} has an sslmode that does not exist; there are disable, allow, prefer, require, \
         verify-ca and verify-full",
    ),
    (
        Code::TlsContradiction,
        "tls-contradiction",
        "{setting} names certificates to trust, but sslmode does not check any; use \
         sslmode=verify-full",
    ),
    (
        Code::CertificateWithoutKey,
        "certificate-without-key",
        "{setting} needs its partner: give tls_certificate and private_key together",
    ),
    (
        Code::PasswordAuthentication,
        "password-authentication",
        "{setting} must be password or scram-sha-256",
    ),
    (
        Code::SelfManaged,
        "self-managed-unsupported",
        "{setting} is not available in this version; give the connection a user that may create \
         roles",
    ),
    (
        Code::AuthType,
        "auth-type-unsupported",
        "{setting} is not available in this version; use username and password",
    ),
];
