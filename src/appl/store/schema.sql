-- One run is one method with its settings on one data set under one protocol; `key` is the digest
-- of all that decides an episode's result, so that the same work is never done twice.
CREATE TABLE runs (
    run_id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    method TEXT NOT NULL,
    settings TEXT NOT NULL,       -- JSON, resolved
    target TEXT NOT NULL,
    data_digest TEXT NOT NULL,
    protocol TEXT NOT NULL,       -- JSON
    weights TEXT NOT NULL,        -- name as given
    weights_digest TEXT NOT NULL,
    encoder TEXT NOT NULL,
    image_px INTEGER NOT NULL
);
CREATE TABLE episodes (
    run_id INTEGER NOT NULL REFERENCES runs (run_id),
    episode INTEGER NOT NULL,
    accuracy REAL NOT NULL,       -- in percent
    seconds REAL NOT NULL,
    record TEXT NOT NULL,         -- JSON: what the method says of its way there
    version TEXT NOT NULL,        -- of appl
    finished_at TEXT NOT NULL,
    PRIMARY KEY (run_id, episode)
) WITHOUT ROWID;
