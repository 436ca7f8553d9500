//! The time after which new versions delete themselves, `delete_version_after`.

use bulkhead_sdk::wire::duration;
use bulkhead_sdk::{Call, Failure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the field.
pub(crate) const FIELD: &str = "delete_version_after";

/// Time after which a new version is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeleteAfter {
    /// Nothing was said.
    #[default]
    Unset,
    /// No version is deleted, even if the other setting has a time.
    Never,
    /// Seconds from the creation of the version.
    Seconds(u64),
}

impl DeleteAfter {
    /// Reads the field of a call, if the call has the field. `null`, 0 and an empty text unset the
    /// value; a negative duration means never.
    ///
    /// # Errors
    /// Invalid request for a value that is not a duration.
    pub(crate) fn given(call: &Call) -> Result<Option<Self>, Failure> {
        call.fields.get(FIELD).map(Self::parse).transpose()
    }

    fn parse(value: &Value) -> Result<Self, Failure> {
        let text = match value {
            Value::String(text) => text.trim().to_owned(),
            Value::Null => return Ok(Self::Unset),
            other => other.to_string(),
        };
        let (is_negative, size) =
            text.strip_prefix('-').map_or((false, text.as_str()), |size| (true, size));
        let refused = |why: String| Failure::invalid(format!("{FIELD}: {why}"));
        Ok(match duration::parse(size).map_err(refused)? {
            0 => Self::Unset,
            _ if is_negative => Self::Never,
            seconds => Self::Seconds(seconds),
        })
    }

    /// Returns the seconds after which a version is deleted, by the rules of the mount and of the
    /// secret: the shorter time, and none if either says never.
    pub(crate) fn shorter(self, other: Self) -> Option<u64> {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) | (Self::Unset, Self::Unset) => None,
            (Self::Seconds(one), Self::Seconds(two)) => Some(one.min(two)),
            (Self::Seconds(one), Self::Unset) | (Self::Unset, Self::Seconds(one)) => Some(one),
        }
    }

    /// Formats the value as Go formats a duration, which clients parse: `0s`, `1m30s`, `768h0m0s`.
    pub(crate) fn show(self) -> String {
        let seconds = match self {
            Self::Unset => 0,
            Self::Never => return "-1s".to_owned(),
            Self::Seconds(seconds) => seconds,
        };
        let (hours, minutes, rest) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        match (hours, minutes) {
            (0, 0) => format!("{rest}s"),
            (0, _) => format!("{minutes}m{rest}s"),
            _ => format!("{hours}h{minutes}m{rest}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_read_and_shown_in_client_form() {
        for (given, shown) in [
            (json!("3h25m19s"), "3h25m19s"),
            (json!("768h"), "768h0m0s"),
            (json!(90), "1m30s"),
            (json!("45"), "45s"),
            (json!("0s"), "0s"),
            (json!(""), "0s"),
            (json!(null), "0s"),
            (json!("-1s"), "-1s"),
            (json!(-5), "-1s"),
        ] {
            let read = DeleteAfter::parse(&given).unwrap();
            assert_eq!(read.show(), shown, "{given}");
            assert_eq!(DeleteAfter::parse(&json!(read.show())).unwrap(), read);
        }
        for wrong in [json!("soon"), json!([1]), json!("1h-")] {
            let why = DeleteAfter::parse(&wrong).unwrap_err().message;
            assert!(why.starts_with("delete_version_after: "), "{why}");
        }
    }

    #[test]
    fn the_shorter_time_holds_and_never_wins() {
        let [unset, never, one, two] = [
            DeleteAfter::Unset,
            DeleteAfter::Never,
            DeleteAfter::Seconds(1),
            DeleteAfter::Seconds(2),
        ];
        for (mount, secret, expected) in [
            (unset, unset, None),
            (one, unset, Some(1)),
            (unset, two, Some(2)),
            (one, two, Some(1)),
            (two, one, Some(1)),
            (never, one, None),
            (one, never, None),
        ] {
            assert_eq!(mount.shorter(secret), expected, "{mount:?} {secret:?}");
        }
    }
}
