"""Simulated users: who scans a shown list, what is clicked, and when the user stops."""
