"""The demo: one large customer, several small ones, and who waits how long."""
