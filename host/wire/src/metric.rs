//! Metrics: figures about a mount, named in the component's description and reported from time to
//! time.
//!
//! The leak this file prevents: a value of a running system in the name of a series. Names and
//! labels are fixed at registration, so only known words can appear.

use crate::failure::quoted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of series of a component, all metrics together.
pub const SERIES: usize = 128;
/// Maximum length of a label's name and of a label's value, in bytes.
const WORD_BYTES: usize = 64;
/// Maximum length of the sentence about a metric, in bytes.
const ABOUT_BYTES: usize = 256;
/// Suffixes of names with a fixed meaning for series.
const RESERVED: [&str; 4] = ["_total", "_sum", "_count", "_bucket"];
/// Labels written by the server, or with a meaning in a text format.
const RESERVED_LABELS: [&str; 4] = ["mount", "le", "quantile", "job"];

/// A metric with a single series, or with a series for each value of its label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Name without the plugin's name, and with its unit: `password_age_seconds`. The name of a
    /// counter ends with `_total`.
    pub name: String,
    /// Kind of the values.
    pub kind: MetricKind,
    /// Name of the label: `outcome`. Empty for a metric with a single series.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// All values of the label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// One sentence for people.
    pub about: String,
}

/// The kind of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricKind {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Number and sum of observations.
    Summary,
}

impl MetricKind {
    /// Returns the word of Prometheus' text format.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
        }
    }
}

impl Metric {
    /// Returns whether the metric has a series for this value of its label; `""` for a metric
    /// without a label.
    #[must_use]
    pub fn has(&self, value: &str) -> bool {
        match self.label.is_empty() {
            true => value.is_empty(),
            false => self.values.iter().any(|allowed| allowed == value),
        }
    }

    /// Returns the number of series.
    #[must_use]
    pub fn series(&self) -> usize {
        self.values.len().max(1)
    }
}

/// Returns whether `text` is a valid value of a label: lower-case letters, digits, `_` and `-`.
#[must_use]
pub fn is_word(text: &str) -> bool {
    let is_part = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    (1..=WORD_BYTES).contains(&text.len()) && text.bytes().all(is_part)
}

/// Returns whether `text` is a valid name of a metric or label: begins with a letter, no `-`.
fn is_name(text: &str) -> bool {
    is_word(text)
        && !text.contains('-')
        && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Checks the metrics of a component.
///
/// # Errors
/// The mistake, for the component's author.
pub fn check(metrics: &[Metric]) -> Result<(), String> {
    let series: usize = metrics.iter().map(Metric::series).sum();
    if series > SERIES {
        return Err(format!("the metrics have {series} series; there may be at most {SERIES}"));
    }
    let mut names = BTreeSet::new();
    for metric in metrics {
        let wrong = |why: String| format!("metric {}: {why}", quoted(&metric.name));
        if !names.insert(&metric.name) {
            return Err(wrong("this is the name of two metrics".to_owned()));
        }
        metric.check().map_err(wrong)?;
    }
    Ok(())
}

impl Metric {
    fn check(&self) -> Result<(), String> {
        let end = RESERVED.into_iter().find(|end| self.name.ends_with(end));
        let due = (self.kind == MetricKind::Counter).then_some("_total");
        if !is_name(&self.name) || end != due {
            return Err(
                "a name has letters, digits and \"_\", a counter's ends with _total, and no \
                        other's with _total, _sum, _count or _bucket"
                    .to_owned(),
            );
        }
        if self.label.is_empty() != self.values.is_empty() {
            return Err("a label needs values, and values need a label".to_owned());
        }
        if !self.label.is_empty()
            && (!is_name(&self.label) || RESERVED_LABELS.contains(&self.label.as_str()))
        {
            return Err(format!("{} cannot be a label", quoted(&self.label)));
        }
        let different: BTreeSet<_> = self.values.iter().collect();
        if different.len() < self.values.len() || !self.values.iter().all(|value| is_word(value)) {
            return Err(
                "the values of a label are different words of lower-case letters, digits, \
                        \"_\" and \"-\""
                    .to_owned(),
            );
        }
        if self.about.len() > ABOUT_BYTES || self.about.chars().any(char::is_control) {
            return Err(format!("the sentence has at most {ABOUT_BYTES} printable bytes"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric() -> Metric {
        Metric {
            name: "made_total".to_owned(),
            kind: MetricKind::Counter,
            label: "outcome".to_owned(),
            values: vec!["done".to_owned(), "not-done".to_owned()],
            about: "Things made.".to_owned(),
        }
    }

    #[test]
    fn series_is_named_by_few_plain_words() {
        assert_eq!(check(&[metric()]), Ok(()));
        assert!(metric().has("done") && !metric().has("other") && !metric().has(""));
        let plain = Metric { label: String::new(), values: Vec::new(), ..metric() };
        assert!(plain.has("") && check(&[plain]).is_ok());
        for (change, why) in [
            (&(|one: &mut Metric| one.name = "made".to_owned()) as &dyn Fn(&mut Metric), "_total"),
            (&|one| one.kind = MetricKind::Gauge, "_total"),
            (&|one| one.name = "9_total".to_owned(), "letters"),
            (&|one| one.label.clear(), "needs values"),
            (&|one| one.label = "mount".to_owned(), "cannot be a label"),
            (&|one| one.values.push("done".to_owned()), "different"),
            (&|one| one.values.push("\"} 1".to_owned()), "different"),
            (&|one| one.values = (0..129).map(|n| format!("x{n}")).collect(), "129 series"),
            (&|one| one.about = "a\nb 1".to_owned(), "printable"),
        ] {
            let mut one = metric();
            change(&mut one);
            assert!(check(&[one]).unwrap_err().contains(why), "{why}");
        }
        assert!(check(&[metric(), metric()]).unwrap_err().contains("two metrics"));
    }
}
