"""The private PostgreSQL, Redis-compatible server and process group behind `make demo` and `make serve`."""
