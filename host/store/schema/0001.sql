-- Format 2 of the store on SQLite. Applied once, in one transaction with the rows of `meta`.

-- What the database is: `format`, `cluster` (16 random bytes), how the unseal key is split (`shares`, `threshold`), the
-- key of the keyring sealed by the unseal key (`root`), and the keys of records sealed by that (`keyring`).
CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Every record of every kind. Only `sealed` is secret; the seal covers all the other columns too.
-- The rows stand in the order of their first write, so that new rows fill pages together whatever their keys; a table
-- ordered by key would touch a page for each, and hold so few rows a page that it would be deep.
CREATE TABLE record (
    space  INTEGER NOT NULL, -- the kind, by number
    key    TEXT    NOT NULL,
    stamp  BLOB    NOT NULL, -- 16 random bytes, new at each write
    due    INTEGER,          -- store time in milliseconds; NULL is never
    lane   TEXT    NOT NULL, -- '' is none
    owner  TEXT    NOT NULL, -- '' is nobody
    created  INTEGER,        -- the index of the mount at which it was made; NULL where there is none
    modified INTEGER,        -- and at which it was last put
    sealed BLOB    NOT NULL,
    PRIMARY KEY (space, key)
) STRICT;

-- Each ends with the key, to be answered from the index alone and in the order of keys.
CREATE INDEX record_by_due ON record (due, space, lane, key) WHERE due IS NOT NULL;
CREATE INDEX record_by_owner ON record (space, owner, key) WHERE owner <> '';
CREATE INDEX record_by_lane ON record (space, lane, key) WHERE lane <> '';
