//! Metrics in memory, with the values that they show.

use super::script::Script;
use crate::host::Metrics;
use crate::metric::Metric;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Values by name and label.
pub(super) struct TestMetrics {
    script: Rc<Script>,
    given: RefCell<BTreeMap<(&'static str, String), f64>>,
}

impl TestMetrics {
    pub(super) fn new(script: &Rc<Script>) -> Self {
        Self { script: Rc::clone(script), given: RefCell::default() }
    }

    pub(super) fn shown(&self, metric: &Metric, label: &str) -> f64 {
        let given = self.given.borrow();
        given.get(&(metric.name(), label.to_owned())).copied().unwrap_or_default()
    }

    /// Stores a value. As in the real host, values with an undeclared label are dropped, and so are
    /// values of a dead process.
    fn give(&self, metric: &Metric, label: &str, change: impl FnOnce(f64) -> f64) {
        if self.script.check_alive().is_ok() && metric.described().has(label) {
            let value = change(self.shown(metric, label));
            self.given.borrow_mut().insert((metric.name(), label.to_owned()), value);
        }
    }
}

impl Metrics for TestMetrics {
    fn count(&self, metric: &Metric, label: &str, amount: u64) {
        #[allow(clippy::cast_precision_loss, reason = "a test counts a few")]
        let amount = amount as f64;
        self.give(metric, label, |before| before + amount);
    }

    fn set(&self, metric: &Metric, label: &str, value: f64) {
        self.give(metric, label, |_| value);
    }

    fn observe(&self, metric: &Metric, label: &str, value: f64) {
        self.give(metric, label, |before| before + value);
    }
}
