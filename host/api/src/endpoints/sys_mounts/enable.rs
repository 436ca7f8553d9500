//! Enabling: mounts a plugin at a path.

use super::grants;
use super::mount_path::{mount_path, path};
use super::settings;
use super::subject::TuneTarget;
use super::version;
use crate::endpoints::after_commit::AfterCommit;
use crate::endpoints::call::{PermittedCall, PresentQuestion, RequestFields};
use crate::endpoints::reply::{Reply, ReplyBody};
use crate::endpoints::row::{field, required};
use bulkhead_core::Core;
use bulkhead_core::catalog::EnginePlugin;
use bulkhead_core::lifecycle;
use bulkhead_core::mounts::{
    self, MountChange, MountClass, MountMarks, MountRecord, MountSettings, NewMount, RunningPlugin,
    api_version,
};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Settings that clients also send outside of `config`.
const OUTSIDE: [&str; 6] = [
    "description",
    "options",
    "plugin_name",
    "plugin_version",
    "override_pinned_version",
    "grants",
];

/// The fields of enabling.
pub(crate) fn enabling_fields() -> Vec<Field> {
    vec![
        path(),
        required("type", FieldKind::String, "type to mount, such as database").deferring("plugin"),
        field("description", FieldKind::String, "one sentence for people"),
        field("config", FieldKind::Any, "settings, in the form of the tune path")
            .with_members(settings::fields()),
        settings::options("texts for the plugin"),
        grants::whole(),
        version::plugin_name(),
        version::plugin_version(),
        version::override_pinned_version(),
        field("local", FieldKind::Bool, "stored, without effect"),
        field("seal_wrap", FieldKind::Bool, "stored, without effect"),
        field("external_entropy_access", FieldKind::Bool, "stored, without effect"),
    ]
}

/// Returns the settings that a new mount has, for the rights of fields. Missing settings are empty.
pub(super) async fn present_at_enabling(
    _question: PresentQuestion<'_>,
) -> Result<Map<String, Value>, Failure> {
    let MountSettings { probation, token_type, .. } = MountSettings::default();
    let config = json!({
        "plugin_rollback": probation.plugin_rollback.word(),
        "plugin_probation": probation.plugin_probation,
        "token_type": token_type.word(),
    });
    Ok(Map::from_iter([("config".to_owned(), config)]))
}

/// Mounts a plugin of a class.
pub(crate) async fn enable_in(
    class: MountClass,
    call: PermittedCall<'_>,
) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, request, .. } = call;
    let path = mount_path(class, fields.text("path"))?;
    let (mut config, unknown) = settings::of_config(fields.get("config"))?;
    // A non-empty setting outside of `config` overrides the setting in `config`.
    let outside = settings::said(fields.all(), &request.fields);
    for name in OUTSIDE {
        let said = outside.get(name).filter(|value| value.as_str() != Some(""));
        config.extend(said.map(|value| (name.to_owned(), value.clone())));
    }
    let mut settings = MountSettings::default();
    let named = kind(fields, &config)?;
    let (kind, api_version) = of_api_version(core, class, named, &config);
    let mut warnings: Vec<String> = unknown.into_iter().collect();
    let (plugin_type, choice) = (class.plugin_type(), version::choice(&config));
    core.catalog.check_choice(plugin_type, &kind, choice)?;
    let plugin = core.catalog.choose(plugin_type, &kind, choice)?;
    let usual = mounts::default_grants(&plugin);
    let running = RunningPlugin::of(&plugin, &usual);
    let subject = TuneTarget { class, builtin: None, kind: &kind, running, system: core.lifetimes };
    warnings.extend(settings::change(&mut settings, &config, &subject)?);
    settings.options.extend(api_version);
    settings::check_identity_token_key(unit, &settings).await?;
    let marks = marks(fields, &mut warnings);
    let new = NewMount { path, kind, marks, settings };
    let change = match lifecycle::untouched_default(core, unit, &new).await? {
        Some(mut record) => {
            warnings.push(taken_over_warning(&record));
            record.settings = new.settings;
            record.put(unit)?;
            MountChange::Tuned { record: Box::new(record), swap: None }
        }
        None => {
            let record = core.mounts.enable(unit, &core.catalog, new).await?;
            MountChange::Enabled(Box::new(record))
        }
    };
    let enabled = AfterCommit::Mounts(change);
    Ok(Reply::from(ReplyBody::Nothing).with_warnings(warnings).after_commit(enabled))
}

/// Returns the warning for a request that took over a default mount of dev mode.
fn taken_over_warning(record: &MountRecord) -> String {
    format!(
        "dev mode had mounted {} at {} already, and the mount is unused: the request enabled the \
         mount unchanged",
        record.kind,
        record.path.listed()
    )
}

/// Returns the type, or the plugin's name if the type is `plugin`.
fn kind(fields: RequestFields<'_>, config: &Map<String, Value>) -> Result<String, Failure> {
    let plugin_name = config.get("plugin_name").and_then(Value::as_str).unwrap_or_default();
    match (fields.text("type"), plugin_name) {
        ("plugin", "") => Err(Failure::invalid(
            "plugin_name is required with type plugin: name the plugin to mount",
        )),
        ("plugin", name) => Ok(name.to_owned()),
        (kind, _) => Ok(kind.to_owned()),
    }
}

/// Returns the type `kv` and the option `version` for the type `kv-v2`; otherwise `kind` without an
/// option.
fn of_api_version(
    core: &Core,
    class: MountClass,
    kind: String,
    config: &Map<String, Value>,
) -> (String, Option<(String, String)>) {
    let Some((name, version)) = api_version::split(&kind) else { return (kind, None) };
    let plugin = core.catalog.choose(class.plugin_type(), name, version::choice(config));
    let has = |plugin: &Arc<EnginePlugin>| plugin.description().api_versions().contains(&version);
    match plugin.ok().filter(has) {
        Some(_) => {
            let option = (api_version::OPTION.to_owned(), version.to_string());
            (name.to_owned(), Some(option))
        }
        None => (kind, None),
    }
}

fn marks(fields: RequestFields<'_>, warnings: &mut Vec<String>) -> MountMarks {
    let mut mark = |name: &str, why: &str| {
        let is_set = fields.flag(name, false);
        warnings.extend(is_set.then(|| format!("{name} is stored and has no effect: {why}")));
        is_set
    };
    MountMarks {
        local: mark("local", "nothing is replicated to other clusters"),
        seal_wrap: mark("seal_wrap", "every record is sealed in the same way"),
        external_entropy_access: mark(
            "external_entropy_access",
            "this machine is the only source of randomness",
        ),
    }
}
