-- Added to format 2, to a database whose row `schema` in `meta` is less than 3.

-- An index that ends with the key has a page for each row that is written, wherever its key leads; one that ends with
-- the time, or with nothing but the row's number, grows at its end, and what is written together shares its pages. A
-- lease touched a dozen pages and touches half as many. The names stay, so that an older release still opens the file.
DROP INDEX IF EXISTS record_by_lane;
DROP INDEX IF EXISTS record_by_due;
DROP INDEX IF EXISTS record_by_owner;
DROP INDEX IF EXISTS record_by_lane_due;
CREATE INDEX record_by_due ON record (due) WHERE due IS NOT NULL;
CREATE INDEX record_by_owner ON record (space, owner) WHERE owner <> '';
CREATE INDEX record_by_lane_due ON record (space, lane, due) WHERE due IS NOT NULL;
