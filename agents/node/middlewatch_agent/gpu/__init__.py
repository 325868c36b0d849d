"""Where GPU facts come from: a library of the vendor, or a recording."""
