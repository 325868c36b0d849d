"""Judge checkpoints of torch's distributed checkpoint format without torch and without trust."""
