"""Claim, lease, extract in a sandbox, finish, rescue."""
