//! Auth method for machines with a role id and a secret id.
//!
//! `roles` and `setting` serve the roles for operators, `secret_ids` the secret ids of a role,
//! `login` logins and renewals, `tidy` the removal of old records. A secret id is stored as a keyed
//! hash below the random id of its role, so that no request by another role finds the secret id.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! metadata → networks → uuid → role → secret_id → setting → login → secret_ids → tidy → roles
//! ```

#[cfg(test)]
mod fixture;
mod login;
mod metadata;
mod networks;
mod role;
mod roles;
mod secret_id;
mod secret_ids;
mod setting;
mod tidy;
mod uuid;

use bulkhead_sdk::call::Context;
use bulkhead_sdk::table::{Field, Row, delete, list, list_by, read, write};
use bulkhead_sdk::token_params::FIELDS;
use bulkhead_sdk::{AuthMethod, Failure, HeldLogin, Host, Login, MountedPlugin};

/// Auth method `approle`.
pub struct Approle;

const ROLE: &[Field] = &[Field::name_of("role_name", "the role's name, in lower case")];

impl MountedPlugin for Approle {
    const NAME: &'static str = "approle";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Lets in machines with a role id and a secret id.";
    const TABLE: &'static [Row] = &[
        list("role", "role/").about("Lists the names of roles."),
        read("role/{role_name}", roles::read).about("Shows a role.").fields(&[ROLE]),
        write("role/{role_name}", roles::write)
            .about("Creates or changes a role.")
            .fields(&[ROLE, role::FIELDS, FIELDS, role::OLD_FIELDS])
            .existence("role/{role_name}"),
        delete("role/{role_name}", roles::delete)
            .about(
                "Removes a role and the role's secret ids; tokens of the role are not renewed any \
                 more.",
            )
            .fields(&[ROLE]),
        read("role/{role_name}/role-id", roles::read_id)
            .about("Shows the role id of a role.")
            .fields(&[ROLE]),
        write("role/{role_name}/role-id", roles::write_id)
            .about("Changes the role id of a role.")
            .fields(&[ROLE, roles::ID]),
        shown("role/{role_name}/policies"),
        changed("role/{role_name}/policies", &[ROLE, setting::POLICIES]),
        reset("role/{role_name}/policies"),
        shown("role/{role_name}/bind-secret-id"),
        changed("role/{role_name}/bind-secret-id", &[ROLE, setting::BIND_SECRET_ID]),
        reset("role/{role_name}/bind-secret-id"),
        shown("role/{role_name}/bound-cidr-list"),
        changed("role/{role_name}/bound-cidr-list", &[ROLE, setting::SECRET_ID_BOUND_CIDRS]),
        reset("role/{role_name}/bound-cidr-list"),
        shown("role/{role_name}/secret-id-bound-cidrs"),
        changed("role/{role_name}/secret-id-bound-cidrs", &[ROLE, setting::SECRET_ID_BOUND_CIDRS]),
        reset("role/{role_name}/secret-id-bound-cidrs"),
        shown("role/{role_name}/secret-id-num-uses"),
        changed("role/{role_name}/secret-id-num-uses", &[ROLE, setting::SECRET_ID_NUM_USES]),
        reset("role/{role_name}/secret-id-num-uses"),
        shown("role/{role_name}/secret-id-ttl"),
        changed("role/{role_name}/secret-id-ttl", &[ROLE, setting::SECRET_ID_TTL]),
        reset("role/{role_name}/secret-id-ttl"),
        shown("role/{role_name}/token-bound-cidrs"),
        changed("role/{role_name}/token-bound-cidrs", &[ROLE, setting::TOKEN_BOUND_CIDRS]),
        reset("role/{role_name}/token-bound-cidrs"),
        shown("role/{role_name}/token-num-uses"),
        changed("role/{role_name}/token-num-uses", &[ROLE, setting::TOKEN_NUM_USES]),
        reset("role/{role_name}/token-num-uses"),
        shown("role/{role_name}/token-ttl"),
        changed("role/{role_name}/token-ttl", &[ROLE, setting::TOKEN_TTL]),
        reset("role/{role_name}/token-ttl"),
        shown("role/{role_name}/token-max-ttl"),
        changed("role/{role_name}/token-max-ttl", &[ROLE, setting::TOKEN_MAX_TTL]),
        reset("role/{role_name}/token-max-ttl"),
        shown("role/{role_name}/token-period"),
        changed("role/{role_name}/token-period", &[ROLE, setting::TOKEN_PERIOD]),
        reset("role/{role_name}/token-period"),
        shown("role/{role_name}/period"),
        changed("role/{role_name}/period", &[ROLE, setting::TOKEN_PERIOD]),
        reset("role/{role_name}/period"),
        shown("role/{role_name}/local-secret-ids"),
        list_by("role/{role_name}/secret-id", secret_ids::list)
            .about("Lists the accessors of a role's secret ids.")
            .fields(&[ROLE]),
        write("role/{role_name}/secret-id", secret_ids::generate)
            .about("Generates a secret id.")
            .fields(&[ROLE, secret_ids::FIELDS]),
        write("role/{role_name}/custom-secret-id", secret_ids::add_custom)
            .about("Adds a secret id of the caller's choice.")
            .fields(&[ROLE, secret_ids::SECRET, secret_ids::FIELDS]),
        write("role/{role_name}/secret-id/lookup", secret_ids::look_up)
            .about("Shows the properties of a secret id.")
            .fields(&[ROLE, secret_ids::SECRET]),
        write("role/{role_name}/secret-id/destroy", secret_ids::destroy)
            .about("Removes a secret id.")
            .fields(&[ROLE, secret_ids::SECRET]),
        delete("role/{role_name}/secret-id/destroy", secret_ids::destroy)
            .about("Removes a secret id.")
            .fields(&[ROLE, secret_ids::SECRET]),
        write("role/{role_name}/secret-id-accessor/lookup", secret_ids::look_up_accessor)
            .about("Shows the properties of the secret id with an accessor.")
            .fields(&[ROLE, secret_ids::ACCESSOR]),
        write("role/{role_name}/secret-id-accessor/destroy", secret_ids::destroy_accessor)
            .about("Removes the secret id with an accessor.")
            .fields(&[ROLE, secret_ids::ACCESSOR]),
        delete("role/{role_name}/secret-id-accessor/destroy", secret_ids::destroy_accessor)
            .about("Removes the secret id with an accessor.")
            .fields(&[ROLE, secret_ids::ACCESSOR]),
        write("tidy/secret-id", tidy::start).about("Removes expired secret ids."),
        write("login", login::write)
            .about("Logs in with a role id and a secret id.")
            .fields(&[login::FIELDS])
            .login(),
    ];

    fn wake(host: &dyn Host, _context: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        tidy::wake(host, key)
    }
}

impl AuthMethod for Approle {
    fn renew_login(
        host: &dyn Host,
        _context: &Context,
        held_login: &HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        login::renew(host, held_login)
    }
}

const fn shown(path: &'static str) -> Row {
    read(path, setting::read).about("Shows a setting of a role.").fields(&[ROLE])
}

const fn changed(path: &'static str, fields: &'static [&'static [Field]]) -> Row {
    write(path, setting::write).about("Changes a setting of a role.").fields(fields)
}

const fn reset(path: &'static str) -> Row {
    delete(path, setting::reset).about("Resets a setting of a role.").fields(&[ROLE])
}

bulkhead_sdk::export_auth_method!(Approle);
