//! Addresses that a component may dial: hosts in a single spelling, classes of addresses, and the
//! check of every resolved address.

mod class;
mod host;
mod reach;

pub use class::forbidden_range;
pub use host::{EndpointPattern, HostPattern, LdapServer, Origin, ServerHost, network};
pub use reach::{AddressRefusal, AddressRemedy, AllowedAddresses, resolve};
