//! Cron dialect of servers of this API, parsed into sets of numbers.
//!
//! The cron library counts days of the week from Sunday as 1, requires seconds, and requires a day
//! to match both day fields. Expressions therefore never reach the library; only numbers parsed
//! here do.

use std::collections::BTreeSet;

/// One of the five fields.
struct CronField {
    name: &'static str,
    least: u32,
    most: u32,
    /// Names of the values, beginning with `least`.
    words: &'static [&'static str],
}

const FIELDS: [CronField; 5] = [
    CronField { name: "minute", least: 0, most: 59, words: &[] },
    CronField { name: "hour", least: 0, most: 23, words: &[] },
    CronField { name: "day of month", least: 1, most: 31, words: &[] },
    CronField {
        name: "month",
        least: 1,
        most: 12,
        words: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    CronField {
        name: "day of week",
        least: 0,
        most: 6,
        words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    },
];

/// Values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CronValues {
    numbers: BTreeSet<u32>,
    /// The field has `*` or `?` with no step other than 1, and so does not restrict the day.
    is_open: bool,
}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CronFields([CronValues; 5]);

impl CronFields {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with('@') {
            return Err(format!(
                "descriptors such as {text:?} are not read; write five fields, such as 0 3 * * *"
            ));
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts.as_slice() else {
            return Err(format!(
                "five fields are expected (minute, hour, day of month, month, day of week), not {}",
                parts.len()
            ));
        };
        let [minutes, hours, days, months, weekdays] = &FIELDS;
        Ok(Self([
            minutes.parse(minute)?,
            hours.parse(hour)?,
            days.parse(day)?,
            months.parse(month)?,
            weekdays.parse(weekday)?,
        ]))
    }

    /// Returns the expressions for the cron library, with seconds first and days of the week from
    /// 1. A time is due if any expression matches.
    pub(super) fn calendars(&self) -> Vec<String> {
        let Self([minute, hour, day, month, weekday]) = self;
        let calendar = |day: &str, weekday: &str| {
            format!("0 {} {} {day} {} {weekday}", minute.list(0), hour.list(0), month.list(0))
        };
        let (days, weekdays) = (day.list(0), weekday.list(1));
        if day.is_open || weekday.is_open {
            return vec![calendar(&days, &weekdays)];
        }
        vec![calendar(&days, "*"), calendar("*", &weekdays)]
    }
}

impl CronValues {
    /// Returns the numbers, each increased by `more`.
    fn list(&self, more: u32) -> String {
        let numbers: Vec<String> =
            self.numbers.iter().map(|number| (number + more).to_string()).collect();
        numbers.join(",")
    }
}

impl CronField {
    fn parse(&self, text: &str) -> Result<CronValues, String> {
        let mut values = CronValues { numbers: BTreeSet::new(), is_open: false };
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(self.step(part, step)?)),
                None => (part, None),
            };
            let (first, last) = self.range(part, range, step.is_some())?;
            let step = step.unwrap_or(1);
            values.is_open |= is_any(range) && step == 1;
            let step = usize::try_from(step).unwrap_or(usize::MAX);
            values.numbers.extend((first..=last).step_by(step));
        }
        Ok(values)
    }

    /// Returns the first and last value of a range. `5/10` begins at 5 and goes to the end of the
    /// field.
    fn range(&self, part: &str, range: &str, is_stepped: bool) -> Result<(u32, u32), String> {
        if is_any(range) {
            return Ok((self.least, self.most));
        }
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (self.value(part, first)?, self.value(part, last)?),
            None if is_stepped => (self.value(part, range)?, self.most),
            None => (self.value(part, range)?, self.value(part, range)?),
        };
        if first > last {
            return Err(self.refuse(part, "begins behind its end"));
        }
        Ok((first, last))
    }

    fn value(&self, part: &str, text: &str) -> Result<u32, String> {
        let lower = text.to_ascii_lowercase();
        let word = self.words.iter().position(|word| *word == lower);
        let named = word.and_then(|place| Some(u32::try_from(place).ok()? + self.least));
        let value = named.or_else(|| number(text));
        value.filter(|value| (self.least..=self.most).contains(value)).ok_or_else(|| {
            let why = format!("has no value {text:?}: {} to {} are known", self.least, self.most);
            self.refuse(part, &why)
        })
    }

    fn step(&self, part: &str, text: &str) -> Result<u32, String> {
        let step = number(text).filter(|step| *step > 0);
        step.ok_or_else(|| self.refuse(part, "needs a step of 1 or more behind the /"))
    }

    fn refuse(&self, part: &str, why: &str) -> String {
        format!("{} {part:?} {why}", self.name)
    }
}

fn is_any(range: &str) -> bool {
    matches!(range, "*" | "?")
}

/// Parses ASCII digits only.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
