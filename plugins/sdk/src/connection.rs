//! Settings that connections to SQL servers of every kind share: `connection_url` and its parts,
//! the login, the number of sessions, and names for new users. Besides, the causes of failures.
//!
//! No error shows an operator's values: a refusal names the setting, the parameter or the
//! parameter's position.

mod description;
mod failed;
mod faults;
mod hosts;
mod known;
mod login;
mod login_causes;
mod parameters;
mod url;
mod usernames;
mod users;
mod values;
mod warnings;

pub use description::PluginFacts;
pub use failed::{TARGET_FAILURES, TargetFailure, describe_failure};
pub use faults::{FAULTS, Fault};
pub use hosts::{addresses, endpoints};
pub use known::{KnownParameters, refused_value};
pub use login::{ConnectionLogin, ConnectionTarget, credentials, pool, read_target};
pub use login_causes::{FailedLogin, LoginCauses, PasswordVerdict, try_credential};
pub use parameters::{
    CONNECTION_URL, ConnectionParameters, UrlCredentials, WrittenValue, in_place,
};
pub use url::read as read_url;
pub use usernames::UsernameRules;
pub use users::{DENIALS, Denial, choose_login, log_in_as, refuse_self_managed};
pub use values::{flag, milliseconds, pem, text, whole_number, without_nulls};
pub use warnings::warnings;
