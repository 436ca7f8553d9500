//! Client certificates: the options of a role, and the issue of a certificate for a user.
//!
//! This file prevents the storage of a role with an authority that can issue no certificate. The
//! role would fail only at the first request for a user.

use super::{
    CA_PRIVATE_KEY, CredentialOptions, GeneratedCredential, PlannedUser, invalid_option, rsa_bits,
};
use bulkhead_sdk::crypto::CertificateRequest;
use bulkhead_sdk::database_plugin::{Credential, StoreTime};
use bulkhead_sdk::template::{RenderContext, Template, TemplateNames, sanitised};
use bulkhead_sdk::{Failure, Host};
use serde_json::{Map, json};

/// Options of the credential type.
pub(super) const OPTIONS: &[&str] =
    &["common_name_template", "ca_cert", CA_PRIVATE_KEY, "key_type", "key_bits", "signature_bits"];

/// Milliseconds before now at which a certificate becomes valid, because the database's clock may
/// be behind.
const CLOCK_TOLERANCE_MS: StoreTime = 30_000;

/// A parsed certificate recipe of a role. No `Debug`: the recipe holds the authority's key.
pub(crate) struct ClientCertificate<'a> {
    template: &'a str,
    authority: &'a str,
    authority_key: &'a str,
    key_type: &'a str,
    /// Size of the key in bits; 0 if the type of key has only a single size.
    key_bits: u32,
    signature_bits: u32,
}

impl<'a> ClientCertificate<'a> {
    pub(super) fn read(options: &'a CredentialOptions) -> Result<Self, Failure> {
        let option = |name: &str| options.get(name).map_or("", String::as_str);
        let (key_type, bits) = (option("key_type"), option("key_bits"));
        let key_bits = match key_type {
            "rsa" => rsa_bits(bits)?,
            "ec" => curve_bits(bits)?,
            "ed25519" => 0,
            other => return Err(invalid_option("key_type", other, "rsa, ec or ed25519")),
        };
        let signature_bits = match option("signature_bits") {
            "" | "256" => 256,
            "384" => 384,
            "512" => 512,
            other => return Err(invalid_option("signature_bits", other, "256, 384 or 512")),
        };
        let required = |name: &str| match option(name) {
            "" => Err(refused(format!("missing required {name}"))),
            text => Ok(text),
        };
        Ok(Self {
            template: required("common_name_template")?,
            authority: required("ca_cert")?,
            authority_key: required(CA_PRIVATE_KEY)?,
            key_type,
            key_bits,
            signature_bits,
        })
    }

    pub(super) fn options(&self) -> CredentialOptions {
        let mut options = CredentialOptions::from([
            ("common_name_template".to_owned(), self.template.to_owned()),
            ("ca_cert".to_owned(), self.authority.to_owned()),
            (CA_PRIVATE_KEY.to_owned(), self.authority_key.to_owned()),
            ("key_type".to_owned(), self.key_type.to_owned()),
            ("signature_bits".to_owned(), self.signature_bits.to_string()),
        ]);
        if self.key_bits > 0 {
            options.insert("key_bits".to_owned(), self.key_bits.to_string());
        }
        options
    }

    /// Checks the authority by issuing a trial certificate for the authority's own key. The trial
    /// certificate is discarded.
    pub(super) fn check(&self, host: &dyn Host) -> Result<(), Failure> {
        self.common_name(host, &TemplateNames::default(), "")?;
        let about = |option: &'static str| {
            move |why: Failure| refused(format!("{option}: {}", why.message))
        };
        let authority = host.crypto().read_certificate(self.authority).map_err(about("ca_cert"))?;
        if !authority.is_authority {
            return Err(refused("ca_cert: the given certificate is not marked for CA use"));
        }
        let key = host.crypto().read_key(self.authority_key).map_err(about(CA_PRIVATE_KEY))?;
        if authority.public_key.is_none_or(|own| own.pem != key.pem) {
            return Err(refused("ca_private_key is not the key of ca_cert"));
        }
        let until =
            authority.not_after.min(authority.not_before.saturating_add(CLOCK_TOLERANCE_MS));
        let trial = self.request(&key.pem, "trial", authority.not_before, until);
        host.crypto().issue_certificate(&trial).map(drop).map_err(about("ca_cert"))
    }

    /// Generates a key and a certificate for the key. The certificate expires with the user.
    ///
    /// # Errors
    /// Invalid request if the authority expires before the user; errors of the host.
    pub(super) fn issue(
        &self,
        host: &dyn Host,
        new: &PlannedUser<'_>,
    ) -> Result<GeneratedCredential, Failure> {
        let common_name = self.common_name(host, &new.names, new.username)?;
        let key = host.crypto().generate_key(self.key_type, self.key_bits, "traditional")?;
        let from = host.clock().now().saturating_sub(CLOCK_TOLERANCE_MS);
        let request = self.request(&key.public_key.pem, &common_name, from, new.expires);
        let certificate = host.crypto().issue_certificate(&request)?;
        let shown = Map::from_iter([
            ("client_certificate".to_owned(), json!(certificate)),
            ("private_key".to_owned(), json!(key.private_key)),
            ("private_key_type".to_owned(), json!(self.key_type)),
        ]);
        Ok(GeneratedCredential {
            credential: Credential::SubjectDn(format!("CN={common_name}")),
            shown,
        })
    }

    fn request(
        &self,
        public_key: &str,
        common_name: &str,
        not_before: StoreTime,
        not_after: StoreTime,
    ) -> CertificateRequest {
        CertificateRequest {
            authority: self.authority.to_owned(),
            authority_key: self.authority_key.to_owned(),
            public_key: public_key.to_owned(),
            common_name: common_name.to_owned(),
            usages: vec!["client-auth".to_owned()],
            not_before,
            not_after,
            signature_bits: self.signature_bits,
            ..CertificateRequest::default()
        }
    }

    /// Returns the common name by the template. Contains only characters that need no escape in a
    /// subject name.
    fn common_name(
        &self,
        host: &dyn Host,
        names: &TemplateNames<'_>,
        username: &str,
    ) -> Result<String, Failure> {
        let about = |fault| refused(format!("invalid common_name_template: {fault}"));
        let template = Template::parse(self.template).map_err(about)?;
        let random = |length| host.random().bytes(length);
        let context = RenderContext { random: &random, now: host.clock().now() };
        let rendered = template.render_for_user(names, username, &context).map_err(about)?;
        Ok(sanitised(&rendered))
    }
}

fn curve_bits(text: &str) -> Result<u32, Failure> {
    match text {
        "" | "256" => Ok(256),
        "384" => Ok(384),
        "521" => Ok(521),
        other => Err(invalid_option("key_bits", other, "256, 384 or 521 for ec")),
    }
}

fn refused(why: impl Into<String>) -> Failure {
    Failure::invalid(format!("credential_config validation failed: {}", why.into()))
}
