//! Machines, scale sets of both kinds, and other resources with identities, as the resource manager
//! shows them.

use super::SUBSCRIPTION;
use serde_json::{Value, json};

/// What a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A machine by itself.
    Machine,
    /// A scale set whose machines are parts of it.
    Uniform,
    /// A scale set whose machines are resources of their own.
    Flexible,
    /// A web site, which stands for all that is no machine.
    Site,
}

/// Whose identity a resource shows.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its principal, as `oid` says it.
    pub principal: String,
    /// Its client, as `appid` says it.
    pub client: String,
    /// The identity's own resource id; `None` for one that the resource has of itself.
    pub resource: Option<String>,
}

/// A resource that shows who it is.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its resource id, as the claims of its tokens spell it.
    pub id: String,
    /// What it shows.
    pub identity: Identity,
    shape: Shape,
    subscription: String,
    group: String,
    name: String,
    location: String,
    scale_set: Option<String>,
}

impl Machine {
    /// A machine with an identity of its own.
    pub fn vm(group: &str, name: &str) -> Self {
        Self::of(Shape::Machine, group, name)
    }

    /// A scale set with an identity of its own.
    pub fn scale_set(shape: Shape, group: &str, name: &str) -> Self {
        Self::of(shape, group, name)
    }

    /// A web site with an identity of its own.
    pub fn site(group: &str, name: &str) -> Self {
        Self::of(Shape::Site, group, name)
    }

    fn of(shape: Shape, group: &str, name: &str) -> Self {
        let identity = Identity {
            principal: guid("00000000-aaaa-4000-8000", &format!("{group}/{name}")),
            client: guid("00000000-bbbb-4000-8000", &format!("{group}/{name}")),
            resource: None,
        };
        let mut made = Self {
            id: String::new(),
            identity,
            shape,
            subscription: SUBSCRIPTION.to_owned(),
            group: group.to_owned(),
            name: name.to_owned(),
            location: "westus2".to_owned(),
            scale_set: None,
        };
        made.id = made.own_id();
        made
    }

    /// The same in another subscription.
    #[must_use]
    pub fn in_subscription(mut self, subscription: &str) -> Self {
        subscription.clone_into(&mut self.subscription);
        self.id = self.own_id();
        self
    }

    /// The same elsewhere.
    #[must_use]
    pub fn in_location(mut self, location: &str) -> Self {
        location.clone_into(&mut self.location);
        self
    }

    /// The same with a user-assigned identity of that group and name in place of its own.
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

    /// A machine of that flexible scale set, with the set's identity.
    #[must_use]
    pub fn of_flexible(set: &Self, suffix: &str) -> Self {
        let name = format!("{}_{suffix}", set.name);
        let mut made = Self::of(Shape::Machine, &set.group, &name);
        made.subscription = set.subscription.clone();
        made.location = set.location.clone();
        made.identity = set.identity.clone();
        made.scale_set = Some(set.id.clone());
        made.id = made.own_id();
        made
    }

    fn own_id(&self) -> String {
        let kind = match self.shape {
            Shape::Machine => "Microsoft.Compute/virtualMachines",
            Shape::Uniform | Shape::Flexible => "Microsoft.Compute/virtualMachineScaleSets",
            Shape::Site => "Microsoft.Web/sites",
        };
        let Self { subscription, group, name, .. } = self;
        format!("/subscriptions/{subscription}/resourcegroups/{group}/providers/{kind}/{name}")
    }

    /// The resources that it is, by their ids: itself, and its identity.
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

    /// As the resource manager shows it: the group in the case that it was made with.
    fn shown(&self) -> Value {
        let identity = match &self.identity.resource {
            None => json!({
                "type": "SystemAssigned", "principalId": self.identity.principal,
                "tenantId": super::TENANT,
            }),
            // Of flexible sets the principal is not told, and has to be asked for.
            Some(id) if self.shape == Shape::Flexible => {
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
            Shape::Uniform => properties = json!({ "orchestrationMode": "Uniform" }),
            Shape::Flexible => properties = json!({ "orchestrationMode": "Flexible" }),
            Shape::Machine | Shape::Site => {}
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

/// The same identifier for the same text.
fn guid(before: &str, text: &str) -> String {
    let fold = |sum: u64, byte: u8| sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325, fold) & 0xffff_ffff_ffff;
    format!("{before}-{sum:012x}")
}
