"""The demo: the waits of one large customer and several small ones."""
