"""Which lines of logs mean which fault: a reviewed table and a bounded way to read it."""
