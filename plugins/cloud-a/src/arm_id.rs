//! Resource ids, parsed and compared as a whole.
//!
//! This file prevents two attacks. In the first, an id that contains another id is mistaken for the
//! shorter id: the machine `prod-2` passes for `prod`, or the group inside an identity's id passes
//! for the machine's group. In the second, an id with `..`, `?`, `#` or percent-encoding redirects
//! a request. As at the provider, the comparison ignores case, but only for ASCII letters, so no
//! letter of another script equals a letter of a name.

use bulkhead_sdk::Failure;
use std::fmt;

/// Maximum length of an id, and of a single part, in bytes.
const LONGEST: usize = 2_048;
const LONGEST_PART: usize = 260;

/// Types of virtual machines, scale sets and identities, in lower case.
pub(crate) const MACHINE: &str = "microsoft.compute/virtualmachines";
pub(crate) const SCALE_SET: &str = "microsoft.compute/virtualmachinescalesets";
pub(crate) const IDENTITY: &str = "microsoft.managedidentity/userassignedidentities";

/// The id of a resource in a group:
/// `/subscriptions/S/resourceGroups/G/providers/NAMESPACE/TYPE/NAME`, optionally with more pairs of
/// type and name. All parts are stored in lower case, so that every spelling of a resource compares
/// equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArmId {
    subscription: String,
    group: String,
    namespace: String,
    /// Types and names.
    pairs: Vec<(String, String)>,
}

/// Formats the id with the provider's usual spelling of the fixed words.
impl fmt::Display for ArmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments().iter().try_for_each(|segment| write!(f, "/{segment}"))
    }
}

impl ArmId {
    /// Parses an id; returns `None` if `text` is not the id of a resource in a group.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_plain = |letter: char| !letter.is_control() && !"%?#\\".contains(letter);
        if text.len() > LONGEST || !text.chars().all(is_plain) {
            return None;
        }
        let text = text.to_ascii_lowercase();
        let parts: Vec<&str> = text.strip_prefix('/')?.split('/').collect();
        let is_part = |part: &&str| !matches!(*part, "" | "." | "..") && part.len() <= LONGEST_PART;
        if !parts.iter().all(is_part) {
            return None;
        }
        let [word, subscription, of_groups, group, of_providers, namespace, rest @ ..] = &*parts
        else {
            return None;
        };
        let words = [*word, *of_groups, *of_providers];
        let is_shaped = words == ["subscriptions", "resourcegroups", "providers"];
        if !is_shaped || !is_guid(subscription) || rest.is_empty() || rest.len() % 2 != 0 {
            return None;
        }
        let pairs = rest.chunks_exact(2).filter_map(|pair| match pair {
            [kind, name] => Some(((*kind).to_owned(), (*name).to_owned())),
            _ => None,
        });
        Some(Self {
            subscription: (*subscription).to_owned(),
            group: (*group).to_owned(),
            namespace: (*namespace).to_owned(),
            pairs: pairs.collect(),
        })
    }

    /// Parses the id that a caller states in `field`.
    ///
    /// # Errors
    /// Invalid request if the text is not an id.
    pub(crate) fn stated(field: &str, text: &str) -> Result<Self, Failure> {
        Self::parse(text).ok_or_else(|| {
            Failure::invalid(format!("invalid {field}: the value is not an id of a resource"))
        })
    }

    /// Returns the id of the virtual machine `name`.
    pub(crate) fn machine(subscription: &str, group: &str, name: &str) -> Option<Self> {
        Self::compute(subscription, group, "virtualMachines", name)
    }

    /// Returns the id of the scale set `name`.
    pub(crate) fn scale_set(subscription: &str, group: &str, name: &str) -> Option<Self> {
        Self::compute(subscription, group, "virtualMachineScaleSets", name)
    }

    /// Builds the id through [`parse`](Self::parse), so that no argument can add path segments.
    fn compute(subscription: &str, group: &str, kind: &str, name: &str) -> Option<Self> {
        let parts = [subscription, group, name];
        if parts.iter().any(|part| part.contains('/')) {
            return None;
        }
        Self::parse(&format!(
            "/subscriptions/{subscription}/resourceGroups/{group}\
             /providers/Microsoft.Compute/{kind}/{name}"
        ))
    }

    /// Returns the subscription's id.
    pub(crate) fn subscription(&self) -> &str {
        &self.subscription
    }

    /// Returns the resource group's name.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Returns the provider's namespace, such as `microsoft.compute`.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the type below the namespace, such as `sites/slots`.
    pub(crate) fn type_below(&self) -> String {
        let types: Vec<&str> = self.pairs.iter().map(|(kind, _)| kind.as_str()).collect();
        types.join("/")
    }

    /// Returns the whole type, such as `microsoft.compute/virtualmachines`.
    pub(crate) fn kind(&self) -> String {
        format!("{}/{}", self.namespace, self.type_below())
    }

    /// Returns the resource's own name.
    pub(crate) fn name(&self) -> &str {
        self.pairs.last().map_or("", |(_, name)| name.as_str())
    }

    /// Returns the id of the parent resource, such as the scale set of an instance.
    pub(crate) fn parent(&self) -> Option<Self> {
        let (_, pairs) = self.pairs.split_last().filter(|(_, before)| !before.is_empty())?;
        Some(Self { pairs: pairs.to_vec(), ..self.clone() })
    }

    /// Tells if both ids are in the same resource group of the same subscription.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.subscription == other.subscription && self.group == other.group
    }

    /// Returns the segments of the URL path.
    pub(crate) fn segments(&self) -> Vec<&str> {
        let head = [
            "subscriptions",
            &self.subscription,
            "resourceGroups",
            &self.group,
            "providers",
            &self.namespace,
        ];
        let pairs = self.pairs.iter().flat_map(|(kind, name)| [kind.as_str(), name.as_str()]);
        head.into_iter().chain(pairs).collect()
    }
}

/// Tells if the text is a GUID: 8, 4, 4, 4 and 12 hexadecimal digits.
pub(crate) fn is_guid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VM: &str = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/apps\
                      /providers/Microsoft.Compute/virtualMachines/vm-1";

    #[test]
    fn id_is_read_in_parts_with_one_spelling() {
        let id = ArmId::parse(VM).unwrap();
        let spelled = VM.replace("Microsoft.Compute/virtualMachines", MACHINE);
        assert_eq!(id.to_string(), spelled);
        assert_eq!((id.group(), id.name(), id.kind().as_str()), ("apps", "vm-1", MACHINE));
        assert_eq!(id.parent(), None);
        let slot = ArmId::parse(&VM.replace("Compute/virtualMachines/vm-1", "Web/sites/a/slots/b"));
        let slot = slot.unwrap();
        assert_eq!((slot.type_below().as_str(), slot.name()), ("sites/slots", "b"));
        assert_eq!(slot.parent().unwrap().name(), "a");
    }

    #[test]
    fn ids_compare_whole_and_without_case() {
        let id = ArmId::parse(VM).unwrap();
        assert_eq!(Some(&id), ArmId::parse(&VM.to_uppercase()).as_ref());
        assert_eq!(Some(&id), ArmId::parse(&VM.to_lowercase()).as_ref());
        assert_eq!(
            Some(id.clone()),
            ArmId::machine("11111111-2222-3333-4444-555555555555", "APPS", "VM-1")
        );
        for other in [
            format!("{VM}0"),
            VM.replace("vm-1", "vm-"),
            VM.replace("/apps/", "/apps2/"),
            VM.replace("11111111-", "21111111-"),
            VM.replace("virtualMachines", "virtualMachineScaleSets"),
            VM.replace("Microsoft.Compute", "Microsoft.Other"),
            format!("{VM}/extensions/vm-1"),
        ] {
            assert_ne!(Some(&id), ArmId::parse(&other).as_ref(), "{other}");
        }
    }

    #[test]
    fn letters_of_other_scripts_are_not_folded() {
        // The Kelvin sign and the long s, which Unicode folds into k and s.
        let kiosk = ArmId::parse(&VM.replace("vm-1", "kiosk")).unwrap();
        for confused in ["\u{212a}iosk", "kio\u{17f}k"] {
            let other = ArmId::parse(&VM.replace("vm-1", confused)).unwrap();
            assert_ne!(kiosk, other, "{confused}");
        }
    }

    #[test]
    fn id_leading_to_other_resource_is_refused() {
        let long = VM.replace("vm-1", &"x".repeat(261));
        let endless = format!("{VM}{}", "/a/b".repeat(600));
        for text in [
            "",
            "/",
            "vm-1",
            VM.trim_start_matches('/'),
            &VM.replace("/apps/", "/../"),
            &VM.replace("/apps/", "/./"),
            &VM.replace("/apps/", "//"),
            &VM.replace("vm-1", "vm%2d1"),
            &VM.replace("vm-1", "vm?api-version=1"),
            &VM.replace("vm-1", "vm#1"),
            &VM.replace("vm-1", "vm\\1"),
            &VM.replace("vm-1", "vm\n1"),
            &VM.replace("vm-1", "vm/x"),
            &VM.replace("/vm-1", ""),
            &VM.replace("11111111-2222", "11111111-222g"),
            &VM.replace("resourceGroups", "resourceGroup"),
            &format!("{VM}/"),
            &format!("https://management.azure.com{VM}"),
            &long,
            &endless,
        ] {
            assert!(ArmId::parse(text).is_none(), "{text}");
        }
        let guid = "11111111-2222-3333-4444-555555555555";
        for (group, name) in [("apps", "a/b"), ("a/providers/X", "b"), ("..", "b"), ("", "b")] {
            assert!(ArmId::machine(guid, group, name).is_none(), "{group} {name}");
        }
    }
}
