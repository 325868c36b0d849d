"""Who is told of what, when, how often, and in which words."""
