//! Rounds of replication against an authoritative region on the test bed.
