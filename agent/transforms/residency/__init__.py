"""Parts of `keep-resident`: round trips on the Timeline, what relies on their waits, and the edits that drop them."""
