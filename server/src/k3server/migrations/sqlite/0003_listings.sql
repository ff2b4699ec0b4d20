-- One row per submission with all that lists filter and sort by. It follows from the append-only
-- tables (submissions, attributions, acts, witnesses) and changes when they grow.
CREATE TABLE listings (
    sequence INTEGER PRIMARY KEY REFERENCES submissions (sequence),
    bundle_sha256 TEXT NOT NULL UNIQUE REFERENCES submissions (bundle_sha256),
    repository_key TEXT NOT NULL,
    pull_request INTEGER NOT NULL,
    commit_sha TEXT NOT NULL,
    status TEXT NOT NULL,
    tier TEXT NOT NULL,
    subject TEXT NOT NULL,
    plan_sha256 TEXT NOT NULL,
    signer TEXT NOT NULL,
    space TEXT NOT NULL CHECK (space IN ('main', 'playground')),
    trust TEXT NOT NULL,
    identity TEXT,
    organisation TEXT,
    state TEXT NOT NULL DEFAULT 'visible' CHECK (state IN ('visible', 'quarantined', 'retracted')),
    reason TEXT
) STRICT;

INSERT INTO listings (sequence, bundle_sha256, repository_key, pull_request, commit_sha, status,
    tier, subject, plan_sha256, signer, space, trust, identity)
SELECT sequence, bundle_sha256, repository_key, pull_request, commit_sha,
    json_extract(summary, '$.status'), json_extract(summary, '$.tier'),
    json_extract(summary, '$.subject'), json_extract(document, '$.manifest.run.plan_sha256'),
    json_extract(document, '$.signer_fingerprint'),
    CASE trust WHEN 'signed' THEN 'main' ELSE 'playground' END, trust,
    CASE trust WHEN 'signed' THEN 'key:' || json_extract(document, '$.signer_fingerprint') END
FROM submissions;

CREATE INDEX listings_by_space ON listings (space, sequence);
CREATE INDEX listings_by_pull ON listings (repository_key, pull_request, sequence);
CREATE INDEX listings_by_commit ON listings (repository_key, commit_sha, sequence);
CREATE INDEX listings_by_plan ON listings (plan_sha256, sequence);

-- Who vouches for a submission: an account, a key that a GitHub account publishes, a known key.
CREATE TABLE attributions (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    bundle_sha256 TEXT NOT NULL REFERENCES submissions (bundle_sha256),
    identity TEXT NOT NULL,
    organisation TEXT,
    trust TEXT NOT NULL,
    at_utc TEXT NOT NULL,
    UNIQUE (bundle_sha256, identity)
) STRICT;

-- Two submissions of independent contributors that agree.
CREATE TABLE witnesses (
    bundle_sha256 TEXT NOT NULL REFERENCES submissions (bundle_sha256),
    witness_sha256 TEXT NOT NULL REFERENCES submissions (bundle_sha256),
    at_utc TEXT NOT NULL,
    PRIMARY KEY (bundle_sha256, witness_sha256)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY CHECK (length(token_id) = 16),
    secret_sha256 TEXT NOT NULL CHECK (length(secret_sha256) = 64),
    account TEXT NOT NULL,
    organisation TEXT,
    scopes TEXT NOT NULL,
    created_at_utc TEXT NOT NULL,
    expires_at_utc TEXT NOT NULL,
    revoked_at_utc TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE bans (
    banned TEXT PRIMARY KEY,
    reason TEXT NOT NULL,
    at_utc TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Every decision of an operator, in order.
CREATE TABLE acts (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at_utc TEXT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;

CREATE INDEX acts_by_target ON acts (target, sequence);

CREATE TRIGGER attributions_keep BEFORE UPDATE ON attributions
BEGIN SELECT RAISE(ABORT, 'attributions are append-only'); END;
CREATE TRIGGER attributions_stay BEFORE DELETE ON attributions
BEGIN SELECT RAISE(ABORT, 'attributions are append-only'); END;
CREATE TRIGGER acts_keep BEFORE UPDATE ON acts
BEGIN SELECT RAISE(ABORT, 'acts are append-only'); END;
CREATE TRIGGER acts_stay BEFORE DELETE ON acts
BEGIN SELECT RAISE(ABORT, 'acts are append-only'); END;
