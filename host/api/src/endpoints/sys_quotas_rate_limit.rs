//! `sys/quotas/rate-limit` and `sys/quotas/config`: limits on the rate of a client's requests at a
//! path.

use super::after_commit::AfterCommit;
use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use super::sys_quotas::{WritableQuota, delete, list, path_of, resolve_place, shown, write};
use bulkhead_access::quotas::{self, RateLimitConfig, RateLimitQuota};
use bulkhead_core::Core;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::json;

const BASE: &str = "sys/quotas/rate-limit";
const CONFIG: &str = "sys/quotas/config";
/// Maximum length of an interval and of a block, in seconds.
const MAX_INTERVAL: u64 = 86_400;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let one = format!("{BASE}/{{name}}");
    let name = || field("name", FieldKind::Name, "name of the quota");
    let page = [
        field("after", FieldKind::String, "list only names after this name"),
        field("limit", FieldKind::String, "maximum number of names"),
    ];
    let settings = [
        name(),
        field("path", FieldKind::String, "a mount, or a path below a mount; empty for all paths"),
        field("rate", FieldKind::String, "maximum requests of a client in an interval, above 0"),
        field("interval", FieldKind::Duration, "length of the interval; 1 s unless given"),
        field(
            "block_interval",
            FieldKind::Duration,
            "seconds of complete refusal for a client over the rate; 0: none",
        ),
        field("role", FieldKind::String, "a role of an auth method: not supported"),
        field("inheritable", FieldKind::Bool, "for child namespaces, which do not exist"),
    ];
    let audits = "whether refused requests are recorded in the audit log";
    let config = [
        field("enable_rate_limit_audit_logging", FieldKind::Bool, audits),
        field(
            "enable_rate_limit_response_headers",
            FieldKind::Bool,
            "must be false: a refusal has Retry-After",
        ),
        field("rate_limit_exempt_paths", FieldKind::CommaList, "paths without a rate limit"),
    ];
    vec![
        row::list(BASE, "names of all rate-limit quotas")
            .fields(page)
            .handled_by(list::<RateLimitQuota>),
        row::read(&one, "a rate-limit quota").fields([name()]).handled_by(read),
        row::write(&one, "write a rate-limit quota")
            .fields(settings)
            .handled_by(write::<RateLimitQuota>),
        row::delete(&one, "delete a rate-limit quota")
            .fields([name()])
            .handled_by(delete::<RateLimitQuota>),
        row::read(CONFIG, "the settings of rate-limit quotas").handled_by(read_config),
        row::write(CONFIG, "change the settings of rate-limit quotas")
            .fields(config)
            .handled_by(write_config),
    ]
}

/// `GET sys/quotas/rate-limit/:name`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let name = fields.text("name");
    let quota = quotas::read::<RateLimitQuota>(unit, name).await?.ok_or_else(Failure::absent)?;
    Ok(shown([
        ("type", json!("rate-limit")),
        ("name", json!(name)),
        ("path", json!(path_of(core, &quota.place))),
        ("rate", json!(quota.rate)),
        ("interval", json!(quota.interval)),
        ("block_interval", json!(quota.block_interval)),
        ("role", json!("")),
        ("inheritable", json!(false)),
    ]))
}

impl WritableQuota for RateLimitQuota {
    fn with_fields(
        core: &Core,
        fields: RequestFields<'_>,
        stored_quota: Option<Self>,
    ) -> Result<Self, Failure> {
        if !fields.text("role").is_empty() {
            return Err(Failure::invalid(
                "role cannot be limited: the role of a login is known only to the auth method; \
                 leave role out, and give the path of the auth method",
            ));
        }
        if fields.flag("inheritable", false) {
            return Err(Failure::invalid("inheritable cannot be true: there are no namespaces"));
        }
        let stored_rate = stored_quota.as_ref().map(|quota| quota.rate);
        let rate = if fields.has("rate") { Some(rate(fields.text("rate"))?) } else { stored_rate };
        let rate = rate.ok_or_else(|| {
            Failure::invalid(
                "rate is missing: give the maximum requests of a client in an interval",
            )
        })?;
        let seconds = |name: &str, stored_seconds: Option<u64>, least: u64| {
            let usual = stored_seconds.unwrap_or(least);
            let seconds = if fields.has(name) { fields.seconds(name) } else { usual };
            match (least..=MAX_INTERVAL).contains(&seconds) {
                true => Ok(seconds),
                false => Err(Failure::invalid(format!(
                    "{name} is {seconds} s; give {least} s to {MAX_INTERVAL} s"
                ))),
            }
        };
        let interval = seconds("interval", stored_quota.as_ref().map(|quota| quota.interval), 1)?;
        let block = stored_quota.as_ref().map(|quota| quota.block_interval);
        let block_interval = seconds("block_interval", block, 0)?;
        let place = match (fields.has("path"), stored_quota) {
            (false, Some(quota)) => quota.place,
            _ => resolve_place(core, fields.text("path"))?,
        };
        Ok(RateLimitQuota { place, rate, interval, block_interval })
    }
}

/// Parses a rate. A rate of 0 would lock everybody out, and is refused.
fn rate(text: &str) -> Result<f64, Failure> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| {
        Failure::invalid(format!(
            "rate {} is not a number from 0.001 to 1000000000; a rate of 0 would refuse every \
             request",
            quoted(text)
        ))
    })
}

/// `GET sys/quotas/config`.
async fn read_config(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let config = quotas::read_config(call.unit).await?;
    Ok(shown([
        ("enable_rate_limit_audit_logging", json!(config.audits_refusals)),
        ("enable_rate_limit_response_headers", json!(false)),
        ("rate_limit_exempt_paths", json!(config.exempt_paths)),
    ]))
}

/// `POST sys/quotas/config`. Fields that are not sent keep their values.
async fn write_config(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { unit, fields, .. } = call;
    let RateLimitConfig { audits_refusals, exempt_paths } = quotas::read_config(unit).await?;
    let has_paths = fields.has("rate_limit_exempt_paths");
    let config = RateLimitConfig {
        audits_refusals: fields.flag("enable_rate_limit_audit_logging", audits_refusals),
        exempt_paths: if has_paths { fields.list("rate_limit_exempt_paths") } else { exempt_paths },
    };
    quotas::put_config(unit, &config)?;
    let asks_for_headers = fields.flag("enable_rate_limit_response_headers", false);
    let warning = "enable_rate_limit_response_headers has no effect: a refusal tells by \
                   Retry-After when to come again";
    let reply = Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::LoadQuotas);
    Ok(reply.with_warnings(asks_for_headers.then(|| warning.to_owned())))
}
