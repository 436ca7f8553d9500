//! Auth methods: the endpoint of a login, and the fields that are asked for.

use crate::client::ServerRequest;
use crate::problem::CommandProblem;
use crate::session::Session;
use hyper::Method as Verb;
use serde_json::{Map, Value};
use std::path::Path;

/// The token of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Names of published auth methods that this version does not have.
const UNSERVED: [&str; 14] = [
    "alicloud", "aws", "centrify", "cert", "cf", "github", "kerberos", "ldap", "oci", "oidc",
    "okta", "pcf", "radius", "saml",
];

/// The methods of this version, for error messages.
pub(super) const SERVED: &str = "token, userpass, approle, jwt, kubernetes, azure and gcp";

/// Refuses a published method that this version does not have, before a secret is asked for. A
/// component of another author may serve the method: then the caller names its mount.
///
/// # Errors
/// A method that is missing here, without the path of a mount.
pub(super) fn check_served(name: &str, path: Option<&str>) -> Result<(), CommandProblem> {
    if path.is_some() || !UNSERVED.contains(&name) {
        return Ok(());
    }
    let instead = match name {
        "oidc" => "; browser logins are missing, and -method=jwt takes a signed token",
        _ => "",
    };
    Err(CommandProblem::usage(format!(
        "this version has no login method {name:?}{instead}; -method is one of {SERVED}; give \
         -path=MOUNT if a plugin of your own serves {name:?}"
    )))
}

/// The form of a method's login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginMethod {
    /// `login/USERNAME` with a password.
    Password,
    /// `login` with a signed token.
    Signed,
    /// `login` with the signed token of a pod, which is in a file.
    Pod,
    /// `login` with the given fields.
    Fields,
}

impl LoginMethod {
    /// Returns the form of the method `name`.
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "userpass" | "ldap" | "radius" => Self::Password,
            "jwt" | "azure" | "gcp" | "cloud-a" | "cloud-b" => Self::Signed,
            "kubernetes" => Self::Pod,
            _ => Self::Fields,
        }
    }

    /// Returns true for a method of this version.
    pub(super) fn is_known(name: &str) -> bool {
        Self::from_name(name) != Self::Fields || name == "approle"
    }

    /// Asks for the secret that is missing in `fields`, without showing the answer.
    ///
    /// # Errors
    /// A missing user name; a secret that cannot be read.
    pub(super) fn complete(
        self,
        session: &mut Session<'_, '_>,
        fields: &mut Map<String, Value>,
    ) -> Result<(), CommandProblem> {
        // A file ends with a line break, which is not part of an identifier or a signed token.
        for name in ["jwt", "role_id", "secret_id"] {
            if let Some(Value::String(text)) = fields.get_mut(name) {
                text.truncate(text.trim_end().len());
            }
        }
        match self {
            Self::Password => {
                user(fields)?;
                if !fields.contains_key("password") {
                    let password = session.secret("Type the password (not shown)")?;
                    let password = password.expose().trim_end_matches(['\n', '\r']);
                    fields.insert("password".to_owned(), password.into());
                }
            }
            Self::Signed | Self::Pod if !fields.contains_key("jwt") => {
                let file = Path::new(SERVICE_ACCOUNT);
                let jwt = match self {
                    Self::Pod if file.exists() => session.text(SERVICE_ACCOUNT)?.trim().to_owned(),
                    _ => session.secret_word(None, "JWT")?,
                };
                fields.insert("jwt".to_owned(), jwt.into());
            }
            Self::Signed | Self::Pod | Self::Fields => {}
        }
        Ok(())
    }

    /// Builds the login at `mount`.
    ///
    /// # Errors
    /// A missing user name.
    pub(super) fn call(
        self,
        mount: &str,
        mut fields: Map<String, Value>,
    ) -> Result<ServerRequest, CommandProblem> {
        let path = match self {
            Self::Password => {
                let path = format!("{mount}/login/{}", user(&fields)?);
                fields.remove("username");
                path
            }
            Self::Signed | Self::Pod | Self::Fields => format!("{mount}/login"),
        };
        Ok(ServerRequest::new(Verb::PUT, path).with_fields(Value::Object(fields)))
    }
}

fn user(fields: &Map<String, Value>) -> Result<&str, CommandProblem> {
    let user = fields.get("username").and_then(Value::as_str);
    user.filter(|name| !name.is_empty() && !name.contains('/'))
        .ok_or_else(|| CommandProblem::usage("give the user name, as in username=bob"))
}
