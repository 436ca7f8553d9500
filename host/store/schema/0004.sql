-- Added to format 2, to a database whose row `schema` in `meta` is less than 4.

-- How many bytes each mount stores: its data, leases, reservations and timers, of which the keys begin with its name
-- and a slash. Triggers count, so that the count is of the commit, whatever commits and whichever release it is of.
CREATE TABLE stored (
    mount TEXT    NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A row has its texts in the table and again in indexes; 64 bytes stand for what else there is of it.
INSERT INTO stored
    SELECT substr(key, 1, instr(key, '/') - 1),
        sum(2 * octet_length(key) + 2 * octet_length(lane) + 2 * octet_length(owner) + length(sealed) + 64)
    FROM record WHERE space IN (2, 4, 5, 6) AND instr(key, '/') > 1 GROUP BY 1;

CREATE TRIGGER stored_more AFTER INSERT ON record
WHEN new.space IN (2, 4, 5, 6) AND instr(new.key, '/') > 1
BEGIN
    INSERT INTO stored VALUES (
        substr(new.key, 1, instr(new.key, '/') - 1),
        2 * octet_length(new.key) + 2 * octet_length(new.lane) + 2 * octet_length(new.owner)
            + length(new.sealed) + 64
    ) ON CONFLICT (mount) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

-- A key is never changed.
CREATE TRIGGER stored_otherwise AFTER UPDATE ON record
WHEN new.space IN (2, 4, 5, 6) AND instr(new.key, '/') > 1
    AND (length(new.sealed) <> length(old.sealed) OR new.lane <> old.lane OR new.owner <> old.owner)
BEGIN
    UPDATE stored SET bytes = bytes + length(new.sealed) - length(old.sealed)
        + 2 * octet_length(new.lane) - 2 * octet_length(old.lane)
        + 2 * octet_length(new.owner) - 2 * octet_length(old.owner)
    WHERE mount = substr(new.key, 1, instr(new.key, '/') - 1);
END;

CREATE TRIGGER stored_less AFTER DELETE ON record
WHEN old.space IN (2, 4, 5, 6) AND instr(old.key, '/') > 1
BEGIN
    UPDATE stored SET bytes = bytes - length(old.sealed) - 64
        - 2 * octet_length(old.key) - 2 * octet_length(old.lane) - 2 * octet_length(old.owner)
    WHERE mount = substr(old.key, 1, instr(old.key, '/') - 1);
    DELETE FROM stored WHERE mount = substr(old.key, 1, instr(old.key, '/') - 1) AND bytes <= 0;
END;
