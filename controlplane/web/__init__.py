"""Pages: they read, show, and hand acts on to the apps that own them."""
