"""What templates may ask for."""
