-- Added to format 2, to a database that has no row `schema` of 2 or more in `meta`.

-- The head of each lane, and the heads of all lanes one after another, without walking over what
-- waits behind them.
CREATE INDEX IF NOT EXISTS record_by_lane_due ON record (space, lane, due, key) WHERE due IS NOT NULL;
