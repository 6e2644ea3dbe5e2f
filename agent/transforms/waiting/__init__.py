"""What host waits are for: which points of the host's code, and which device work, rely on work being complete."""
