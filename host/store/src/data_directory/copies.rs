//! Copies of the closed database: the state before a change of many commits, to be put back if the
//! change fails; and the replacement of the database by a copy or by restored data.
//!
//! This file prevents a database beside the write-ahead log of another database, at a process that
//! dies at any moment: the decision to put a copy back is a single rename, and the next process
//! that holds the directory completes the act.

#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::DataDirectory;
use crate::database::{copy_tables, drop_copy, has_copies, put_copy_back, replaced_tables};
use bulkhead_place::directory::{self, file_failure};
use bulkhead_place::options::DatabaseChoice;
use bulkhead_record::failpoint;
use bulkhead_record::fault::StoreFault;

/// Beginning of the ending of a numbered copy.
const COPY: &str = "copy-";
/// Ending of a copy that was chosen to replace the database.
const CHOSEN: &str = "put-back";
/// Ending of a database that a restore builds.
const RESTORED: &str = "restored";
/// Ending of a database that another database replaced.
const UNDONE: &str = "undone";
/// Files that SQLite keeps beside a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

impl DataDirectory {
    /// Copies the closed database under a number, and flushes the copy. A copy with this number is
    /// replaced.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the data are open, or the copy cannot be written.
    pub async fn set_aside(&self, number: u32) -> Result<(), StoreFault> {
        let _closed = self.take_lock()?;
        match &self.options.database {
            DatabaseChoice::SqliteFile => self.copy_file(number),
            DatabaseChoice::Postgres(place) => {
                copy_tables(place, &self.replacing_node()?, number).await
            }
        }
    }

    fn copy_file(&self, number: u32) -> Result<(), StoreFault> {
        let copy = self.copy(number);
        let failed = |error: io::Error| file_failure("write the copy", &copy, &error);
        let database = directory::database(self.path());
        if let Some(log) = find_beside(&database) {
            return Err(StoreFault::Unavailable(format!(
                "{} holds changes that are not in the database yet; start again",
                log.display()
            )));
        }
        let content = fs::read(&database).map_err(failed)?;
        directory::write_whole(&copy, &content).map_err(failed)?;
        directory::flush(self.path())
    }

    /// Replaces the closed database by the copy with this number. The replaced database stays under
    /// the name of [`DataDirectory::replaced_data`]. Returns `false` if there is no such copy.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the data are open, or the database cannot be replaced.
    pub async fn put_back(&self, number: u32) -> Result<bool, StoreFault> {
        let DatabaseChoice::Postgres(place) = &self.options.database else {
            return self.replace_by(&self.copy(number));
        };
        let _closed = self.take_lock()?;
        let replaced = put_copy_back(place, &self.replacing_node()?, number).await;
        self.forget_properties();
        replaced
    }

    /// Returns the name of the database that a copy or a restore replaced, for messages: a file of
    /// the directory, or tables.
    pub fn replaced_data(&self) -> String {
        match &self.options.database {
            DatabaseChoice::SqliteFile => format!("{}.{UNDONE}", directory::DATABASE_FILE),
            DatabaseChoice::Postgres(place) => replaced_tables(place),
        }
    }

    /// Replaces the closed database, if there is one, by `file`: a complete and flushed database in
    /// this directory. The replaced database stays as `bulkhead.db.undone`. Returns `false` if
    /// there is no such file.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the data are open or a file cannot be replaced. If `file` was
    /// chosen before the error, the next opening completes the replacement.
    pub(crate) fn replace_by(&self, file: &Path) -> Result<bool, StoreFault> {
        let _closed = self.take_lock()?;
        match fs::rename(file, chosen(self.path())) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(file_failure("put back", file, &error)),
        }
        let replaced = self.replace_by_chosen().or_else(|_| self.replace_by_chosen());
        // The database may have other seals, or be of another cluster.
        self.forget_properties();
        replaced.map(|()| true)
    }

    fn replace_by_chosen(&self) -> Result<(), StoreFault> {
        directory::flush(self.path())?;
        failpoint::reach("restore.chosen").map_err(StoreFault::injected)?;
        finish_put_back(self.path()).map(drop)
    }

    /// Returns the path of the database that a restore builds.
    pub(crate) fn unfinished_restore(&self) -> PathBuf {
        unfinished_restore(self.path())
    }

    /// Removes the copy with this number, if there is one.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the copy cannot be removed.
    pub async fn forget_copy(&self, number: u32) -> Result<(), StoreFault> {
        if let DatabaseChoice::Postgres(place) = &self.options.database {
            return drop_copy(place, number).await;
        }
        remove(&self.copy(number))?;
        directory::flush(self.path())
    }

    /// Removes the copy with the number before this number, if there is one: a process that died
    /// may have left the copy.
    ///
    /// # Errors
    /// As [`DataDirectory::forget_copy`].
    pub async fn forget_copy_before(&self, number: u32) -> Result<(), StoreFault> {
        match number.checked_sub(1) {
            Some(number) => self.forget_copy(number).await,
            None => Ok(()),
        }
    }

    /// Returns whether there is a copy with any number: a change of many commits was interrupted.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the directory or the database cannot be read.
    pub async fn has_copies(&self) -> Result<bool, StoreFault> {
        if let DatabaseChoice::Postgres(place) = &self.options.database {
            return has_copies(place).await;
        }
        let unreadable = |error: io::Error| file_failure("read", self.path(), &error);
        let beginning = format!("{}.", directory::DATABASE_FILE) + COPY;
        for entry in fs::read_dir(self.path()).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(&beginning)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn copy(&self, number: u32) -> PathBuf {
        directory::database(self.path()).with_extension(format!("db.{COPY}{number}"))
    }
}

/// Completes a replacement of the database that was chosen, if there is one. The replaced database
/// stays under another name: its records may be the only trace of changes outside of the store.
/// Returns `false` if there was no such replacement.
///
/// # Errors
/// As [`DataDirectory::put_back`].
pub(super) fn finish_put_back(directory: &Path) -> Result<bool, StoreFault> {
    let (chosen, database) = (chosen(directory), directory::database(directory));
    if !is_replacement_chosen(directory) {
        return Ok(false);
    }
    let undone = undone(directory);
    if database.exists() {
        // Only here: after a crash below, these files belong to the replaced database.
        beside(&undone).iter().try_for_each(|file| remove(file))?;
        directory::flush(directory)?;
        move_if_present(&database, &undone)?;
    }
    for (file, moved) in beside(&database).into_iter().zip(beside(&undone)) {
        move_if_present(&file, &moved)?;
    }
    // The log of the replaced database must never be found beside the copy.
    directory::flush(directory)?;
    failpoint::reach("restore.moved").map_err(StoreFault::injected)?;
    fs::rename(&chosen, &database).map_err(|error| file_failure("put back", &chosen, &error))?;
    directory::flush(directory)?;
    Ok(true)
}

/// Returns whether a replacement of the database was chosen and is not complete.
pub(super) fn is_replacement_chosen(directory: &Path) -> bool {
    chosen(directory).exists()
}

/// Removes the database that an interrupted restore built.
///
/// # Errors
/// [`StoreFault::Unavailable`] if a file cannot be removed.
pub(super) fn remove_unfinished_restore(directory: &Path) -> Result<(), StoreFault> {
    remove_database(&unfinished_restore(directory))
}

/// Removes a database that is not in use, with the files beside the database, if there is one.
///
/// # Errors
/// As [`remove_unfinished_restore`].
pub(crate) fn remove_database(database: &Path) -> Result<(), StoreFault> {
    beside(database).iter().try_for_each(|file| remove(file))?;
    remove(database)
}

/// Returns a file that SQLite left beside a closed database, if there is one.
pub(crate) fn find_beside(database: &Path) -> Option<PathBuf> {
    beside(database).into_iter().find(|file| file.exists())
}

fn unfinished_restore(directory: &Path) -> PathBuf {
    directory::database(directory).with_extension(format!("db.{RESTORED}"))
}

fn chosen(directory: &Path) -> PathBuf {
    directory::database(directory).with_extension(format!("db.{CHOSEN}"))
}

fn undone(directory: &Path) -> PathBuf {
    directory::database(directory).with_extension(format!("db.{UNDONE}"))
}

fn beside(database: &Path) -> [PathBuf; 3] {
    BESIDE.map(|ending| {
        let mut path = database.as_os_str().to_owned();
        path.push(ending);
        path.into()
    })
}

fn move_if_present(file: &Path, to: &Path) -> Result<(), StoreFault> {
    match fs::rename(file, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file_failure("rename", file, &error))
        }
        _ => Ok(()),
    }
}

fn remove(file: &Path) -> Result<(), StoreFault> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file_failure("remove", file, &error))
        }
        _ => Ok(()),
    }
}
