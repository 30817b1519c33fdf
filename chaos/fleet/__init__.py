"""Workers on PostgreSQL, Valkey and S3, judged by what the servers kept and what a provider saw."""
