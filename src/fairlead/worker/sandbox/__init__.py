"""The child processes that read documents, and what limits them."""
