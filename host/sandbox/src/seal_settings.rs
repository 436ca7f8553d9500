//! The settings of a seal plugin, checked against the plugin's description.
//!
//! This file prevents a seal plugin from reaching another server than the addresses in the
//! configuration, and a secret setting from reaching a text: both follow from the description,
//! before the plugin runs.

use bulkhead_outbound::addresses::Origin;
use bulkhead_outbound::http::parse_url;
use bulkhead_wire::description::{Field, FieldKind, SealDescription};
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

/// Checked settings. No `Debug`: the settings hold credentials.
pub(crate) struct SealSettings {
    /// The settings as a JSON object, for the plugin.
    pub(crate) text: Zeroizing<String>,
    /// Values that no text may show.
    pub(crate) secrets: Vec<Zeroizing<String>>,
    /// The only servers that the plugin reaches.
    pub(crate) origins: Vec<Origin>,
}

impl SealSettings {
    /// Checks names and kinds of the settings, and reads the address.
    ///
    /// # Errors
    /// `invalid-request`, with the wrong setting, and without its value.
    pub(crate) fn check(
        description: &SealDescription,
        settings: &Map<String, Value>,
    ) -> Result<Self, Failure> {
        let seal = &description.name;
        for (name, value) in settings {
            let field = description.settings.iter().find(|field| field.name == *name);
            check_kind(seal, field.ok_or_else(|| unknown(description, name))?, value)?;
        }
        let is_missing =
            |field: &&Field| field.required && text_of(settings, &field.name).is_empty();
        if let Some(field) = description.settings.iter().find(is_missing) {
            let Field { name, about, .. } = field;
            return Err(Failure::invalid(format!("seal {seal:?} needs {name}: {about}")));
        }
        // A further address that is not set gives no origin.
        let further = description.further_addresses.iter();
        let further = further.filter(|name| !text_of(settings, name).is_empty());
        let origins = std::iter::once(&description.address).chain(further).map(|name| {
            let url = parse_url(text_of(settings, name));
            let url =
                url.map_err(|why| Failure::invalid(format!("{name} of seal {seal:?}: {why}")));
            url.map(|(origin, _)| origin)
        });
        let origins = origins.collect::<Result<_, _>>()?;
        let secrets = description.settings.iter().filter(|field| field.secret);
        let secrets = secrets.map(|field| text_of(settings, &field.name).to_owned().into());
        let text = serde_json::to_string(settings)
            .map_err(|_| Failure::internal("the settings of the seal are not JSON"))?;
        Ok(Self { text: text.into(), secrets: secrets.collect(), origins })
    }
}

/// Returns the text of a setting; empty for a missing setting, and for another kind.
fn text_of<'a>(settings: &'a Map<String, Value>, name: &str) -> &'a str {
    settings.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Checks the kind of a value. A flag may be a text: files and variables have texts alone.
fn check_kind(seal: &str, field: &Field, value: &Value) -> Result<(), Failure> {
    let (is_fit, kind) = match field.kind {
        FieldKind::Bool => (value.is_boolean() || value.is_string(), "true or false"),
        _ => (value.is_string(), "a text"),
    };
    if is_fit {
        return Ok(());
    }
    Err(Failure::invalid(format!("{} of seal {seal:?} must be {kind}", field.name)))
}

fn unknown(description: &SealDescription, name: &str) -> Failure {
    let names: Vec<_> = description.settings.iter().map(|field| field.name.as_str()).collect();
    Failure::invalid(format!(
        "seal {:?} has no setting {}; the settings are {}",
        description.name,
        quoted(name),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn description() -> SealDescription {
        let field = |name: &str, kind| Field::new(name, kind, "for the test");
        SealDescription {
            kind: "seal-plugin".to_owned(),
            name: "box".to_owned(),
            version: "1.0.0".to_owned(),
            about: "A seal for the test.".to_owned(),
            address: "url".to_owned(),
            further_addresses: vec!["login".to_owned()],
            settings: vec![
                field("url", FieldKind::String).required(),
                field("pin", FieldKind::String).required().secret(),
                field("fast", FieldKind::Bool),
                field("login", FieldKind::String),
            ],
        }
    }

    fn check(settings: &Value) -> Result<SealSettings, String> {
        let settings = settings.as_object().unwrap();
        SealSettings::check(&description(), settings).map_err(|failure| failure.message)
    }

    #[test]
    fn address_and_secrets_follow_from_description() {
        let given = json!({ "url": "https://Box.example/", "pin": "4711-4711", "fast": "true" });
        let settings = check(&given).unwrap();
        let shown = |settings: &SealSettings| -> Vec<String> {
            settings.origins.iter().map(ToString::to_string).collect()
        };
        assert_eq!(shown(&settings), ["https://box.example:443"]);
        let mut both = given.clone();
        both["login"] = json!("https://Login.example:8443/token");
        let origins = ["https://box.example:443", "https://login.example:8443"];
        assert_eq!(shown(&check(&both).unwrap()), origins);
        assert_eq!(settings.secrets.len(), 1);
        assert_eq!(settings.secrets[0].as_str(), "4711-4711");
        assert_eq!(serde_json::from_str::<Value>(&settings.text).unwrap(), given);
    }

    #[test]
    fn wrong_settings_are_named_without_value() {
        let url = "https://box.example";
        for (settings, part) in [
            (json!({ "url": url }), "needs pin"),
            (json!({ "url": "", "pin": "4711-4711" }), "needs url"),
            (json!({ "url": url, "pin": 47_114_711 }), "pin of seal \"box\" must be a text"),
            (json!({ "url": url, "pin": "4711-4711", "fast": 1 }), "true or false"),
            (json!({ "url": url, "pin": "4711-4711", "slow": "x" }), "are url, pin, fast, login"),
            (
                json!({ "url": url, "pin": "4711-4711", "login": "box" }),
                "login of seal \"box\": the URL cannot be read",
            ),
            (json!({ "url": "box:1", "pin": "4711-4711" }), "url of seal \"box\": the URL is"),
        ] {
            let message = check(&settings).err().unwrap();
            assert!(message.contains(part) && !message.contains("4711"), "{part}: {message}");
        }
    }
}
