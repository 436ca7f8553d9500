//! Auth method cloud-B. Service accounts and compute instances of Google Cloud prove their identity
//! with signed tokens and receive Bulkhead tokens.
//!
//! Each noun of the URL has its own file. The method opens no connection, keeps no token between
//! calls, and trusts a token's claims only as far as its signing key allows.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! account → endpoints → metadata → credentials → settings → access → kept_keys → role → cloud
//! → service_accounts → certificates → group_aliases → keys → labels → proof → roles → root_keys
//! → key_trial → config → instance_identity → rotate_root → service_account → admitted_caller
//! → instance_groups → instance → login → renewal
//! ```

mod access;
mod account;
mod admitted_caller;
mod certificates;
mod cloud;
mod config;
mod credentials;
mod endpoints;
#[cfg(test)]
mod fixture;
mod group_aliases;
mod instance;
mod instance_groups;
mod instance_identity;
mod kept_keys;
mod key_trial;
mod keys;
mod labels;
mod login;
mod metadata;
mod proof;
mod renewal;
mod role;
mod roles;
mod root_keys;
mod rotate_root;
mod service_account;
mod service_accounts;
mod settings;

use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::{
    AuthMethod, Context, Failure, HeldLogin, Host, Login, MountedPlugin, intent, rotation,
    token_params,
};

/// Auth method `cloud-b`.
pub struct CloudB;

const ROLE: &[Field] = &[Field::name_of("name", "the role's name, in lower case")];
const EXPLAINED: &[Field] = &[Field::text("jwt", "the token of the login to explain").secret()];

impl MountedPlugin for CloudB {
    const NAME: &'static str = "cloud-b";
    const ALIASES: &'static [&'static str] = &["gcp"];
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Lets in service accounts and instances of Google Cloud.";
    const ASKS: &'static [&'static str] = endpoints::ASKS;
    const TABLE: &'static [Row] = &[
        read("config", config::read).about("Shows the configuration without the private key."),
        write("config", config::write)
            .about("Changes the method's credentials at the provider, and the metadata of logins.")
            .fields(&[config::FIELDS, rotation::CONFIG_FIELDS]),
        write("config/rotate-root", rotate_root::write).about(
            "Makes another key of the method's own service account, and ends the former key.",
        ),
        read("role/{name}", roles::read).about("Shows a role.").fields(&[ROLE]),
        write("role/{name}", roles::write)
            .about("Creates or changes a role.")
            .fields(&[ROLE, roles::FIELDS, token_params::FIELDS, token_params::OLD_FIELDS])
            .existence("role/{name}"),
        delete("role/{name}", roles::delete)
            .about("Removes a role; tokens of the role can no longer be renewed.")
            .fields(&[ROLE]),
        write("role/{name}/service-accounts", service_accounts::write)
            .about("Adds accounts to a role and removes accounts.")
            .fields(&[ROLE, service_accounts::FIELDS]),
        write("role/{name}/labels", labels::write)
            .about("Adds and removes required labels of instances.")
            .fields(&[ROLE, labels::FIELDS]),
        write("role/{name}/explain", login::explain)
            .about("Checks a login against each constraint of a role, without issuing a token.")
            .fields(&[ROLE, EXPLAINED]),
        list("role", role::PREFIX).about("Lists the names of roles."),
        list("roles", role::PREFIX).about("Lists the names of roles."),
        write("login", login::write).about("Logs in.").fields(&[login::FIELDS]).login(),
    ];

    /// Runs the task of a timer: a scheduled rotation, or the completion of an unfinished call.
    fn wake(host: &dyn Host, context: &Context, key: &str, attempt: u32) -> Result<(), Failure> {
        match key {
            settings::ROTATION => rotate_root::wake(host, context),
            root_keys::NEXT => root_keys::wake_next(host, context, attempt),
            root_keys::FORMER => root_keys::wake_former(host, context),
            kept_keys::TRIAL => key_trial::try_kept(host, context.deadline),
            _ if intent::key_of(key) == Some(rotate_root::KEY) => {
                rotate_root::finish(host, context)
            }
            _ => Err(Failure::internal(format!("the auth method cloud-b knows no timer {key:?}"))),
        }
    }
}

impl AuthMethod for CloudB {
    fn renew_login(
        host: &dyn Host,
        context: &Context,
        login: &HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        renewal::renew(host, context, login)
    }
}

bulkhead_sdk::export_auth_method!(CloudB);
