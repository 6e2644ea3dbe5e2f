"""Implement from intent: a stage that is declared and not defined is written by a language model and validated like any version,
against a reference on the CPU that its comment names."""
