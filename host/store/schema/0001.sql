-- Format 1 of the store on SQLite. Applied once, in one transaction with the rows of `meta`.

-- What the database is: its format, its cluster and a canary that only the right key opens.
CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Every record of every kind. Only `sealed` is secret; the seal covers all the other columns too.
CREATE TABLE record (
    space  INTEGER NOT NULL, -- the kind, by number
    key    TEXT    NOT NULL,
    stamp  BLOB    NOT NULL, -- 16 random bytes, new at each write
    due    INTEGER,          -- store time in milliseconds; NULL is never
    lane   TEXT    NOT NULL, -- '' is none
    owner  TEXT    NOT NULL, -- '' is nobody
    sealed BLOB    NOT NULL,
    PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;

-- The primary key's columns end every index of such a table, so each of these also gives the key, in order.
CREATE INDEX record_by_due ON record (due, space, lane) WHERE due IS NOT NULL;
CREATE INDEX record_by_owner ON record (space, owner) WHERE owner <> '';
CREATE INDEX record_by_lane ON record (space, lane) WHERE lane <> '';
