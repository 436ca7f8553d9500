//! A metric: a figure about a mount that its component gives from time to time, as the description
//! names it.
//!
//! The leak this file stops: a value of a running system in the name of a series. Names and labels
//! are written down at registration, so that what is shown is one of a few known words.

use crate::failure::quoted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Series of all metrics of one component.
pub const SERIES: usize = 128;
/// Longest name and value of a label, in bytes.
const WORD_BYTES: usize = 64;
/// Longest sentence about a metric, in bytes.
const ABOUT_BYTES: usize = 256;
/// Ends of names that say what a series is.
const RESERVED: [&str; 4] = ["_total", "_sum", "_count", "_bucket"];
/// Labels that the server writes, or a text format has a meaning for.
const SERVERS_OWN: [&str; 4] = ["mount", "le", "quantile", "job"];

/// One metric, of one series or of one for each value of its label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Without the plugin's name, and with its unit: `password_age_seconds`. A counter's ends with
    /// `_total`.
    pub name: String,
    /// How its values are read.
    pub kind: MetricKind,
    /// The name of its label: `outcome`. Empty for a metric of one series.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The values that the label has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// One sentence for people.
    pub about: String,
}

/// How values of a metric are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It stands somewhere.
    Gauge,
    /// How many observations there were, and their sum.
    Summary,
}

impl MetricKind {
    /// As the text format of Prometheus names it.
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
    /// Whether it has a series of that label's value; empty where it has no label.
    #[must_use]
    pub fn has(&self, value: &str) -> bool {
        match self.label.is_empty() {
            true => value.is_empty(),
            false => self.values.iter().any(|known| known == value),
        }
    }

    /// How many series it has.
    #[must_use]
    pub fn series(&self) -> usize {
        self.values.len().max(1)
    }
}

/// Whether it may name a series: lower-case letters, digits, `_` and `-`.
#[must_use]
pub fn is_word(text: &str) -> bool {
    let is_part = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    (1..=WORD_BYTES).contains(&text.len()) && text.bytes().all(is_part)
}

/// Whether it may be the name of a metric or a label: a word that begins with a letter, without
/// `-`.
fn is_name(text: &str) -> bool {
    is_word(text)
        && !text.contains('-')
        && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Checks the metrics of one component.
///
/// # Errors
/// What is wrong with them, for their author.
pub fn check(metrics: &[Metric]) -> Result<(), String> {
    let series: usize = metrics.iter().map(Metric::series).sum();
    if series > SERIES {
        return Err(format!("its metrics have {series} series; there may be at most {SERIES}"));
    }
    let mut names = BTreeSet::new();
    for metric in metrics {
        let wrong = |why: String| format!("metric {}: {why}", quoted(&metric.name));
        if !names.insert(&metric.name) {
            return Err(wrong("there are two of that name".to_owned()));
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
            return Err("a label and its values come together".to_owned());
        }
        if !self.label.is_empty()
            && (!is_name(&self.label) || SERVERS_OWN.contains(&self.label.as_str()))
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
            return Err(format!("its sentence has at most {ABOUT_BYTES} printable bytes"));
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
    fn a_series_is_named_by_few_and_plain_words() {
        assert_eq!(check(&[metric()]), Ok(()));
        assert!(metric().has("done") && !metric().has("other") && !metric().has(""));
        let plain = Metric { label: String::new(), values: Vec::new(), ..metric() };
        assert!(plain.has("") && check(&[plain]).is_ok());
        for (change, why) in [
            (&(|one: &mut Metric| one.name = "made".to_owned()) as &dyn Fn(&mut Metric), "_total"),
            (&|one| one.kind = MetricKind::Gauge, "_total"),
            (&|one| one.name = "9_total".to_owned(), "letters"),
            (&|one| one.label.clear(), "together"),
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
        assert!(check(&[metric(), metric()]).unwrap_err().contains("two of that name"));
    }
}
