-- Added to format 2, to a database whose row `schema` in `meta` is less than 5.

-- How many bytes the host stores for each caller: the values of cubbyholes and the pieces of wrapped answers, of which
-- the keys begin with `cubbyhole/` or `wrapped-content/` and the name of the caller. A row of `stored` has both as its
-- name, which no mount has: the name of a mount has no slash.
INSERT INTO stored
    SELECT substr(key, 1, instr(key, '/') + instr(substr(key, instr(key, '/') + 1), '/') - 1),
        sum(2 * octet_length(key) + 2 * octet_length(lane) + 2 * octet_length(owner) + length(sealed) + 64)
    FROM record WHERE space = 1 AND (key GLOB 'cubbyhole/[^/]*/*' OR key GLOB 'wrapped-content/[^/]*/*') GROUP BY 1;

CREATE TRIGGER held_more AFTER INSERT ON record
WHEN new.space = 1 AND (new.key GLOB 'cubbyhole/[^/]*/*' OR new.key GLOB 'wrapped-content/[^/]*/*')
BEGIN
    INSERT INTO stored VALUES (
        substr(new.key, 1, instr(new.key, '/') + instr(substr(new.key, instr(new.key, '/') + 1), '/') - 1),
        2 * octet_length(new.key) + 2 * octet_length(new.lane) + 2 * octet_length(new.owner)
            + length(new.sealed) + 64
    ) ON CONFLICT (mount) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER held_otherwise AFTER UPDATE ON record
WHEN new.space = 1 AND (new.key GLOB 'cubbyhole/[^/]*/*' OR new.key GLOB 'wrapped-content/[^/]*/*')
BEGIN
    UPDATE stored SET bytes = bytes + length(new.sealed) - length(old.sealed)
        + 2 * octet_length(new.lane) - 2 * octet_length(old.lane)
        + 2 * octet_length(new.owner) - 2 * octet_length(old.owner)
    WHERE mount = substr(new.key, 1, instr(new.key, '/') + instr(substr(new.key, instr(new.key, '/') + 1), '/') - 1);
END;

CREATE TRIGGER held_less AFTER DELETE ON record
WHEN old.space = 1 AND (old.key GLOB 'cubbyhole/[^/]*/*' OR old.key GLOB 'wrapped-content/[^/]*/*')
BEGIN
    UPDATE stored SET bytes = bytes - length(old.sealed) - 64
        - 2 * octet_length(old.key) - 2 * octet_length(old.lane) - 2 * octet_length(old.owner)
    WHERE mount = substr(old.key, 1, instr(old.key, '/') + instr(substr(old.key, instr(old.key, '/') + 1), '/') - 1);
    DELETE FROM stored
    WHERE mount = substr(old.key, 1, instr(old.key, '/') + instr(substr(old.key, instr(old.key, '/') + 1), '/') - 1)
        AND bytes <= 0;
END;
