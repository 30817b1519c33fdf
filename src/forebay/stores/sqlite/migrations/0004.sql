-- Budgets ask for what was used since a day or a month began.
CREATE INDEX usage_at ON usage (at);
