//! Metrics of tokens, leases and identities: their numbers, creations, renewals and ends.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge, histogram};
use bulkhead_access::row_counts::RowCounts;
use bulkhead_access::tokens::TokenType;
use bulkhead_core::Core;

const TOKENS: Registration<1> =
    gauge("bulkhead_tokens", ["type"], "stored tokens, by their type", "how many tokens are there");
const TOKENS_CREATED: Registration<1> = counter(
    "bulkhead_tokens_created_total",
    ["type"],
    "tokens created by logins, by tokens and for wrapped answers, by their type",
    "does a client create tokens without end",
);
const TOKENS_RENEWED: Registration<0> = counter(
    "bulkhead_tokens_renewed_total",
    [],
    "renewals of tokens",
    "do clients keep their tokens",
);
const TOKENS_ENDED: Registration<1> = counter(
    "bulkhead_tokens_ended_total",
    ["cause"],
    "tokens that ended and were removed, by cause",
    "why do tokens end",
);
const LEASES_CREATED: Registration<1> = counter(
    "bulkhead_leases_created_total",
    ["mount"],
    "leases created by a mount",
    "which mount creates leases without end",
);
const LEASES_RENEWED: Registration<1> = counter(
    "bulkhead_leases_renewed_total",
    ["mount"],
    "renewals of the leases of a mount",
    "do clients keep their credentials",
);
const LEASES_ENDED: Registration<2> = counter(
    "bulkhead_leases_ended_total",
    ["mount", "cause"],
    "leases of a mount that ended, by cause",
    "why do credentials end",
);
const FAILED_REVOCATIONS: Registration<1> = counter(
    "bulkhead_lease_revocations_failed_total",
    ["mount"],
    "attempts to end a lease or a reservation that failed, by mount",
    "which mount's credentials outlive their leases",
);
const OVERDUE: Registration<0> = gauge(
    "bulkhead_leases_overdue",
    [],
    "leases and reservations whose end was put off since the opening, after a failure or while the \
     component cannot be called, and that still exist",
    "how many credentials outlive their leases",
);
const END_DELAYS: Registration<0> = histogram(
    "bulkhead_lease_end_delay_seconds",
    [],
    "time from the due time of a lease or a reservation to its end at the target",
    "how long do credentials outlive their leases",
);
const ENTITIES: Registration<0> = gauge(
    "bulkhead_identity_entities",
    [],
    "entities of the identity store",
    "how many clients are there",
);
const GROUPS: Registration<0> = gauge(
    "bulkhead_identity_groups",
    [],
    "groups of the identity store",
    "how many groups are there",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup = MetricGroup {
    mark: "metrics-lifecycle",
    metrics: &[
        &TOKENS,
        &TOKENS_CREATED,
        &TOKENS_RENEWED,
        &TOKENS_ENDED,
        &LEASES_CREATED,
        &LEASES_RENEWED,
        &LEASES_ENDED,
        &FAILED_REVOCATIONS,
        &OVERDUE,
        &END_DELAYS,
        &ENTITIES,
        &GROUPS,
    ],
};

/// Adds the metrics of tokens, leases and identities.
pub(super) fn add(core: &Core, rows: &RowCounts, families: &mut MetricFamilies) {
    families.add(&TOKENS, [TOKENS.series([TokenType::Service.word()], rows.tokens)]);
    families.add(&ENTITIES, [ENTITIES.series([], rows.entities)]);
    families.add(&GROUPS, [GROUPS.series([], rows.groups)]);
    add_token_counts(core, families);
    add_lease_counts(core, families);
    families.add(&END_DELAYS, [END_DELAYS.series([], core.leases.end_delays.read())]);
}

fn add_token_counts(core: &Core, families: &mut MetricFamilies) {
    for kind in [TokenType::Service, TokenType::Batch] {
        let created = core.tokens.counts.of(kind).read().created;
        families.add(&TOKENS_CREATED, [TOKENS_CREATED.series([kind.word()], created)]);
    }
    let counts = core.tokens.counts.of(TokenType::Service).read();
    families.add(&TOKENS_RENEWED, [TOKENS_RENEWED.series([], counts.renewed)]);
    let ended = counts.ended.into_iter();
    let ended = ended.map(|(cause, count)| TOKENS_ENDED.series([cause.word()], count));
    families.add(&TOKENS_ENDED, ended);
}

fn add_lease_counts(core: &Core, families: &mut MetricFamilies) {
    let mut overdue = 0;
    for mount in core.mounts.all() {
        let (path, counts) = (mount.record.path.as_str(), mount.lease_counts.read());
        for (metric, count) in
            [(&LEASES_CREATED, counts.created), (&LEASES_RENEWED, counts.renewed)]
        {
            families.add(metric, (count > 0).then(|| metric.series([path], count)));
        }
        // The series begins with 0 before the first failure, which `increase` would miss otherwise.
        let has_leases = counts.created + counts.failed_ends > 0 || !counts.ended.is_empty();
        let failed = has_leases.then(|| FAILED_REVOCATIONS.series([path], counts.failed_ends));
        families.add(&FAILED_REVOCATIONS, failed);
        overdue += counts.overdue;
        let ended = counts.ended.into_iter();
        let ended = ended.map(|(cause, count)| LEASES_ENDED.series([path, cause.word()], count));
        families.add(&LEASES_ENDED, ended);
    }
    families.add(&OVERDUE, [OVERDUE.series([], overdue)]);
}
