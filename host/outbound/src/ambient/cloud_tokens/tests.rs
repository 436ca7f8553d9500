//! Tests of the cached tokens and refusals, and of their lifetimes.

use super::*;

const NOW: u64 = 1_700_000_000_000;

fn given(token: &str, expires: u64) -> Result<ExpiringToken, Failure> {
    Ok(ExpiringToken { token: token.to_owned(), expires })
}

fn slow() -> Result<ExpiringToken, Failure> {
    Err(Failure::new(FailureKind::TimedOut, "slow"))
}

/// Returns the token of an answer, or the kind of its refusal.
fn token(answer: Result<ExpiringToken, Failure>) -> Result<String, FailureKind> {
    answer.map(|given| given.token).map_err(|refused| refused.kind)
}

#[test]
fn cached_token_is_kept_until_shortly_before_expiry() {
    let (mut cache, at) = (CachedToken::default(), Instant::now());
    assert!(cache.cached_answer(NOW, at).is_none());
    assert!(cache.store_answer(given("one", NOW + 3_600_000), NOW, at).is_ok());
    assert_eq!(cache.cached_answer(NOW, at).map(token), Some(Ok("one".to_owned())));
    assert_eq!(cache.cached_answer(NOW + 3_600_000 - RENEWAL_MARGIN_MS, at).map(token), None);
    assert!(cache.store_answer(given("short", NOW + 60_000), NOW, at).is_ok());
    assert_eq!(
        cache.cached_answer(NOW, at).map(token),
        None,
        "a token that ends in a minute is not cached"
    );
}

#[test]
fn cached_refusal_answers_waiting_calls_only() {
    let (mut cache, at) = (CachedToken::default(), Instant::now());
    assert_eq!(token(cache.store_answer(slow(), NOW, at)), Err(FailureKind::TimedOut));
    assert_eq!(cache.cached_answer(NOW, at).map(token), Some(Err(FailureKind::TimedOut)));
    assert_eq!(cache.cached_answer(NOW, at + REFUSAL_TIME).map(token), None);
}

#[test]
fn service_failure_serves_previous_token_unless_cloud_refuses() {
    let (mut cache, at) = (CachedToken::default(), Instant::now());
    let end = NOW + 3_600_000;
    assert!(cache.store_answer(given("one", end), NOW, at).is_ok());
    assert_eq!(token(cache.store_answer(slow(), end - 1, at)), Ok("one".to_owned()));
    assert_eq!(token(cache.store_answer(slow(), end, at)), Err(FailureKind::TimedOut));
    let no = Err(Failure::invalid("no identity"));
    assert_eq!(token(cache.store_answer(no, end - 1, at)), Err(FailureKind::InvalidRequest));
    assert_eq!(
        token(cache.store_answer(slow(), end - 1, at)),
        Err(FailureKind::TimedOut),
        "an outdated refusal is not kept"
    );
}

#[tokio::test]
async fn least_recently_used_audience_is_evicted() {
    let (tokens, start) = (CloudTokens::default(), Instant::now());
    let at = |count: usize| start + Duration::from_millis(count.try_into().unwrap());
    for audience in 0..MAX_CACHED_TOKENS {
        let cache = tokens.of(CloudProvider::Azure, &audience.to_string(), at(audience));
        assert!(cache.lock().await.store_answer(given("t", u64::MAX), NOW, start).is_ok());
    }
    let has = async |audience: &str, used: Instant| {
        tokens
            .of(CloudProvider::Azure, audience, used)
            .lock()
            .await
            .cached_answer(NOW, start)
            .is_some()
    };
    assert!(has("0", at(MAX_CACHED_TOKENS)).await);
    tokens.of(CloudProvider::Google, "0", at(MAX_CACHED_TOKENS + 1));
    assert!(has("0", at(MAX_CACHED_TOKENS + 2)).await);
    assert!(!has("1", at(MAX_CACHED_TOKENS + 3)).await, "the oldest token was evicted");
    assert!(sync::lock(&tokens.places).len() <= MAX_CACHED_TOKENS);
    tokens.clear();
    assert!(!has("0", start).await);
}
