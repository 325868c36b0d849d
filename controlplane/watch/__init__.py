"""The watch: reducers fed by the event log, and what follows from their findings."""
