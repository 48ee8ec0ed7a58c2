"""What stores that speak SQL share: the statements, and everything that is decided with them."""
