CREATE TABLE wanted (
    wanted_id TEXT PRIMARY KEY CHECK (length(wanted_id) = 16),
    repository TEXT NOT NULL,
    pull_request INTEGER NOT NULL,
    commit_sha TEXT NOT NULL CHECK (length(commit_sha) = 40),
    tier TEXT NOT NULL,
    subject TEXT NOT NULL,
    cell_id TEXT NOT NULL,
    note TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    asked_at_utc TEXT NOT NULL,
    claimed_by TEXT,
    claimed_until_utc TEXT,
    closed_at_utc TEXT,
    UNIQUE (repository, pull_request, commit_sha, tier, subject, cell_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX wanted_by_age ON wanted (asked_at_utc);
