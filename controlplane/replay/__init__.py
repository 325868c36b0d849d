"""Play a recorded night through the pipeline on a virtual clock, record one, compare two."""
