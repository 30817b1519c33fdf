-- Facts about the ledger as a whole, such as the environment that it belongs to; and where a worker runs, in which version.
CREATE TABLE forebay_facts (
    name text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

ALTER TABLE forebay_sessions
    ADD COLUMN host text NOT NULL DEFAULT '',
    ADD COLUMN version text NOT NULL DEFAULT '';

-- Whoever may use the older tables may use the newer ones: workers often have another user than the one that migrates.
DO $$
DECLARE
    granted record;
    made text;
BEGIN
    FOREACH made IN ARRAY ARRAY['forebay_facts', 'forebay_task_tags', 'forebay_job_tags'] LOOP
        FOR granted IN
            SELECT grantee, privilege_type FROM information_schema.role_table_grants
            WHERE table_schema = current_schema() AND table_name = 'forebay_pauses' AND grantee <> current_user
        LOOP
            EXECUTE format('GRANT %s ON %I TO %s', granted.privilege_type, made,
                           CASE WHEN granted.grantee = 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(granted.grantee) END);
        END LOOP;
    END LOOP;
END $$;
