//! Renewal and removal of users, with the data of the users' leases.
//!
//! This file prevents an attack: a role is pointed at another connection, so that the end of an old
//! lease removes a user of the same name at that connection. A lease always acts on the connection
//! with which the user was created, and only while the connection leads to the user's server
//! ([`target`]). A lease uses the role's present statements only while the role still names that
//! connection.

use crate::connection::{Connection, about};
use crate::figures::{RENEWALS, REVOCATIONS, counted};
use crate::lifetime::LeaseLifetime;
use crate::roles::Role;
use crate::target;
use bulkhead_sdk::database_plugin::{Account, CreatedUser};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind, Host, Lease, Mount, Renewal, stored};
use serde::{Deserialize, Serialize};

/// The data stored with a lease. The lease can end after the role is gone.
#[derive(Serialize, Deserialize)]
pub(crate) struct LeaseData {
    username: String,
    role: String,
    db_name: String,
    revocation_statements: Vec<String>,
    /// The servers that hold the user. Empty in records of earlier releases.
    #[serde(default)]
    targets: Vec<String>,
    /// The accounts of the user. Empty in records of earlier releases, and if the plugin does not
    /// tell them: the name then stands for the accounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    accounts: Vec<Account>,
}

stored!(LeaseData, "lease", reads_stored_leases);

impl LeaseData {
    /// Returns the data for the lease of `user`, created by the role `role` with the name `name`.
    pub(crate) fn new(role: &Role, name: &str, user: CreatedUser, targets: Vec<String>) -> Self {
        Self {
            username: user.username,
            accounts: user.accounts,
            role: name.to_owned(),
            db_name: role.db_name.clone(),
            revocation_statements: role.revocation_statements.clone(),
            targets,
        }
    }

    /// Records the accounts that the creation made. Returns true if the data changed.
    pub(crate) fn learns(&mut self, accounts: Vec<Account>) -> bool {
        let is_new = !accounts.is_empty() && accounts != self.accounts;
        if is_new {
            self.accounts = accounts;
        }
        is_new
    }

    fn user(&self) -> CreatedUser {
        CreatedUser { username: self.username.clone(), accounts: self.accounts.clone() }
    }

    /// Adds to a refusal of the operator's statements which role the operator can correct.
    fn with_way_out(&self, why: Failure) -> Failure {
        if why.kind != FailureKind::InvalidRequest {
            return why;
        }
        let (role, db_name) = (quoted(&self.role), quoted(&self.db_name));
        let message = format!(
            "{}; the revocation goes by revocation_statements: write role {role} for connection \
             {db_name} with working statements, or with none, then revoke again",
            why.message
        );
        Failure { message, ..why }
    }

    /// Returns the connection, if the connection leads to the user's server.
    fn connection(&self, host: &dyn Host) -> Result<Connection, Failure> {
        let gone = || {
            let (user, db_name) = (quoted(&self.username), &self.db_name);
            let message = format!(
                "user {user} cannot be reached, because connection {} is gone; write \
                 config/{db_name} again",
                quoted(db_name)
            );
            Failure::new(FailureKind::NotFound, message)
        };
        let connection = Connection::find(host, &self.db_name)?.ok_or_else(gone)?;
        target::check(host, &connection, &self.db_name, &self.username, &self.targets)?;
        Ok(connection)
    }
}

/// Extends the lifetime of a user, within the present limits of role and mount.
pub(crate) fn renew(
    host: &dyn Host,
    mount: &Mount,
    lease: &Lease,
    increment: u64,
) -> Result<Renewal, Failure> {
    let lease_data: LeaseData = lease.internal()?;
    let gone = || {
        let (user, role) = (quoted(&lease_data.username), quoted(&lease_data.role));
        Failure::new(
            FailureKind::NotFound,
            format!("user {user} cannot be renewed, because role {role} is gone"),
        )
    };
    let role = Role::find(host, &lease_data.role)?.ok_or_else(gone)?;
    let connection = lease_data.connection(host)?;
    let lifetime =
        LeaseLifetime::of_renewal(&role, mount, increment, lease.issued, host.clock().now())?;
    let statements =
        if role.db_name == lease_data.db_name { role.renew_statements } else { Vec::new() };
    let called = connection.for_host(&lease_data.db_name);
    // For the same reason as in `revoke`.
    host.storage().checkpoint()?;
    let prolonged = host.databases().prolong_accounts(
        &called,
        &lease_data.user(),
        lifetime.expires,
        &statements,
    );
    counted(host, &RENEWALS, prolonged).map_err(|why| about(&lease_data.db_name, why))?;
    Ok(Renewal { ttl: lifetime.ttl, max_ttl: role.max_ttl })
}

/// Removes a user. Safe to repeat: for the plugin, the removal of an absent user is a success.
pub(crate) fn revoke(host: &dyn Host, lease: &Lease) -> Result<(), Failure> {
    let lease_data: LeaseData = lease.internal()?;
    let connection = lease_data.connection(host).map_err(wait_for_absent)?;
    let current =
        Role::find(host, &lease_data.role)?.filter(|role| role.db_name == lease_data.db_name);
    let of_role = current.map(|role| role.revocation_statements);
    let statements = of_role.as_ref().unwrap_or(&lease_data.revocation_statements);
    let called = connection.for_host(&lease_data.db_name);
    // Ends the optimistic check of the values read so far, which do not matter after the removal.
    // Otherwise, a connection whose password rotates continuously would conflict at each attempt.
    host.storage().checkpoint()?;
    let removed = host.databases().remove_accounts(&called, &lease_data.user(), statements);
    counted(host, &REVOCATIONS, removed).map_err(|why| {
        let why = about(&lease_data.db_name, wait_for_absent(why));
        if statements.is_empty() { why } else { lease_data.with_way_out(why) }
    })
}

/// Turns "not found" into "unreachable", so that the revocation is retried without end, as with a
/// database that does not answer. The user can be reached after the operator writes the connection
/// or registers the plugin again.
fn wait_for_absent(why: Failure) -> Failure {
    let kind = if why.kind == FailureKind::NotFound { FailureKind::Unreachable } else { why.kind };
    Failure { kind, ..why }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{issued, orders, ready, with};
    use bulkhead_sdk::host::Clock;
    use bulkhead_sdk::{Failure, FailureKind, RevocationReason};
    use serde_json::json;

    #[test]
    fn a_renewal_moves_the_databases_own_expiry() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.host.advance(300);
        let renewal = bed.renew(&tag, 900).unwrap();
        assert_eq!((renewal.ttl, renewal.max_ttl), (900, 3_600));
        assert_eq!(bed.host.user("orders", &tag).unwrap().expires, bed.host.now() + 905_000);
        assert_eq!(bed.host.steps(), ["checkpoint", "prolong-accounts orders v-token-reader-1"]);
    }

    #[test]
    fn renewal_uses_present_lifetimes_of_role() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.write(
            "roles/reader",
            &json!({"default_ttl": 60, "renew_statements": "PROLONG {{name}}"}),
        )
        .unwrap();
        assert_eq!(bed.renew(&tag, 0).unwrap().ttl, 60);
        assert_eq!(bed.host.user("orders", &tag).unwrap().statements, ["PROLONG {{name}}"]);
    }

    #[test]
    fn renewal_never_exceeds_maximum_counted_from_issue() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.host.advance(3_500);
        assert_eq!(bed.renew(&tag, 900).unwrap().ttl, 100);
        bed.host.advance(100);
        assert_eq!(bed.renew(&tag, 900).err().unwrap().kind, FailureKind::InvalidRequest);
    }

    #[test]
    fn lease_without_role_or_connection_is_not_renewed() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.delete("config/orders").unwrap();
        let refused = bed.renew(&tag, 0).err().unwrap();
        assert_eq!(refused.kind, FailureKind::NotFound);
        assert!(refused.message.contains("connection \"orders\" is gone"), "{}", refused.message);
        bed.delete("roles/reader").unwrap();
        let refused = bed.renew(&tag, 0).err().unwrap();
        assert!(refused.message.contains("role \"reader\" is gone"), "{}", refused.message);
    }

    #[test]
    fn allowed_roles_are_not_asked_again_at_renewal() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.write("config/orders", &json!({"allowed_roles": []})).unwrap();
        assert!(bed.renew(&tag, 0).is_ok());
        assert!(bed.revoke(&tag, RevocationReason::Expired).is_ok());
    }

    #[test]
    fn repeated_revocation_of_removed_user_succeeds() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.host.lose_reply("remove-accounts", Failure::new(FailureKind::Unreachable, "no answer"));
        assert_eq!(
            bed.revoke(&tag, RevocationReason::Requested).err().unwrap().kind,
            FailureKind::Unreachable
        );
        assert_eq!(bed.host.user_count(), 0, "the user was removed although the answer was lost");
        assert_eq!(bed.host.lease_tags(), [tag.as_str()]);
        bed.revoke(&tag, RevocationReason::Requested).unwrap();
        assert!(bed.host.lease_tags().is_empty());
    }

    #[test]
    fn lease_of_deleted_role_ends_with_own_statements() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.delete("roles/reader").unwrap();
        bed.revoke(&tag, RevocationReason::Expired).unwrap();
        assert_eq!(
            bed.host.steps(),
            ["checkpoint", "remove-accounts orders v-token-reader-1 DROP {{name}}"]
        );
    }

    #[test]
    fn lease_ends_with_present_statements_of_role() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.write("roles/reader", &json!({"revocation_statements": "DROP ALL OF {{name}}"}))
            .unwrap();
        bed.host.steps();
        bed.revoke(&tag, RevocationReason::TokenEnded).unwrap();
        assert_eq!(
            bed.host.steps(),
            ["checkpoint", "remove-accounts orders v-token-reader-1 DROP ALL OF {{name}}"]
        );
    }

    #[test]
    fn redirected_role_touches_no_users_of_new_connection() {
        let bed = ready();
        bed.write("config/billing", &orders()).unwrap();
        let (_, tag) = issued(&bed);
        bed.write(
            "roles/reader",
            &json!({
                "db_name": "billing", "revocation_statements": "DROP THERE",
                "renew_statements": "PROLONG THERE",
            }),
        )
        .unwrap();
        bed.host.steps();
        bed.renew(&tag, 0).unwrap();
        assert!(
            bed.host.user("orders", &tag).unwrap().statements.is_empty(),
            "statements of the other connection"
        );
        bed.revoke(&tag, RevocationReason::Requested).unwrap();
        assert_eq!(
            bed.host.steps(),
            [
                "checkpoint",
                "prolong-accounts orders v-token-reader-1",
                "checkpoint",
                "remove-accounts orders v-token-reader-1 DROP {{name}}"
            ]
        );
    }

    #[test]
    fn revocation_waits_with_message_unless_at_creation_server() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        let elsewhere = "postgres://{{username}}:{{password}}@other:5432/orders";
        let warned = bed
            .write(
                "config/orders",
                &json!({"connection_url": elsewhere, "password": "root-of-other"}),
            )
            .unwrap();
        assert!(warned.warnings[0].contains("made at test://db:5432: 1;"), "{:?}", warned.warnings);
        bed.host.steps();
        for refused in
            [bed.revoke(&tag, RevocationReason::Expired).err(), bed.renew(&tag, 60).map(drop).err()]
        {
            let refused = refused.unwrap();
            assert_eq!(
                refused.kind,
                FailureKind::Unreachable,
                "the failure is retried without end"
            );
            let says = "was made at test://db:5432, and connection \"orders\" leads to \
                        test://other:5432 now";
            assert!(refused.message.contains(says), "{}", refused.message);
        }
        assert!(bed.host.steps().is_empty(), "nothing was asked of the other server");
        bed.write("config/orders", &orders()).unwrap();
        bed.revoke(&tag, RevocationReason::Expired).unwrap();
        assert_eq!(bed.host.user_count(), 0);
    }

    #[test]
    fn redirected_connection_revokes_no_lease_of_former_target() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.delete("config/orders").unwrap();
        let elsewhere = json!({"connection_url": "postgres://{{username}}@other:5432/orders"});
        let warned = bed.write("config/orders", &with(orders(), elsewhere)).unwrap();
        assert!(
            warned.warnings[0].contains("by an earlier connection of this name: 1;"),
            "{:?}",
            warned.warnings
        );
        assert_eq!(
            bed.revoke(&tag, RevocationReason::Requested).err().unwrap().kind,
            FailureKind::Unreachable
        );
        assert_eq!(bed.host.user_count(), 1);
    }

    #[test]
    fn change_moving_no_user_strands_no_lease() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        for change in [
            json!({"connection_url": "postgres://{{username}}:{{password}}@DB:5432/billing"}),
            json!({"connection_url": "postgres://other@db:5432/orders?connect_timeout=3"}),
            json!({"password": "another-of-root"}),
        ] {
            let written = bed.write("config/orders", &change).unwrap();
            assert!(written.warnings.is_empty(), "{:?}", written.warnings);
        }
        bed.revoke(&tag, RevocationReason::Requested).unwrap();
        assert_eq!(bed.host.user_count(), 0);
    }

    #[test]
    fn refused_revocation_names_remedy() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.host.refuse("remove-accounts", Failure::invalid("statement 1 was refused"));
        let refused = bed.revoke(&tag, RevocationReason::Requested).err().unwrap();
        let says = "statement 1 was refused; the revocation goes by revocation_statements: write \
                    role \"reader\" for connection \"orders\"";
        assert!(refused.message.contains(says), "{}", refused.message);
        assert_eq!(bed.host.lease_tags(), [tag.as_str()]);
        bed.write("roles/reader", &json!({"revocation_statements": []})).unwrap();
        bed.host.refuse("remove-accounts", Failure::invalid("it owns tables"));
        let refused = bed.revoke(&tag, RevocationReason::Requested).err().unwrap();
        assert_eq!(refused.message, "connection \"orders\": it owns tables");
        bed.revoke(&tag, RevocationReason::Requested).unwrap();
    }

    #[test]
    fn revocation_waits_for_missing_plugin() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        let gone = Failure::new(FailureKind::NotFound, "there is no database plugin \"test\"");
        bed.host.refuse("remove-accounts", gone);
        assert_eq!(
            bed.revoke(&tag, RevocationReason::Expired).err().unwrap().kind,
            FailureKind::Unreachable
        );
        bed.revoke(&tag, RevocationReason::Expired).unwrap();
    }

    #[test]
    fn lease_of_deleted_connection_waits_for_rewrite() {
        let bed = ready();
        let (_, tag) = issued(&bed);
        bed.delete("config/orders").unwrap();
        let refused = bed.revoke(&tag, RevocationReason::Requested).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unreachable, "the failure is retried without end");
        assert!(refused.message.contains("write config/orders again"), "{}", refused.message);
        bed.write("config/orders", &orders()).unwrap();
        bed.revoke(&tag, RevocationReason::Requested).unwrap();
        assert_eq!(bed.host.user_count(), 0);
    }
}
