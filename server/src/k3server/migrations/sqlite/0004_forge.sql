-- Pull requests of which the forge is to be told something, one row each however often something
-- happens; written in the transaction in which it happens.
CREATE TABLE outbox (
    repository_key TEXT NOT NULL,
    pull_request INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_at_utc TEXT NOT NULL,
    problem TEXT,
    PRIMARY KEY (repository_key, pull_request)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_by_due ON outbox (due_at_utc);

-- What the forge said last about a pull request, and what it was told last.
CREATE TABLE pulls (
    repository_key TEXT NOT NULL,
    pull_request INTEGER NOT NULL,
    head_sha TEXT NOT NULL,
    is_open INTEGER NOT NULL,
    told_sha256 TEXT NOT NULL,
    checked_at_utc TEXT NOT NULL,
    PRIMARY KEY (repository_key, pull_request)
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
    guid TEXT PRIMARY KEY,
    received_at_utc TEXT NOT NULL
) STRICT, WITHOUT ROWID;
