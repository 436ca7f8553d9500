//! Codes of this plugin's refusals, with the sentence that the description gives for each code.
//!
//! The host fills text in braces, so a sentence cannot contain a placeholder of statements. Such a
//! placeholder is a value of the refusal.

bulkhead_sdk::refusal_codes! {
    /// The reason for a refusal.
    pub(crate) enum Code, CODES {
        Refused = "refused":
            "the database refused user {user} (SQLSTATE {vendor-code}); check username and \
             password of connection {connection}, and the password's expiry at the database (VALID \
             UNTIL)",
        DatabaseMissing = "database-missing":
            "database {database} of connection {connection} does not exist at {targets} (SQLSTATE \
             {vendor-code}); create the database, or name another in connection_url",
        NotAdmitted = "not-admitted":
            "the database of connection {connection} does not admit user {user} (SQLSTATE \
             {vendor-code}), with any password: no line of pg_hba.conf fits address, database and \
             TLS, the user may not log in (NOLOGIN), or the user does not exist",
        ConnectRevoked = "connect-revoked":
            "user {user} of connection {connection} may not connect to database {database} \
             (SQLSTATE {vendor-code}); the password is right: grant CONNECT on the database",
        DatabaseClosed = "database-closed":
            "database {database} of connection {connection} accepts no connections (SQLSTATE \
             {vendor-code}); name another in connection_url, or set ALLOW_CONNECTIONS true",
        SessionsExhausted = "sessions-exhausted":
            "the database of connection {connection} has no free session for user {user} (SQLSTATE \
             {vendor-code}): the server, the database or the role is at the limit of connections; \
             end sessions, raise the limit, or lower max_open_connections",
        LoginFailed = "login-failed":
            "the database of connection {connection} answered the login of user {user} with \
             SQLSTATE {vendor-code}; the database's log has the reason",
        TlsFailed = "tls-failed":
            "the database of connection {connection} answered at {targets}, but TLS failed: {tls}; \
             check sslmode, tls_ca and the certificates of both sides",
        Conflict = "conflict":
            "other sessions kept changing the same rows of the database's catalog; try again, or \
             grant through a group role (IN ROLE) instead of on single tables",
        InvalidConfig = "invalid-config":
            "connection {connection} cannot be dialled with the given settings; check the \
             certificates and the key, which must be unencrypted PEM",
        StatementFailed = "statement-failed":
            "the database of connection {connection} refused {work} (SQLSTATE {vendor-code}); the \
             transaction was rolled back",
        NameTaken = "name-taken":
            "{work} creates an object with a taken name (SQLSTATE {vendor-code}), and nothing was \
             created: for a user, let username_template put (random 20) into the name",
        UserExists = "user-exists":
            "user {username} exists already and is not of this role, and nothing was changed: let \
             username_template put (random 20) into the name",
        NameFolded = "name-folded":
            "the creation statements made no user {username} but user {folded}, because PostgreSQL \
             folds a name without quotes to lower case; nothing was created: write {placeholder} \
             in double quotes",
        UserNotCreated = "user-not-created":
            "the creation statements ran, but there was no user {username} afterwards, and nothing \
             was kept: let the statements create a user of exactly the name {placeholder}",
        RolesUnseen = "roles-unseen":
            "the user could not be looked for after the creation statements, and nothing was kept: \
             user {user} of connection {connection}, or the role that the statements SET, may not \
             read pg_catalog.pg_roles (SQLSTATE {vendor-code}); grant SELECT",
        TooManyDirectGrants = "too-many-direct-grants":
            "an object cannot hold another direct grant (SQLSTATE 54000, {work}); grant to a group \
             role once and create users in the group role (IN ROLE)",
        InsufficientPrivilege = "insufficient-privilege":
            "user {user} of connection {connection} lacks a right for {work} (SQLSTATE 42501); \
             give the user CREATEROLE, and with grant option the privileges to hand out, then try \
             again",
        OwnsObjects = "owns-objects":
            "the user owns {objects} and can no longer log in; nothing was dropped: give the \
             objects another owner (REASSIGN OWNED), then revoke again",
        StillHolds = "still-holds-privileges":
            "the user can no longer log in but still holds privileges that user {user} cannot \
             revoke, on {held}; let the grantor revoke these, or run DROP OWNED BY in the \
             database, then revoke again",
        SessionsRemain = "sessions-remain":
            "the user can no longer log in, but user {user} of connection {connection} may not end \
             the open sessions (SQLSTATE {vendor-code}); grant pg_signal_backend to the \
             connection's user, or end the sessions by hand, then revoke again",
        StillLogsIn = "still-logs-in":
            "the revocation statements ran, but the user is still there and can log in, because \
             user {user} of connection {connection} may not alter the user; let the statements \
             DROP ROLE the user, or give user {user} CREATEROLE, then revoke again",
        IdentityUnseen = "identity-unseen":
            "the user cannot be told from a user of somebody else with the same name, because user \
             {user} of connection {connection} may not run pg_catalog.pg_control_system() and \
             pg_control_checkpoint(), or read pg_catalog.pg_roles and pg_shdepend (SQLSTATE \
             {vendor-code}); grant EXECUTE and SELECT on these, then try again",
        IdentityUncertain = "identity-uncertain":
            "the database failed over or was recovered since user {username} was created, and the \
             OID belongs to user {other} now: if this is the same user, undo the renaming, then \
             try again; if not, drop any {username} by hand, and revoke the lease with \
             sys/leases/revoke-force",
        PasswordNotAscii = "password-not-ascii":
            "password_authentication is scram-sha-256, which needs passwords of printable ASCII; \
             change the password policy",
        ConnectionUrlMissing = "connection-url-missing":
            "connection_url is required: write postgresql://host:5432/database and give username \
             and password as settings",
        UrlScheme = "url-scheme":
            "{setting} must begin with postgresql:// or postgres://, or be a list such as host=… \
             port=… dbname=…",
        KeywordSyntax = "keyword-syntax":
            "{setting} is not a list of keyword=value pairs from pair {position} on; put values \
             with spaces in '…'",
        FilePath = "file-path":
            "{setting} names a file in {parameter}, and a plugin reads no files; put the PEM text \
             into tls_ca, tls_certificate or private_key",
        SslMode = "sslmode":
            "{setting} has an unknown sslmode; use disable, allow, prefer, require, verify-ca or \
             verify-full",
        TlsContradiction = "tls-contradiction":
            "{setting} names certificates to trust, but sslmode does not check any; use \
             sslmode=verify-full",
        PasswordAuthentication = "password-authentication":
            "{setting} must be password or scram-sha-256",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::refusal_codes::find_mistakes;

    #[test]
    fn refusal_sentences_use_carried_values_only() {
        let own =
            ["objects", "held", "placeholder", "parameter", "username", "folded", "tls", "other"];
        assert_eq!(find_mistakes(CODES, &own), Vec::<String>::new());
    }
}
