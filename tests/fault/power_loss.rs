//! The power fails: any part of the unflushed data may be on the disk, torn at sector boundaries.
//! The server starts on every such disk, and everything that it answered before the cut is there.

use crate::life::Life;
use crate::model::Model;
use crate::recovery;
use crate::stage::{seed, thorough};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::disk::{Disk, Entry, SeededRandom, after_power_cut, folder_of};
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage::on_files;
use std::path::Path;
use std::process::Command;

/// Number of random cuts: in a quick run, and in `make fault`.
const CUTS: [usize; 2] = [16, 400];

/// The first entries create key and database; the test cuts after each of them.
const BIRTH: usize = 24;

#[test]
fn answered_writes_survive_a_power_loss() {
    let _files = on_files();
    let disk = Disk::sound();
    let mut server = Bulkhead::prepared(binary(), Folder::new("power"));
    let history = two_days(&disk, &mut server);
    let entries = disk.entries();
    let seed = seed();
    println!("FAULT_SEED={seed}: {} entries in the disk's log", entries.len());
    let mut chance = SeededRandom::new(seed);
    let later: Vec<usize> = (0..CUTS[usize::from(thorough())])
        .map(|_| BIRTH + chance.below(entries.len() + 1 - BIRTH))
        .collect();
    for cut in (0..BIRTH).chain(later) {
        let (before, _) = entries.split_at(cut);
        check(before, &history, server.data(), &mut chance);
    }
}

/// Runs a life, a restart and some more writes, so that the log is written back and both kinds of
/// removal happen. Returns the models with the log lengths from which they hold.
fn two_days(disk: &Disk, server: &mut Bulkhead) -> Vec<(u64, Model)> {
    let environment = disk.under(server.data());
    server.start_with(&environment).expect("nothing fails on this disk");
    let mut life = Life::new("power", server).on_disk(disk.log());
    life.run().expect("nothing fails on this disk");
    assert!(life.server().stop(), "the first day ends in order");
    life.server().start_with(&environment).expect("nothing fails on this disk");
    life.go_on().expect("nothing fails on this disk");
    let history = life.history();
    server.kill();
    history
}

fn check(before: &[Entry], history: &[(u64, Model)], data: &Path, chance: &mut SeededRandom) {
    let length = before.last().map_or(0, |entry| entry.end);
    let (_, model) = history
        .iter()
        .rfind(|(from, _)| *from <= length)
        .expect("something holds from the beginning");
    let folder = folder_of(&after_power_cut(before, chance), data);
    let at = format!("a cut after entry {}", before.len());
    let mut found = Bulkhead::prepared(binary(), folder);
    found.start_with(&[]).unwrap_or_else(|status| panic!("{at}: {status}: {}", found.printed()));
    println!("{at}");
    recovery::store_holds(&found.root(), model);
    recovery::nothing_leaks(&found, model);
    assert!(found.stop(), "{at}: the server does not end in order");
    assert_whole(&found.data().join("bulkhead.db"));
}

/// Checks the database with SQLite's own program, where that program is installed.
fn assert_whole(database: &Path) {
    let output = Command::new("sqlite3").arg(database).arg("PRAGMA integrity_check").output();
    if let Ok(answer) = output {
        assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "ok", "{}", database.display());
    }
}
