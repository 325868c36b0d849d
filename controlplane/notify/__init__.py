"""Tell people: who, by which way, until somebody answers, with proof."""
