//! `sys/mounts`: which engine serves which path. `sys/auth` is the same for auth methods, and is
//! served here too.

use super::row::{field, required, row};
use super::{Body, Handler, HostCall, Reply, Then, mount_grants, mount_info, mount_settings};
use crate::core::Core;
use crate::mounts::{
    self, Builtin, Change, Class, Lifetimes, Marks, Mount, MountRecord, NewMount, Phase, Running,
    Settings,
};
use bulkhead_store::Unit;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;
use mount_settings::Subject;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What these endpoints do, and with which of the two kinds of mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Act {
    class: Class,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    List,
    Read,
    Enable,
    Disable,
    ReadTuned,
    Tune,
}

impl Act {
    /// May it change something outside of the unit of work?
    pub(super) fn reaches_outside(self) -> bool {
        self.what == What::Disable
    }
}

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let list = row(Verb::Read, "sys/mounts", "all secrets engines", vec![]);
    let tunes = |class, read: Route, write: Route| {
        [handled(class, What::ReadTuned, read), handled(class, What::Tune, write)]
    };
    let tune = [
        tunes(
            Class::Secret,
            row(
                Verb::Read,
                "sys/mounts/{path+}/tune",
                "the settings that hold for a mount",
                path(),
            ),
            row(
                Verb::Write,
                "sys/mounts/{path+}/tune",
                "change the settings of a mount",
                tuned_fields(),
            ),
        ),
        tunes(
            Class::Auth,
            row(
                Verb::Read,
                "sys/mounts/auth/{path+}/tune",
                "the settings that hold for an auth method",
                path(),
            ),
            row(
                Verb::Write,
                "sys/mounts/auth/{path+}/tune",
                "change the settings of an auth method",
                tuned_fields(),
            ),
        ),
    ];
    let one = [
        (What::Read, row(Verb::Read, "sys/mounts/{path+}", "one secrets engine", path())),
        (
            What::Enable,
            row(Verb::Write, "sys/mounts/{path+}", "mount a secrets engine", enabled_fields()),
        ),
        (
            What::Disable,
            row(
                Verb::Delete,
                "sys/mounts/{path+}",
                "end all leases of a mount and delete it",
                path(),
            ),
        ),
    ];
    let one = one.map(|(what, route)| handled(Class::Secret, what, route));
    [handled(Class::Secret, What::List, list)]
        .into_iter()
        .chain(one)
        .chain(tune.into_iter().flatten())
        .collect()
}

/// The rows of `sys/auth`, made of the routes that it declares in this order: list, read, enable,
/// disable, read tuned, tune.
pub(super) fn rows_of_auth(routes: [Route; 6]) -> Vec<(Handler, Route)> {
    let all = [What::List, What::Read, What::Enable, What::Disable, What::ReadTuned, What::Tune];
    all.into_iter().zip(routes).map(|(what, route)| handled(Class::Auth, what, route)).collect()
}

fn handled(class: Class, what: What, route: Route) -> (Handler, Route) {
    (Handler::Mounts(Act { class, what }), route)
}

pub(super) fn path() -> Vec<Field> {
    vec![field("path", FieldKind::String, "path of the mount")]
}

pub(super) fn tuned_fields() -> Vec<Field> {
    [path(), mount_settings::fields(), mount_grants::changes().into()].concat()
}

pub(super) fn enabled_fields() -> Vec<Field> {
    let more = vec![
        required("type", FieldKind::String, "what to mount, e.g. database"),
        field("description", FieldKind::String, "one sentence for people"),
        field("config", FieldKind::Any, "settings, as tuning takes them"),
        field("options", FieldKind::Map, "texts for the plugin"),
        mount_grants::whole(),
        field("plugin_name", FieldKind::String, "the plugin, where the type is \"plugin\""),
        field("plugin_version", FieldKind::String, "empty, or the version that runs"),
        field("local", FieldKind::Bool, "stored, without effect"),
        field("seal_wrap", FieldKind::Bool, "stored, without effect"),
        field("external_entropy_access", FieldKind::Bool, "stored, without effect"),
    ];
    [path(), more].concat()
}

/// Serves a permitted request.
pub(super) async fn serve(
    act: Act,
    core: &Arc<Core>,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    let class = act.class;
    match act.what {
        What::List => Ok(list(core, class).into()),
        What::Read => read(core, class, call),
        What::Enable => enable(core, class, unit, call).await,
        What::Disable => disable(core, class, call).await,
        What::ReadTuned => read_tuned(core, class, call),
        What::Tune => tune(core, class, unit, call).await,
    }
}

/// The mounts of a class that serve, the parts of the server among them, with what runs behind
/// them.
pub(super) fn serving(core: &Core, class: Class) -> Vec<Serving> {
    let builtins =
        Builtin::ALL.into_iter().map(|which| Serving::Builtin(which, core.mounts.builtin(which)));
    let mounts = core
        .mounts
        .all()
        .into_iter()
        .filter(|mount| mount.record.phase == Phase::Serving)
        .map(Serving::Mount);
    builtins.chain(mounts).filter(|one| Class::of(&one.record().path) == class).collect()
}

/// Something that is listed as a mount.
pub(super) enum Serving {
    Mount(Arc<Mount>),
    Builtin(Builtin, Arc<MountRecord>),
}

impl Serving {
    /// What is at `path`, as it stands in a listing, and serves.
    ///
    /// # Errors
    /// 400 in the words that clients look for.
    fn at(core: &Core, class: Class, call: &HostCall<'_>) -> Result<Self, Failure> {
        let path = format!("{}/", call.text("path").trim_end_matches('/'));
        let found = serving(core, class).into_iter().find(|one| one.record().path.listed() == path);
        found.ok_or_else(|| absent(class, &path))
    }

    pub(super) fn record(&self) -> &MountRecord {
        match self {
            Self::Mount(mount) => &mount.record,
            Self::Builtin(_, record) => record,
        }
    }

    fn running(&self) -> Running<'_> {
        match self {
            Self::Mount(mount) => mount.running(),
            Self::Builtin(..) => Builtin::running(),
        }
    }

    /// What tuning reads.
    fn tuned(&self, system: Lifetimes) -> Map<String, Value> {
        mount_info::tuned(self.record(), self.running(), system)
    }

    /// The object of decision H13.
    pub(super) fn info(&self) -> Map<String, Value> {
        mount_info::info(self.record(), self.running())
    }
}

fn absent(class: Class, path: &str) -> Failure {
    Failure::invalid(match class {
        Class::Secret => format!("No secret engine mount at {path}"),
        Class::Auth => format!("No auth engine at {path}"),
    })
}

fn list(core: &Core, class: Class) -> Body {
    let listed = serving(core, class)
        .into_iter()
        .map(|one| (one.record().path.listed().to_owned(), one.info().into()));
    Body::Copied(listed.collect())
}

fn read(core: &Core, class: Class, call: &HostCall<'_>) -> Result<Reply, Failure> {
    Ok(Body::Data(Serving::at(core, class, call)?.info()).into())
}

fn read_tuned(core: &Core, class: Class, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let serving = Serving::at(core, class, call)?;
    Ok(Body::Data(serving.tuned(core.lifetimes)).into())
}

fn mount_path(class: Class, call: &HostCall<'_>) -> Result<MountPath, Failure> {
    let path = call.text("path");
    let path = match class {
        Class::Secret => MountPath::new(path),
        Class::Auth => MountPath::below_auth(path),
    };
    path.map_err(Failure::invalid)
}

async fn enable(
    core: &Core,
    class: Class,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    let path = mount_path(class, call)?;
    let (mut config, unknown) = mount_settings::of_config(call.values.get("config"))?;
    for name in ["description", "options", "plugin_name", "plugin_version", "grants"] {
        // What is said outside of the config counts, where it says anything.
        let said = call.values.get(name).filter(|value| value.as_str() != Some(""));
        config.extend(said.map(|value| (name.to_owned(), value.clone())));
    }
    let mut settings = Settings::default();
    let kind = kind(call, &config)?;
    let mut warnings: Vec<String> = unknown.into_iter().collect();
    if class == Class::Secret {
        let plugin = core.catalog.engine(&kind)?;
        let usual = mounts::usual(&plugin.engine);
        let running = Running::of(&plugin.engine, &usual);
        let subject =
            Subject { class, builtin: None, kind: &kind, running, system: core.lifetimes };
        warnings.extend(mount_settings::change(&mut settings, &config, &subject)?);
    }
    let marks = marks(call, &mut warnings);
    let record =
        core.mounts.enable(unit, &core.catalog, NewMount { path, kind, marks, settings }).await?;
    Ok(Reply {
        body: Body::Nothing,
        warnings,
        then: Then::Mounts(Change::Enabled(Box::new(record))),
    })
}

/// The type, or the plugin that it leaves open.
fn kind(call: &HostCall<'_>, config: &Map<String, Value>) -> Result<String, Failure> {
    match (call.text("type"), config.get("plugin_name").and_then(Value::as_str).unwrap_or_default())
    {
        ("plugin", "") => Err(Failure::invalid(
            "plugin_name is required with type plugin: name the plugin to mount",
        )),
        ("plugin", name) => Ok(name.to_owned()),
        (kind, _) => Ok(kind.to_owned()),
    }
}

fn marks(call: &HostCall<'_>, warnings: &mut Vec<String>) -> Marks {
    let mut mark = |name: &str, why: &str| {
        let is_set = call.flag(name, false);
        warnings.extend(is_set.then(|| format!("{name} is stored and has no effect: {why}")));
        is_set
    };
    Marks {
        local: mark("local", "nothing is replicated to other clusters"),
        seal_wrap: mark("seal_wrap", "every record is sealed in the same way"),
        external_entropy_access: mark(
            "external_entropy_access",
            "there is one source of randomness, this machine's",
        ),
    }
}

async fn disable(core: &Arc<Core>, class: Class, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let listed = format!("{}/", call.text("path"));
    if let Some(builtin) = Builtin::at(class, &listed) {
        let path = builtin.path();
        return Err(Failure::invalid(format!(
            "{path} is part of the server and cannot be disabled"
        )));
    }
    mounts::disable(core, &mount_path(class, call)?).await?;
    Ok(Body::Nothing.into())
}

async fn tune(
    core: &Core,
    class: Class,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    let serving = Serving::at(core, class, call)?;
    let (path, running) = (&serving.record().path, serving.running());
    let builtin = match &serving {
        Serving::Builtin(which, _) => Some(*which),
        Serving::Mount(_) => None,
    };
    // As it is stored, so that of two who tune at once the later one runs again.
    let stored = match builtin {
        Some(which) => Some(which.read(&core.store, unit).await?),
        None => MountRecord::read(unit, path).await?,
    };
    let mut record = stored
        .filter(|record| record.phase == Phase::Serving)
        .ok_or_else(|| absent(class, path.listed()))?;
    let subject =
        Subject { class, builtin, kind: &serving.record().kind, running, system: core.lifetimes };
    let warnings = mount_settings::change(&mut record.settings, call.values, &subject)?;
    let change = match builtin {
        Some(which) => {
            which.put(unit, &mut record)?;
            Change::TunedBuiltin(which, Box::new(record))
        }
        None => {
            record.put(unit)?;
            Change::Tuned(Box::new(record))
        }
    };
    Ok(Reply { body: Body::Nothing, warnings, then: Then::Mounts(change) })
}
