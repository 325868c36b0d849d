"""Views parse, authorise, call and render; they decide nothing."""
