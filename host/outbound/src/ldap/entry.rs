//! Entries of a directory, as a search returns them.

/// An entry of a directory.
pub struct DirectoryEntry {
    /// The entry's name.
    pub dn: String,
    /// The attributes, in the order of their names.
    pub attributes: Vec<DirectoryAttribute>,
}

/// An attribute of an entry.
#[derive(Clone)]
pub struct DirectoryAttribute {
    /// A name or an OID.
    pub name: String,
    /// The values.
    pub values: Vec<Vec<u8>>,
}
