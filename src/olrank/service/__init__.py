"""The service: ranks live traffic and learns from its clicks, and forgets neither."""
