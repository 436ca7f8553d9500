//! The plan of a fault: parses the environment variable and counts the points that the plan
//! selects.

/// The action at the chosen point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultAction {
    /// The process ends at once, as if killed.
    Abort,
    /// The point returns an error, once.
    Fail,
}

/// A single act at the `nth` selected point.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FaultPlan {
    act: FaultAction,
    /// The name of the selected points; `None`: all points that can do `act`.
    name: Option<String>,
    nth: u64,
    seen: u64,
}

impl FaultPlan {
    /// Parses `abort@N`, `fail@N`, `abort@NAME:N` or `fail@NAME:N`, with N from 1.
    ///
    /// # Errors
    /// The problem with the text, for the operator who started the process.
    pub(super) fn parse(text: &str) -> Result<FaultPlan, String> {
        let wrong = || {
            format!(
                "BULKHEAD_FAULT={text:?} is not understood; give abort@N, fail@N, abort@NAME:N or \
                 fail@NAME:N, with N from 1"
            )
        };
        let (act, place) = text.split_once('@').ok_or_else(wrong)?;
        let act = match act {
            "abort" => FaultAction::Abort,
            "fail" => FaultAction::Fail,
            _ => return Err(wrong()),
        };
        let (name, count) = match place.rsplit_once(':') {
            Some(("", _)) => return Err(wrong()),
            Some((name, count)) => (Some(name.to_owned()), count),
            None => (None, place),
        };
        match count.parse() {
            Ok(nth) if nth > 0 => Ok(FaultPlan { act, name, nth, seen: 0 }),
            _ => Err(wrong()),
        }
    }

    /// Counts a point. Returns the act if the point is the chosen point.
    pub(super) fn pass(&mut self, name: &str, fallible: bool) -> Option<FaultAction> {
        let named = self.name.as_ref().is_none_or(|wanted| wanted == name);
        if !named || (self.act == FaultAction::Fail && !fallible) {
            return None;
        }
        self.seen += 1;
        (self.seen == self.nth).then_some(self.act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the positions, counted from 1, at which the plan acts on these points. A name that
    /// ends in `!` cannot fail.
    fn acts(plan: &str, points: &[&str]) -> Vec<(usize, FaultAction)> {
        let mut plan = FaultPlan::parse(plan).unwrap();
        let pass = |(at, point): (usize, &&str)| {
            let name = point.trim_end_matches('!');
            plan.pass(name, name == *point).map(|act| (at + 1, act))
        };
        points.iter().enumerate().filter_map(pass).collect()
    }

    const POINTS: [&str; 6] = ["a", "b!", "a", "c", "b!", "a"];

    #[test]
    fn fail_plan_counts_failable_and_abort_all_points() {
        assert_eq!(acts("abort@1", &POINTS), [(1, FaultAction::Abort)]);
        assert_eq!(acts("abort@2", &POINTS), [(2, FaultAction::Abort)]);
        assert_eq!(acts("fail@2", &POINTS), [(3, FaultAction::Fail)]);
        assert_eq!(acts("fail@4", &POINTS), [(6, FaultAction::Fail)]);
    }

    #[test]
    fn a_named_point_is_counted_by_itself() {
        assert_eq!(acts("abort@b:2", &POINTS), [(5, FaultAction::Abort)]);
        assert_eq!(acts("fail@a:2", &POINTS), [(3, FaultAction::Fail)]);
        assert_eq!(acts("fail@c:1", &POINTS), [(4, FaultAction::Fail)]);
    }

    #[test]
    fn a_failpoint_that_is_never_reached_never_acts() {
        for plan in ["abort@7", "fail@5", "abort@d:1", "fail@b:1", "abort@c:2"] {
            assert_eq!(acts(plan, &POINTS), [], "{plan}");
        }
    }

    #[test]
    fn meaningless_fault_plan_is_refused_and_named() {
        let wrong = [
            "", "abort", "abort@", "abort@0", "fail@-1", "fail@x", "stop@1", "abort@:1",
            "abort@a:", "fail@a:0",
        ];
        for text in wrong {
            let said = FaultPlan::parse(text).unwrap_err();
            assert!(said.contains(&format!("{text:?}")) && said.contains("abort@NAME:N"), "{said}");
        }
    }
}
