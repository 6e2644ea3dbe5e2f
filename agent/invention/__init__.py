"""Changes that a language model proposes: how they are placed, what they may touch, and how they are driven to a verdict."""
