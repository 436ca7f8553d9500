//! Signatures of requests, version 4 (AWS, "Create a signed AWS API request"): a chain of HMACs
//! over the request, its time, the region and the service.
//!
//! This file prevents a request from being signed for another region, time or body than the request
//! has: the signature covers all of them.

use bulkhead_sdk::Failure;
use bulkhead_sdk::wire::hexadecimal;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// Name of the procedure.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// End of each scope.
const SCOPE_END: &str = "aws4_request";
/// Milliseconds of a day.
const DAY: u64 = 86_400_000;

/// The time of a request in UTC: `20150830T123600Z`.
pub(crate) struct SigningTime(String);

impl SigningTime {
    /// Reads milliseconds since 1970.
    pub(crate) fn of(milliseconds: u64) -> Self {
        let (year, month, day) = date(milliseconds / DAY);
        let seconds = milliseconds % DAY / 1_000;
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        Self(format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z"))
    }

    /// Returns the text of the header `x-amz-date`.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    fn day(&self) -> &str {
        self.0.get(..8).unwrap_or_default()
    }
}

/// Returns year, month and day of a day since 1970, in the Gregorian calendar. The year begins in
/// March, so that the leap day is the last day of the year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next) =
        if month_from_march < 10 { (month_from_march + 3, 0) } else { (month_from_march - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

/// A key for signatures, and its scope. No `Debug`: the type holds the secret key.
pub(crate) struct Signer<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a str,
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
}

impl Signer<'_> {
    /// Returns the header `authorization` of a POST request for the path `/`. `headers` have names
    /// in lower case, in alphabetical order.
    ///
    /// # Errors
    /// Internal if the key cannot be used, which no key causes.
    pub(crate) fn authorization(
        &self,
        time: &SigningTime,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<String, Failure> {
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let request = format!("POST\n/\n\n{lines}\n{names}\n{}", digest(body));
        let Self { access_key, region, service, .. } = self;
        let scope = format!("{}/{region}/{service}/{SCOPE_END}", time.day());
        let text = format!("{ALGORITHM}\n{}\n{scope}\n{}", time.text(), digest(request.as_bytes()));
        let signature = hexadecimal::text(&mac(&self.key(time)?, &text)?);
        Ok(format!(
            "{ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}, \
             Signature={signature}"
        ))
    }

    /// Returns the key of the day, the region and the service.
    fn key(&self, time: &SigningTime) -> Result<Vec<u8>, Failure> {
        let first = format!("AWS4{}", self.secret_key).into_bytes();
        let parts = [time.day(), self.region, self.service, SCOPE_END];
        parts.iter().try_fold(first, |key, part| mac(&key, part))
    }
}

fn mac(key: &[u8], text: &str) -> Result<Vec<u8>, Failure> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|_| Failure::internal("a key of the request's signature cannot be used"))?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().to_vec())
}

fn digest(bytes: &[u8]) -> String {
    hexadecimal::text(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 30 August 2015, 12:36:00.
    const TIME: u64 = 1_440_938_160_000;

    #[test]
    fn time_follows_gregorian_calendar() {
        for (milliseconds, text) in [
            (0, "19700101T000000Z"),
            (TIME, "20150830T123600Z"),
            (951_782_400_000, "20000229T000000Z"),
            (951_868_799_999, "20000229T235959Z"),
            (1_709_251_199_000, "20240229T235959Z"),
            (1_735_689_599_000, "20241231T235959Z"),
            (4_107_542_400_000, "21000301T000000Z"),
        ] {
            assert_eq!(SigningTime::of(milliseconds).text(), text);
        }
    }

    /// The request `post-vanilla` of the test suite that AWS publishes for signatures of version 4.
    #[test]
    fn signature_matches_published_example() {
        let signer = Signer {
            access_key: "AKIDEXAMPLE",
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            service: "service",
        };
        let time = SigningTime::of(TIME);
        let headers = [("host", "example.amazonaws.com"), ("x-amz-date", time.text())];
        assert_eq!(
            signer.authorization(&time, &headers, b"").unwrap(),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
    }
}
