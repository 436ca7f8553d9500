//! `plugin_directory` and `plugin_signatures`: the plugins that callers of the API may register.

use super::section::{ConfigError, ConfigSection, ConfigValue, SectionWords};
use bulkhead_core::{PluginDirectory, SignaturePolicy, SignatureRules, TrustedKey};
use bulkhead_wire::failure::quoted;

const WORDS: SectionWords =
    SectionWords { keys: &["policy", "trusted_keys"], blocks: &[], unserved: &[] };

/// Reads the plugin directory, if configured.
pub(super) fn directory(file: &ConfigSection<'_>) -> Result<Option<PluginDirectory>, ConfigError> {
    let path = file.value("plugin_directory").map(|value| value.path()).transpose()?;
    Ok(path.map(PluginDirectory::new))
}

/// Reads the rules for signatures; no signature is needed if there are none.
pub(super) fn signatures(file: &ConfigSection<'_>) -> Result<SignatureRules, ConfigError> {
    let Some(block) = file.unlabelled_block("plugin_signatures")? else {
        return Ok(SignatureRules::default());
    };
    let section = block.section(&WORDS)?;
    let policy = policy(&section.required("policy", "\"require\"")?)?;
    let keys = section.value("trusted_keys").map(|list| list.elements()).transpose()?;
    let keys = keys.unwrap_or_default();
    let trusted_keys: Vec<TrustedKey> = keys.iter().map(trusted_key).collect::<Result<_, _>>()?;
    if policy == SignaturePolicy::Require && trusted_keys.is_empty() {
        return Err(section.error(
            "without a trusted key every plugin would be refused: write trusted_keys = [\"…\"] \
             with a key that `bulkhead plugin keygen` prints",
        ));
    }
    Ok(SignatureRules { policy, trusted_keys })
}

fn policy(value: &ConfigValue<'_>) -> Result<SignaturePolicy, ConfigError> {
    let text = value.text()?;
    let found = SignaturePolicy::ALL.into_iter().find(|policy| policy.word() == text);
    found.ok_or_else(|| {
        value.error(format!(
            "{} is no policy; write \"none\", \"warn\" or \"require\"",
            quoted(text)
        ))
    })
}

fn trusted_key(value: &ConfigValue<'_>) -> Result<TrustedKey, ConfigError> {
    TrustedKey::parse(value.text()?).map_err(|why| value.error(why))
}
