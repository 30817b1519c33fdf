-- One row per limit, replaced by every request. Pages are left nearly empty and the record stays in its row, so that
-- the next version of it lies in the same page and the last one is cleared away without a vacuum.
CREATE TABLE forebay_limits (
    environment text NOT NULL,
    name text NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (environment, name)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE forebay_limits ALTER COLUMN record SET STORAGE MAIN;
