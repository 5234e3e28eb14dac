"""Small language models trained from nothing, on text that every Python carries."""
