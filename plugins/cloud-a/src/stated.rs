//! Statements of a caller at login. They select the resource for the query to the cloud and prove
//! nothing.

use crate::arm_id::{ArmId, is_guid};
use crate::claims::SignedResourceIds;
use bulkhead_sdk::{Call, Failure};

/// Maximum length in characters of a resource group's name, and of a machine's or scale set's name.
const GROUP: usize = 90;
const NAME: usize = 80;

/// The caller's statements, none of them proven.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatedResource {
    pub(crate) subscription: Option<String>,
    pub(crate) group: Option<String>,
    machine: Option<String>,
    scale_set: Option<String>,
    resource: Option<ArmId>,
}

impl StatedResource {
    /// Reads the fields of the call. An empty text counts as absent.
    ///
    /// # Errors
    /// Invalid request if a value is not a valid name.
    pub(crate) fn read(call: &Call) -> Result<Self, Failure> {
        let said = |name: &str, noun: &str, is_fit: fn(&str) -> bool| {
            let text = call.text(name);
            match text.is_empty() || is_fit(text) {
                true => Ok((!text.is_empty()).then(|| text.to_owned())),
                // The message omits the value, because nothing is proven yet.
                false => {
                    Err(Failure::invalid(format!("invalid {noun}: {name} is not such a name")))
                }
            }
        };
        let (machine, scale_set) =
            (said("vm_name", "vm name", is_name)?, said("vmss_name", "vmss_name", is_name)?);
        let resource = match call.text("resource_id") {
            "" => None,
            text => Some(ArmId::stated("resource_id", text)?),
        };
        Ok(Self {
            subscription: said("subscription_id", "subscription id", is_guid)?,
            group: said("resource_group_name", "resource group name", is_group)?,
            resource: resource.filter(|_| machine.is_none() && scale_set.is_none()),
            machine: machine.filter(|_| scale_set.is_none()),
            scale_set,
        })
    }

    /// Returns the name of the field that selects the resource.
    pub(crate) fn field(&self) -> &'static str {
        match (&self.scale_set, &self.machine) {
            (Some(_), _) => "vmss_name",
            (None, Some(_)) => "vm_name",
            (None, None) => "resource_id",
        }
    }

    /// Returns the wanted resource: the stated resource, else the resource in the signed claims.
    /// Returns `None` if the token was signed for an identity or names no resource.
    ///
    /// # Errors
    /// Invalid request if parts of an id are missing or contradict each other.
    pub(crate) fn wanted(&self, ids: &SignedResourceIds) -> Result<Option<ArmId>, Failure> {
        if let Some(resource) = &self.resource {
            return self.check_around(resource).map(|()| Some(resource.clone()));
        }
        let (Some(name), make) = (match &self.scale_set {
            Some(name) => (Some(name), ArmId::scale_set as fn(&str, &str, &str) -> Option<ArmId>),
            None => (self.machine.as_ref(), ArmId::machine as _),
        }) else {
            let signed = ids.resource.clone().filter(|_| ids.identity.is_none());
            return match &signed {
                Some(resource) => self.check_around(resource).map(|()| signed.clone()),
                None => Ok(None),
            };
        };
        let signed = ids.resource.as_ref();
        let subscription = self.subscription.as_deref().or(signed.map(ArmId::subscription));
        let group = self.group.as_deref().or(signed.map(ArmId::group));
        let (Some(subscription), Some(group)) = (subscription, group) else {
            return Err(Failure::invalid("subscription_id and resource_group_name are required"));
        };
        let wanted = make(subscription, group, name);
        let field = self.field();
        wanted.map(Some).ok_or_else(|| Failure::invalid(format!("invalid name in {field}")))
    }

    /// Checks that the stated subscription and group are the id's own.
    fn check_around(&self, id: &ArmId) -> Result<(), Failure> {
        for (field, stated, of_id) in [
            ("subscription_id", &self.subscription, id.subscription()),
            ("resource_group_name", &self.group, id.group()),
        ] {
            if stated.as_ref().is_some_and(|stated| !stated.eq_ignore_ascii_case(of_id)) {
                return Err(Failure::invalid(format!("the resource does not match {field}")));
            }
        }
        Ok(())
    }
}

/// Accepts letters and digits of any script, and `-_.()`, but no final dot.
fn is_group(text: &str) -> bool {
    let is_fit = |letter: char| letter.is_alphanumeric() || "-_.()".contains(letter);
    text.chars().count() <= GROUP && text.chars().all(is_fit) && !text.ends_with('.')
}

/// Accepts ASCII letters, digits and `-_.`. The first character is a letter or digit, the last
/// character a letter, digit or `_`.
fn is_name(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends_well = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.len() <= NAME
        && text.bytes().all(is_fit)
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && text.as_bytes().last().is_some_and(ends_well)
}
