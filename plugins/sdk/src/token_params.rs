//! Token settings of an auth method's roles: `token_ttl`, `token_policies` and others, with the
//! older names that published clients send.
//!
//! [`FIELDS`] and [`OLD_FIELDS`] belong in a table, [`TokenParams`] in the stored role (by
//! `#[serde(flatten)]`), and a [`Login`](crate::login::Login) is made from the settings. If a
//! request sends both names of a setting, the new name wins. A read shows an old name as well if
//! the last write used that name.

use crate::call::{Call, Mount};
use crate::field::Field;
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::login as bounds;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Fields of the settings, by their current names.
pub const FIELDS: &[Field] = &[
    Field::words("token_policies", "policies of the tokens"),
    Field::seconds("token_ttl", "lifetime of the tokens; 0: the mount's default"),
    Field::seconds("token_max_ttl", "maximum lifetime over all renewals; 0: the mount's maximum"),
    Field::seconds("token_explicit_max_ttl", "as token_max_ttl, for periodic tokens too"),
    Field::seconds("token_period", "lifetime after each renewal, without a maximum"),
    Field::whole("token_num_uses", "number of requests with each token; 0: without limit"),
    Field::words("token_bound_cidrs", "allowed networks of logins and tokens"),
    Field::flag("token_no_default_policy", "leave the policy default out"),
    Field::text("token_type", "service, batch, or default for the mount's choice"),
];

/// Older names of some fields, for tables whose clients send these names.
pub const OLD_FIELDS: &[Field] = &[
    Field::words("policies", "old name of token_policies").old_name_of("token_policies"),
    Field::seconds("ttl", "old name of token_ttl").old_name_of("token_ttl"),
    Field::seconds("max_ttl", "old name of token_max_ttl").old_name_of("token_max_ttl"),
    Field::seconds("period", "old name of token_period").old_name_of("token_period"),
    Field::whole("num_uses", "old name of token_num_uses").old_name_of("token_num_uses"),
    Field::words("bound_cidrs", "old name of token_bound_cidrs").old_name_of("token_bound_cidrs"),
];

/// Token settings of a role, as stored. Times are in seconds; 0 means not set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenParams {
    /// Policies in lower case, sorted and without duplicates.
    pub token_policies: Vec<String>,
    /// Lifetime.
    pub token_ttl: u64,
    /// Maximum lifetime over all renewals.
    pub token_max_ttl: u64,
    /// Maximum lifetime over all renewals, for periodic tokens too.
    pub token_explicit_max_ttl: u64,
    /// Lifetime after each renewal, without a maximum.
    pub token_period: u64,
    /// Number of requests; 0 means no limit.
    pub token_num_uses: u64,
    /// Networks in canonical spelling; empty means any address.
    pub token_bound_cidrs: Vec<String>,
    /// Omits the policy `default`.
    pub token_no_default_policy: bool,
    /// `service` or `batch`; empty leaves the choice to the mount.
    pub token_type: String,
    /// Older names that the last writes used, and that reads show as well.
    pub token_old_names: BTreeSet<String>,
}

impl TokenParams {
    /// Applies the fields of the call, keeps the rest (decision A6), and checks the result.
    ///
    /// # Errors
    /// Invalid request that names the setting and its value. `self` may then be partly changed.
    pub fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        if let Some(name) = self.name_sent(call, "token_policies", "policies") {
            let names = call.list(name);
            let named: BTreeSet<String> =
                names.iter().map(|name| name.trim().to_lowercase()).collect();
            self.token_policies = named.into_iter().collect();
        }
        if let Some(name) = self.name_sent(call, "token_ttl", "ttl") {
            self.token_ttl = call.seconds(name);
        }
        if let Some(name) = self.name_sent(call, "token_max_ttl", "max_ttl") {
            self.token_max_ttl = call.seconds(name);
        }
        if let Some(name) = self.name_sent(call, "token_period", "period") {
            self.token_period = call.seconds(name);
        }
        if let Some(name) = self.name_sent(call, "token_num_uses", "num_uses") {
            self.token_num_uses = uses(call, name)?;
        }
        if let Some(name) = self.name_sent(call, "token_bound_cidrs", "bound_cidrs") {
            self.token_bound_cidrs = networks(call, name)?;
        }
        call.merge("token_explicit_max_ttl", &mut self.token_explicit_max_ttl)?;
        call.merge("token_no_default_policy", &mut self.token_no_default_policy)?;
        if call.is_given("token_type") {
            self.token_type = kind(call.text("token_type"))?;
        }
        self.check()
    }

    /// Returns the name that a setting was sent by; the new name wins. Remembers the use of the old
    /// name, because reads then show the old name as well.
    fn name_sent<'a>(&mut self, call: &Call, new: &'a str, old: &'a str) -> Option<&'a str> {
        let (by_new, by_old) = (call.is_given(new), call.is_given(old));
        if by_old {
            self.token_old_names.insert(old.to_owned());
        } else if by_new {
            self.token_old_names.remove(old);
        }
        if by_new { Some(new) } else { by_old.then_some(old) }
    }

    fn check(&self) -> Result<(), Failure> {
        self.check_counts()?;
        let (ttl, max) = (self.token_ttl, self.token_max_ttl);
        if max > 0 && ttl > max {
            let (ttl, max) = (duration::show(ttl), duration::show(max));
            return Err(Failure::invalid(format!(
                "'token_ttl' cannot be greater than 'token_max_ttl': {ttl} is longer than {max}"
            )));
        }
        let counted =
            [("token_period", self.token_period), ("token_num_uses", self.token_num_uses)];
        match counted.into_iter().find(|(_, set)| self.token_type == "batch" && *set > 0) {
            Some((name, set)) => Err(Failure::invalid(format!(
                "'token_type' cannot be 'batch' where '{name}' is set, which is {set}: a batch \
                 token is not stored, and can be neither counted nor prolonged"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a role that no login could satisfy, because the host bounds these counts.
    fn check_counts(&self) -> Result<(), Failure> {
        let about = |name: &'static str| {
            move |fault| Failure::invalid(format!("'{name}': a login would come {fault}"))
        };
        bounds::check_policies(self.token_policies.len()).map_err(about("token_policies"))?;
        bounds::check_networks(self.token_bound_cidrs.len()).map_err(about("token_bound_cidrs"))
    }

    /// Checks that a login may come from the caller's address, and returns the reason as text. The
    /// host checks the token in the same way; an auth method checks before any request to its
    /// provider.
    ///
    /// # Errors
    /// Permission denied if the address is outside every bound network.
    pub fn admit_address(&self, call: &Call) -> Result<((), String), Failure> {
        let networks = &self.token_bound_cidrs;
        if networks.is_empty() {
            return Ok(((), "logins may come from everywhere".to_owned()));
        }
        let address = call.caller.remote_address.parse().ok();
        let is_within = address.is_some_and(|address| {
            let mut read = networks.iter().filter_map(|network| Cidr::parse(network).ok());
            read.any(|network| network.contains(address))
        });
        match is_within {
            true => Ok(((), format!("{} is in a bound network", call.caller.remote_address))),
            false => Err(Failure::denied("this login may not come from your address")),
        }
    }

    /// Returns warnings for the writer of the role.
    #[must_use]
    pub fn warnings(&self, mount: &Mount) -> Vec<String> {
        let max = mount.max_ttl;
        let longer = [
            ("token_ttl", self.token_ttl),
            ("token_max_ttl", self.token_max_ttl),
            ("token_period", self.token_period),
        ];
        let longer = longer.into_iter().filter(|(_, set)| *set > max);
        longer
            .map(|(name, set)| {
                let (set, max) = (duration::show(set), duration::show(max));
                format!(
                    "{name} of {set} is longer than the mount's maximum of {max}; tokens get the \
                     maximum"
                )
            })
            .collect()
    }

    /// Returns every setting, and the older names that were used, for a read of the role.
    #[must_use]
    pub fn show(&self) -> Map<String, Value> {
        let kind = if self.token_type.is_empty() { "default" } else { self.token_type.as_str() };
        let fields = [
            ("token_bound_cidrs", json!(self.token_bound_cidrs)),
            ("token_explicit_max_ttl", json!(self.token_explicit_max_ttl)),
            ("token_max_ttl", json!(self.token_max_ttl)),
            ("token_no_default_policy", json!(self.token_no_default_policy)),
            ("token_num_uses", json!(self.token_num_uses)),
            ("token_period", json!(self.token_period)),
            ("token_policies", json!(self.token_policies)),
            ("token_ttl", json!(self.token_ttl)),
            ("token_type", json!(kind)),
        ];
        let mut shown: Map<String, Value> =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        for old in &self.token_old_names {
            let value = shown.get(&format!("token_{old}")).cloned().unwrap_or_default();
            shown.insert(old.clone(), value);
        }
        shown
    }
}

fn uses(call: &Call, name: &str) -> Result<u64, Failure> {
    let sent = call.fields.get(name).and_then(Value::as_i64).unwrap_or_default();
    u64::try_from(sent).map_err(|_| {
        Failure::invalid(format!(
            "'{name}' cannot be negative: {sent}; give a number of requests, or 0 for no limit"
        ))
    })
}

fn networks(call: &Call, name: &str) -> Result<Vec<String>, Failure> {
    let read = call.list(name).into_iter().map(|text| Cidr::parse(&text));
    let networks = read.map(|network| network.map(String::from));
    networks.collect::<Result<_, _>>().map_err(|why| Failure::invalid(format!("{name}: {why}")))
}

fn kind(word: &str) -> Result<String, Failure> {
    match word {
        "" | "default" => Ok(String::new()),
        "service" | "batch" => Ok(word.to_owned()),
        other => Err(Failure::invalid(format!(
            "'token_type' {} is none of default, service and batch",
            quoted(other)
        ))),
    }
}

#[cfg(test)]
mod tests;
