"""From findings to one incident with a class, a cause and a suspect."""
