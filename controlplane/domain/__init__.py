"""Pure decisions: signals in, findings and choices out; no clock, no I/O, no Django."""
