"""Pure program analysis: text in, facts out. No network, no GPU, no LSP types, no subprocess."""
