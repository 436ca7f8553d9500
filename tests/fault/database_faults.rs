//! A server whose data are on PostgreSQL: the connection breaks at every message, the network
//! stalls, the database restarts, dies, fails over, refuses and is full, and the server itself
//! dies. Afterwards nothing acknowledged is lost, and the service is back by itself.
//!
//! [`acknowledged`] sends writes and remembers their answers; [`place`] is the server, its database
//! and the proxy between both.

pub mod acknowledged;
mod concurrent;
mod cuts;
mod failover;
mod network;
pub mod place;
mod refusals;
mod restarts;
mod space;
