//! Reads of the presence of a record, which do not rely on its content.

use super::Unit;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::Address;

impl Unit {
    /// Returns whether the record exists: by the own write of this unit, or else as committed. The
    /// commit depends on the presence and not on the content. Writes of one record that do not read
    /// the record then share a flush, and conflict only with a creation, a deletion, the turn of
    /// another request, or a commit of another node at the same moment.
    ///
    /// # Errors
    /// As [`Unit::get`].
    pub async fn is_present(&mut self, address: &Address) -> Result<bool, StoreFault> {
        if let Some(own) = self.own_write(address) {
            return Ok(own.is_some());
        }
        self.check_usable()?;
        let is_present = self.store.read(address).await?.is_some();
        let remembered = self.current_part().reads.remember_presence(address, is_present);
        self.spoil_on_change(remembered)?;
        Ok(is_present)
    }

    /// Makes the commit depend on the absence of the record, as [`Unit::get`] does, but without a
    /// read, which on PostgreSQL is a round trip. Meant for random names: practically no record has
    /// such a name already.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] if this unit read a record at the address; the fault of an earlier
    /// get or checkpoint, if that fault has spoiled the unit.
    pub fn assert_absent(&mut self, address: &Address) -> Result<(), StoreFault> {
        self.check_usable()?;
        let remembered = self.current_part().reads.remember_presence(address, false);
        self.spoil_on_change(remembered)
    }
}
