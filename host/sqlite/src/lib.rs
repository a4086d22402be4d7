//! One way to open, migrate, read and group-commit a SQLite database.
