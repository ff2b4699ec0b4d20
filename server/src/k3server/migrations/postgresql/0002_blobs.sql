-- When an archive was last sent or submitted. An archive that no submission names may go once
-- that is long ago; the row is locked while it goes.
CREATE TABLE blobs (
    sha256 TEXT PRIMARY KEY CHECK (length(sha256) = 64),
    seen_at_utc TEXT NOT NULL
);

CREATE TABLE uploads (
    upload_id TEXT PRIMARY KEY CHECK (length(upload_id) = 32),
    blob_sha256 TEXT NOT NULL CHECK (length(blob_sha256) = 64),
    size_bytes BIGINT NOT NULL CHECK (size_bytes > 0),
    part_size_bytes BIGINT NOT NULL CHECK (part_size_bytes > 0),
    opened_at_utc TEXT NOT NULL,
    expires_at_utc TEXT NOT NULL
);

CREATE INDEX uploads_by_blob ON uploads (blob_sha256);

CREATE TABLE upload_parts (
    upload_id TEXT NOT NULL REFERENCES uploads (upload_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number > 0),
    part_sha256 TEXT NOT NULL CHECK (length(part_sha256) = 64),
    PRIMARY KEY (upload_id, number)
);

CREATE INDEX upload_parts_by_part ON upload_parts (part_sha256);
