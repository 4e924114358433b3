"""How uncertain a ranker is of its orders, and how it draws a list."""
