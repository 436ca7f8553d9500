//! Networks that bind secret ids: checked when written, stored as written.
//!
//! This file prevents a secret id, which its role's users may create, from widening the networks of
//! its role.

use bulkhead_sdk::wire::cidr::Cidr;
use bulkhead_sdk::wire::login as bounds;
use bulkhead_sdk::{Call, Failure};

/// Reads the networks in a field of the call.
///
/// # Errors
/// Invalid request with the field and the invalid text.
pub(crate) fn given(call: &Call, name: &str) -> Result<Vec<String>, Failure> {
    let about = |why: String| Failure::invalid(format!("{name}: {why}"));
    // As written: published clients create a secret id again if a read spells a network
    // differently.
    let checked = call.list(name).into_iter().map(|text| Cidr::parse(&text).map(|_| text));
    let networks: Vec<String> = checked.collect::<Result<_, _>>().map_err(about)?;
    bounds::check_networks(networks.len())
        .map_err(|fault| about(format!("a login would come {fault}")))?;
    Ok(networks)
}

/// Refuses networks outside of the networks of the role, if the role has any.
///
/// # Errors
/// Invalid request with the field and the network.
pub(crate) fn check_within(
    name: &str,
    networks: &[String],
    of_role: &[String],
) -> Result<(), Failure> {
    if of_role.is_empty() {
        return Ok(());
    }
    let bounds = parsed(of_role)?;
    for network in parsed(networks)? {
        if !bounds.iter().any(|bound| bound.covers(&network)) {
            return Err(Failure::invalid(format!(
                "{name}: {network} is not within the networks of the role, which are {}",
                of_role.join(", ")
            )));
        }
    }
    Ok(())
}

/// Refuses an address outside of the networks; no networks admit every address.
///
/// # Errors
/// Permission denied.
pub(crate) fn admit(networks: &[String], address: &str) -> Result<(), Failure> {
    if networks.is_empty() {
        return Ok(());
    }
    let networks = parsed(networks)?;
    let is_within = address
        .parse()
        .is_ok_and(|address| networks.iter().any(|network| network.contains(address)));
    match is_within {
        true => Ok(()),
        false => Err(Failure::denied("this login may not come from your address")),
    }
}

/// Returns the networks that are both of a role and of its secret id, by the present settings of
/// the role.
///
/// # Errors
/// Permission denied if no address is in both.
pub(crate) fn in_both(of_role: &[String], of_secret_id: &[String]) -> Result<Vec<String>, Failure> {
    if of_role.is_empty() || of_secret_id.is_empty() {
        return Ok([of_role, of_secret_id].concat());
    }
    let both = Cidr::in_both(&parsed(of_role)?, &parsed(of_secret_id)?).ok_or_else(|| {
        Failure::denied(
            "the token_bound_cidrs of this secret id are outside of the role's token_bound_cidrs \
             by now; create another secret id",
        )
    })?;
    bounds::check_networks(both.len()).map_err(|fault| {
        Failure::invalid(format!("token_bound_cidrs: a login would come {fault}; give fewer"))
    })?;
    Ok(both.into_iter().map(String::from).collect())
}

fn parsed(networks: &[String]) -> Result<Vec<Cidr>, Failure> {
    let parsed = networks.iter().map(|network| Cidr::parse(network));
    parsed
        .collect::<Result<_, _>>()
        .map_err(|why| Failure::internal(format!("a stored network cannot be read: {why}")))
}
