//! Tests of the cached tokens and refusals, and of their lifetimes.

use super::*;

const NOW: u64 = 1_700_000_000_000;

fn given(token: &str, expires: u64) -> Result<Given, Failure> {
    Ok(Given { token: token.to_owned(), expires })
}

fn slow() -> Result<Given, Failure> {
    Err(Failure::new(Kind::TimedOut, "slow"))
}

/// Returns the token of an answer, or the kind of its refusal.
fn token(answer: Result<Given, Failure>) -> Result<String, Kind> {
    answer.map(|given| given.token).map_err(|refused| refused.kind)
}

#[test]
fn a_token_is_kept_until_shortly_before_its_end() {
    let (mut kept, at) = (Kept::default(), Instant::now());
    assert!(kept.answer(NOW, at).is_none());
    assert!(kept.keep(given("one", NOW + 3_600_000), NOW, at).is_ok());
    assert_eq!(kept.answer(NOW, at).map(token), Some(Ok("one".to_owned())));
    assert_eq!(kept.answer(NOW + 3_600_000 - MARGIN, at).map(token), None);
    assert!(kept.keep(given("short", NOW + 60_000), NOW, at).is_ok());
    assert_eq!(kept.answer(NOW, at).map(token), None, "one of a minute is asked for each time");
}

#[test]
fn a_refusal_holds_for_those_that_waited_and_not_for_those_that_come() {
    let (mut kept, at) = (Kept::default(), Instant::now());
    assert_eq!(token(kept.keep(slow(), NOW, at)), Err(Kind::TimedOut));
    assert_eq!(kept.answer(NOW, at).map(token), Some(Err(Kind::TimedOut)));
    assert_eq!(kept.answer(NOW, at + REFUSED).map(token), None);
}

#[test]
fn while_the_service_fails_the_token_before_serves_to_its_end_unless_the_cloud_says_no() {
    let (mut kept, at) = (Kept::default(), Instant::now());
    let end = NOW + 3_600_000;
    assert!(kept.keep(given("one", end), NOW, at).is_ok());
    assert_eq!(token(kept.keep(slow(), end - 1, at)), Ok("one".to_owned()));
    assert_eq!(token(kept.keep(slow(), end, at)), Err(Kind::TimedOut));
    let no = Err(Failure::invalid("no identity"));
    assert_eq!(token(kept.keep(no, end - 1, at)), Err(Kind::InvalidRequest));
    assert_eq!(token(kept.keep(slow(), end - 1, at)), Err(Kind::TimedOut), "it is forgotten");
}

#[tokio::test]
async fn the_audience_that_was_not_used_for_longest_makes_room() {
    let (tokens, start) = (CloudTokens::default(), Instant::now());
    let at = |count: usize| start + Duration::from_millis(count.try_into().unwrap());
    for audience in 0..MOST {
        let kept = tokens.of(Cloud::Azure, &audience.to_string(), at(audience));
        assert!(kept.lock().await.keep(given("t", u64::MAX), NOW, start).is_ok());
    }
    let has = async |audience: &str, used: Instant| {
        tokens.of(Cloud::Azure, audience, used).lock().await.answer(NOW, start).is_some()
    };
    assert!(has("0", at(MOST)).await);
    tokens.of(Cloud::Google, "0", at(MOST + 1));
    assert!(has("0", at(MOST + 2)).await);
    assert!(!has("1", at(MOST + 3)).await, "it made room");
    assert!(sync::lock(&tokens.places).len() <= MOST);
    tokens.clear();
    assert!(!has("0", start).await);
}
