//! Nothing is lost when the process dies, the disk fails or the power goes: the proof, from
//! outside.
//!
//! One API's life ([`life`]) is run again and again, each time with another fault. A model that
//! knows nothing of the server's code ([`model`]) remembers what was answered; after the server is
//! back, [`recovery`] asks the server and the database whether both still agree with it.
//!
//! The invariants, by the numbers of the messages: I1 what was answered is there; I2 every user in
//! the database belongs to a lease or to a call that will be undone; I6 no secret in a file or a
//! log; I11 what failed is never reported as success.

mod broken_flush;
mod cloud;
mod cluster;
mod directory;
mod first_start;
mod full_audit;
mod full_disk;
mod injected;
mod kill_loop;
mod life;
mod migrations;
mod model;
mod points;
mod power_loss;
mod recovery;
mod rekey;
mod rotations;
mod scheduler;
mod stage;
mod versions;
