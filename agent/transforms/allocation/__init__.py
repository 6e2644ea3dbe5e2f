"""Device memory that is allocated and freed again and again: which, what its pointer is used for, and better places."""
