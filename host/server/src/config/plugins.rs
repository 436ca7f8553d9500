//! `plugin_directory` and `plugin_signatures`: the plugins that callers of the API may register.

use super::findings::ConfigError;
use super::section::{ConfigSection, ConfigValue, SectionWords};
use bulkhead_core::{PluginDirectory, SignaturePolicy, SignatureRules, TrustedKey};
use bulkhead_wire::failure::quoted;

const WORDS: SectionWords =
    SectionWords { keys: &["policy", "trusted_keys"], blocks: &[], foreign: &[] };

/// Reads the plugin directory, if configured.
pub(super) fn directory(file: &ConfigSection<'_>) -> Option<PluginDirectory> {
    file.read("plugin_directory", ConfigValue::path).map(PluginDirectory::new)
}

/// Reads the rules for signatures; no signature is needed if there are none.
pub(super) fn signatures(file: &ConfigSection<'_>) -> SignatureRules {
    let Some(block) = file.unlabelled_block("plugin_signatures") else {
        return SignatureRules::default();
    };
    let section = block.section(&WORDS);
    let policy = section.required("policy", "\"require\"").and_then(|it| section.keep(policy(&it)));
    let keys = section.read("trusted_keys", ConfigValue::elements).unwrap_or_default();
    let trusted_keys = section.each(&keys, trusted_key);
    if policy == Some(SignaturePolicy::Require) && section.value("trusted_keys").is_none() {
        section.refuse(section.error(
            "without a trusted key every plugin would be refused: write trusted_keys = [\"…\"] \
             with a key printed by `bulkhead plugin keygen`",
        ));
    }
    SignatureRules { policy: policy.unwrap_or(SignaturePolicy::Require), trusted_keys }
}

fn policy(value: &ConfigValue<'_>) -> Result<SignaturePolicy, ConfigError> {
    let text = value.text()?;
    let found = SignaturePolicy::ALL.into_iter().find(|policy| policy.word() == text);
    found.ok_or_else(|| {
        value.error(format!(
            "{} is not a policy; write \"none\", \"warn\" or \"require\"",
            quoted(text)
        ))
    })
}

fn trusted_key(value: &ConfigValue<'_>) -> Result<TrustedKey, ConfigError> {
    TrustedKey::parse(value.text()?).map_err(|why| value.error(why))
}
