-- Submissions are evidence: what is in is never changed and never removed.
CREATE TABLE submissions (
    sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bundle_sha256 TEXT NOT NULL UNIQUE CHECK (length(bundle_sha256) = 64),
    blob_sha256 TEXT NOT NULL CHECK (length(blob_sha256) = 64),
    blob_size_bytes BIGINT NOT NULL CHECK (blob_size_bytes > 0),
    repository TEXT NOT NULL,
    repository_key TEXT NOT NULL,
    pull_request INTEGER NOT NULL CHECK (pull_request > 0),
    commit_sha TEXT NOT NULL CHECK (length(commit_sha) = 40),
    trust TEXT NOT NULL,
    nonce_standing TEXT NOT NULL,
    received_at_utc TEXT NOT NULL,
    summary TEXT NOT NULL,
    document TEXT NOT NULL
);

CREATE INDEX submissions_by_blob ON submissions (blob_sha256);
CREATE INDEX submissions_by_pull ON submissions (repository_key, pull_request, sequence);
CREATE INDEX submissions_by_commit ON submissions (repository_key, commit_sha, sequence);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' are append-only',
        ERRCODE = 'integrity_constraint_violation';
END;
$$;
CREATE TRIGGER submissions_keep BEFORE UPDATE OR DELETE ON submissions
FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER submissions_stay BEFORE TRUNCATE ON submissions
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE nonces (
    nonce TEXT PRIMARY KEY CHECK (length(nonce) = 64),
    repository TEXT NOT NULL,
    pull_request INTEGER NOT NULL,
    commit_sha TEXT NOT NULL,
    plan_sha256 TEXT NOT NULL,
    issued_at_utc TEXT NOT NULL,
    expires_at_utc TEXT NOT NULL
);

-- A nonce counts for the first submission that used it; the primary key decides which that is.
CREATE TABLE nonce_uses (
    nonce TEXT PRIMARY KEY REFERENCES nonces (nonce),
    bundle_sha256 TEXT NOT NULL REFERENCES submissions (bundle_sha256)
);
