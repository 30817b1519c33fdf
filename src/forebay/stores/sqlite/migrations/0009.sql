-- What the running attempts of a session reported last: JSON, task id to [token, share, note].
ALTER TABLE sessions ADD COLUMN progress TEXT;
