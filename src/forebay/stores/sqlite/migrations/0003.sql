-- When a worker was asked to end.
ALTER TABLE sessions ADD COLUMN drain_at REAL;
