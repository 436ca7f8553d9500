//! Rotation of the client secret: creates a new secret, waits until the new secret works, replaces
//! the old secret, and only then removes the old secret.
//!
//! Prevents these faults: a secret that is unknown to Bulkhead because the answer or the process
//! was lost (the secret's name is stored first, and any password with this name is removed); a
//! configuration whose secret does not work yet, or no longer works; the removal of other passwords
//! of the application, which belong to other users and stay untouched (decision A9).

use crate::arm_id::is_guid;
use crate::configuration::{Config, DUE, rfc3339};
use crate::credential;
use crate::graph::{AddedPassword, Application, GraphClient};
use crate::root_records::{PENDING, PasswordCandidate, PendingSecret, RETIRED, RetiredPasswords};
use crate::settings::EffectiveSettings;
use bulkhead_sdk::call::Context;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::intent::{self, Intent, IntentEndReason};
use bulkhead_sdk::provider::ProviderRefusal;
use bulkhead_sdk::rotation::RotationDecision;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Failure, Host};

/// Key of the intent.
const INTENT_KEY: &str = "root";
/// Milliseconds before the first attempt to use a new secret, and between attempts.
const PROPAGATION_DELAY_MS: u64 = 60_000;
/// Milliseconds after which a new secret that still does not work is given up.
const ACTIVATION_TIMEOUT_MS: u64 = 3_600_000;
/// Milliseconds during which a password may still appear although its creation got no answer.
const LATE_CREATION_MS: u64 = 600_000;

/// Creates a new secret that replaces the current secret once the new secret works. Returns
/// warnings for the operator.
///
/// # Errors
/// Invalid request if there is nothing to rotate or a rotation is unfinished; the provider's
/// refusal. The intent's guard then cleans up after an unfinished creation.
pub(crate) fn rotate(host: &dyn Host, deadline: StoreTime) -> Result<Vec<String>, Failure> {
    let config = Config::find(host)?;
    let config = config.ok_or_else(|| Failure::invalid("config is nil: write config first"))?;
    refuse_second(host)?;
    let settings = EffectiveSettings::of(host, config)?;
    let client_secret = settings.client_secret(host)?;
    check_rotatable(&settings, &client_secret)?;
    let graph = graph(host, &settings, deadline)?;
    let application = graph.application(&settings.client_id)?;
    let key_id = &settings.config.secret_key_id;
    let replaced = application.password_of(&client_secret, key_id);
    let replaced = replaced.map(|password| password.key_id.clone());
    let pending = make(&graph, &application, &settings, replaced.clone())?;
    log(host, LogLevel::Info, "root-secret-created", &pending);
    Ok(warnings(&application, replaced.as_deref()))
}

/// Runs the step that belongs to a timer.
///
/// # Errors
/// The failure of the step; the timer then fires again.
pub(crate) fn wake(host: &dyn Host, context: &Context, key: &str) -> Result<(), Failure> {
    match (intent::key_of(key), key) {
        (Some(INTENT_KEY), _) => recover(host),
        (None, DUE) => due(host, context.deadline),
        (None, PENDING) => promote(host, context.deadline),
        (None, RETIRED) => retire(host, context.deadline),
        _ => Err(Failure::internal(format!("cloud-a knows no timer {key:?}"))),
    }
}

fn refuse_second(host: &dyn Host) -> Result<(), Failure> {
    match intent::is_open(host, INTENT_KEY)? || PendingSecret::find(host)?.is_some() {
        true => Err(Failure::invalid(
            "a root rotation is already in progress; it is finished when its secret works",
        )),
        false => Ok(()),
    }
}

fn check_rotatable(settings: &EffectiveSettings, client_secret: &str) -> Result<(), Failure> {
    if client_secret.is_empty() {
        return Err(Failure::invalid(
            "there is no client_secret to rotate: requests to the cloud use a federated identity \
             or the machine's own",
        ));
    }
    match is_guid(&settings.client_id) {
        true => Ok(()),
        false => Err(Failure::invalid("client_id is not the GUID of an application")),
    }
}

fn graph<'a>(
    host: &'a dyn Host,
    settings: &'a EffectiveSettings,
    deadline: StoreTime,
) -> Result<GraphClient<'a>, Failure> {
    let provider = settings.provider(host, deadline);
    let access = credential::access(provider.clone(), settings, settings.cloud.graph)?;
    Ok(GraphClient::new(provider, settings.cloud, access))
}

/// Creates a password after storing its name, and stores the password as pending.
fn make(
    graph: &GraphClient<'_>,
    application: &Application,
    settings: &EffectiveSettings,
    replaces: Option<String>,
) -> Result<String, Failure> {
    let host = graph.host();
    let now = host.clock().now();
    let expires = now.saturating_add(settings.config.root_password_ttl.saturating_mul(1_000));
    let end = rfc3339(expires).ok_or_else(|| Failure::invalid("root_password_ttl is too long"))?;
    let name = format!("bulkhead-{}", hexadecimal::text(&host.random().bytes(16)));
    let intent = Intent::begin(host, INTENT_KEY, INTENT_KEY, PasswordCandidate { name })?;
    let mut is_certain = false;
    let made = intent.make(
        |candidate| {
            graph.add(application, &candidate.name, &end).map_err(|refusal| {
                is_certain = matches!(refusal, ProviderRefusal::Said { .. });
                refusal.about("add a password to the application")
            })
        },
        // The secret starts to work later; `promote` tests it.
        |_, _| Ok(()),
    );
    let proven = match made {
        Ok(proven) => proven,
        Err(why) if is_certain => {
            if let Some(intent) = Intent::<PasswordCandidate>::recover(host, INTENT_KEY)? {
                intent.give_up(host, IntentEndReason::Unchanged)?;
                host.storage().checkpoint()?;
            }
            return Err(why);
        }
        Err(why) => return Err(why),
    };
    let generation = settings.config.generation;
    proven.confirm(host, |_, AddedPassword { key_id, secret }| {
        let shown = key_id.clone();
        let pending = PendingSecret { secret, key_id, made: now, expires, generation, replaces };
        pending.store(host, now.saturating_add(PROPAGATION_DELAY_MS))?;
        Ok(shown)
    })
}

fn warnings(application: &Application, replaced: Option<&str>) -> Vec<String> {
    let others = application.passwords.iter().filter(|one| Some(one.key_id.as_str()) != replaced);
    let others: Vec<&str> = others.map(|one| one.key_id.as_str()).take(16).collect();
    let (known, others) = (replaced.is_some(), others.join(", "));
    let warning = match (known, others.is_empty()) {
        (true, true) => return Vec::new(),
        (true, false) => format!("the application has other passwords, which are kept: {others}"),
        (false, _) => format!(
            "it cannot be told which password of the application is replaced, and none is removed; \
             it has {others}"
        ),
    };
    vec![warning]
}

/// Cleans up after a call that died while it created a secret: schedules the removal of any
/// password with the stored name.
fn recover(host: &dyn Host) -> Result<(), Failure> {
    let Some(intent) = Intent::<PasswordCandidate>::recover(host, INTENT_KEY)? else {
        return Ok(());
    };
    let Some(config) = Config::find(host)? else {
        return intent.give_up(host, IntentEndReason::Unwanted);
    };
    let names: Vec<String> = intent.candidates().map(|it| it.name.clone()).collect();
    RetiredPasswords::add(host, [], names)?;
    again(host, &config)?;
    intent.give_up(host, IntentEndReason::Unchanged)
}

/// Postpones a rotation that is due by 1 minute.
fn again(host: &dyn Host, config: &Config) -> Result<(), Failure> {
    match config.times.due {
        Some(due) => {
            let soon = host.clock().now().saturating_add(PROPAGATION_DELAY_MS);
            host.clock().schedule(DUE, due.max(soon), DUE)
        }
        None => Ok(()),
    }
}

/// Runs the scheduled rotation.
fn due(host: &dyn Host, deadline: StoreTime) -> Result<(), Failure> {
    let Some(mut config) = Config::find(host)? else { return Ok(()) };
    if intent::is_open(host, INTENT_KEY)? || PendingSecret::find(host)?.is_some() {
        return intent::step_aside(host, DUE);
    }
    let now = host.clock().now();
    match config.rotation.decide(&config.times, now)? {
        RotationDecision::Off => Ok(()),
        RotationDecision::Wait(_) => config.store(host),
        RotationDecision::Missed(next) => {
            host.log().write(LogLevel::Warn, "root-rotation-missed", &[]);
            config.times.due = next;
            config.store(host)
        }
        RotationDecision::Rotate => rotate(host, deadline)
            .map(drop)
            .inspect_err(|_| host.log().write(LogLevel::Warn, "root-rotation-failed", &[])),
    }
}

/// Puts the pending secret in force if the provider accepts the secret by now.
fn promote(host: &dyn Host, deadline: StoreTime) -> Result<(), Failure> {
    let Some(pending) = PendingSecret::find(host)? else { return Ok(()) };
    let Some(config) = Config::find(host)? else { return PendingSecret::remove(host) };
    let now = host.clock().now();
    if config.generation != pending.generation {
        // The operator has written another credential in the meantime; keep that credential.
        return abandon(host, &config, &pending);
    }
    let settings = EffectiveSettings::of(host, config)?;
    let provider = settings.provider(host, deadline);
    let tried = credential::by_secret(&provider, &settings, &pending.secret, settings.cloud.graph);
    match tried {
        Ok(_) => put_in_force(host, settings.config, &pending),
        Err(refusal)
            if is_not_yet(&refusal) && now < pending.made.saturating_add(ACTIVATION_TIMEOUT_MS) =>
        {
            pending.store(host, now.saturating_add(PROPAGATION_DELAY_MS))
        }
        Err(refusal) if is_not_yet(&refusal) => {
            log(host, LogLevel::Error, "root-secret-refused", &pending.key_id);
            abandon(host, &settings.config, &pending)
        }
        Err(refusal) => Err(refusal.about("try the new client secret")),
    }
}

/// Tells if the refusal may mean that the secret has not yet reached all of the provider's servers.
fn is_not_yet(refusal: &ProviderRefusal) -> bool {
    refusal.is(400) || refusal.is(401)
}

/// Keeps the current credential and schedules the removal of the pending secret.
fn abandon(host: &dyn Host, config: &Config, pending: &PendingSecret) -> Result<(), Failure> {
    PendingSecret::remove(host)?;
    RetiredPasswords::add(host, [pending.key_id.clone()], [])?;
    again(host, config)
}

fn put_in_force(
    host: &dyn Host,
    mut config: Config,
    pending: &PendingSecret,
) -> Result<(), Failure> {
    config.client_secret.clone_from(&pending.secret);
    config.secret_key_id.clone_from(&pending.key_id);
    config.secret_expires = Some(pending.expires);
    config.generation = config.generation.saturating_add(1);
    config.times = config.rotation.rotated_at(host.clock().now())?;
    config.store(host)?;
    PendingSecret::remove(host)?;
    if let Some(old) = &pending.replaces {
        RetiredPasswords::add(host, [old.clone()], [])?;
    }
    log(host, LogLevel::Info, "root-rotated", &pending.key_id);
    Ok(())
}

/// Removes the retired passwords.
fn retire(host: &dyn Host, deadline: StoreTime) -> Result<(), Failure> {
    let Some(mut retired) = RetiredPasswords::find(host)? else { return Ok(()) };
    let Some(config) = Config::find(host)? else { return RetiredPasswords::remove(host) };
    let settings = EffectiveSettings::of(host, config)?;
    let graph = graph(host, &settings, deadline)?;
    let application = graph.application(&settings.client_id)?;
    let mut refused = None;
    for password in &application.passwords {
        let is_named = password.name.as_ref().is_some_and(|name| retired.names.contains(name));
        if !is_named && !retired.key_ids.contains(&password.key_id) {
            continue;
        }
        // A password that cannot be removed does not delay the removal of the others.
        match graph.remove(&application, &password.key_id) {
            Ok(()) => log(host, LogLevel::Info, "root-secret-removed", &password.key_id),
            Err(why) => refused = Some(why),
        }
    }
    if let Some(why) = refused {
        return Err(why);
    }
    retired.key_ids.clear();
    let now = host.clock().now();
    retired.forget_added(now.saturating_sub(LATE_CREATION_MS));
    match retired.names.is_empty() {
        true => RetiredPasswords::remove(host),
        // A password whose creation got no answer may appear in the list later.
        false => retired.store(host, now.saturating_add(PROPAGATION_DELAY_MS)),
    }
}

fn log(host: &dyn Host, level: LogLevel, event: &str, key_id: &str) {
    host.log().write(level, event, &[("key_id", key_id)]);
}

#[cfg(test)]
mod tests;
