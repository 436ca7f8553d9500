//! Codes of this plugin's refusals, with the sentence that the description gives for each code.

bulkhead_sdk::refusal_codes! {
    /// The reason for a refusal.
    pub(crate) enum Code, CODES {
        Refused = "refused":
            "the database refused user {user} (error {vendor-code}); check username, password and \
             TLS of connection {connection}",
        DatabaseMissing = "database-missing":
            "database {database} of connection {connection} does not exist at {targets} (error \
             {vendor-code}); create the database, or name another or none in connection_url",
        DatabaseClosed = "database-closed":
            "database {database} of connection {connection} does not exist at {targets}, or user \
             {user} has no privilege there (error {vendor-code}); create the database, grant a \
             privilege, or name no database in connection_url",
        PasswordExpired = "password-expired":
            "the password of user {user} of connection {connection} has expired and must be reset \
             (error {vendor-code}): reset the password at the database (ALTER USER … IDENTIFIED BY \
             …) and write the new password to the connection",
        AccountLocked = "account-locked":
            "the account of user {user} of connection {connection} is locked, or blocked after \
             failed logins (error {vendor-code}); unlock the account at the database (ALTER USER … \
             ACCOUNT UNLOCK; MariaDB: FLUSH PRIVILEGES ends a block)",
        HostNotAdmitted = "host-not-admitted":
            "the database of connection {connection} admits no user from this server's address \
             (error {vendor-code}); create user {user} for this host, or for '%'",
        TlsRequired = "tls-required":
            "the database of connection {connection} takes logins over TLS only (error \
             {vendor-code}); write tls=true into connection_url",
        SessionsExhausted = "sessions-exhausted":
            "the database of connection {connection} has no free session for user {user} (error \
             {vendor-code}): the server or the user is at the limit of connections or queries; end \
             sessions, raise the limit, or lower max_open_connections",
        TlsFailed = "tls-failed":
            "the database of connection {connection} answered at {targets}, but TLS failed: {tls}; \
             check the parameter tls of connection_url, tls_ca and the certificates of both sides",
        Conflict = "conflict":
            "other sessions held locks needed by {work} (error {vendor-code}); try again",
        InvalidConfig = "invalid-config":
            "connection {connection} cannot be dialled with the given settings; check the \
             certificates and the key, which must be unencrypted PEM, and use TLS: without TLS, \
             this server's way of authentication is not supported",
        StatementFailed = "statement-failed":
            "the database of connection {connection} refused {work} (error {vendor-code})",
        InsufficientPrivilege = "insufficient-privilege":
            "user {user} of connection {connection} lacks a right for {work} (error \
             {vendor-code}); give the user CREATE USER, SELECT on mysql.user, PROCESS and \
             CONNECTION ADMIN, and with grant option the privileges to hand out, then try again",
        AccountsUnseen = "accounts-unseen":
            "user {user} of connection {connection} may not read mysql.user, so accounts of the \
             user at other hosts than % may be left; grant SELECT on mysql.user, or give the role \
             revocation_statements that DROP USER each account by name and host, then try again",
        CreationUnseen = "creation-unseen":
            "the creation statements do not show which accounts they make, and user {user} of \
             connection {connection} may not read mysql.user, so nothing was created: let each \
             statement CREATE USER {placeholder} for one account and without IF NOT EXISTS, or \
             grant SELECT on mysql.user",
        AccountStays = "account-stays":
            "the revocation statements ran, but the user still has an account, and user {user} of \
             connection {connection} could not lock the account (error {vendor-code}); let the \
             statements DROP USER each account, then revoke again",
        SessionsUnseen = "sessions-unseen":
            "the user can no longer log in, but user {user} of connection {connection} may not \
             look for open sessions; grant PROCESS and CONNECTION ADMIN (SUPER before MariaDB \
             10.5), then revoke again",
        SessionsRemain = "sessions-remain":
            "the user can no longer log in, but user {user} of connection {connection} may not end \
             the open sessions (error {vendor-code}); grant CONNECTION ADMIN (SUPER before MariaDB \
             10.5), or end the sessions by hand, then revoke again",
        NameTaken = "name-taken":
            "{work} creates an existing user, or changes a missing user (error {vendor-code}); let \
             username_template put (random 20) into the name",
        UserExists = "user-exists":
            "user {username} has an account already, not of this role, and nothing was changed: \
             let username_template put (random 20) into the name",
        UserNotCreated = "user-not-created":
            "the creation statements ran, but user {username} had no account afterwards, and \
             the accounts that the statements created by name were removed again: let the \
             statements create {placeholder}",
        PasswordPolicy = "password-policy":
            "the database's own rules refused the password (error {vendor-code}); give the \
             connection a fitting password_policy",
        ConnectionUrlMissing = "connection-url-missing":
            "connection_url is required: write {placeholder}, and give username and password as \
             settings",
        ConnectionUrlForm = "connection-url-form":
            "{setting} is neither user:password@tcp(host:3306)/database nor \
             mysql://host:3306/database",
        TlsMode = "tls-mode":
            "{setting} has a parameter tls other than true, false, skip-verify and preferred; give \
             certificates as tls_ca and tls_certificate_key",
        TlsContradiction = "tls-contradiction":
            "{setting} is given, but the parameter tls of connection_url checks no certificate; \
             write tls=true",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::refusal_codes::find_mistakes;

    #[test]
    fn refusal_sentences_use_carried_values_only() {
        let own = ["placeholder", "username", "tls"];
        assert_eq!(find_mistakes(CODES, &own), Vec::<String>::new());
    }
}
