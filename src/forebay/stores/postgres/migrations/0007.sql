-- What the running attempts of a session reported last: JSON, task id to [token, share, note].
ALTER TABLE forebay_sessions ADD COLUMN progress text;
