//! Auth method for Cloud-A, which is modelled on Azure. Machines and managed identities present a
//! token signed by their cloud and receive a Bulkhead token.
//!
//! Each noun of the URL has its own file. The other files, in the order of a login: `claims`
//! verifies the token, `constraints` checks the token against the role, and `place` finds the
//! token's resource through `arm`, using ids parsed by `arm_id`. `credential` obtains the mount's
//! own access to the cloud, `graph` and `root_rotation` replace that credential, `secret_trial` and
//! `kept_secrets` prevent the loss of a replaced one, and `cloud` lists the endpoints. This method
//! never trusts an unsigned statement of the caller: the statement only selects the question that
//! is sent to the cloud.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! arm_id → cloud → delay → role → rotated_secret → kept_secrets → root_records → arm
//! → configuration → graph → settings → claims → credential → secret_trial → config → root_rotation
//! → stated → place → rotate_root → constraints → login → explain → renewal
//! ```

mod arm;
mod arm_id;
mod claims;
mod cloud;
mod config;
mod configuration;
mod constraints;
mod credential;
mod delay;
mod explain;
#[cfg(test)]
mod fixture;
mod graph;
mod kept_secrets;
mod login;
mod place;
mod renewal;
mod role;
mod root_records;
mod root_rotation;
mod rotate_root;
mod rotated_secret;
mod secret_trial;
mod settings;
mod stated;

use bulkhead_sdk::call::Context;
use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::{AuthMethod, Failure, HeldLogin, Host, Login, MountedPlugin};
use bulkhead_sdk::{rotation, token_params};

/// Auth method `cloud-a`.
pub struct CloudA;

const ROLE: &[Field] = &[Field::name_of("name", "the role's name")];

impl MountedPlugin for CloudA {
    const NAME: &'static str = "cloud-a";
    const ALIASES: &'static [&'static str] = &["azure"];
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Lets in machines and managed identities of Azure.";
    const ASKS: &'static [&'static str] = cloud::ASKS;
    const TABLE: &'static [Row] = &[
        read("config", config::read)
            .about("Shows the configuration; the client secret only to callers with sudo."),
        write("config", config::write)
            .about("Sets the accepted issuer of tokens and the identity of requests to the cloud.")
            .fields(&[config::FIELDS, rotation::CONFIG_FIELDS])
            .existence("config"),
        delete("config", config::delete).about("Removes the configuration and the credentials."),
        write("rotate-root", rotate_root::write)
            .about("Replaces the client secret by a new secret, which no read ever shows."),
        read("role/{name}", role::read).about("Shows a role.").fields(&[ROLE]),
        write("role/{name}", role::write)
            .about("Creates or changes a role.")
            .fields(&[ROLE, role::FIELDS, token_params::FIELDS, token_params::OLD_FIELDS])
            .existence("role/{name}"),
        delete("role/{name}", role::delete)
            .about("Removes a role; tokens of the role can no longer be renewed.")
            .fields(&[ROLE]),
        list("role", "role/").about("Lists the names of roles."),
        write("role/{name}/explain", explain::write)
            .about("Checks a login against each constraint of a role, without issuing a token.")
            .fields(&[ROLE, login::FIELDS])
            .deadline(login::LOGIN_TIMEOUT_SECS),
        write("login", login::write)
            .about("Logs in with a token if the token meets the constraints of a role.")
            .fields(&[login::ROLE, login::FIELDS])
            .login()
            .deadline(login::LOGIN_TIMEOUT_SECS),
    ];

    fn wake(host: &dyn Host, context: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        root_rotation::wake(host, context, key)
    }
}

impl AuthMethod for CloudA {
    fn renew_login(
        host: &dyn Host,
        _context: &Context,
        login: &HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        renewal::renew(host, login)
    }
}

bulkhead_sdk::export_auth_method!(CloudA);
