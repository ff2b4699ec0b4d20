-- Submissions are evidence: what is in is never changed and never removed.
CREATE TABLE submissions (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    bundle_sha256 TEXT NOT NULL UNIQUE CHECK (length(bundle_sha256) = 64),
    blob_sha256 TEXT NOT NULL CHECK (length(blob_sha256) = 64),
    blob_size_bytes INTEGER NOT NULL CHECK (blob_size_bytes > 0),
    repository TEXT NOT NULL,
    repository_key TEXT NOT NULL,
    pull_request INTEGER NOT NULL CHECK (pull_request > 0),
    commit_sha TEXT NOT NULL CHECK (length(commit_sha) = 40),
    trust TEXT NOT NULL,
    nonce_standing TEXT NOT NULL,
    received_at_utc TEXT NOT NULL,
    summary TEXT NOT NULL,
    document TEXT NOT NULL
) STRICT;

CREATE INDEX submissions_by_blob ON submissions (blob_sha256);
CREATE INDEX submissions_by_pull ON submissions (repository_key, pull_request, sequence);
CREATE INDEX submissions_by_commit ON submissions (repository_key, commit_sha, sequence);

CREATE TRIGGER submissions_keep BEFORE UPDATE ON submissions
BEGIN SELECT RAISE(ABORT, 'submissions are append-only'); END;
CREATE TRIGGER submissions_stay BEFORE DELETE ON submissions
BEGIN SELECT RAISE(ABORT, 'submissions are append-only'); END;

CREATE TABLE nonces (
    nonce TEXT PRIMARY KEY CHECK (length(nonce) = 64),
    repository TEXT NOT NULL,
    pull_request INTEGER NOT NULL,
    commit_sha TEXT NOT NULL,
    plan_sha256 TEXT NOT NULL,
    issued_at_utc TEXT NOT NULL,
    expires_at_utc TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A nonce counts for the first submission that used it; the primary key decides which that is.
CREATE TABLE nonce_uses (
    nonce TEXT PRIMARY KEY REFERENCES nonces (nonce),
    bundle_sha256 TEXT NOT NULL REFERENCES submissions (bundle_sha256)
) STRICT, WITHOUT ROWID;
