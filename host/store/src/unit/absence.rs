//! Names that the unit chose at random.

use super::Unit;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::Address;

impl Unit {
    /// Makes the commit depend on the absence of the record, as [`Unit::get`] does, but without a
    /// read, which on PostgreSQL is a round trip. Meant for random names: practically no record has
    /// such a name already.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] if this unit read a record at the address; the fault of an earlier
    /// get or checkpoint, if that fault has spoiled the unit.
    pub fn assert_absent(&mut self, address: &Address) -> Result<(), StoreFault> {
        self.check_usable()?;
        let remembered = self.current_part().reads.remember(address, None);
        self.spoil_on_change(remembered)
    }
}
