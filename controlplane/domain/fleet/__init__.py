"""States of a node and the rules between them."""
