//! The version of the contract in the names of a component's interfaces.
//!
//! A component of an earlier minor version runs, because minor versions only add. A component of a
//! later minor version runs if this server has everything that the component imports. A component
//! of a later major version is refused with a sentence for the operator.

/// Package of our interfaces, and the version that this server supports.
const PLUGIN: &str = "bulkhead:plugin/";
const VERSION: &str = "1.2.0";

/// An interface of ours as a component names it.
struct VersionedInterface<'n> {
    interface: &'n str,
    version: ContractVersion,
}

/// Major and minor version; patches change no interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ContractVersion {
    major: u32,
    minor: u32,
}

impl ContractVersion {
    /// Returns the version that this server supports.
    fn served() -> Self {
        Self::parse(VERSION).unwrap_or(Self { major: 1, minor: 2 })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(str::parse);
        let (Ok(major), Ok(minor), Ok(_patch)) =
            (numbers.next()?, numbers.next()?, numbers.next()?)
        else {
            return None;
        };
        numbers.next().is_none().then_some(Self { major, minor })
    }
}

impl<'n> VersionedInterface<'n> {
    /// Parses a name; `None` for a name that is not ours.
    fn parse(name: &'n str) -> Option<Self> {
        let (interface, version) = name.strip_prefix(PLUGIN)?.split_once('@')?;
        Some(Self { interface, version: ContractVersion::parse(version)? })
    }
}

/// Returns the full name of an interface of ours, in the version that this server supports.
pub(super) fn interface_name(interface: &str) -> String {
    format!("{PLUGIN}{interface}@{VERSION}")
}

/// Returns true if the name belongs to our package.
pub(super) fn is_ours(name: &str) -> bool {
    name.starts_with(PLUGIN)
}

/// Returns true if `name` is the interface of ours in any minor version of the major version that
/// this server supports.
pub(super) fn names(name: &str, interface: &str) -> bool {
    VersionedInterface::parse(name).is_some_and(|named| {
        named.interface == interface && named.version.major == ContractVersion::served().major
    })
}

/// Returns the reason against a component with one of these imports or exports, if one of them is
/// of a later major version.
pub(super) fn later_major(names: &[String]) -> Option<String> {
    let served = ContractVersion::served().major;
    let find = |name| VersionedInterface::parse(name).filter(|named| named.version.major > served);
    let VersionedInterface { interface, version } = names.iter().find_map(|name| find(name))?;
    let built = version.major;
    Some(format!(
        "the component was built for major version {built} of the plugin contract ({interface} of \
         version {built}), and this server serves major version {served}: build the component with \
         an SDK of version {served} of the contract, or register the component at a newer server \
         with version {built}"
    ))
}

/// Returns a remark about the imports of a component of a later minor version, for the end of a
/// refusal; empty for any other component.
pub(crate) fn remark_on_minor<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let served = ContractVersion::served();
    let versions =
        names.into_iter().filter_map(|name| Some(VersionedInterface::parse(name)?.version));
    let later = versions.filter(|version| version.major == served.major && *version > served);
    let Some(ContractVersion { major, minor }) = later.max() else { return String::new() };
    format!(
        "; the component was built for version {major}.{minor} of the plugin contract, and this \
         server serves version {}.{}: a newer server may have these imports",
        served.major, served.minor
    )
}
