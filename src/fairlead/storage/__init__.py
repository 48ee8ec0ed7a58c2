"""The truth: which documents there are, whose turn it is, and what became of them."""
