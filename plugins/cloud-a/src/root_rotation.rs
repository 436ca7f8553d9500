//! Rotation of the client secret: creates a new secret, waits until the new secret works, replaces
//! the old secret, and only then removes the old secret.
//!
//! This file prevents these faults: a secret that is unknown to Bulkhead because the answer or the
//! process was lost (the secret's name is stored first, and any password with this name is
//! removed); a configuration whose secret does not work yet, or no longer works; the loss of a new
//! secret before another one has logged in; the removal of other passwords of the application,
//! which belong to other users and stay untouched (decision A9).

use crate::arm_id::is_guid;
use crate::configuration::{Config, DUE, rfc3339};
use crate::credential;
use crate::graph::{AddedPassword, Application, GraphClient};
use crate::kept_secrets;
use crate::root_records::{PENDING, PasswordCandidate, PendingSecret, RETIRED, RetiredPasswords};
use crate::rotated_secret::{FormerSecret, SecretPlace};
use crate::secret_trial::{self, SecretProof};
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
    let former = FormerSecret::of(host, &client_secret, replaced.clone())?;
    let pending = make(&graph, &application, &settings, former)?;
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
        (None, kept_secrets::TRIAL) => secret_trial::try_kept(host, context.deadline),
        _ => Err(Failure::internal(format!("cloud-a knows no timer {key:?}"))),
    }
}

fn refuse_second(host: &dyn Host) -> Result<(), Failure> {
    match intent::is_open(host, INTENT_KEY)? || PendingSecret::find(host)?.is_some() {
        true => Err(Failure::invalid(
            "a root rotation is already in progress; the rotation ends when the new secret works",
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
    former: FormerSecret,
) -> Result<String, Failure> {
    let host = graph.host();
    let now = host.clock().now();
    let expires = now.saturating_add(settings.config.root_password_ttl.saturating_mul(1_000));
    let end = rfc3339(expires).ok_or_else(|| Failure::invalid("root_password_ttl is too long"))?;
    let name = format!("bulkhead-{}", hexadecimal::text(&host.random().bytes(16)));
    let place = Some(settings.place());
    let candidate = PasswordCandidate { name, place: place.clone() };
    let intent = Intent::begin(host, INTENT_KEY, INTENT_KEY, candidate)?;
    let mut is_certain = false;
    let creation = intent.make(
        |candidate| {
            graph.add(application, &candidate.name, &end).map_err(|refusal| {
                is_certain = matches!(refusal, ProviderRefusal::Said { .. });
                refusal.about("add a password to the application")
            })
        },
        // The secret starts to work later; `promote` tests it.
        |_, _| Ok(()),
    );
    let proven = match creation {
        Ok(proven) => proven,
        Err(why) if is_certain => {
            if let Some(intent) = Intent::<PasswordCandidate>::recover(host, INTENT_KEY)? {
                intent.abandon(host, IntentEndReason::Unchanged)?;
                host.storage().checkpoint()?;
            }
            return Err(why);
        }
        Err(why) => return Err(why),
    };
    let generation = settings.config.generation;
    proven.confirm(host, |_, AddedPassword { key_id, secret }| {
        let shown = key_id.clone();
        let (replaces, former) = (former.key_id.clone(), Some(former));
        let pending = PendingSecret {
            secret,
            key_id,
            made: now,
            expires,
            generation,
            replaces,
            place,
            former,
        };
        pending.store(host, now.saturating_add(PROPAGATION_DELAY_MS))?;
        Ok(shown)
    })
}

fn warnings(application: &Application, replaced: Option<&str>) -> Vec<String> {
    let others = application.passwords.iter().filter(|one| Some(one.key_id.as_str()) != replaced);
    let others: Vec<&str> = others.map(|one| one.key_id.as_str()).take(16).collect();
    let (is_known, others) = (replaced.is_some(), others.join(", "));
    let warning = match (is_known, others.is_empty()) {
        (true, true) => return Vec::new(),
        (true, false) => format!("the application has other passwords, which are kept: {others}"),
        (false, _) => format!(
            "the replaced password of the application is unknown, and no password is removed; the \
             application has {others}"
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
    // Without a configuration, the record waits for one that names the application again.
    for PasswordCandidate { name, place } in intent.candidates() {
        RetiredPasswords::add(host, place.as_ref(), [], [name.clone()])?;
    }
    match Config::find(host)? {
        Some(config) => {
            again(host, &config)?;
            intent.abandon(host, IntentEndReason::Unchanged)
        }
        None => intent.abandon(host, IntentEndReason::Unwanted),
    }
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
    let settings = EffectiveSettings::of(host, config)?;
    let place = settings.place();
    let is_at_home = pending.place.as_ref().is_none_or(|own| *own == place);
    if settings.config.generation != pending.generation || !is_at_home {
        return supersede(host, &settings.config, pending, deadline);
    }
    let provider = settings.provider(host, deadline);
    let tried = credential::by_secret(&provider, &settings, &pending.secret, settings.cloud.graph);
    match tried {
        Ok(_) => put_in_force(host, settings.config, &pending, &place),
        Err(refusal)
            if is_not_yet(&refusal) && now < pending.made.saturating_add(ACTIVATION_TIMEOUT_MS) =>
        {
            pending.store(host, now.saturating_add(PROPAGATION_DELAY_MS))
        }
        Err(refusal) if is_not_yet(&refusal) => {
            log(host, LogLevel::Error, "root-secret-refused", &pending.key_id);
            abandon(host, &settings, pending, deadline)
        }
        Err(refusal) => Err(refusal.about("try the new client secret")),
    }
}

/// Tells if the refusal may mean that the secret has not yet reached all of the provider's servers.
fn is_not_yet(refusal: &ProviderRefusal) -> bool {
    refusal.is(400) || refusal.is(401)
}

/// Ends the rotation of a configuration that has another credential by now. The pending secret
/// stays a candidate until the operator's secret, or the pending one, has logged in at its
/// application.
fn supersede(
    host: &dyn Host,
    config: &Config,
    pending: PendingSecret,
    deadline: StoreTime,
) -> Result<(), Failure> {
    PendingSecret::remove(host)?;
    again(host, config)?;
    match &pending.place {
        Some(place) => {
            kept_secrets::keep(host, place, pending.rotated_secret())?;
            secret_trial::try_kept(host, deadline)
        }
        // An earlier release made the secret, and its application is unknown.
        None => RetiredPasswords::add(host, None, [pending.key_id], []),
    }
}

/// Ends the rotation of a secret that does not work in time. The secret is removed only if the
/// current one works; otherwise it is kept.
fn abandon(
    host: &dyn Host,
    settings: &EffectiveSettings,
    pending: PendingSecret,
    deadline: StoreTime,
) -> Result<(), Failure> {
    let (place, current) = (settings.place(), settings.client_secret(host)?);
    match secret_trial::prove(host, settings, deadline, &current) {
        SecretProof::Accepted => {
            RetiredPasswords::add(host, Some(&place), [pending.key_id], [])?;
        }
        SecretProof::Refused => kept_secrets::keep(host, &place, pending.rotated_secret())?,
        SecretProof::Unknown(why) => return Err(why),
    }
    PendingSecret::remove(host)?;
    again(host, &settings.config)
}

fn put_in_force(
    host: &dyn Host,
    mut config: Config,
    pending: &PendingSecret,
    place: &SecretPlace,
) -> Result<(), Failure> {
    config.set_rotated_secret(pending.rotated_secret(), place.clone());
    config.times = config.rotation.rotated_at(host.clock().now())?;
    config.store(host)?;
    PendingSecret::remove(host)?;
    RetiredPasswords::add(host, Some(place), pending.replaces.clone(), [])?;
    secret_trial::settle(host, place, (&pending.secret, Vec::new()))?;
    log(host, LogLevel::Info, "root-rotated", &pending.key_id);
    Ok(())
}

/// Removes the retired passwords of the configured application. While it is unknown which of
/// several secrets works there, none is removed. A later configuration, or the trial, resumes.
fn retire(host: &dyn Host, deadline: StoreTime) -> Result<(), Failure> {
    let Some(retired) = RetiredPasswords::find(host)? else { return Ok(()) };
    let Some(config) = Config::find(host)? else { return Ok(()) };
    let settings = EffectiveSettings::of(host, config)?;
    let place = settings.place();
    if !retired.is_due_at(&place) || !kept_secrets::find(host, &place)?.is_empty() {
        return Ok(());
    }
    let graph = graph(host, &settings, deadline)?;
    let application = graph.application(&settings.client_id)?;
    let mut refused = None;
    for password in &application.passwords {
        if !retired.contains(&place, &password.key_id, password.name.as_deref()) {
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
    let now = host.clock().now();
    // A password whose creation got no answer may appear in the list later.
    let (before, next) =
        (now.saturating_sub(LATE_CREATION_MS), now.saturating_add(PROPAGATION_DELAY_MS));
    retired.finish(host, &place, (before, next))
}

fn log(host: &dyn Host, level: LogLevel, event: &str, key_id: &str) {
    host.log().write(level, event, &[("key_id", key_id)]);
}

#[cfg(test)]
mod tests;
