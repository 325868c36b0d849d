"""Sources of lines: the kernel's log, the journal, files."""
