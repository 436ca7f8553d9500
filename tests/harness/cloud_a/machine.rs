//! Machines, scale sets of both kinds, and other resources with identities, in the form of the
//! resource manager.

use super::SUBSCRIPTION;
use serde_json::{Value, json};

/// Kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// A virtual machine.
    Machine,
    /// A scale set whose machines belong to the set.
    Uniform,
    /// A scale set whose machines are separate resources.
    Flexible,
    /// A web site, in place of any resource that is not a machine.
    Site,
}

/// The managed identity of a resource.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The principal, as in the claim `oid`.
    pub principal: String,
    /// The client, as in the claim `appid`.
    pub client: String,
    /// Resource id of a user-assigned identity; `None` for a system-assigned identity.
    pub resource: Option<String>,
}

/// A resource with a managed identity.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Resource id, spelled as in the claims of its tokens.
    pub id: String,
    pub identity: Identity,
    shape: ResourceKind,
    subscription: String,
    group: String,
    name: String,
    location: String,
    scale_set: Option<String>,
}

impl Machine {
    /// A machine with a system-assigned identity.
    pub fn vm(group: &str, name: &str) -> Self {
        Self::of(ResourceKind::Machine, group, name)
    }

    /// A scale set with a system-assigned identity.
    pub fn scale_set(shape: ResourceKind, group: &str, name: &str) -> Self {
        Self::of(shape, group, name)
    }

    /// A web site with a system-assigned identity.
    pub fn site(group: &str, name: &str) -> Self {
        Self::of(ResourceKind::Site, group, name)
    }

    fn of(shape: ResourceKind, group: &str, name: &str) -> Self {
        let identity = Identity {
            principal: guid("00000000-aaaa-4000-8000", &format!("{group}/{name}")),
            client: guid("00000000-bbbb-4000-8000", &format!("{group}/{name}")),
            resource: None,
        };
        let mut machine = Self {
            id: String::new(),
            identity,
            shape,
            subscription: SUBSCRIPTION.to_owned(),
            group: group.to_owned(),
            name: name.to_owned(),
            location: "westus2".to_owned(),
            scale_set: None,
        };
        machine.id = machine.own_id();
        machine
    }

    #[must_use]
    pub fn in_subscription(mut self, subscription: &str) -> Self {
        subscription.clone_into(&mut self.subscription);
        self.id = self.own_id();
        self
    }

    #[must_use]
    pub fn in_location(mut self, location: &str) -> Self {
        location.clone_into(&mut self.location);
        self
    }

    /// Replaces the system-assigned identity by a user-assigned identity of this group and name.
    #[must_use]
    pub fn with_identity(mut self, group: &str, name: &str) -> Self {
        let resource = format!(
            "/subscriptions/{}/resourcegroups/{group}/providers/Microsoft.ManagedIdentity/\
             userAssignedIdentities/{name}",
            self.subscription
        );
        self.identity = Identity {
            principal: guid("00000000-cccc-4000-8000", &resource),
            client: guid("00000000-dddd-4000-8000", &resource),
            resource: Some(resource),
        };
        self
    }

    /// A machine of a flexible scale set, with the set's identity.
    #[must_use]
    pub fn of_flexible(set: &Self, suffix: &str) -> Self {
        let name = format!("{}_{suffix}", set.name);
        let mut machine = Self::of(ResourceKind::Machine, &set.group, &name);
        machine.subscription = set.subscription.clone();
        machine.location = set.location.clone();
        machine.identity = set.identity.clone();
        machine.scale_set = Some(set.id.clone());
        machine.id = machine.own_id();
        machine
    }

    fn own_id(&self) -> String {
        let kind = match self.shape {
            ResourceKind::Machine => "Microsoft.Compute/virtualMachines",
            ResourceKind::Uniform | ResourceKind::Flexible => {
                "Microsoft.Compute/virtualMachineScaleSets"
            }
            ResourceKind::Site => "Microsoft.Web/sites",
        };
        let Self { subscription, group, name, .. } = self;
        format!("/subscriptions/{subscription}/resourcegroups/{group}/providers/{kind}/{name}")
    }

    /// Returns the resource itself and its user-assigned identity, by id.
    pub(super) fn resources(&self) -> Vec<(String, Value)> {
        let mut all = vec![(self.id.clone(), self.shown())];
        all.extend(self.identity.resource.clone().map(|id| {
            let name = id.rsplit('/').next().unwrap_or_default().to_owned();
            let shown = json!({
                "id": id, "name": name, "type": "Microsoft.ManagedIdentity/userAssignedIdentities",
                "location": self.location,
                "properties": {
                    "tenantId": super::TENANT, "principalId": self.identity.principal,
                    "clientId": self.identity.client,
                },
            });
            (id, shown)
        }));
        all
    }

    /// Returns the resource in the resource manager's form, with the group in its original case.
    fn shown(&self) -> Value {
        let identity = match &self.identity.resource {
            None => json!({
                "type": "SystemAssigned", "principalId": self.identity.principal,
                "tenantId": super::TENANT,
            }),
            // The resource manager does not show the principal for flexible sets; callers have to
            // look it up.
            Some(id) if self.shape == ResourceKind::Flexible => {
                json!({ "type": "UserAssigned", "userAssignedIdentities": { id: {} } })
            }
            Some(id) => json!({
                "type": "UserAssigned",
                "userAssignedIdentities": { id: {
                    "principalId": self.identity.principal, "clientId": self.identity.client,
                } },
            }),
        };
        let mut properties = json!({ "vmId": guid("00000000-eeee-4000-8000", &self.id) });
        match self.shape {
            ResourceKind::Uniform => properties = json!({ "orchestrationMode": "Uniform" }),
            ResourceKind::Flexible => properties = json!({ "orchestrationMode": "Flexible" }),
            ResourceKind::Machine | ResourceKind::Site => {}
        }
        if let Some(set) = &self.scale_set {
            properties["virtualMachineScaleSet"] = json!({ "id": set });
        }
        json!({
            "id": self.id.replace("/resourcegroups/", "/resourceGroups/"), "name": self.name,
            "location": self.location, "identity": identity, "properties": properties,
        })
    }
}

/// Returns the same identifier for the same text.
fn guid(before: &str, text: &str) -> String {
    let fold = |sum: u64, byte: u8| sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325, fold) & 0xffff_ffff_ffff;
    format!("{before}-{sum:012x}")
}
