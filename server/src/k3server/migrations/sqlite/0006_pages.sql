-- A page asks for one space of a pull request: without the space in the key it would look through
-- the other one's rows, too. `(repository_key, sequence)` and `(commit_sha)` serve the search.
CREATE INDEX listings_by_pull_space
    ON listings (repository_key, pull_request, space, sequence);
CREATE INDEX listings_by_repository ON listings (repository_key, sequence);
CREATE INDEX listings_by_commit_sha ON listings (commit_sha);
