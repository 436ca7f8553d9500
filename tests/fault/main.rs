//! Fault tests: nothing is lost when the process dies, the disk fails or the power goes.
//!
//! A [`life`] uses an API and is repeated with a different fault each time. The [`model`] shares no
//! code with the server and records the answers. After the restart, [`recovery`] compares server
//! and database with the model.
//!
//! Invariants, with their numbers in the assertions: I1, answered changes persist; I2, every user
//! in the database belongs to a lease or to a call that will be undone; I6, no file and no log
//! contains a secret; I11, a failure is never reported as success.

mod broken_flush;
mod cloud;
mod cluster;
mod configured_seal;
mod cuts;
mod database_deaths;
mod database_faults;
mod database_life;
mod databases;
mod directory;
mod first_start;
mod full_audit;
mod full_disk;
mod injected;
mod kill_loop;
mod leases;
mod life;
mod migrations;
mod model;
mod nodes;
mod points;
mod power_loss;
mod recovery;
mod rekey;
mod restore;
mod rotations;
mod scheduler;
mod sealed_life;
mod seals;
mod self_initialisation;
mod stage;
mod versions;
mod wrapping;
