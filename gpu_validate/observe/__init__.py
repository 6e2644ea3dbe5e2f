"""What a run shows, and whether two versions show the same."""
