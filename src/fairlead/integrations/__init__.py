"""Fair priorities for queues of other libraries."""
